"""Splits the binary output of ccmix-sockmon into its records, and checks them.

If a crash cut the stream in the middle of a record, that record is dropped. Any other content that
the probe does not write raises ValueError, which names the offset of the record.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ccmix.probes.stream import format as form
from ccmix.probes.stream.format import (
    BYTE_ORDER,
    HEADER,
    MAGIC,
    RECORD,
    SAMPLE,
    SOCKET_BYTES,
    VERSION,
    RecordType,
    SampleHeader,
    codes,
)

Numbers = npt.NDArray[Any]

_DTYPES = {"B": "u1", "H": "<u2", "I": "<u4", "i": "<i4", "Q": "<u8"}

LEAST_INFO_BYTES = 104  # of struct tcp_info in Linux 2.6, up to total_retrans
MOST_INFO_BYTES = 512
# A full part still takes the states of BBR for its last sample of sockets: two records for each
# namespace and CCA, and 56 bytes for each socket
_BBR_STATES = (RecordType.BBR, RecordType.BBR_INFO)
MORE_RECORDS, MORE_BYTES = 1000, 2**23
MOST_NOTES = 10_000  # the probe writes a few sentences about things that it could not do
Bytes = bytes | mmap.mmap
Identity = TypeVar(
    "Identity", form.SocketIdentity, form.QueueIdentity, form.CounterIdentity, form.ProcessIdentity
)
# The structs of rows that have the same length in every stream. A socket's row does not: it ends
# with as much of tcp_info as the kernel has.
_ROW_STRUCTS = {
    RecordType.QUEUES: form.QueueRow,
    RecordType.LINKS: form.LinkRow,
    RecordType.COUNTERS: form.CounterRow,
    RecordType.CPU: form.CpuRow,
    RecordType.PROCESSES: form.ProcessRow,
    RecordType.BBR: form.BbrRow,
    RecordType.BBR_INFO: form.BbrInfoRow,
}
_ROW_BYTES = {kind: form.packed(declaration).size for kind, declaration in _ROW_STRUCTS.items()}


def dtype_of(code: str) -> str:
    """Returns numpy's name for a code of the module struct: '<u4' for 'I'."""
    return _DTYPES[code]


def row_dtype(declaration: type, **members: Sequence[str]) -> np.dtype[Any]:
    """Returns the layout of a struct's rows as a numpy type.

    `members` names the numbers in an array, which become fields within that field.
    """
    layout: list[tuple[Any, ...]] = []
    for name, code in codes(declaration).items():
        count, dtype = code[:-1], dtype_of(code[-1])
        if name in members:
            assert len(members[name]) == int(count)
            layout.append((name, [(member, dtype) for member in members[name]]))
        else:
            layout.append((name, dtype, int(count)) if count else (name, dtype))
    return np.dtype(layout)


def sample_times(samples: SampleIndex) -> dict[str, pl.Series]:
    """Returns the time columns with which every table begins, with a value for each row.

    They are time_s (wall clock), monotonic_s and took_s, how long the sample took.
    """
    rows = np.array(samples.rows, np.int64)
    return {
        "time_s": pl.Series(np.repeat(np.array(samples.wall_ns, np.uint64) / 1e9, rows)),
        "monotonic_s": pl.Series(np.repeat(np.array(samples.mono_ns, np.uint64) / 1e9, rows)),
        "took_s": pl.Series(np.repeat(np.array(samples.took_ns, np.uint64) / 1e9, rows)),
    }


def by_id(ids: Numbers, values: Sequence[Any], dtype: Any) -> pl.Series:
    """Returns a column with a property of each row's object, such as a socket: values[id].

    polars picks values by position, which is quicker than making a Python string for each row.
    """
    return pl.Series(values, dtype=dtype).gather(pl.Series(ids))


def nullable(values: Numbers, known: Numbers) -> pl.Series:
    """Returns the values as a column, null where `known` is false."""
    if known.all():
        return pl.Series(values)
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def text(name: bytes) -> str:
    """Decodes a char array of C, which ends at the first zero byte."""
    return name.partition(b"\0")[0].decode(errors="replace")


