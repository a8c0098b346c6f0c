"""Writes files completely or not at all, protects files in use from other processes, and reads
files from other people.

Links are never followed, neither to write a file, nor within a campaign's folder. That folder may
come from other people, and they may change it at the same time, so a check of a path would say
nothing about the file that is opened later. Therefore each folder on the way is opened relative to
the one above it, and the opened file itself is checked. The campaign's folder itself may be a link,
because a user who names it means its target.
"""

import contextlib
import errno
import fcntl
import glob
import itertools
import os
import shutil
import stat
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
    """Raises ArchiveError if `path`, or a folder between `outdir` and it, is a link. Used for
    folders that are not read.
    """
    way = outdir
    for part in path.relative_to(outdir).parts:
        way /= part
        if way.is_symlink():
            raise _link(way)


def open_folder(outdir: Path, folder: Path) -> int:
    """Returns a descriptor of `outdir` or a folder below it, to open files relative to it.

    Raises ArchiveError for a link, and OSError.
    """
    at = os.open(outdir, _FOLDER)
    names = folder.parts[len(outdir.parts) :]
    for number, name in enumerate(names, 1):
        try:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
        except OSError as error:
            raise _unopened(error, at, outdir.joinpath(*names[:number])) from error
        finally:
            os.close(at)
        at = below
    return at


def open_file(outdir: Path, file: Path) -> int:
    """Returns a descriptor of a regular file below `outdir`. Raises ArchiveError for anything
    else, and OSError.
    """
    at = open_folder(outdir, file.parent)
    try:
        descriptor = _open_last(at, file.name, file)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular(file)
    return descriptor


def _unopened(error: OSError, at: int, way: Path) -> ArchiveError | OSError:
    """Returns why a folder on the way can't be opened; `at` is the one above it."""
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(os.stat(way.name, dir_fd=at, follow_symlinks=False).st_mode):
            return _link(way)
    return OSError(error.errno, error.strerror, str(way))


