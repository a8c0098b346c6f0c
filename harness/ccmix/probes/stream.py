"""The binary stream of the probe ccmix-sockmon to tables; probes/sockmon/README.md documents both.

A stream that ends in the middle of a record, as a crash leaves it, loses that record. Anything else that is not as the
probe writes it raises ValueError, which names the offset of the record.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ccmix.probes import stream_columns as columns
from ccmix.probes import stream_format as form
from ccmix.probes.stream_format import BYTE_ORDER, MAGIC, VERSION

_IDENTITIES = {
    form.SOCKET: struct.Struct("<IIQQIHHIIII16s16s16s"),
    form.QUEUE: struct.Struct("<IIII16s"),
    form.COUNTER: struct.Struct("<IIi44s"),
    form.PROCESS: struct.Struct("<IIIIQ24s"),
}
_ROW_BYTES = {
    form.QUEUES: columns.QUEUE.itemsize,
    form.LINKS: columns.LINK.itemsize,
    form.COUNTERS: columns.COUNTER.itemsize,
    form.CPU: columns.CPU.itemsize,
    form.PROCESSES: columns.PROCESS.itemsize,
}
PART_BYTES = 2**25  # a hundred thousand samples of sockets
# Of sockets' rows: a block stays in the processor's nearer cache while it is turned, a chunk in the farther one.
_BLOCK_ROWS, _CHUNK_BLOCKS = 512, 16

Bytes = bytes | mmap.mmap
_Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Stream:
    """What a stream holds; README.md tells every column.

    `header` has what the probe was asked for, `report` how it did: None where the stream has no end, since the probe
    was killed. `start_s` is the wall clock's time at the start.
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
        """NAME.parquet of each table that has rows."""
        for name in ("sockets", "queues", "links", "counters", "cpu", "processes"):
            table: pl.DataFrame = getattr(self, name)
            if not table.is_empty():
                table.write_parquet(
                    folder / f"{name}.parquet", compression="zstd", compression_level=1, statistics=False
                )


def read_stream(file: Path) -> Stream:
    """The tables of a stream's file. Raises ValueError where it is no stream, or a damaged one."""
    [whole] = stream_parts(file, sys.maxsize)
    return whole


def stream_parts(file: Path, most_bytes: int = PART_BYTES) -> Iterator[Stream]:
    """The same in parts of about `most_bytes` of the file, so that no more of it is in memory at a time.

    Each note is in the part where it stands, and the report in the last part.
    """
    try:
        with file.open("rb") as opened:
            empty = not os.fstat(opened.fileno()).st_size  # which can't be mapped
            data = b"" if empty else mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        yield from _parts(data, most_bytes)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parse_stream(data: Bytes) -> Stream:
    [whole] = _parts(data, sys.maxsize)
    return whole


def _parts(data: Bytes, most_bytes: int) -> Iterator[Stream]:
    header, start_s, begin = _header(data)
    targets = _Targets(header)
    for records in _walk(data, begin, most_bytes):
        yield Stream(
            header=header,
            start_s=start_s,
            sockets=_sockets(data, records, targets),
            queues=_queues(data, records, targets),
            links=_links(data, records, targets),
            counters=_counters(data, records, targets),
            cpu=_cpu(data, records, _number(header, "ticks_per_s")),
            processes=_processes(data, records, _number(header, "ticks_per_s"), _number(header, "page_bytes")),
            notes=records.notes,
            report=records.report,
        )


def _header(data: Bytes) -> tuple[dict[str, str], float, int]:
    """What was asked for, the wall clock's time at the start, and where the records begin."""
    if len(data) < form.HEADER.size:
        raise ValueError(f"offset 0: {len(data)} bytes are no stream of ccmix-sockmon")
    magic, byte_order, version, _, wall_ns, _, text_bytes = form.HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("offset 0: this is no stream of ccmix-sockmon")
    if byte_order != BYTE_ORDER:
        raise ValueError("offset 8: the stream was recorded on a machine of another byte order")
    if version != VERSION:
        raise ValueError(f"offset 12: the stream has version {version}, and this reader knows {VERSION}")
    begin = form.HEADER.size + text_bytes
    if begin > len(data):
        raise ValueError(f"offset {form.HEADER.size}: the stream ends in its header")
    return _pairs(data[form.HEADER.size : begin]), wall_ns / 1e9, begin


def _pairs(text: bytes) -> dict[str, str]:
    lines = (line.partition("=") for line in text.rstrip(b"\0").decode(errors="replace").splitlines())
    return {key: value for key, equals, value in lines if equals}


