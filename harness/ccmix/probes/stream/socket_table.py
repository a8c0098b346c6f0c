"""Makes the table of sockets, with some hundred columns, from the records of ccmix-sockmon.

numpy and polars make a million rows a second.
"""

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from ccmix.probes.stream.format import (
    BBR_PHASES,
    HAS_BBR,
    HAS_DCTCP,
    HAS_VEGAS,
    BbrInfoRow,
    BbrRow,
    RecordType,
    SocketIdentity,
)
from ccmix.probes.stream.records import (
    MOST_INFO_BYTES,
    Bytes,
    Header,
    Numbers,
    Records,
    SampleIndex,
    by_id,
    nullable,
    row_dtype,
    sample_times,
    text,
)
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

_ROW, _INFO_ROW = row_dtype(BbrRow), row_dtype(BbrInfoRow)
_OWNER = ["sample", "socket"]  # of a state
_NOT_SET, _NOT_SET_U64 = 2**32 - 1, 2**64 - 1

# A block of rows stays in the processor's nearer cache while it is transposed, a chunk in the
# farther one.
_BLOCK_ROWS = 512
_CHUNK_ROWS = 16 * _BLOCK_ROWS


def bbr_columns(data: Bytes, records: Records, socket_ids: Numbers) -> pl.DataFrame:
    """Returns BBR's phase and bounds for each row of sockets, null for a socket without them.

    Later versions of BBR report them in records of their own. `socket_ids` are the sockets' numbers
    in the rows.
    """
    samples = records.samples[RecordType.BBR]
    rows = np.frombuffer(samples.joined(data), _ROW)
    values = ("phase", "cycle", "bw_lo_bps", "inflight_hi_packets", "inflight_lo_packets")
    states = _state_owners(records, samples, rows["id"]).with_columns(
        pl.Series(name, rows[name].copy()) for name in values
    )
    joined = _row_owners(records, socket_ids).join(
        states.unique(_OWNER, keep="first"), on=_OWNER, how="left", maintain_order="left"
    )
    phases = pl.Series([*BBR_PHASES, "unknown"])
    bw_lo_bps = pl.col("bw_lo_bps")
    return joined.select(
        bbr_phase=pl.lit(phases).gather(pl.col("phase").clip(0, len(BBR_PHASES))),
        bbr_cycle=pl.col("cycle"),
        bbr_bw_lo_bps=pl.when(bw_lo_bps != _NOT_SET_U64).then(bw_lo_bps.cast(pl.Float64)),
        **{
            f"bbr_{name}": pl.when(pl.col(name) != _NOT_SET).then(name)
            for name in ("inflight_hi_packets", "inflight_lo_packets")
        },
    )


def add_bbr_info(
    data: Bytes, records: Records, raw: Mapping[str, Numbers], words: tuple[str, ...]
) -> None:
    """Fills in struct tcp_bbr_info for the rows in which the kernel sent no CCA's state.

    For these sockets, the probe reads the struct in another way, and writes it in records of type
    BBR_INFO. `raw` has the fields of all rows; the fields named in `words`, and row_has, are
    changed in place.
    """
    samples = records.samples[RecordType.BBR_INFO]
    if not samples.offsets:
        return
    rows = np.frombuffer(samples.joined(data), _INFO_ROW)
    states = (
        _state_owners(records, samples, rows["id"])
        .with_row_index("state")
        .unique(_OWNER, keep="first")
    )
    known = _row_owners(records, raw["row_id"]).with_row_index("row").join(states, on=_OWNER)
    row, state = known["row"].to_numpy(), known["state"].to_numpy()
    has_state = raw["row_has"][row] & (HAS_BBR | HAS_DCTCP | HAS_VEGAS) != 0
    row, state = row[~has_state], state[~has_state]
    raw["row_has"][row] |= HAS_BBR
    for number, word in enumerate(words):
        raw[word][row] = rows["info"][state, number]


def _state_owners(records: Records, samples: SampleIndex, ids: Numbers) -> pl.DataFrame:
    """Returns a table (sample, socket) with the owner of each state of BBR.

    `samples` are the samples of states, and `ids` has the socket's number of each state. The sample
    of sockets that a state belongs to is the last one before the state in the stream.
    """
    samples.check_ids(ids, len(records.identities.sockets.known), "socket")
    of_sockets = records.samples[RecordType.SOCKETS]
    sample = np.searchsorted(of_sockets.offsets, samples.offsets) - 1
    return pl.DataFrame({"sample": _repeat_for_rows(sample, samples), "socket": ids.copy()})


def _row_owners(records: Records, socket_ids: Numbers) -> pl.DataFrame:
    """Returns a table (sample, socket) for the rows of sockets, to be joined with _state_owners().

    `socket_ids` has the socket's number of each row.
    """
    of_sockets = records.samples[RecordType.SOCKETS]
    numbers = np.arange(len(of_sockets.offsets))
    return pl.DataFrame({"sample": _repeat_for_rows(numbers, of_sockets), "socket": socket_ids})


def _repeat_for_rows(numbers: Numbers, samples: SampleIndex) -> Numbers:
    """Repeats each sample's number for each of its rows: [0, 1] with 2 and 1 rows is [0, 0, 1]."""
    return np.repeat(np.asarray(numbers, np.int64), np.asarray(samples.rows, np.int64))


