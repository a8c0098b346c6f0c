"""Reads the binary output of ccmix-sockmon into tables of sockets, queues, counters and cores.

probes/sockmon/README.md documents the stream and every column. If a crash cut the stream in the
middle of a record, that record is dropped. Any other content that the probe does not write raises
ValueError, which names the offset of the record.
"""

import mmap
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from ccmix.files import open_file
from ccmix.probes.stream import format as form
from ccmix.probes.stream.format import (
    HEADER,
    RECORD,
    SAMPLE,
    Record,
    RecordType,
    SampleHeader,
    StreamHeader,
    check_length,
    is_sample,
)
from ccmix.probes.stream.records import (
    Bytes,
    Header,
    Numbers,
    Records,
    SampleIndex,
    by_id,
    dtype_of,
    nullable,
    read_header,
    row_dtype,
    sample_times,
    text,
    walk,
)
from ccmix.probes.stream.socket_table import socket_table

_QUEUE = row_dtype(form.QueueRow)
_LINK = row_dtype(form.LinkRow, counters=form.LINK_COUNTERS)
_COUNTER = row_dtype(form.CounterRow)
_CPU = row_dtype(form.CpuRow, ticks=form.CPU_TIMES)
_PROCESS = row_dtype(form.ProcessRow)
_QUEUE_COUNTERS = (
    "bytes",
    "packets",
    "drops",
    "overlimits",
    "requeues",
    "backlog_bytes",
    "backlog_packets",
    "least_backlog_bytes",
)
# The first fields of the statistics that a kind of qdisc adds, with codes of the module struct:
# struct tc_fq_codel_xstats, tc_codel_xstats, tc_red_xstats, tc_pie_xstats, tc_fq_qd_stats
# (include/uapi/linux/pkt_sched.h).
_XSTATS_STRUCTS = {
    "fq_codel": "type:I maxpacket:I drop_overlimit:I ecn_mark:I new_flow_count:I new_flows_len:I "
    "old_flows_len:I "
    "ce_mark:I",
    "codel": "maxpacket:I count:I lastcount:I ldelay:I drop_next:i drop_overlimit:I ecn_mark:I "
    "dropping:I ce_mark:I",
    "red": "early:I pdrop:I other:I marked:I",
    "pie": "prob:Q delay:I avg_dq_rate:I dq_rate_estimating:I packets_in:I dropped:I overlimit:I "
    "maxq:I ecn_mark:I",
    "fq": "gc_flows:Q highprio_packets:Q tcp_retrans:Q throttled:Q flows_plimit:Q pkts_too_long:Q "
    "allocation_errors:Q time_next_delayed_flow:Q flows:I inactive_flows:I throttled_flows:I "
    "unthrottle_latency_ns:I ce_mark:Q",
}
# The column that each of these fields becomes.
_XSTATS_COLUMNS = {
    "ecn_marks": {"fq_codel": "ecn_mark", "codel": "ecn_mark", "red": "marked", "pie": "ecn_mark"},
    "ce_threshold_marks": {"fq_codel": "ce_mark", "codel": "ce_mark", "fq": "ce_mark"},
    "early_drops": {"red": "early", "pie": "dropped"},
    "overlimit_drops": {
        "fq_codel": "drop_overlimit",
        "codel": "drop_overlimit",
        "red": "pdrop",
        "pie": "overlimit",
    },
    "flow_limit_drops": {"fq": "flows_plimit"},
}
PART_BYTES = 2**25  # a hundred thousand samples of sockets
PART_RECORDS = 50_000  # even a short record takes some memory


MOST_RECORDS_AT_ONCE = 10_000  # a longer stream is followed in several calls


class StreamTail:
    """Follows a stream that the probe is still writing, for the display of progress.

    Each call reads only the records that were written since the previous call.
    """

    def __init__(self, file: Path) -> None:
        """Takes the file, and reads nothing yet."""
        self._file = file
        self._offset = 0
        self._begin_ns = self._last_ns = 0

    def seconds(self) -> float:
        """Returns the time from the probe's start to its last sample.

        Raises OSError, ValueError if the file is not a stream, and ArchiveError if it is not a
        regular file.
        """
        folder = self._file.parents[1]  # the run's, in which a guest may replace what it likes
        with os.fdopen(open_file(folder, self._file), "rb") as file:
            header = StreamHeader._make(HEADER.unpack(_read_exactly(file, HEADER.size)))
            if (
                header.start_mono_ns != self._begin_ns
            ):  # another attempt at the run has started a new stream
                self._begin_ns = self._last_ns = header.start_mono_ns
                self._offset = HEADER.size + header.text_bytes
            file.seek(self._offset)
            for _ in range(MOST_RECORDS_AT_ONCE):
                record_begin = file.read(RECORD.size + SAMPLE.size)
                if len(record_begin) < RECORD.size + 8:
                    break
                record = Record._make(RECORD.unpack_from(record_begin))
                check_length(record.bytes, self._offset)
                if is_sample(record.type):
                    if len(record_begin) < RECORD.size + SAMPLE.size:
                        break
                    self._last_ns = SampleHeader._make(
                        SAMPLE.unpack_from(record_begin, RECORD.size)
                    ).mono_ns
                self._offset += record.bytes
                file.seek(self._offset)
        return (self._last_ns - self._begin_ns) / 1e9


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    """Reads this many bytes. Raises ValueError if the file has fewer."""
    data = file.read(size)
    if len(data) < size:
        raise ValueError(f"offset 0: {len(data)} bytes are not a stream of ccmix-sockmon")
    return data


