"""The series of a finished run, beside its run.json. For who has polars: it takes long to import."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from ccmix.archive.documents import ArchiveError

INTERVALS = "intervals.parquet"  # not there where neither the generator nor the sockets told of any
UNREADABLE = (PolarsError, OSError)
SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")  # as Rust's std::io::Error ends


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """These columns, or all. Raises ArchiveError."""
    try:
        return pl.read_parquet(file, columns=None if columns is None else list(columns))
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def unreadable(file: Path, error: Exception) -> ArchiveError:
    """What is raised instead of one of UNREADABLE."""
    return ArchiveError(f"{file}: can't be read: {str(error).splitlines()[0]}")


def write(table: pl.DataFrame | pl.LazyFrame, file: Path) -> None:
    """Raises OSError, which names the file; Polars tells those of the system in words of its own."""
    with _system_errors(file):
        if isinstance(table, pl.LazyFrame):
            table.sink_parquet(file)
        else:
            table.write_parquet(file)


@contextlib.contextmanager
def _system_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (PolarsError, OSError) as error:
        if not (found := SYSTEM_ERROR.search(str(error))):
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(file)) from error
