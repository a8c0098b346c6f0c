"""Makes temporary folders and files, with clear errors if their place can't be used.

If TMPDIR names a folder that can't be used, Python silently takes another one. But users who set
TMPDIR want that folder.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ccmix.failures import WrongInput

VARIABLE = "TMPDIR"
PREFIX = "ccmix-"
DEFAULT = "/tmp"
_PROBE = bytes(4096)  # more than a file system stores inline with a file's name


class TemporaryFolderError(WrongInput, OSError):
    """Says which folder for temporary files can't be used, why, and what to do."""

    @property
    def lack(self) -> str:
        """Returns the folder that can't be used, and the reason."""
        return f"{self.filename}: can't be used for temporary files: {self.strerror}"

    @property
    def remedy(self) -> str:
        """Returns the remedy, which depends on TMPDIR and on whether the disk is full."""
        remedy = (
            f"name another folder with {VARIABLE}, or unset it"
            if VARIABLE in os.environ
            else f"name another folder with {VARIABLE}"
        )
        if self.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make room, or {remedy}"
        return remedy

    def __str__(self) -> str:
        """Returns the message for the user."""
        return f"{self.lack}: {self.remedy}"


def temporary_place() -> Path:
    """Returns the folder for temporary files: $TMPDIR, or Python's default.

    Writes a little there as a test. Raises TemporaryFolderError if that is not possible.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        try:
            return Path(tempfile.gettempdir())
        except FileNotFoundError:
            folder = DEFAULT
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(_PROBE)
    except OSError as error:
        raise TemporaryFolderError(error.errno, error.strerror, folder) from error
    return Path(folder)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a new temporary folder, which is removed at the end of the context.

    Raises TemporaryFolderError, also if the disk becomes full while a file in it is written.
    """
    parent = temporary_place()
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if (
                error.errno == errno.ENOSPC
                and Path(folder) in Path(os.fsdecode(error.filename or "")).parents
            ):
                raise TemporaryFolderError(error.errno, error.strerror, str(parent)) from error
            raise


def temporary_file() -> IO[bytes]:
    """Opens a new file without a name. Raises TemporaryFolderError."""
    return tempfile.TemporaryFile(dir=temporary_place())
