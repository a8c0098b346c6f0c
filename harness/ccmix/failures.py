"""Defines errors that a user can fix: each says what failed, the reason, and what to do."""

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

WHAT_TO_DO = {
    errno.ENOSPC: "make room on that disk, or choose another place",
    errno.EDQUOT: "make room below your quota, or choose another place",
    errno.EROFS: "mount it for writing, or choose another place",
    errno.ENOTDIR: "a part of this path is a file: choose another place",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or choose another place",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of this machine (sysctl fs.file-max)",
    errno.ENOMEM: "end other programs, or raise the limits of memory (ulimit -v, ulimit -d)",
    errno.EAGAIN: "raise the limit of processes (ulimit -u)",
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
    if (
        error.errno == errno.ENOSPC
        and named_file
        and not _has_inodes(Path(os.fsdecode(named_file)))
    ):
        return f"{failure}: no inodes are left there: remove files, or choose another place"
    return f"{failure}: {WHAT_TO_DO[error.errno]}" if error.errno in WHAT_TO_DO else failure


def _has_inodes(file: Path) -> bool:
    """Returns whether files can be made on the file system of `file`, as far as that is known. A
    file system that does not count inodes reports 0 of 0.
    """
    place = next((folder for folder in (file, *file.parents) if folder.exists()), Path("/"))
    status = os.statvfs(place)
    return status.f_favail > 0 or status.f_files == 0


def signal_text(number: int) -> str:
    """Returns the name of a signal that ended a process: 'signal 9 (SIGKILL)', with a remedy if
    a limit has caused it.
    """
    try:
        name = f" ({signal.Signals(number).name})"
    except ValueError:
        name = ""
    remedies: dict[int, str] = {
        signal.SIGXFSZ: ": raise the limit of file sizes (ulimit -f)",
        signal.SIGXCPU: ": raise the limit of processor time (ulimit -t)",
    }
    return f"signal {number}{name}{remedies.get(number, '')}"


@contextlib.contextmanager
def naming(file: Path | str) -> Iterator[None]:
    """Adds the name of `file` to an OSError in this context that names none, as for a full disk."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(file)) from error
