"""Takes BBR's state out of the records of its own that the stream has for it, beside those of sockets.

A state belongs to the row of its socket in the sample of sockets before it. All functions raise ValueError.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from ccmix.probes.stream.columns import Numbers, row_dtype
from ccmix.probes.stream.format import (
    BBR_PHASES,
    HAS_BBR,
    HAS_DCTCP,
    HAS_VEGAS,
    BbrInfoRow,
    BbrRow,
    RecordType,
)
from ccmix.probes.stream.records import Bytes, Records, SampleIndex

_ROW, _INFO_ROW = row_dtype(BbrRow), row_dtype(BbrInfoRow)
_OWNER = ["sample", "socket"]  # of a state
_NOT_SET, _NOT_SET_U64 = 2**32 - 1, 2**64 - 1


def bbr_columns(data: Bytes, records: Records, socket_ids: Numbers) -> pl.DataFrame:
    """Returns phase and bounds for all rows of sockets, of the numbers `socket_ids`; null where a row has no state."""
    samples = records.samples[RecordType.BBR]
    rows = np.frombuffer(samples.joined(data), _ROW)
    values = ("phase", "cycle", "bw_lo_bps", "inflight_hi_packets", "inflight_lo_packets")
    states = _owners(records, samples, rows["id"]).with_columns(pl.Series(name, rows[name].copy()) for name in values)
    joined = _owners_of_rows(records, socket_ids).join(
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


def add_bbr_info(data: Bytes, records: Records, raw: Mapping[str, Numbers], words: tuple[str, ...]) -> None:
    """Writes the members of struct tcp_bbr_info into the `words` of rows for which the kernel has sent no CCA's state.

    `raw` has the fields of all rows of sockets.
    """
    samples = records.samples[RecordType.BBR_INFO]
    if not samples.offsets:
        return
    rows = np.frombuffer(samples.joined(data), _INFO_ROW)
    states = _owners(records, samples, rows["id"]).with_row_index("state").unique(_OWNER, keep="first")
    known = _owners_of_rows(records, raw["row_id"]).with_row_index("row").join(states, on=_OWNER)
    place, state = known["row"].to_numpy(), known["state"].to_numpy()
    sent = raw["row_has"][place] & (HAS_BBR | HAS_DCTCP | HAS_VEGAS) != 0
    place, state = place[~sent], state[~sent]
    raw["row_has"][place] |= HAS_BBR
    for number, word in enumerate(words):
        raw[word][place] = rows["info"][state, number]


def _owners(records: Records, samples: SampleIndex, ids: Numbers) -> pl.DataFrame:
    """Returns for each state the number of its sample of sockets, and that of its socket."""
    samples.check_ids(ids, len(records.identities.sockets.known), "socket")
    of_sockets = records.samples[RecordType.SOCKETS]
    sample = np.searchsorted(of_sockets.offsets, samples.offsets) - 1
    return pl.DataFrame({"sample": _for_each_row(sample, samples), "socket": ids.copy()})


def _owners_of_rows(records: Records, socket_ids: Numbers) -> pl.DataFrame:
    """Returns the same two numbers for each row of sockets."""
    of_sockets = records.samples[RecordType.SOCKETS]
    numbers = np.arange(len(of_sockets.offsets))
    return pl.DataFrame({"sample": _for_each_row(numbers, of_sockets), "socket": socket_ids})


def _for_each_row(numbers: Numbers, samples: SampleIndex) -> Numbers:
    """Returns the number of each sample as often as it has rows."""
    return np.repeat(np.asarray(numbers, np.int64), np.asarray(samples.rows, np.int64))
