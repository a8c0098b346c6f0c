"""The series of a finished run, beside its run.json. For who has polars: it takes long to import."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ccmix.archive.errors import ArchiveError
from ccmix.archive.inside import check_regular

UNREADABLE = (PolarsError, PanicException, OSError)  # polars panics at some damages, and says so itself, too

ALWAYS_ALLOWED_VALUES = 50_000_000
MOST_VALUES_A_BYTE = 200  # some hundred columns, of which sockets at rest change hardly any


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Reads these columns, or all. Raises ArchiveError."""
    try:
        _check(file)
        return pl.read_parquet(file, columns=None if columns is None else list(columns))
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def has_column(file: Path, name: str) -> bool:
    """Returns whether the file is there and has the column. Raises ArchiveError."""
    try:
        _check(file)
        return file.exists() and name in pl.read_parquet_schema(file)
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def scan(file: Path) -> pl.LazyFrame:
    """Returns the table to choose from; reading it may raise one of UNREADABLE. Raises ArchiveError."""
    try:
        _check(file)
        return pl.scan_parquet(file)
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def _check(file: Path) -> None:
    """Raises ArchiveError if it is no regular file, or has more values than ccmix writes into so many bytes."""
    check_regular(file)
    if not file.exists():
        return
    table = pl.scan_parquet(file)
    values = table.select(pl.len()).collect().item() * table.collect_schema().len()
    size = file.stat().st_size
    if values > max(ALWAYS_ALLOWED_VALUES, MOST_VALUES_A_BYTE * size):
        raise ArchiveError(
            f"{file}: can't be read: {size} bytes would become {values} values: ccmix does not write that"
        )


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