@dataclass(frozen=True)
class Header:
    """Holds the header of a stream: the probe's options by name, and its start (wall clock)."""

    keys: Mapping[str, str]
    start_s: float
    end: int  # offset of the first record

    def number(self, key: str) -> int:
        """Returns an option that must be a number above 0. Raises ValueError."""
        text = self.keys.get(key, "")
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
            raise ValueError(
                f"offset {HEADER.size}: the header's {key} is {text!r}, and must be a number "
                "above 0"
            )
        return int(text)

    def target(self, kind: str, number: int) -> str:
        """Returns the network namespace or device with this number, as the header names it.

        Identities and rows only have the number. `kind` is 'device', 'sockets' or 'counters'.
        Raises ValueError.
        """
        name = self.keys.get(f"{kind}.{number}")
        if name is None:
            raise ValueError(f"offset {HEADER.size}: the header names no {kind}.{number}")
        return name

    def device(self, number: int) -> tuple[str, str]:
        """Returns the network namespace and the name of a device."""
        netns, _, device = self.target("device", number).rpartition("/")
        return netns, device


def read_header(data: Bytes) -> Header:
    """Reads the header of a stream.

    Raises ValueError if the data is not a stream, or has a version that this reader doesn't know.
    """
    if len(data) < HEADER.size:
        raise ValueError(f"offset 0: {len(data)} bytes are not a stream of ccmix-sockmon")
    header = form.StreamHeader._make(HEADER.unpack_from(data))
    if header.magic != MAGIC:
        raise ValueError("offset 0: this is not a stream of ccmix-sockmon")
    if header.byte_order != BYTE_ORDER:
        raise ValueError("offset 8: the stream was recorded on a machine of another byte order")
    if header.version != VERSION:
        raise ValueError(
            f"offset 12: the stream has version {header.version}, and this reader knows {VERSION}"
        )
    end = HEADER.size + header.text_bytes
    if end > len(data):
        raise ValueError(f"offset {HEADER.size}: the stream ends in its header")
    return Header(_key_values(data[HEADER.size : end]), header.start_wall_ns / 1e9, end)


def _key_values(text: bytes) -> dict[str, str]:
    """Parses lines KEY=VALUE; lines without '=' are left out."""
    lines = (
        line.partition("=") for line in text.rstrip(b"\0").decode(errors="replace").splitlines()
    )
    return {key: value for key, equals, value in lines if equals}


class IdentityList(Generic[Identity]):
    """Collects the identities of one type: sockets, queues, counters or processes.

    The stream introduces an object once; rows then refer to it by its index in `known`.
    """

    def __init__(self, kind: RecordType, declaration: type[Identity]) -> None:
        """Begins empty; `declaration` is the struct of such an identity."""
        self.kind = kind
        self.known: list[Identity] = []
        self._declaration: type[Identity] = declaration
        self._layout = form.packed(declaration)

    def add(self, data: Bytes, offset: int, length: int) -> None:
        """Reads an identity (the description of a socket, queue, counter or process) from its
        record, and appends it to `known`. Raises ValueError unless the record has a possible length
        and the identity has the next number.

        offset, length: the position and the size in bytes of the whole record in `data`
        """
        # ccmix-sockmon pads each record to a multiple of 8 bytes
        if not self._layout.size <= length - RECORD.size < self._layout.size + 8:
            raise ValueError(
                f"offset {offset}: an identity of type {self.kind} can't be {length} bytes long"
            )
        identity = self._declaration._make(self._layout.unpack_from(data, offset + RECORD.size))
        if identity.id != len(self.known):
            raise ValueError(
                f"offset {offset}: an identity has number {identity.id} instead of "
                f"{len(self.known)}"
            )
        self.known.append(identity)


class Identities:
    """Holds the sockets, queues, counters and processes that the stream has introduced so far."""

    def __init__(self) -> None:
        """Begins without any: the stream introduces them."""
        self.sockets = IdentityList(RecordType.SOCKET, form.SocketIdentity)
        self.queues = IdentityList(RecordType.QUEUE, form.QueueIdentity)
        self.counters = IdentityList(RecordType.COUNTER, form.CounterIdentity)
        self.processes = IdentityList(RecordType.PROCESS, form.ProcessIdentity)
        self.by_type: Mapping[int, IdentityList[Any]] = {
            identities.kind: identities
            for identities in (self.sockets, self.queues, self.counters, self.processes)
        }


@dataclass
class SampleIndex:
    """Lists the samples of one type in the order of the stream, without their rows.

    For each it has the offset of the rows in the data, their number, and when the sample was taken.
    """

    row_bytes: int = 0
    info_bytes: int = 0
    offsets: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    mono_ns: list[int] = field(default_factory=list)
    wall_ns: list[int] = field(default_factory=list)
    took_ns: list[int] = field(default_factory=list)
    final: list[bool] = field(default_factory=list)

    def add(self, offset: int, header: SampleHeader, final: bool) -> None:
        """Adds a sample; `final` marks the last counters of sockets that were closed."""
        self.offsets.append(offset)
        self.rows.append(header.rows)
        self.mono_ns.append(header.mono_ns)
        self.wall_ns.append(header.wall_ns)
        self.took_ns.append(header.took_ns)
        self.final.append(final)

    def joined(self, data: Bytes) -> bytes:
        """Returns the rows of all samples as bytes, one after the other."""
        view = memoryview(data)
        parts = zip(self.offsets, self.rows, strict=True)
        return b"".join([view[offset : offset + rows * self.row_bytes] for offset, rows in parts])

    def blocks(self, data: Bytes, block_rows: int) -> Iterator[bytes]:
        """Yields the rows of all samples in blocks of `block_rows`; the last one may be shorter."""
        view = memoryview(data)
        parts: list[memoryview] = []
        count = 0
        for offset, rows in zip(self.offsets, self.rows, strict=True):
            left = rows
            while left:
                taken = min(left, block_rows - count)
                begin = offset + (rows - left) * self.row_bytes
                parts.append(view[begin : begin + taken * self.row_bytes])
                left, count = left - taken, count + taken
                if count == block_rows:
                    yield b"".join(parts)
                    count, parts = 0, []
        yield b"".join(parts)

    def check_ids(self, ids: npt.NDArray[Any], count: int, noun: str) -> None:
        """Raises ValueError if a row's object is not among the `count` that were introduced.

        `noun` says what the objects are, for the message.
        """
        if ids.size and int(ids.max()) >= count:
            row = int(np.argmax(ids >= count))
            record = int(np.searchsorted(np.cumsum(self.rows), row, side="right"))
            offset = self.offsets[record] - RECORD.size - SAMPLE.size
            raise ValueError(
                f"offset {offset}: a row of {noun} {ids[row]}, which the stream does not introduce"
            )


def _empty_samples() -> dict[int, SampleIndex]:
    """Returns an empty index for each type of sample.

    The length of a socket's row is not known yet: it depends on the recording kernel.
    """
    samples: dict[int, SampleIndex] = {kind: SampleIndex(size) for kind, size in _ROW_BYTES.items()}
    return samples | {RecordType.SOCKETS: SampleIndex()}


@dataclass
class Records:
    """Holds the records of a part of the stream, and the identities of all parts up to its end."""

    identities: Identities = field(default_factory=Identities)
    samples: dict[int, SampleIndex] = field(default_factory=_empty_samples)
    notes: list[str] = field(default_factory=list)
    report: dict[str, int] | None = None

    def following(self) -> Records:
        """Returns empty records for the next part, whose rows may refer to the same identities."""
        return Records(self.identities)


