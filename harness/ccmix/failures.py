"""What is said where a file can't be written or read: which file, why, and what to do."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

WHAT_TO_DO = {
    errno.ENOSPC: "make room on that disk, or choose another place",
    errno.EDQUOT: "make room below your quota, or choose another place",
    errno.EROFS: "mount it to be written to, or choose another place",
    errno.ENOTDIR: "a part of this path is a file: choose another place",
    errno.EACCES: "take a user who has the right to it, or choose another place",
}


def located(error: OSError, place: Path | str = "") -> str:
    """Of an error that names no file, such as that of a write to a full disk, the file is `place`."""
    where = error.filename or place
    found = f"{where}: {error.strerror or error}" if where else error.strerror or str(error)
    return f"{found}: {WHAT_TO_DO[error.errno]}" if error.errno in WHAT_TO_DO else found


@contextlib.contextmanager
def naming(place: Path | str) -> Iterator[None]:
    """Gives an OSError that names no file this place."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(place)) from error
