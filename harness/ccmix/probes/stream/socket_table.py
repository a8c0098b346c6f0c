"""Makes the table of sockets of the stream's records, some hundred columns of each row, at a million rows a second."""

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from ccmix.probes.stream.bbr_columns import add_bbr_info, bbr_columns
from ccmix.probes.stream.columns import Numbers, by_id, nullable, sample_times, text
from ccmix.probes.stream.format import RecordType, SocketIdentity
from ccmix.probes.stream.records import MOST_INFO_BYTES, Bytes, Header, Records, SampleIndex
from ccmix.probes.stream.socket_columns import (
    CA_STATES,
    CCA_WORDS,
    RAW_FIELDS,
    SOCKET_COLUMNS,
    STATES,
    SocketColumn,
    TransposedRows,
    cca_columns,
    socket_layout,
)

# A block of rows stays in the processor's nearer cache while it is transposed, a chunk in the farther one.
_BLOCK_ROWS = 512
_CHUNK_ROWS = 16 * _BLOCK_ROWS


def socket_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of sockets, a row per sample and socket, and one for the final counters of each."""
    samples, identities = records.samples[RecordType.SOCKETS], records.identities.sockets.known
    layout = socket_layout(samples.info_bytes or MOST_INFO_BYTES)
    raw, counted = _in_columns(data, samples, layout)
    ids = raw["row_id"]
    samples.check_ids(ids, len(identities), "socket")
    netns = {number: header.target("sockets", number) for number in {identity.target for identity in identities}}
    identified = {
        "final": pl.Series(np.repeat(np.array(samples.final, bool), np.array(samples.rows, np.int64))),
        "netns": by_id(ids, [netns[identity.target] for identity in identities], pl.String),
        "socket": pl.Series(ids),
        "cookie": by_id(ids, [identity.cookie for identity in identities], pl.UInt64),
        "local_address": by_id(ids, [_address(identity, identity.local) for identity in identities], pl.String),
        "local_port": by_id(ids, [identity.local_port for identity in identities], pl.Int64),
        "remote_address": by_id(ids, [_address(identity, identity.remote) for identity in identities], pl.String),
        "remote_port": by_id(ids, [identity.remote_port for identity in identities], pl.Int64),
        "uid": by_id(ids, [identity.uid for identity in identities], pl.UInt32),
        "cca": by_id(ids, [text(identity.cca) for identity in identities], pl.String),
    }
    states = {
        "state": by_id(raw["row_state"], _names(STATES), pl.String),
        "ca_state": by_id(raw["ca_state"], _names(CA_STATES), pl.String),
    }
    times = sample_times(samples)
    found_s = by_id(ids, [identity.mono_ns / 1e9 for identity in identities], pl.Float64)
    identified["age_s"] = pl.Series((times["monotonic_s"] - found_s).clip(0.0))
    add_bbr_info(data, records, raw, CCA_WORDS)
    ccas = pl.DataFrame({name: pl.Series(values) for name, values in raw.items()}).select(**cca_columns())
    return pl.DataFrame(times | identified | states | counted).hstack(ccas).hstack(bbr_columns(data, records, ids))


def _names(states: Mapping[int, str]) -> list[str]:
    """Returns the name of each number of 8 bits."""
    return [states.get(number, "unknown") for number in range(256)]


def _address(identity: SocketIdentity, address: bytes) -> str:
    if identity.family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, address[:4])
    return socket.inet_ntop(socket.AF_INET6, address)


def _transposed(data: Bytes, samples: SampleIndex, layout: np.dtype[Any]) -> Iterator[TransposedRows]:
    """Yields all rows, chunk after chunk; asking for the next chunk overwrites the one before."""
    # Where rows are few, so is the memory: NumPy asks for huge pages from 4 MiB on, and the heap keeps those
    chunk = TransposedRows(layout, min(sum(samples.rows), _CHUNK_ROWS))
    for block in samples.blocks(data, _BLOCK_ROWS):
        chunk.add(block)
        if chunk.full:
            yield chunk
            chunk.count = 0
    yield chunk


def _uninitialised(dtypes: Mapping[str, np.dtype[Any]], total: int) -> dict[str, Numbers]:
    """Returns columns; those of a type are in one piece of memory, which the kernel gives out in large pages."""
    kinds = sorted(set(dtypes.values()), key=str)
    rooms = {kind: iter(np.empty((list(dtypes.values()).count(kind), total), kind)) for kind in kinds}
    return {name: next(rooms[kind]) for name, kind in dtypes.items()}


def _in_columns(
    data: Bytes, samples: SampleIndex, layout: np.dtype[Any]
) -> tuple[dict[str, Numbers], dict[str, pl.Series]]:
    """Returns the raw fields, and the columns made of one field; those are null where the recording kernel lacks it."""
    total = sum(samples.rows)
    raw = _uninitialised({name: layout[name] for name in RAW_FIELDS}, total)
    present = {name: column for name, column in SOCKET_COLUMNS.items() if column.field in (layout.names or ())}
    values = _uninitialised({name: column.dtype for name, column in present.items()}, total)
    known = _uninitialised({name: np.dtype(bool) for name, column in present.items() if column.nullable}, total)
    begin = 0
    for fields in _transposed(data, samples, layout):
        place = slice(begin, begin + fields.count)
        begin += fields.count
        for name, numbers in raw.items():
            numbers[place] = fields[name]
        for name, column in present.items():
            column.fill(fields, values[name][place])
            if column.nullable:
                column.fill_known(fields, known[name][place])

    def series(name: str, column: SocketColumn) -> pl.Series:
        if name not in values:
            return pl.Series(np.empty(0, column.dtype)).extend_constant(None, total)
        return nullable(values[name], known[name]) if name in known else pl.Series(values[name])

    return raw, {name: series(name, column) for name, column in SOCKET_COLUMNS.items()}