def _number(header: Mapping[str, str], key: str) -> int:
    text = header.get(key, "")
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
        raise ValueError(f"offset {form.HEADER.size}: the header's {key} is {text!r}, and must be a number above 0")
    return int(text)


class _Targets:
    """What numbers in identities and rows stand for: network namespaces and devices, by the header."""

    def __init__(self, header: Mapping[str, str]) -> None:
        self._header = header

    def name(self, kind: str, number: int) -> str:
        name = self._header.get(f"{kind}.{number}")
        if name is None:
            raise ValueError(f"offset {form.HEADER.size}: the header names no {kind}.{number}")
        return name

    def device(self, number: int) -> tuple[str, str]:
        """A device's network namespace and name."""
        netns, _, device = self.name("device", number).rpartition("/")
        return netns, device


@dataclass
class _Samples:
    """The samples of one type, in the order of the stream; where each one's rows begin, and when it was."""

    row_bytes: int = 0
    info_bytes: int = 0
    offsets: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    mono_ns: list[int] = field(default_factory=list)
    wall_ns: list[int] = field(default_factory=list)
    took_ns: list[int] = field(default_factory=list)
    final: list[bool] = field(default_factory=list)

    def joined(self, data: Bytes) -> bytes:
        """All rows, one after the other."""
        view = memoryview(data)
        parts = zip(self.offsets, self.rows, strict=True)
        return b"".join([view[offset : offset + rows * self.row_bytes] for offset, rows in parts])

    def blocks(self, data: Bytes, most: int) -> Iterator[bytes]:
        """The rows in pieces of `most`; the last one may be shorter."""
        view = memoryview(data)
        parts: list[memoryview] = []
        count = 0
        for offset, rows in zip(self.offsets, self.rows, strict=True):
            left = rows
            while left:
                taken = min(left, most - count)
                begin = offset + (rows - left) * self.row_bytes
                parts.append(view[begin : begin + taken * self.row_bytes])
                left, count = left - taken, count + taken
                if count == most:
                    yield b"".join(parts)
                    count, parts = 0, []
        yield b"".join(parts)

    def times(self) -> dict[str, pl.Series]:
        """The columns that every table begins with."""
        rows = np.array(self.rows, np.int64)
        return {
            "time_s": pl.Series(np.repeat(np.array(self.wall_ns, np.uint64) / 1e9, rows)),
            "monotonic_s": pl.Series(np.repeat(np.array(self.mono_ns, np.uint64) / 1e9, rows)),
            "took_s": pl.Series(np.repeat(np.array(self.took_ns, np.uint64) / 1e9, rows)),
        }

    def check_ids(self, ids: _Numbers, count: int, what: str) -> None:
        """Every row must belong to an identity that the stream has."""
        if ids.size and int(ids.max()) >= count:
            row = int(np.argmax(ids >= count))
            record = int(np.searchsorted(np.cumsum(self.rows), row, side="right"))
            offset = self.offsets[record] - form.SAMPLE.size
            raise ValueError(f"offset {offset}: a row of {what} {ids[row]}, which the stream does not introduce")


@dataclass
class _Records:
    identities: dict[int, list[tuple[Any, ...]]] = field(default_factory=lambda: {kind: [] for kind in _IDENTITIES})
    samples: dict[int, _Samples] = field(
        default_factory=lambda: {form.SOCKETS: _Samples()} | {kind: _Samples(size) for kind, size in _ROW_BYTES.items()}
    )
    notes: list[str] = field(default_factory=list)
    report: dict[str, int] | None = None

    def following(self) -> _Records:
        """For what comes next, which may be of the same identities."""
        return _Records(self.identities)


def _walk(data: Bytes, begin: int, most_bytes: int) -> Iterator[_Records]:
    """All records, in parts; unknown ones are skipped, and one that the end cuts off is left out."""
    records = _Records()
    part, offset, size = begin, begin, len(data)
    while size - offset >= form.RECORD.size:
        length, kind = form.RECORD.unpack_from(data, offset)
        form.check_length(length, offset)
        if length > size - offset:
            break
        if form.SOCKETS <= kind <= form.PROCESSES:
            _add_sample(records, data, offset, length, kind)
        elif kind in _IDENTITIES:
            _add_identity(records, data, offset, length, kind)
        elif kind == form.NOTE:
            records.notes.append(data[offset + 8 : offset + length].rstrip(b"\0").decode(errors="replace"))
        elif kind == form.REPORT:
            records.report = _report(data[offset + 8 : offset + length], offset)
        offset += length
        if offset - part >= most_bytes:
            yield records
            part, records = offset, records.following()
    yield records


def _add_identity(records: _Records, data: Bytes, offset: int, length: int, kind: int) -> None:
    layout, known = _IDENTITIES[kind], records.identities[kind]
    if not layout.size <= length - form.RECORD.size < layout.size + 8:
        raise ValueError(f"offset {offset}: an identity of type {kind} can't be {length} bytes long")
    identity = layout.unpack_from(data, offset + form.RECORD.size)
    if identity[0] != len(known):
        raise ValueError(f"offset {offset}: an identity has number {identity[0]} instead of {len(known)}")
    known.append(identity)


def _add_sample(records: _Records, data: Bytes, offset: int, length: int, kind: int) -> None:
    if length < form.SAMPLE.size:
        raise ValueError(f"offset {offset}: a sample can't be {length} bytes long")
    _, _, mono_ns, wall_ns, took_ns, rows, row_bytes, info_bytes = form.SAMPLE.unpack_from(data, offset)
    samples = records.samples[form.SOCKETS if kind == form.CLOSED else kind]
    if kind in (form.SOCKETS, form.CLOSED) and not samples.offsets:
        _check_info(offset, row_bytes, info_bytes)
        samples.row_bytes, samples.info_bytes = row_bytes, info_bytes
    if row_bytes != samples.row_bytes or info_bytes != samples.info_bytes:
        raise ValueError(
            f"offset {offset}: rows of {row_bytes} bytes, {info_bytes} of them tcp_info, "
            f"where {samples.row_bytes} and {samples.info_bytes} are due"
        )
    if not 0 <= length - form.SAMPLE.size - rows * row_bytes < 8:
        raise ValueError(f"offset {offset}: {rows} rows of {row_bytes} bytes do not fill a record of {length} bytes")
    samples.offsets.append(offset + form.SAMPLE.size)
    samples.rows.append(rows)
    samples.mono_ns.append(mono_ns)
    samples.wall_ns.append(wall_ns)
    samples.took_ns.append(took_ns)
    samples.final.append(kind == form.CLOSED)


def _check_info(offset: int, row_bytes: int, info_bytes: int) -> None:
    if info_bytes % 8 or not columns.LEAST_INFO_BYTES <= info_bytes <= columns.MOST_INFO_BYTES:
        raise ValueError(f"offset {offset}: tcp_info can't be {info_bytes} bytes long")
    if row_bytes != columns.SOCKET_BYTES + info_bytes:
        raise ValueError(f"offset {offset}: a socket's row can't be {row_bytes} bytes long")


def _report(text: bytes, offset: int) -> dict[str, int]:
    pairs = _pairs(text)
    for key, value in pairs.items():
        if not (value.isascii() and value.isdigit() and len(value) <= 20):
            raise ValueError(f"offset {offset}: the report's {key} is {value!r}, and must be a number")
    return {key: int(value) for key, value in pairs.items()}


def _text(name: bytes) -> str:
    return name.partition(b"\0")[0].decode(errors="replace")


def _by_id(ids: _Numbers, values: Sequence[Any], dtype: Any) -> pl.Series:
    """A property of identities, for each row. Taking codes of few strings is far quicker than taking strings."""
    return pl.Series(values, dtype=dtype).gather(pl.Series(ids))


def _structured(records: _Records, data: Bytes, kind: int, dtype: np.dtype[Any]) -> tuple[_Samples, _Numbers]:
    samples = records.samples[kind]
    return samples, np.frombuffer(samples.joined(data), dtype)


def _sockets(data: Bytes, records: _Records, targets: _Targets) -> pl.DataFrame:
    samples, identities = records.samples[form.SOCKETS], records.identities[form.SOCKET]
    layout = columns.socket_layout(samples.info_bytes or columns.MOST_INFO_BYTES)
    raw, counted = _in_columns(data, samples, layout)
    ids = raw["id"]
    samples.check_ids(ids, len(identities), "socket")

    def of(values: list[Any], dtype: Any) -> pl.Series:
        return _by_id(ids, values, dtype)

    def addresses(index: int) -> list[str]:
        return [_address(identity[4], identity[index]) for identity in identities]

    netns = {number: targets.name("sockets", number) for number in {identity[1] for identity in identities}}
    known = {
        "final": pl.Series(np.repeat(np.array(samples.final, bool), np.array(samples.rows, np.int64))),
        "netns": of([netns[identity[1]] for identity in identities], pl.String),
        "socket": pl.Series(ids),
        "cookie": of([identity[2] for identity in identities], pl.UInt64),
        "local_address": of(addresses(11), pl.String),
        "local_port": of([identity[5] for identity in identities], pl.Int64),
        "remote_address": of(addresses(12), pl.String),
        "remote_port": of([identity[6] for identity in identities], pl.Int64),
        "uid": of([identity[8] for identity in identities], pl.UInt32),
        "cca": of([_text(identity[13]) for identity in identities], pl.String),
    }
    named = {
        name: _by_id(raw[field], [names.get(number, "unknown") for number in range(256)], pl.String)
        for name, field, names in (("state", "row_state", columns.STATES), ("ca_state", "ca_state", columns.CA_STATES))
    }
    states = pl.DataFrame({name: pl.Series(values) for name, values in raw.items()}).select(**columns.cca_columns())
    return pl.DataFrame(samples.times() | known | named | counted).hstack(states)


