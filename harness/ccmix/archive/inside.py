"""Reads files of a campaign's folder, which others may have made: through no link, from no pipe, and not without end.

Others may change the folder at the same time, so that a check of a path says nothing about what is opened there later.
Therefore each folder on the way is opened relative to the one before, and what was opened is judged.

The campaign's folder itself may be a link; who names it on the command line means what it points to.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

from ccmix.archive.errors import ArchiveError
from ccmix.units import format_bytes


class FolderLinkError(ArchiveError):
    """Says that a folder within a campaign's folder is a link."""


LINK = "is a link, and ccmix follows none within a campaign's folder"
IRREGULAR = "is no regular file"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def refuse_links(outdir: Path, path: Path) -> None:
    """Raises ArchiveError if `path`, or a folder between `outdir` and it, is a link. For folders that are not read."""
    way = outdir
    for part in path.relative_to(outdir).parts:
        way /= part
        if way.is_symlink():
            raise _link(way)


def open_folder(outdir: Path, folder: Path) -> int:
    """Returns a descriptor of `outdir` or a folder below it, relative to which its files are opened.

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
    """Returns a descriptor of a regular file below `outdir`. Raises ArchiveError for anything else, and OSError."""
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
    return FolderLinkError(f"{way}: {LINK}: put what it points to in its place")


def _irregular(file: Path) -> ArchiveError:
    return ArchiveError(f"{file}: can't be read: it {IRREGULAR}")


def read_bytes(outdir: Path, file: Path, most_bytes: int) -> bytes:
    """Returns the content of a file below `outdir`. Raises ArchiveError unless it is a regular file of at most so many
    bytes, and OSError.
    """
    with os.fdopen(open_file(outdir, file), "rb", buffering=0) as content:
        size = os.fstat(content.fileno()).st_size
        if size > most_bytes:
            raise ArchiveError(
                f"{file}: can't be read: it has {format_bytes(size)}, and ccmix writes at most "
                f"{format_bytes(most_bytes)}"
            )
        return content.read(size) or b""