def _open_last(at: int, name: str, file: Path) -> int:
    try:
        return os.open(name, _FILE, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArchiveError(f"{file}: can't be read: it {LINK}") from error
        if error.errno == errno.ENXIO:
            raise _irregular(file) from error
        raise OSError(error.errno, error.strerror, str(file)) from error


def _link(way: Path) -> FolderLinkError:
    return FolderLinkError(f"{way}: {LINK}: replace it by its target")


def _irregular(file: Path) -> ArchiveError:
    return ArchiveError(f"{file}: can't be read: it {IRREGULAR}")


def read_bytes(outdir: Path, file: Path, most_bytes: int) -> bytes:
    """Returns the content of a file below `outdir`. Raises ArchiveError unless it is a regular file
    of at most `most_bytes`, and OSError.
    """
    with os.fdopen(open_file(outdir, file), "rb", buffering=0) as content:
        size = os.fstat(content.fileno()).st_size
        if size > most_bytes:
            raise ArchiveError(
                f"{file}: can't be read: it has {format_bytes(size)}, but ccmix writes at most "
                f"{format_bytes(most_bytes)}"
            )
        return content.read(size) or b""


PARTIAL = ".partial"
DIRECT = (
    "dev",
    "proc",
)  # their files are streams and devices, such as /dev/stdout: they are written to, not replaced
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MEMORY = "shm"  # below /dev, but has files like any other folder


@contextlib.contextmanager
def replacing(file: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Yields a new file in the folder of `file`. If the context ends well, it replaces `file`,
    otherwise it is removed.

    If `file` is a link, the link is replaced, and its target does not change. The content is on
    disk when the context has ended, unless `sync` is false. Raises ArchiveError if `file` is
    neither a file nor a link, or if another process begins to write it before the context has
    ended, and OSError.
    """
    if _is_direct(file):
        with naming(file), file.open("wb") as out:
            yield out
        return
    _check_kind(file)
    part = file.with_name(file.name + PARTIAL)
    own: os.stat_result | None = None
    try:
        part.unlink(missing_ok=True)  # of a killed process, or a link
        with open_new(part) as out:
            own = os.fstat(out.fileno())
            yield out
            out.flush()
            if sync:
                os.fsync(out.fileno())
        _put_in_place(part, own, file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            if own and _is(part, own):
                part.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(file)) from error
        raise


def _put_in_place(part: Path, own: os.stat_result, file: Path) -> None:
    """Renames the part to `file`. Raises ArchiveError if another process has replaced the part, and
    OSError.
    """
    if not _is(part, own):
        raise ArchiveError(
            f"{file}: another process is writing it: wait until that ends, and try again"
        )
    part.rename(file)


def _is(file: Path, opened: os.stat_result) -> bool:
    """Returns whether the file is still the opened one, and has not been replaced."""
    try:
        return os.path.samestat(file.lstat(), opened)
    except FileNotFoundError:
        return False


def write_whole(file: Path, text: str, *, sync: bool = True) -> None:
    """Writes a text as replacing() does. Raises ArchiveError and OSError."""
    with replacing(file, sync=sync) as out:
        out.write(text.encode())


def open_new(file: Path) -> IO[bytes]:
    """Creates and opens a file for writing. Raises OSError if it exists, even as a link."""
    return os.fdopen(os.open(file, _NEW, 0o666), "wb")


def write_new(file: Path, content: bytes, at: int | None = None) -> None:
    """Creates and writes a file without the cost of a Python file object; `at` may be a descriptor
    of its folder.

    Raises OSError if the file exists, even as a link.
    """
    descriptor = os.open(file if at is None else file.name, _NEW, 0o666, dir_fd=at)
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(descriptor)


def open_to_append(file: Path) -> IO[bytes]:
    """Opens or creates a file to append to it. Raises OSError, also for a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o666)
    os.set_blocking(descriptor, True)  # only opening must not block
    return os.fdopen(descriptor, "ab")


def own_folder(folder: Path) -> Path:
    """Makes a folder for results, unless it exists. Raises ArchiveError for a link, and OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    if folder.is_symlink() or not folder.is_dir():
        raise ArchiveError(
            f"{folder}: is a link or not a folder, but ccmix writes files into it: remove it"
        )
    return folder


def _is_direct(file: Path) -> bool:
    _, *parts = file.absolute().parts
    return bool(parts) and parts[0] in DIRECT and parts[1:2] != [MEMORY]


def _check_kind(file: Path) -> None:
    """Raises ArchiveError if `file` is something that a file can't replace."""
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
    """Yields a path at which to make a folder. If the context ends well, moves that folder to
    `outdir`, otherwise removes it.

    All files are on the disk before the move. Raises ArchiveError if there is something at `outdir`
    by then, and OSError.
    """
    with folder_beside(outdir, purpose) as folder:
        made = folder / "archive"
        yield made
        _put_on_disk(made)
        try:
            made.rename(outdir)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            raise ArchiveError(
                f"{outdir}: something was put there meanwhile: give another folder with -o"
            ) from error


def _put_on_disk(folder: Path) -> None:
    """Puts all files of the folder on the disk: one by one, or, if they are many, with a sync of
    the whole system.
    """
    found = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    files = list(itertools.islice(found, MOST_SYNCED + 1))
    if len(files) > MOST_SYNCED:
        os.sync()
        return
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


@contextlib.contextmanager
def folder_beside(place: Path, purpose: str) -> Iterator[Path]:
    """Yields a private folder on the file system of `place`. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with private_folder(place.parent, f".{place.name}.{purpose}-") as folder:
        yield folder


@contextlib.contextmanager
def private_folder(parent: Path, prefix: str, settled_s: float = 0.0) -> Iterator[Path]:
    """Yields a new folder that this process holds. Removes it at the end, and also removes folders
    of dead processes.

    A killed process can't remove its own folder. The next process recognises that folder because it
    is not locked: only a living process holds a lock. Folders younger than `settled_s` are kept,
    because their process may not have locked them yet. Raises OSError.
    """
    for left in parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError), _opened_folder(left) as folder:
            if time.time() - os.fstat(folder).st_mtime >= settled_s and try_lock(folder):
                shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, place, ignore_errors=True)
        try_lock(undo.enter_context(_opened_folder(place)))
        yield place


@contextlib.contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    """Yields a descriptor of a folder. Raises OSError, also for a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(file: int | IO[bytes]) -> bool:
    """Tries to lock an open file or folder. Returns False if another process has locked it.

    The kernel releases the lock when the file is closed, so also when the process ends. Raises
    OSError.
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
    """Locks a file or folder against removal and replacement, until this process ends.

    Returns whether it is still there. Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        here = os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        here = False
    if here:
        let_go(path)
        held[path] = descriptor
    else:
        os.close(descriptor)
    return here


def let_go(path: Path) -> None:
    """Releases a file or folder that this process holds."""
    if (descriptor := held.pop(path, None)) is not None:  # two threads may do this
        os.close(descriptor)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Waits until no other process has locked the file, and locks it. Raises OSError."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
