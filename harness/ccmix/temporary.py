"""Makes temporary folders and files, and says which folder can't be used, why, and what to do.

Python takes another folder without a word where TMPDIR names one that can't be used. Who sets TMPDIR wants that one.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

VARIABLE = "TMPDIR"
PREFIX = "ccmix-"
DEFAULT = "/tmp"
_PROBE = bytes(4096)  # more than a file system keeps beside a file's name


class TemporaryFolderError(OSError):
    """Says that there is no folder for temporary files."""

    def __str__(self) -> str:
        remedy = f"name another one by {VARIABLE}, or unset it" if VARIABLE in os.environ else f"name one by {VARIABLE}"
        if self.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make room, or {remedy}"
        return f"{self.filename}: no temporary files can be written there: {self.strerror}: {remedy}"


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
    """Yields a new folder, and removes it in the end. Raises TemporaryFolderError, also if it gets full."""
    place = temporary_place()
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place) as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno == errno.ENOSPC and Path(folder) in Path(os.fsdecode(error.filename or "")).parents:
                raise TemporaryFolderError(error.errno, error.strerror, str(place)) from error
            raise


def temporary_file() -> IO[bytes]:
    """Opens a new file without a name. Raises TemporaryFolderError."""
    return tempfile.TemporaryFile(dir=temporary_place())
