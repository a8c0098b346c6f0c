"""Writes files completely or not at all, locks files in use, and reads files from other people.

Links are never followed, neither to write a file, nor within a campaign's folder (OUTDIR, which
holds the results of all runs). That folder may come from other people, and they may change it at
the same time, so a check of a path would say nothing about the file that is opened later. Therefore
each folder on the way is opened relative to the one above it, and the opened file itself is
checked. The campaign's folder itself may be a link, because a user who names it means its target.
"""

import contextlib
import errno
import fcntl
import glob
import itertools
import math
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ccmix.failures import WrongInput, naming
from ccmix.units import format_bytes


class ArchiveError(WrongInput):
    """A folder or file is not what it should be; the message names it and says what to do."""


class FolderLinkError(ArchiveError):
    """Says that a folder within a campaign's folder is a link."""


LINK = "is a link, and ccmix does not follow links within a campaign's folder"
IRREGULAR = "is not a regular file"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def refuse_links(outdir: Path, path: Path) -> None:
    """Raises ArchiveError if `path`, or a folder between `outdir` and it, is a link.

    Is used for folders that are not read; open_folder() and open_file() refuse links by themselves.
    """
    partial_path = outdir
    for part in path.relative_to(outdir).parts:
        partial_path /= part
        if partial_path.is_symlink():
            raise _link_error(partial_path)


def open_folder(outdir: Path, folder: Path) -> int:
    """Returns a file descriptor of `outdir` or a folder below it, to open files relative to it.

    Opens each folder on the way relative to the one above it, so that nobody can put a link there
    in between. The caller closes the descriptor. Raises ArchiveError for a link, and OSError.
    """
    descriptor = os.open(outdir, _FOLDER)
    names = folder.parts[len(outdir.parts) :]
    for number, name in enumerate(names, 1):
        try:
            next_descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            raise _why_not_opened(error, descriptor, outdir.joinpath(*names[:number])) from error
        finally:
            os.close(descriptor)
        descriptor = next_descriptor
    return descriptor


