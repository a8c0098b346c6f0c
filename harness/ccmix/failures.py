"""Describes why a file can't be written or read: which file, the reason, and what to do."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

WHAT_TO_DO = {
    errno.ENOSPC: "make room on that disk, or choose another place",
    errno.EDQUOT: "make room below your quota, or choose another place",
    errno.EROFS: "mount it for writing, or choose another place",
    errno.ENOTDIR: "a part of this path is a file: choose another place",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or choose another place",
    errno.EACCES: "use an account that may access it, or choose another place",
}


def located(error: OSError, place: Path | str = "") -> str:
    """Returns file, reason and remedy; `place` is the file of an error that names none, such as a full disk's."""
    where = error.filename or place
    failure = f"{where}: {error.strerror or error}" if where else error.strerror or str(error)
    return f"{failure}: {WHAT_TO_DO[error.errno]}" if error.errno in WHAT_TO_DO else failure


@contextlib.contextmanager
def naming(place: Path | str) -> Iterator[None]:
    """Gives an OSError that names no file this place."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(place)) from error
