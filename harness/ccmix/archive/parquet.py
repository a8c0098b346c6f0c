"""The series of a finished run, beside its run.json. For who has polars: it takes long to import."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ccmix.archive.documents import ArchiveError

INTERVALS = "intervals.parquet"  # not there where neither the generator nor the sockets told of any
UNREADABLE = (PolarsError, PanicException, OSError)  # polars panics at some damages, and says so itself, too


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """These columns, or all. Raises ArchiveError."""
    try:
        return pl.read_parquet(file, columns=None if columns is None else list(columns))
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def unreadable(file: Path, error: BaseException) -> ArchiveError:
    """What is raised instead of one of UNREADABLE."""
    return ArchiveError(f"{file}: can't be read: {str(error).splitlines()[0]}")