def open_file(outdir: Path, file: Path) -> int:
    """Returns a file descriptor of a regular file below `outdir`, to read it.

    The caller closes it. Raises ArchiveError for links, pipes, devices and the like, and OSError.
    """
    folder_descriptor = open_folder(outdir, file.parent)
    try:
        descriptor = _open_in_folder(folder_descriptor, file.name, file)
    finally:
        os.close(folder_descriptor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular_file_error(file)
    return descriptor


def _why_not_opened(error: OSError, parent_descriptor: int, folder: Path) -> ArchiveError | OSError:
    """Returns the exception to raise for a folder that could not be opened: ArchiveError if it is a
    link, otherwise an OSError that names it.

    `parent_descriptor` is the descriptor of the folder above it, `error` that of the attempt.
    """
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(
            os.stat(folder.name, dir_fd=parent_descriptor, follow_symlinks=False).st_mode
        ):
            return _link_error(folder)
    return OSError(error.errno, error.strerror, str(folder))


def _open_in_folder(folder_descriptor: int, name: str, file: Path) -> int:
    """Opens the file `name` in an opened folder. Raises ArchiveError if it is a link or a socket.

    `file` is its whole path, for messages.
    """
    try:
        return os.open(name, _FILE, dir_fd=folder_descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArchiveError(f"{file}: can't be read: it {LINK}") from error
        if error.errno == errno.ENXIO:
            raise _irregular_file_error(file) from error
        raise OSError(error.errno, error.strerror, str(file)) from error


def _link_error(folder: Path) -> FolderLinkError:
    return FolderLinkError(f"{folder}: {LINK}: replace it by its target")


def _irregular_file_error(file: Path) -> ArchiveError:
    return ArchiveError(f"{file}: can't be read: it {IRREGULAR}")


def read_bytes(outdir: Path, file: Path, most_bytes: int) -> bytes:
    """Returns the content of a file below `outdir`, which may come from other people.

    Raises ArchiveError unless it is a regular file of at most `most_bytes`, and OSError.
    """
    with os.fdopen(open_file(outdir, file), "rb", buffering=0) as content:
        size = os.fstat(content.fileno()).st_size
        if size > most_bytes:
            raise ArchiveError(
                f"{file}: can't be read: it has {format_bytes(size)}, but ccmix writes at most "
                f"{format_bytes(most_bytes)}"
            )
        return content.read(size) or b""


def check_regular(file: Path, most_bytes: float = math.inf) -> os.stat_result:
    """Returns the status of a file. Raises OSError unless it is a regular file of at most
    `most_bytes`, or a link to one.

    For a file that other people may have named: opening a pipe may take for ever, and opening a
    device may change its state, so neither is opened.
    """
    status = file.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
        raise OSError(errno.EINVAL, "it is not a regular file, or too large", str(file))
    return status


PARTIAL = ".partial"
DIRECT = (
    "dev",
    "proc",
)  # their files are streams and devices, such as /dev/stdout: they are written to, not replaced
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MEMORY = "shm"  # below /dev, but has files like any other folder


@contextlib.contextmanager
def replacing(file: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Yields a new, temporary file to write to, which replaces `file` when the context ends well.

    So nobody ever sees half a file; after an exception, the old file stays, and the temporary one
    is removed. If `file` is a link, the link is replaced, and its target does not change. With
    `sync`, the content is on the disk when the context has ended.

    Raises ArchiveError if `file` is something other than a file or link, or if another process
    begins to write it at the same time, and OSError.
    """
    if _is_stream_or_device(file):
        with naming(file), file.open("wb") as out:
            yield out
        return
    _refuse_irregular(file)
    partial = file.with_name(file.name + PARTIAL)
    opened_status: os.stat_result | None = None
    try:
        partial.unlink(missing_ok=True)  # of a killed process, or a link
        with open_new(partial) as out:
            opened_status = os.fstat(out.fileno())
            yield out
            out.flush()
            if sync:
                os.fsync(out.fileno())
        _rename_to_final(partial, opened_status, file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            if opened_status and _is_same_file(partial, opened_status):
                partial.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(partial)):
            raise OSError(error.errno, error.strerror, str(file)) from error
        raise


def _rename_to_final(partial: Path, opened_status: os.stat_result, file: Path) -> None:
    """Renames the temporary file to `file`; raises ArchiveError if another process has replaced it.

    `opened_status` is the fstat() of the file that this process has written. Raises also OSError.
    """
    if not _is_same_file(partial, opened_status):
        raise ArchiveError(
            f"{file}: another process is writing it: wait until that ends, and try again"
        )
    partial.rename(file)


def _is_same_file(file: Path, opened_status: os.stat_result) -> bool:
    """Returns whether the path still leads to the opened file, and nobody has replaced it."""
    try:
        return os.path.samestat(file.lstat(), opened_status)
    except FileNotFoundError:
        return False


def write_whole(file: Path, text: str, *, sync: bool = True) -> None:
    """Writes a text into a file, completely or not at all: into a temporary file, which then
    replaces `file`. With `sync`, the text is on the disk at the end.

    Raises OSError, and ArchiveError if `file` is something other than a file or link, or if another
    process begins to write it at the same time.
    """
    with replacing(file, sync=sync) as out:
        out.write(text.encode())


def open_new(file: Path) -> IO[bytes]:
    """Creates and opens a file for writing. Raises OSError if it exists, even as a link."""
    return os.fdopen(os.open(file, _NEW, 0o666), "wb")


def write_new(file: Path, content: bytes, folder_descriptor: int | None = None) -> None:
    """Creates a file with this content, faster than with a Python file object.

    `folder_descriptor` may be the descriptor of the file's folder, if the caller has opened it.
    Raises OSError if the file exists, even as a link.
    """
    descriptor = os.open(
        file if folder_descriptor is None else file.name, _NEW, 0o666, dir_fd=folder_descriptor
    )
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(descriptor)


def open_to_append(file: Path) -> IO[bytes]:
    """Opens a file to append to it, or creates it. Raises OSError, also if it is a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o666)
    os.set_blocking(descriptor, True)  # only opening must not block
    return os.fdopen(descriptor, "ab")


def make_folder(folder: Path) -> Path:
    """Makes a folder into which ccmix will write files, unless it exists; returns it.

    Raises ArchiveError for a link or file of that name, and OSError.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    if folder.is_symlink() or not folder.is_dir():
        raise ArchiveError(
            f"{folder}: is a link or not a folder, but ccmix writes files into it: remove it"
        )
    return folder


def _is_stream_or_device(file: Path) -> bool:
    """Returns whether the file is below /dev or /proc, such as /dev/stdout.

    Such files are written to directly, not replaced. /dev/shm has files like any other folder.
    """
    _, *parts = file.absolute().parts
    return bool(parts) and parts[0] in DIRECT and parts[1:2] != [MEMORY]


def _refuse_irregular(file: Path) -> None:
    """Raises ArchiveError if `file` exists but is neither a file nor a link, such as a folder."""
    try:
        mode = file.lstat().st_mode
    except OSError:
        return  # nothing is there, or creating the new file will report the error
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise ArchiveError(f"{file}: is not a regular file: remove it, or give another name")


MOST_SYNCED = 100  # files that are put on the disk one by one
# errors of rename(2) if the target exists and is not empty
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


@contextlib.contextmanager
def staged(outdir: Path, purpose: str) -> Iterator[Path]:
    """Yields the path of a folder, which the caller makes and fills; then moves it to `outdir`.

    So `outdir` appears complete, with all files on the disk, or not at all (after an exception).
    `purpose` is part of the temporary folder's name. Raises ArchiveError if something has appeared
    at `outdir` meanwhile, and OSError.
    """
    with folder_next_to(outdir, purpose) as folder:
        new_folder = folder / "archive"
        yield new_folder
        _sync_files(new_folder)
        try:
            new_folder.rename(outdir)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            raise ArchiveError(
                f"{outdir}: something was put there meanwhile: give another folder with -o"
            ) from error


def _sync_files(folder: Path) -> None:
    """Puts all files of the folder on the disk: one by one, or with sync(2) if they are many."""
    regular_files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    files = list(itertools.islice(regular_files, MOST_SYNCED + 1))
    if len(files) > MOST_SYNCED:
        os.sync()
        return
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


@contextlib.contextmanager
def folder_next_to(target: Path, purpose: str) -> Iterator[Path]:
    """Yields a temporary folder next to `target`, so that files can be renamed from there to it.

    It is removed at the end; `purpose` is part of its name. Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with private_folder(target.parent, f".{target.name}.{purpose}-") as folder:
        yield folder


@contextlib.contextmanager
def private_folder(parent: Path, prefix: str, settled_s: float = 0.0) -> Iterator[Path]:
    """Yields a new folder in `parent` that is locked by this process, and removed at the end.

    Also removes the folders that killed processes have left there: those with this `prefix` that
    nobody has locked. Folders younger than `settled_s` seconds are kept, because their process may
    not have locked them yet. Raises OSError.
    """
    for other in parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError), _opened_folder(other) as descriptor:
            if time.time() - os.fstat(descriptor).st_mtime >= settled_s and try_lock(descriptor):
                remove_folder(other)
    new_folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(remove_folder, new_folder)
        try_lock(cleanup.enter_context(_opened_folder(new_folder)))
        yield new_folder


def remove_folder(folder: Path) -> None:
    """Removes a folder with its content; rm(1) removes what a hostile program has nested too deeply
    for Python. Links are not followed. What can't be removed stays.
    """
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    """Yields a file descriptor of a folder, to lock it. Raises OSError, also if it is a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(file: int | IO[bytes]) -> bool:
    """Tries to lock an open file or folder; returns False if another process has locked it.

    The kernel releases the lock when the file is closed, at the latest when the process ends.
    Raises OSError.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


held: dict[Path, int] = {}
"""The descriptors of files and folders that this process has locked against removal and
replacement.
"""


def hold(path: Path) -> bool:
    """Locks a file or folder of the cache against removal and replacement until this process ends.

    Returns False if it does not exist, or was removed before the lock was taken. Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        is_there = os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        is_there = False
    if is_there:
        release(path)
        held[path] = descriptor
    else:
        os.close(descriptor)
    return is_there


def release(path: Path) -> None:
    """Releases a file or folder that this process has locked with hold()."""
    if (descriptor := held.pop(path, None)) is not None:  # two threads may do this
        os.close(descriptor)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds a lock in this context that one process at a time can have; waits for it.

    `file` is created if necessary. Raises OSError.
    """
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
