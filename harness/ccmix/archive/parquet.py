"""Reads and writes the Parquet files of a run's time series, next to its run.json.

Import this only where polars is already loaded, because importing polars takes long.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ccmix.archive.campaign import campaign_folder
from ccmix.archive.columns import impossible_values, wrong_columns
from ccmix.files import ArchiveError, open_file

# Polars panics on some damaged files, and prints that itself; a table without rows leads to
# TypeErrors, and one of impossible numbers to others
_UNREADABLE = (PolarsError, PanicException, OSError, TypeError, ValueError, ArithmeticError)

ALWAYS_ALLOWED_VALUES = 50_000_000
MOST_VALUES_A_BYTE = 200  # some hundred columns, hardly any of which change for idle sockets

DESCRIPTOR_PATH = re.compile(r"/proc/self/fd/\d+")


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Reads a table with these columns, or with all. Raises ArchiveError if it can't be read."""
    with scanned(file) as table:
        return collected(table if columns is None else table.select(columns), file)


def collected(table: pl.LazyFrame, file: Path) -> pl.DataFrame:
    """Computes a query of a table of `file`. Raises ArchiveError for values that no measurement
    has, such as NaN.
    """
    rows = table.collect()
    _refuse(file, impossible_values(rows))
    return rows


@contextlib.contextmanager
def scanned(file: Path) -> Iterator[pl.LazyFrame]:
    """Yields a table for lazy queries. Raises ArchiveError if it does not have the columns of its
    series, or if a query within the context can't read its data.

    ccmix opens the file itself, because Polars would follow symbolic links, and passes it on as
    /proc/self/fd/N.
    """
    with name_file_in_errors(file):
        descriptor = open_file(campaign_folder(file.parent), file)
        try:
            table = pl.scan_parquet(f"/proc/self/fd/{descriptor}")
            _check_size(table, file, os.fstat(descriptor).st_size)
            _refuse(file, wrong_columns(table.collect_schema(), file.name))
            yield table
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def name_file_in_errors(file: Path) -> Iterator[None]:
    """Turns an error of Polars in the context into an ArchiveError that names the file: it can't be
    read, or it does not have the columns that ccmix writes.
    """
    try:
        yield
    except _UNREADABLE as error:
        reason = DESCRIPTOR_PATH.sub(str(file), (str(error) or repr(error)).splitlines()[0])
        raise ArchiveError(f"{file}: can't be read: {reason}") from error


def _refuse(file: Path, wrong: str | None) -> None:
    """Raises ArchiveError if something is wrong with a table; None means that nothing is."""
    if wrong:
        raise ArchiveError(f"{file}: can't be read: {wrong}: put back the file that ccmix wrote")


def _check_size(table: pl.LazyFrame, file: Path, size: int) -> None:
    """Raises ArchiveError if a table has more values than ccmix writes into a file of `size` bytes,
    because it could fill the memory.
    """
    values = table.select(pl.len()).collect().item() * table.collect_schema().len()
    if values > max(ALWAYS_ALLOWED_VALUES, MOST_VALUES_A_BYTE * size):
        raise ArchiveError(
            f"{file}: can't be read: {size} bytes would become {values} values: ccmix does not "
            "write that"
        )


def write(table: pl.DataFrame | pl.LazyFrame, file: Path, rows_at_once: int | None = None) -> None:
    """Writes a table to a file. A lazy table is computed and written in groups of `rows_at_once`
    rows, if given, to limit the memory. Raises OSError, which names the file.
    """
    with file.open("wb", buffering=0) as opened:
        out = _OutputFile(opened)
        try:
            if isinstance(table, pl.LazyFrame):
                table.sink_parquet(cast("BinaryIO", out), row_group_size=rows_at_once)
            else:
                table.write_parquet(cast("BinaryIO", out))
        except PolarsError:
            if out.error:
                raise OSError(out.error.errno, out.error.strerror, str(file)) from out.error
            raise


class Parts:
    """Writes a table whose rows come in parts, so that memory holds only one part: each goes to a
    file, and write() joins the files.
    """

    def __init__(self, folder: Path, name: str, rows_at_once: int | None = None) -> None:
        """Begins without parts. Their files will be NAME-0.parquet, NAME-1.parquet and so on in
        `folder`, which must be on the same disk as the final file and have no such files yet.

        `rows_at_once` limits how many rows are in memory when the final file is written; None means
        the default of Polars.
        """
        self._folder = folder
        self._rows_at_once = rows_at_once
        self._name = name
        self._files: list[Path] = []

    def add(self, table: pl.DataFrame) -> None:
        """Adds a part. One without rows is kept only if it is the first, because it still has the
        columns. Raises OSError.
        """
        if self._files and table.is_empty():
            return
        file = self._folder / f"{self._name}-{len(self._files)}.parquet"
        write(table, file)
        self._files.append(file)

    def write(self, file: Path) -> None:
        """Writes all parts, at least one, to the final file. In a part that lacks a column of
        another part, its values are null. Raises OSError.
        """
        if len(self._files) == 1:
            self._files[0].rename(file)
        else:
            write(
                pl.concat([pl.scan_parquet(part) for part in self._files], how="diagonal"),
                file,
                self._rows_at_once,
            )


class _OutputFile(io.RawIOBase):
    """Passes on what Polars writes to a file, and keeps the system's error, because Polars
    rephrases or drops it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.error: OSError | None = None
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Writes data, as io.RawIOBase requires. Raises OSError, and keeps it."""
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise
