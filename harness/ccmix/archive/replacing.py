"""Writes files whole or not at all, and never through a link.

All files go this way that are not in a folder that ccmix has just made, such as the partial folder of a run.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ccmix.archive.errors import ArchiveError
from ccmix.failures import naming

PARTIAL = ".partial"
DIRECT = ("dev", "proc")  # whose files are streams and devices, as /dev/stdout: they are written to, not replaced
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MEMORY = "shm"  # below /dev, and has files as any other folder


@contextlib.contextmanager
def replacing(file: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Yields a new file beside `file`, which takes its place if the context ends well, and is removed else.

    A link at the place is replaced, and what it points to stays as it is. The content is on disk when the context has
    ended, unless `sync` is false. Raises ArchiveError if something else than a file or a link is there, or if another
    process begins to write the same file before the context has ended, and OSError.
    """
    if _is_direct(file):
        with naming(file), file.open("wb") as out:
            yield out
        return
    _check_kind(file)
    part = file.with_name(file.name + PARTIAL)
    own: os.stat_result | None = None
    try:
        part.unlink(missing_ok=True)  # what a killed process left, or a link
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
    """Renames the part. Raises ArchiveError if another process has replaced it by a part of its own, and OSError."""
    if not _is(part, own):
        raise ArchiveError(f"{file}: another process writes it at the same time: wait for its end, and try again")
    part.rename(file)


def _is(file: Path, opened: os.stat_result) -> bool:
    """Returns whether the file is the one that was opened, and no other process has replaced it."""
    try:
        return os.path.samestat(file.lstat(), opened)
    except FileNotFoundError:
        return False


def write_whole(file: Path, text: str, *, sync: bool = True) -> None:
    """Writes a text as replacing() does. Raises ArchiveError and OSError."""
    with replacing(file, sync=sync) as out:
        out.write(text.encode())


def open_new(file: Path) -> IO[bytes]:
    """Opens a file that is not there yet, for writing. Raises OSError, also for a link."""
    return os.fdopen(os.open(file, _NEW, 0o666), "wb")


def write_new(file: Path, content: bytes, at: int | None = None) -> None:
    """Writes a file that is not there yet, without the cost of a Python file; `at` may be a handle of its folder.

    Raises OSError, also for a link.
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
    """Opens a file, or makes it, to write at its end. Raises OSError, also for a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o666)
    os.set_blocking(descriptor, True)  # only to open it must not wait
    return os.fdopen(descriptor, "ab")


def own_folder(folder: Path) -> Path:
    """Makes a folder for results, unless it is there. Raises ArchiveError for a link, and OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    if folder.is_symlink() or not folder.is_dir():
        raise ArchiveError(f"{folder}: is a link or no folder, and ccmix writes files into it: remove it")
    return folder


def _is_direct(file: Path) -> bool:
    _, *parts = file.absolute().parts
    return bool(parts) and parts[0] in DIRECT and parts[1:2] != [MEMORY]


def _check_kind(file: Path) -> None:
    """Raises ArchiveError if something is at the place that a file can't replace."""
    try:
        mode = file.lstat().st_mode
    except OSError:
        return  # nothing is there, or making the new file says why not
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise ArchiveError(f"{file}: is no regular file: remove it, or give another name")