def socket_table(data: Bytes, records: Records, header: Header) -> pl.DataFrame:
    """Returns the table of sockets: a row per sample and socket.

    A socket that was closed has one more row with its last counters, marked by `final`.
    """
    samples, identities = records.samples[RecordType.SOCKETS], records.identities.sockets.known
    layout = socket_layout(samples.info_bytes or MOST_INFO_BYTES)
    raw, counted = _read_columns(data, samples, layout)
    ids = raw["row_id"]
    samples.check_ids(ids, len(identities), "socket")
    netns = {
        number: header.target("sockets", number)
        for number in {identity.target for identity in identities}
    }
    identified = {
        "final": pl.Series(
            np.repeat(np.array(samples.final, bool), np.array(samples.rows, np.int64))
        ),
        "netns": by_id(ids, [netns[identity.target] for identity in identities], pl.String),
        "socket": pl.Series(ids),
        "cookie": by_id(ids, [identity.cookie for identity in identities], pl.UInt64),
        "local_address": by_id(
            ids, [_address_text(identity, identity.local) for identity in identities], pl.String
        ),
        "local_port": by_id(ids, [identity.local_port for identity in identities], pl.Int64),
        "remote_address": by_id(
            ids, [_address_text(identity, identity.remote) for identity in identities], pl.String
        ),
        "remote_port": by_id(ids, [identity.remote_port for identity in identities], pl.Int64),
        "uid": by_id(ids, [identity.uid for identity in identities], pl.UInt32),
        "cca": by_id(ids, [text(identity.cca) for identity in identities], pl.String),
    }
    states = {
        "state": by_id(raw["row_state"], _state_names(STATES), pl.String),
        "ca_state": by_id(raw["ca_state"], _state_names(CA_STATES), pl.String),
    }
    times = sample_times(samples)
    found_s = by_id(ids, [identity.mono_ns / 1e9 for identity in identities], pl.Float64)
    identified["age_s"] = pl.Series((times["monotonic_s"] - found_s).clip(0.0))
    add_bbr_info(data, records, raw, CCA_WORDS)
    ccas = pl.DataFrame({name: pl.Series(values) for name, values in raw.items()}).select(
        **cca_columns()
    )
    return (
        pl.DataFrame(times | identified | states | counted)
        .hstack(ccas)
        .hstack(bbr_columns(data, records, ids))
    )


def _state_names(states: Mapping[int, str]) -> list[str]:
    """Returns the name of each of the 256 values of a byte, 'unknown' for those without one."""
    return [states.get(number, "unknown") for number in range(256)]


def _address_text(identity: SocketIdentity, address: bytes) -> str:
    """Returns an IPv4 or IPv6 address as text, from the 16 bytes of the identity."""
    if identity.family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, address[:4])
    return socket.inet_ntop(socket.AF_INET6, address)


def _transposed_chunks(
    data: Bytes, samples: SampleIndex, layout: np.dtype[Any]
) -> Iterator[TransposedRows]:
    """Yields all rows in transposed chunks that fit into the processor's cache.

    The next chunk overwrites the previous one.
    """
    # Few rows get little memory: NumPy asks for huge pages from 4 MiB on, which the heap keeps
    chunk = TransposedRows(layout, min(sum(samples.rows), _CHUNK_ROWS))
    for block in samples.blocks(data, _BLOCK_ROWS):
        chunk.add(block)
        if chunk.full:
            yield chunk
            chunk.count = 0
    yield chunk


def _allocate_columns(dtypes: Mapping[str, np.dtype[Any]], total: int) -> dict[str, Numbers]:
    """Returns uninitialised arrays of `total` values by column name.

    Columns of the same type share one piece of memory, so that the kernel can use large pages.
    """
    types = sorted(set(dtypes.values()), key=str)
    arrays = {
        dtype: iter(np.empty((list(dtypes.values()).count(dtype), total), dtype)) for dtype in types
    }
    return {name: next(arrays[dtype]) for name, dtype in dtypes.items()}


def _read_columns(
    data: Bytes, samples: SampleIndex, layout: np.dtype[Any]
) -> tuple[dict[str, Numbers], dict[str, pl.Series]]:
    """Returns the raw fields that other columns are computed from, and the finished columns.

    A column is null if the recording kernel lacks its field.
    """
    total = sum(samples.rows)
    raw = _allocate_columns({name: layout[name] for name in RAW_FIELDS}, total)
    present = {
        name: column
        for name, column in SOCKET_COLUMNS.items()
        if column.field in (layout.names or ())
    }
    values = _allocate_columns({name: column.dtype for name, column in present.items()}, total)
    known = _allocate_columns(
        {name: np.dtype(bool) for name, column in present.items() if column.nullable}, total
    )
    begin = 0
    for fields in _transposed_chunks(data, samples, layout):
        rows = slice(begin, begin + fields.count)
        begin += fields.count
        for name, numbers in raw.items():
            numbers[rows] = fields[name]
        for name, column in present.items():
            column.fill(fields, values[name][rows])
            if column.nullable:
                column.fill_known(fields, known[name][rows])

    def series(name: str, column: SocketColumn) -> pl.Series:
        """Returns a finished column, with nulls for rows without a value."""
        if name not in values:
            return pl.Series(np.empty(0, column.dtype)).extend_constant(None, total)
        return nullable(values[name], known[name]) if name in known else pl.Series(values[name])

    return raw, {name: series(name, column) for name, column in SOCKET_COLUMNS.items()}