def _turned(data: Bytes, samples: _Samples, layout: np.dtype[Any]) -> Iterator[columns.Turned]:
    """All rows, chunk after chunk; a chunk is gone when the next one is asked for."""
    turned = columns.Turned(layout, _CHUNK_BLOCKS * _BLOCK_ROWS)
    for block in samples.blocks(data, _BLOCK_ROWS):
        turned.add(block)
        if turned.full:
            yield turned
            turned.count = 0
    yield turned


def _uninitialised(dtypes: Mapping[str, np.dtype[Any]], total: int) -> dict[str, _Numbers]:
    """Columns; those of a type are in one piece of memory, which the kernel gives out in large pages."""
    kinds = sorted(set(dtypes.values()), key=str)
    rooms = {kind: iter(np.empty((list(dtypes.values()).count(kind), total), kind)) for kind in kinds}
    return {name: next(rooms[kind]) for name, kind in dtypes.items()}


def _in_columns(
    data: Bytes, samples: _Samples, layout: np.dtype[Any]
) -> tuple[dict[str, _Numbers], dict[str, pl.Series]]:
    """The raw fields, and the columns that are one field each; null where the recording kernel has not the field."""
    total = sum(samples.rows)
    raw = _uninitialised({name: layout[name] for name in columns.RAW_FIELDS}, total)
    known = {name: one for name, one in columns.SOCKET_COLUMNS.items() if one.field in (layout.names or ())}
    values = _uninitialised({name: one.dtype for name, one in known.items()}, total)
    there = _uninitialised({name: np.dtype(bool) for name, one in known.items() if one.nullable}, total)
    begin = 0
    for fields in _turned(data, samples, layout):
        place = slice(begin, begin + fields.count)
        begin += fields.count
        for name, column in raw.items():
            column[place] = fields[name]
        for name, one in known.items():
            one.fill(fields, values[name][place])
            if one.nullable:
                one.fill_there(fields, there[name][place])

    def series(name: str, one: columns.Column) -> pl.Series:
        if name not in values:
            return pl.Series(np.empty(0, one.dtype)).extend_constant(None, total)
        return _nullable(values[name], there[name]) if name in there else pl.Series(values[name])

    return raw, {name: series(name, one) for name, one in columns.SOCKET_COLUMNS.items()}


def _address(family: int, address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET, address[:4]) if family == socket.AF_INET else _address_6(address)


def _address_6(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6, address)


def _queues(data: Bytes, records: _Records, targets: _Targets) -> pl.DataFrame:
    samples, rows = _structured(records, data, form.QUEUES, columns.QUEUE)
    identities = records.identities[form.QUEUE]
    samples.check_ids(rows["id"], len(identities), "queue")
    kinds = [_text(identity[4]) for identity in identities]
    known = {
        **_devices(rows["id"], [targets.device(identity[1]) for identity in identities]),
        "queue": pl.Series(rows["id"].copy()),
        "kind": _by_id(rows["id"], kinds, pl.String),
        "handle": _by_id(rows["id"], [_handle(identity[2]) for identity in identities], pl.String),
        "parent": _by_id(rows["id"], [_handle(identity[3]) for identity in identities], pl.String),
    }
    counted = {name: pl.Series(rows[name].copy()) for name in columns.QUEUE_COUNTERS}
    return pl.DataFrame(samples.times() | known | counted | _marks(rows, kinds))


def _handle(number: int) -> str:
    """As tc writes it: 'root', '8001:', '1:10'."""
    if number == 0xFFFFFFFF:
        return "root"
    if number == 0xFFFFFFF1:
        return "ingress"
    major, minor = number >> 16, number & 0xFFFF
    return f"{major:x}:{minor:x}" if minor else f"{major:x}:"


