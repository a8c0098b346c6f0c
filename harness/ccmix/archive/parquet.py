"""The series of a finished run, beside its run.json. For who has polars: it takes long to import."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ccmix.archive.errors import ArchiveError

UNREADABLE = (PolarsError, PanicException, OSError)  # polars panics at some damages, and says so itself, too


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Reads these columns, or all. Raises ArchiveError."""
    if file.exists() and not file.is_file():  # a FIFO would be waited for without end
        raise ArchiveError(f"{file}: can't be read: it is no regular file")
    try:
        return pl.read_parquet(file, columns=None if columns is None else list(columns))
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def has_column(file: Path, name: str) -> bool:
    """Returns whether the file is there and has the column. Raises ArchiveError."""
    try:
        return file.is_file() and name in pl.read_parquet_schema(file)
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def unreadable(file: Path, error: BaseException) -> ArchiveError:
    """Returns the error to raise instead of one of UNREADABLE."""
    return ArchiveError(f"{file}: can't be read: {str(error).splitlines()[0]}")


def write(table: pl.DataFrame | pl.LazyFrame, file: Path) -> None:
    """Raises OSError, which names the file."""
    with file.open("wb", buffering=0) as opened:
        out = _Output(opened)
        try:
            if isinstance(table, pl.LazyFrame):
                table.sink_parquet(cast("BinaryIO", out))
            else:
                table.write_parquet(cast("BinaryIO", out))
        except PolarsError:
            if out.error:
                raise OSError(out.error.errno, out.error.strerror, str(file)) from out.error
            raise


class _Output(io.RawIOBase):
    """Keeps the system's error: Polars rephrases it, or drops it."""

    def __init__(self, file: BinaryIO) -> None:
        self.error: OSError | None = None
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise
