"""Makes columns of the states of BBR's later versions, which the stream has in records of their own."""

import numpy as np
import polars as pl

from ccmix.probes.stream.columns import Numbers, row_dtype
from ccmix.probes.stream.format import BBR_PHASES, BbrRow, RecordType
from ccmix.probes.stream.records import Bytes, Records, SampleIndex

_ROW = row_dtype(BbrRow)
_NOT_SET, _NOT_SET_U64 = 2**32 - 1, 2**64 - 1


def bbr_columns(data: Bytes, records: Records, socket_ids: Numbers) -> pl.DataFrame:
    """Returns the columns for all rows of sockets, whose numbers are `socket_ids`; null where a row has no state.

    A state belongs to the row of its socket in the sample of sockets before it. Raises ValueError.
    """
    samples, of_sockets = records.samples[RecordType.BBR], records.samples[RecordType.SOCKETS]
    rows = np.frombuffer(samples.joined(data), _ROW)
    samples.check_ids(rows["id"], len(records.identities.sockets.known), "socket")
    sample = np.searchsorted(of_sockets.offsets, samples.offsets) - 1
    states = pl.DataFrame(
        {
            "sample": _for_each_row(sample, samples),
            "socket": rows["id"].copy(),
            "phase": rows["phase"].copy(),
            "cycle": rows["cycle"].copy(),
            "bw_lo_bps": rows["bw_lo_bps"].copy(),
            "inflight_hi_packets": rows["inflight_hi_packets"].copy(),
            "inflight_lo_packets": rows["inflight_lo_packets"].copy(),
        }
    ).unique(["sample", "socket"], keep="first")
    numbers = np.arange(len(of_sockets.offsets))
    known = pl.DataFrame({"sample": _for_each_row(numbers, of_sockets), "socket": socket_ids})
    joined = known.join(states, on=["sample", "socket"], how="left", maintain_order="left")
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


def _for_each_row(numbers: Numbers, samples: SampleIndex) -> Numbers:
    """Returns the number of each sample as often as it has rows."""
    return np.repeat(np.asarray(numbers, np.int64), np.asarray(samples.rows, np.int64))