def _xstats_dtype(fields: str) -> np.dtype[Any]:
    """Returns the layout of a qdisc's own statistics; `fields` is 'NAME:CODE ...'."""
    pairs = (field.split(":") for field in fields.split())
    return np.dtype([(name, dtype_of(code)) for name, code in pairs])


_XSTATS = {kind: _xstats_dtype(fields) for kind, fields in _XSTATS_STRUCTS.items()}


def _index_and_rows(
    data: Bytes, records: Records, kind: RecordType, dtype: np.dtype[Any]
) -> tuple[SampleIndex, Numbers]:
    """Returns the samples of a type, and all of their rows as a numpy array."""
    samples = records.samples[kind]
    return samples, np.frombuffer(samples.joined(data), dtype)


def _device_columns(ids: Numbers, names: Sequence[tuple[str, str]]) -> dict[str, pl.Series]:
    """Returns the columns netns (network namespace) and device of a table.

    `ids` has the device's id for each row; names[id] is (network namespace, device).
    """
    return {
        "netns": by_id(ids, [netns for netns, _ in names], pl.String),
        "device": by_id(ids, [device for _, device in names], pl.String),
    }


def queue_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of qdiscs: a row per sample and qdisc, with its backlog and counters."""
    samples, rows = _index_and_rows(data, records, RecordType.QUEUES, _QUEUE)
    identities, ids = records.identities.queues.known, rows["id"]
    samples.check_ids(ids, len(identities), "queue")
    kinds = [text(identity.kind) for identity in identities]
    identified = {
        **_device_columns(ids, [header.device(identity.device) for identity in identities]),
        "queue": pl.Series(ids.copy()),
        "kind": by_id(ids, kinds, pl.String),
        "handle": by_id(ids, [_handle(identity.handle) for identity in identities], pl.String),
        "parent": by_id(ids, [_handle(identity.parent) for identity in identities], pl.String),
    }
    counted = {name: pl.Series(rows[name].copy()) for name in _QUEUE_COUNTERS}
    return pl.DataFrame(sample_times(samples) | identified | counted | _xstats_columns(rows, kinds))


def _handle(number: int) -> str:
    """Returns a qdisc's handle as tc writes it: 'root', '8001:', '1:10'."""
    if number == 0xFFFFFFFF:
        return "root"
    if number == 0xFFFFFFF1:
        return "ingress"
    major, minor = number >> 16, number & 0xFFFF
    return f"{major:x}:{minor:x}" if minor else f"{major:x}:"


def _xstats_columns(rows: Numbers, kinds: Sequence[str]) -> dict[str, pl.Series]:
    """Returns the counters that only some kinds of qdisc have, such as ECN marks.

    They are null for other kinds, and if the kernel is too old to have them. `kinds` has the kind
    of each qdisc by id.
    """
    row_kinds = np.array([*kinds, ""])[np.minimum(rows["id"], len(kinds))]
    return {
        name: _xstats_column(rows, row_kinds, fields) for name, fields in _XSTATS_COLUMNS.items()
    }


def _xstats_column(rows: Numbers, row_kinds: Numbers, fields: dict[str, str]) -> pl.Series:
    """Returns the column of a counter that only some kinds of qdisc have; null for other kinds.

    `rows` are samples of qdiscs, and `row_kinds` has the kind of each. `fields` has, for each kind,
    the field of its statistics that has the counter, such as {'red': 'early', 'pie': 'dropped'}.
    """
    values, known = np.zeros(len(rows), np.uint64), np.zeros(len(rows), bool)
    for kind, name in fields.items():
        layout = _XSTATS[kind].fields
        assert layout
        dtype, offset = layout[name][:2]
        end = offset + dtype.itemsize
        chosen = (row_kinds == kind) & (rows["xstats_bytes"] >= end)
        values[chosen] = (
            np.ascontiguousarray(rows["xstats"][chosen][:, offset:end]).view(dtype).ravel()
        )
        known |= chosen
    return nullable(values, known)


def link_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of links: a row per sample and device, with its counters."""
    samples, rows = _index_and_rows(data, records, RecordType.LINKS, _LINK)
    numbers = np.unique(rows["device"])
    names = [header.device(int(number)) for number in numbers]
    counted = {
        name: nullable(rows["counters"][name], rows["known"] > position)
        for position, name in enumerate(form.LINK_COUNTERS)
    }
    positions = np.searchsorted(numbers, rows["device"]).astype(np.uint32)
    return pl.DataFrame(sample_times(samples) | _device_columns(positions, names) | counted)


def counter_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of kernel counters, such as TcpExt: a row per sample and counter."""
    samples, rows = _index_and_rows(data, records, RecordType.COUNTERS, _COUNTER)
    identities, ids = records.identities.counters.known, rows["id"]
    samples.check_ids(ids, len(identities), "counter")
    cores = [identity.core if identity.core >= 0 else None for identity in identities]
    identified = {
        "netns": by_id(
            ids, [header.target("counters", identity.target) for identity in identities], pl.String
        ),
        "name": by_id(ids, [text(identity.name) for identity in identities], pl.String),
        "core": by_id(ids, cores, pl.Int32),
    }
    return pl.DataFrame(
        sample_times(samples) | identified | {"value": pl.Series(rows["value"].copy())}
    )


def cpu_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of cores: a row per sample and core, with the seconds in each state."""
    ticks_per_s = header.number("ticks_per_s")
    samples, rows = _index_and_rows(data, records, RecordType.CPU, _CPU)
    core = {
        "core": pl.Series(rows["core"].copy()),
        "frequency_hz": nullable(rows["frequency_khz"] * 1e3, rows["frequency_khz"] > 0),
    }
    spent = {name: pl.Series(rows["ticks"][name] / ticks_per_s) for name in form.CPU_TIMES}
    return pl.DataFrame(sample_times(samples) | core | spent)


def process_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of processes: a row per sample and process, with its CPU time and
    memory.
    """
    ticks_per_s, page_bytes = header.number("ticks_per_s"), header.number("page_bytes")
    samples, rows = _index_and_rows(data, records, RecordType.PROCESSES, _PROCESS)
    identities, ids = records.identities.processes.known, rows["id"]
    samples.check_ids(ids, len(identities), "process")
    identified = {
        "pid": by_id(ids, [identity.pid for identity in identities], pl.UInt32),
        "parent_pid": by_id(ids, [identity.parent for identity in identities], pl.UInt32),
        "name": by_id(ids, [text(identity.name) for identity in identities], pl.String),
        "started_s": by_id(
            ids, [identity.started_ticks / ticks_per_s for identity in identities], pl.Float64
        ),
    }
    measured = {
        "threads": pl.Series(rows["threads"].copy()),
        "user_s": pl.Series(rows["user_ticks"] / ticks_per_s),
        "system_s": pl.Series(rows["system_ticks"] / ticks_per_s),
        "memory_bytes": pl.Series(rows["memory_pages"] * np.uint64(page_bytes)),
    }
    return pl.DataFrame(sample_times(samples) | identified | measured)


@dataclass(frozen=True)
class Stream:
    """Holds the tables of a stream, or of a part of it.

    `header` has the probe's options. `report` has its own counts; it is None if the stream is
    incomplete because the probe was killed. `start_s` is the wall clock's time at the start.
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
                    folder / f"{name}.parquet",
                    compression="zstd",
                    compression_level=1,
                    statistics=False,
                )


def read_stream(file: Path) -> Stream:
    """Reads the tables of a whole stream.

    Raises ValueError if the file is not a stream, or is damaged.
    """
    [whole] = stream_parts(file, sys.maxsize, sys.maxsize)
    return whole


def stream_parts(
    file: Path, most_bytes: int = PART_BYTES, most_records: int = PART_RECORDS
) -> Iterator[Stream]:
    """Yields the tables of a stream in parts of about `most_bytes` of the file.

    So only one part is in memory at a time. A note (a sentence of the probe about something that it
    could not do) is in the part that covers the note's place in the stream. The probe's report is
    in the last part.
    """
    try:
        with file.open("rb") as opened:
            empty = not os.fstat(opened.fileno()).st_size  # an empty file can't be mapped
            data = b"" if empty else mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        yield from _stream_parts(data, most_bytes, most_records)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parse_stream(data: Bytes) -> Stream:
    """Returns the tables of a stream that is in memory. Raises ValueError."""
    [whole] = _stream_parts(data, sys.maxsize, sys.maxsize)
    return whole


def _stream_parts(data: Bytes, most_bytes: int, most_records: int) -> Iterator[Stream]:
    """Makes the tables of each part of a stream."""
    header = read_header(data)
    for records in walk(data, header.end, most_bytes, most_records):
        yield Stream(
            header=header.keys,
            start_s=header.start_s,
            sockets=socket_table(data, records, header),
            queues=queue_table(data, records, header),
            links=link_table(data, records, header),
            counters=counter_table(data, records, header),
            cpu=cpu_table(data, records, header),
            processes=process_table(data, records, header),
            notes=records.notes,
            report=records.report,
        )
