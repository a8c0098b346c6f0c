"""Defines errors that a user can fix. Each says what failed, the reason, and what to do."""

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


class Failure(Exception):
    """Ends a command. Its text tells the user what is wrong, where, and what to do."""

    exit_status = 1


class WrongInput(Failure):
    """Refuses the user's input; nothing was started."""

    exit_status = 2


def located(error: OSError, place: Path | str = "") -> str:
    """Returns the file, the reason and the remedy of an error. `place` is the file if the error
    names none, as for a full disk.
    """
    where = error.filename or place
    failure = f"{where}: {error.strerror or error}" if where else error.strerror or str(error)
    return f"{failure}: {WHAT_TO_DO[error.errno]}" if error.errno in WHAT_TO_DO else failure


@contextlib.contextmanager
def naming(place: Path | str) -> Iterator[None]:
    """Adds this place to an OSError that names no file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(place)) from error
