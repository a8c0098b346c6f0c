"""The series of a finished run, beside its run.json. For who has polars: it takes long to import."""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ccmix.archive.errors import ArchiveError
from ccmix.archive.folders import campaign_folder
from ccmix.archive.inside import open_file

# Polars panics at some damages, and says so itself, too; a table with other types or without rows leads to TypeErrors
_UNREADABLE = (PolarsError, PanicException, OSError, TypeError)

ALWAYS_ALLOWED_VALUES = 50_000_000
MOST_VALUES_A_BYTE = 200  # some hundred columns, of which sockets at rest change hardly any

OPENED = re.compile(r"/proc/self/fd/\d+")


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Reads these columns, or all. Raises ArchiveError."""
    with scanned(file) as table:
        return (table if columns is None else table.select(columns)).collect()


def has_column(file: Path, name: str) -> bool:
    """Returns whether the file is there and has the column. Raises ArchiveError."""
    if not file.exists():
        return False
    with scanned(file) as table:
        return name in table.collect_schema()


@contextlib.contextmanager
def scanned(file: Path) -> Iterator[pl.LazyFrame]:
    """Yields the table to choose from. Raises ArchiveError, also for what can't be read within the context.

    The file is opened by ccmix, since Polars would follow links.
    """
    with understood(file):
        descriptor = open_file(campaign_folder(file.parent), file)
        try:
            table = pl.scan_parquet(f"/proc/self/fd/{descriptor}")
            _check_size(table, file, os.fstat(descriptor).st_size)
            yield table
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def understood(file: Path) -> Iterator[None]:
    """Names the file in an ArchiveError if its table can't be read, or is another than ccmix writes."""
    try:
        yield
    except _UNREADABLE as error:
        reason = OPENED.sub(str(file), (str(error) or repr(error)).splitlines()[0])
        raise ArchiveError(f"{file}: can't be read: {reason}") from error


def _check_size(table: pl.LazyFrame, file: Path, size: int) -> None:
    """Raises ArchiveError if it has more values than ccmix writes into so many bytes."""
    values = table.select(pl.len()).collect().item() * table.collect_schema().len()
    if values > max(ALWAYS_ALLOWED_VALUES, MOST_VALUES_A_BYTE * size):
        raise ArchiveError(
            f"{file}: can't be read: {size} bytes would become {values} values: ccmix does not write that"
        )


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
