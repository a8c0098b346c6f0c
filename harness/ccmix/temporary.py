"""Makes temporary folders and files. If their place can't be used, says which folder it is, why,
and what to do.

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
    """Says that there is no folder for temporary files."""

    def __str__(self) -> str:
        remedy = (
            f"name another folder with {VARIABLE}, or unset it"
            if VARIABLE in os.environ
            else f"name another folder with {VARIABLE}"
        )
        if self.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make room, or {remedy}"
        return f"{self.filename}: can't be used for temporary files: {self.strerror}: {remedy}"


def temporary_place() -> Path:
    """Returns the folder for temporary files. Raises TemporaryFolderError if it can't be used."""
    named = os.environ.get(VARIABLE)
    if not named:
        try:
            return Path(tempfile.gettempdir())
        except FileNotFoundError:
            named = DEFAULT
    try:
        with tempfile.TemporaryFile(dir=named, buffering=0) as probe:
            probe.write(_PROBE)
    except OSError as error:
        raise TemporaryFolderError(error.errno, error.strerror, named) from error
    return Path(named)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a new folder, and removes it in the end. Raises TemporaryFolderError, also if the disk
    becomes full.
    """
    place = temporary_place()
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place) as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if (
                error.errno == errno.ENOSPC
                and Path(folder) in Path(os.fsdecode(error.filename or "")).parents
            ):
                raise TemporaryFolderError(error.errno, error.strerror, str(place)) from error
            raise


def temporary_file() -> IO[bytes]:
    """Opens a new file without a name. Raises TemporaryFolderError."""
    return tempfile.TemporaryFile(dir=temporary_place())
