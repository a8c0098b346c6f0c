"""Reads the stream of ccmix-sockmon into tables; probes/sockmon/README.md documents the stream and every column.

A stream that ends in the middle of a record, as a crash leaves it, loses that record. Anything else that the probe does
not write raises ValueError, which names the offset of the record.
"""

import mmap
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ccmix.probes.stream import tables
from ccmix.probes.stream.records import Bytes, read_header, walk
from ccmix.probes.stream.socket_table import socket_table

PART_BYTES = 2**25  # a hundred thousand samples of sockets
PART_RECORDS = 50_000  # each takes some memory, however short it is


@dataclass(frozen=True)
class Stream:
    """Holds the tables of a stream, or of a part of it.

    `header` has what the probe was asked for. `report` says how it did; it is None where the stream has no end, since
    the probe was killed. `start_s` is the wall clock's time at the start.
    """

    header: Mapping[str, str]
    start_s: float
    sockets: pl.DataFrame
    queues: pl.DataFrame
    links: pl.DataFrame
    counters: pl.DataFrame
    cpu: pl.DataFrame
    processes: pl.DataFrame
    notes: Sequence[str]
    report: Mapping[str, int] | None

    def write(self, folder: Path) -> None:
        """Writes NAME.parquet for each table that has rows."""
        for name in ("sockets", "queues", "links", "counters", "cpu", "processes"):
            table: pl.DataFrame = getattr(self, name)
            if not table.is_empty():
                table.write_parquet(
                    folder / f"{name}.parquet", compression="zstd", compression_level=1, statistics=False
                )


def read_stream(file: Path) -> Stream:
    """Returns the tables of a stream's file. Raises ValueError where it is no stream, or a damaged one."""
    [whole] = stream_parts(file, sys.maxsize, sys.maxsize)
    return whole


def stream_parts(file: Path, most_bytes: int = PART_BYTES, most_records: int = PART_RECORDS) -> Iterator[Stream]:
    """Yields the stream in parts of about `most_bytes` of the file, so that only one part is in memory at a time.

    Each note is in the part where the stream has it, and the report in the last part.
    """
    try:
        with file.open("rb") as opened:
            empty = not os.fstat(opened.fileno()).st_size  # which can't be mapped
            data = b"" if empty else mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        yield from _parts(data, most_bytes, most_records)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parse_stream(data: Bytes) -> Stream:
    """Returns the tables of a stream in memory. Raises ValueError."""
    [whole] = _parts(data, sys.maxsize, sys.maxsize)
    return whole


def _parts(data: Bytes, most_bytes: int, most_records: int) -> Iterator[Stream]:
    header = read_header(data)
    for records in walk(data, header.end, most_bytes, most_records):
        yield Stream(
            header=header.keys,
            start_s=header.start_s,
            sockets=socket_table(data, records, header),
            queues=tables.queue_table(data, records, header),
            links=tables.link_table(data, records, header),
            counters=tables.counter_table(data, records, header),
            cpu=tables.cpu_table(data, records, header),
            processes=tables.process_table(data, records, header),
            notes=records.notes,
            report=records.report,
        )
