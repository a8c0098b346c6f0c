"""Reads and writes the series of a finished run, next to its run.json. Import this only where
polars is already loaded, because importing polars takes long.
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
from ccmix.files import ArchiveError, open_file

# Polars panics on some damaged files, and prints that itself; a table with other types or without
# rows leads to TypeErrors
_UNREADABLE = (PolarsError, PanicException, OSError, TypeError)

ALWAYS_ALLOWED_VALUES = 50_000_000
MOST_VALUES_A_BYTE = 200  # some hundred columns, hardly any of which change for idle sockets

OPENED = re.compile(r"/proc/self/fd/\d+")


def read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Reads these columns, or all. Raises ArchiveError."""
    with scanned(file) as table:
        return (table if columns is None else table.select(columns)).collect()


@contextlib.contextmanager
def scanned(file: Path) -> Iterator[pl.LazyFrame]:
    """Yields the table for lazy queries. Raises ArchiveError, also if data can't be read within the
    context.

    ccmix opens the file itself, because Polars would follow links.
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
    """Raises ArchiveError, which names the file, if its table can't be read, or if ccmix would not
    write such a table.
    """
    try:
        yield
    except _UNREADABLE as error:
        reason = OPENED.sub(str(file), (str(error) or repr(error)).splitlines()[0])
        raise ArchiveError(f"{file}: can't be read: {reason}") from error


def _check_size(table: pl.LazyFrame, file: Path, size: int) -> None:
    """Raises ArchiveError if the table has more values than ccmix writes into a file of its
    size.
    """
    values = table.select(pl.len()).collect().item() * table.collect_schema().len()
    if values > max(ALWAYS_ALLOWED_VALUES, MOST_VALUES_A_BYTE * size):
        raise ArchiveError(
            f"{file}: can't be read: {size} bytes would become {values} values: ccmix does not "
            "write that"
        )


def write(table: pl.DataFrame | pl.LazyFrame, file: Path, rows_at_once: int | None = None) -> None:
    """Writes a table; a lazy table in groups of `rows_at_once` rows, if given. Raises OSError,
    which names the file.
    """
    with file.open("wb", buffering=0) as opened:
        out = _Output(opened)
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
    """Writes a table whose rows come in parts, so that memory holds only one part."""

    def __init__(self, folder: Path, name: str, rows_at_once: int | None = None) -> None:
        """Takes a folder for the parts, on the disk of the final file; a name that nothing else in
        the folder has; and, if the default is too large, how many rows of several parts may be in
        memory when the final file is written.
        """
        self._folder = folder
        self._rows_at_once = rows_at_once
        self._name = name
        self._files: list[Path] = []

    def add(self, table: pl.DataFrame) -> None:
        """Takes a part; a part without rows counts only if it is the first. Raises OSError."""
        if self._files and table.is_empty():
            return
        file = self._folder / f"{self._name}-{len(self._files)}.parquet"
        write(table, file)
        self._files.append(file)

    def write(self, file: Path) -> None:
        """Writes all parts, at least one; a column that a part lacks is null there. Raises
        OSError.
        """
        if len(self._files) == 1:
            self._files[0].rename(file)
        else:
            write(
                pl.concat([pl.scan_parquet(part) for part in self._files], how="diagonal"),
                file,
                self._rows_at_once,
            )


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