def walk(data: Bytes, begin: int, most_bytes: int, most_records: int) -> Iterator[Records]:
    """Yields the records of a stream in parts of about `most_bytes` and `most_records`.

    Records of unknown types are skipped. In the stream, states of BBR follow the sample of sockets
    that they belong to. So a part that is full still gets the states of its last sample, up to
    MORE_RECORDS records and MORE_BYTES.
    """
    records = Records()
    identities = records.identities.by_type
    part_begin, offset, size = begin, begin, len(data)
    notes = part_records = 0
    states_begin, state_count = (
        begin,
        0,
    )  # the end of the last record that isn't a state of BBR, and how many states follow it
    while size - offset >= RECORD.size:
        length, kind = RECORD.unpack_from(data, offset)
        form.check_length(length, offset)
        if length > size - offset:
            break
        is_full = offset - part_begin >= most_bytes or part_records >= most_records
        is_overfull = state_count >= MORE_RECORDS or offset - states_begin >= MORE_BYTES
        if is_full and (kind not in _BBR_STATES or is_overfull):
            yield records
            part_begin, part_records, records = offset, 0, records.following()
            states_begin, state_count = offset, 0
        if form.is_sample(kind):
            _add_sample(records, data, offset, length, kind)
        elif kind in identities:
            identities[kind].add(data, offset, length)
        elif kind == RecordType.NOTE:
            notes += 1
            if notes > MOST_NOTES:
                raise ValueError(f"offset {offset}: there are more than {MOST_NOTES} notes")
            records.notes.append(
                _content(data, offset, length).rstrip(b"\0").decode(errors="replace")
            )
        elif kind == RecordType.REPORT:
            records.report = _parse_report(_content(data, offset, length), offset)
        offset += length
        part_records += 1
        states_begin, state_count = (
            (states_begin, state_count + 1) if kind in _BBR_STATES else (offset, 0)
        )
    yield records


def _content(data: Bytes, offset: int, length: int) -> bytes:
    """Returns the content of a record, without its header."""
    return data[offset + RECORD.size : offset + length]


def _add_sample(records: Records, data: Bytes, offset: int, length: int, kind: int) -> None:
    """Reads the header of a sample, checks it, and adds it to the index.

    The rows stay in the data: tables are made from all samples at once. Raises ValueError.
    """
    body_bytes = length - RECORD.size
    if body_bytes < SAMPLE.size:
        raise ValueError(f"offset {offset}: a sample can't be {length} bytes long")
    header = SampleHeader._make(SAMPLE.unpack_from(data, offset + RECORD.size))
    of_sockets = kind in (RecordType.SOCKETS, RecordType.CLOSED)
    samples = records.samples[RecordType.SOCKETS if of_sockets else kind]
    if of_sockets and not samples.offsets:
        _check_socket_row(offset, header)
        samples.row_bytes, samples.info_bytes = header.row_bytes, header.info_bytes
    if header.row_bytes != samples.row_bytes or header.info_bytes != samples.info_bytes:
        raise ValueError(
            f"offset {offset}: rows of {header.row_bytes} bytes, {header.info_bytes} of them "
            "tcp_info, "
            f"where {samples.row_bytes} and {samples.info_bytes} are due"
        )
    if not 0 <= body_bytes - SAMPLE.size - header.rows * header.row_bytes < 8:
        raise ValueError(
            f"offset {offset}: {header.rows} rows of {header.row_bytes} bytes do not fill a "
            f"record of {length} bytes"
        )
    samples.add(offset + RECORD.size + SAMPLE.size, header, final=kind == RecordType.CLOSED)


def _check_socket_row(offset: int, header: SampleHeader) -> None:
    """Raises ValueError if a row of sockets has an impossible length of tcp_info."""
    if header.info_bytes % 8 or not LEAST_INFO_BYTES <= header.info_bytes <= MOST_INFO_BYTES:
        raise ValueError(f"offset {offset}: tcp_info can't be {header.info_bytes} bytes long")
    if header.row_bytes != SOCKET_BYTES + header.info_bytes:
        raise ValueError(f"offset {offset}: a socket's row can't be {header.row_bytes} bytes long")


def _parse_report(text: bytes, offset: int) -> dict[str, int]:
    """Returns the probe's own counts, such as missed samples. Raises ValueError."""
    pairs = _key_values(text)
    for key, value in pairs.items():
        if not (value.isascii() and value.isdigit() and len(value) <= 20):
            raise ValueError(
                f"offset {offset}: the report's {key} is {value!r}, and must be a number"
            )
    return {key: int(value) for key, value in pairs.items()}
