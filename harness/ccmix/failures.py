"""Defines errors that a user can fix: each says what failed, the reason, and what to do."""

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
    """Is raised to end a command of `ccmix` with a message for the user and exit status 1.

    The text says what is wrong, where, and what to do; no traceback is shown.
    """

    exit_status = 1


class WrongInput(Failure):
    """Is raised for wrong usage or input before anything is started; exit status 2."""

    exit_status = 2


def located(error: OSError, file: Path | str = "") -> str:
    """Returns the message for an OSError: the file, the reason, and what to do about it.

    Example: '/out/run.json: No space left on device: make room on that disk, or choose another
    place'. `file` is used if the error names no file, as for a full disk.
    """
    named_file = error.filename or file
    reason = error.strerror or str(error)
    failure = f"{named_file}: {reason}" if named_file else reason
    return f"{failure}: {WHAT_TO_DO[error.errno]}" if error.errno in WHAT_TO_DO else failure


@contextlib.contextmanager
def naming(file: Path | str) -> Iterator[None]:
    """Adds the name of `file` to an OSError in this context that names none, as for a full disk."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(file)) from error