def _marks(rows: _Numbers, kinds: Sequence[str]) -> dict[str, pl.Series]:
    """What only some kinds of qdisc count; null for the others, and where the kernel is too old to tell."""
    found = {name: np.zeros(len(rows), np.uint64) for name in columns.XSTATS_COLUMNS}
    there = {name: np.zeros(len(rows), bool) for name in columns.XSTATS_COLUMNS}
    row_kinds = np.array([*kinds, ""])[np.minimum(rows["id"], len(kinds))]
    for kind, fields in columns.XSTATS.items():
        of_kind = row_kinds == kind
        for name, (offset, dtype) in fields.items():
            width = np.dtype(dtype).itemsize
            chosen = of_kind & (rows["xstats_bytes"] >= offset + width)
            bytes_of = np.ascontiguousarray(rows["xstats"][chosen][:, offset : offset + width])
            found[name][chosen] = bytes_of.view(dtype).ravel()
            there[name] |= chosen
    return {name: _nullable(found[name], there[name]) for name in found}


def _nullable(values: _Numbers, there: _Numbers) -> pl.Series:
    if there.all():
        return pl.Series(values)
    return pl.select(pl.when(pl.Series(there)).then(pl.Series(values))).to_series()


def _devices(ids: _Numbers, names: Sequence[tuple[str, str]]) -> dict[str, pl.Series]:
    return {
        "netns": _by_id(ids, [netns for netns, _ in names], pl.String),
        "device": _by_id(ids, [device for _, device in names], pl.String),
    }


def _links(data: Bytes, records: _Records, targets: _Targets) -> pl.DataFrame:
    samples, rows = _structured(records, data, form.LINKS, columns.LINK)
    numbers = np.unique(rows["device"])
    names = [targets.device(int(number)) for number in numbers]
    counted = {
        name: _nullable(rows["counters"][:, column], rows["known"] > column)
        for column, name in enumerate(columns.LINK_COUNTERS)
    }
    places = np.searchsorted(numbers, rows["device"]).astype(np.uint32)
    return pl.DataFrame(samples.times() | _devices(places, names) | counted)


def _counters(data: Bytes, records: _Records, targets: _Targets) -> pl.DataFrame:
    samples, rows = _structured(records, data, form.COUNTERS, columns.COUNTER)
    identities = records.identities[form.COUNTER]
    samples.check_ids(rows["id"], len(identities), "counter")
    known = {
        "netns": [targets.name("counters", identity[1]) for identity in identities],
        "name": [_text(identity[3]) for identity in identities],
    }
    cores = [identity[2] if identity[2] >= 0 else None for identity in identities]
    return pl.DataFrame(
        samples.times()
        | {name: _by_id(rows["id"], values, pl.String) for name, values in known.items()}
        | {"core": _by_id(rows["id"], cores, pl.Int32), "value": pl.Series(rows["value"].copy())}
    )


def _cpu(data: Bytes, records: _Records, ticks_per_s: int) -> pl.DataFrame:
    samples, rows = _structured(records, data, form.CPU, columns.CPU)
    spent = {name: pl.Series(rows["ticks"][:, column] / ticks_per_s) for column, name in enumerate(columns.CPU_TIMES)}
    frequency = _nullable(rows["frequency_khz"] * 1e3, rows["frequency_khz"] > 0)
    return pl.DataFrame(
        samples.times() | {"core": pl.Series(rows["core"].copy()), "frequency_hz": frequency} | spent
    )  # fmt: skip


def _processes(data: Bytes, records: _Records, ticks_per_s: int, page_bytes: int) -> pl.DataFrame:
    samples, rows = _structured(records, data, form.PROCESSES, columns.PROCESS)
    identities = records.identities[form.PROCESS]
    samples.check_ids(rows["id"], len(identities), "process")

    def of(value: Callable[[tuple[Any, ...]], Any], dtype: Any) -> pl.Series:
        return _by_id(rows["id"], [value(identity) for identity in identities], dtype)

    known = {
        "pid": of(lambda identity: identity[1], pl.UInt32),
        "parent_pid": of(lambda identity: identity[2], pl.UInt32),
        "name": of(lambda identity: _text(identity[5]), pl.String),
        "started_s": of(lambda identity: identity[4] / ticks_per_s, pl.Float64),
        "threads": pl.Series(rows["threads"].copy()),
        "user_s": pl.Series(rows["user_ticks"] / ticks_per_s),
        "system_s": pl.Series(rows["system_ticks"] / ticks_per_s),
        "memory_bytes": pl.Series(rows["memory_pages"] * np.uint64(page_bytes)),
    }
    return pl.DataFrame(samples.times() | known)
