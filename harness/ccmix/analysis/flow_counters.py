"""What both ends of each flow had counted at any moment: bytes received and sent, segments, retransmissions.

Goodput is what the receiver's kernel received in order (tcpi_bytes_received). Where its socket was not sampled it is
what the sender's kernel knows to be acknowledged (tcpi_bytes_acked), and where no socket was, what the generator counts
at the end of each interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from ccmix.analysis.counters import unwrapped, values_at
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S
from ccmix.analysis.series import PEER

RECEIVED = ("received",)
SENT = ("sent", "retransmitted", "acked", "data_segments", "retransmitted_segments")
COUNTED_BY = "counted_by"
_CONNECTION = [*FLOW, "connection"]
_SENDERS = {
    "sent": "bytes_sent", "retransmitted": "bytes_retransmitted", "acked": "bytes_acked",
    "data_segments": "data_segs_out", "retransmitted_segments": "retransmits",
}  # fmt: skip

CountedBy = Literal["receiver", "sender", "generator"]


@dataclass(frozen=True)
class FlowCounters:
    """Holds samples of counters, by host, port and `connection`; a flow may have had several connections.

    received: time_s, received (bytes), counted_by (CountedBy)
    sent: time_s, sent, retransmitted and acked (bytes; retransmissions are sent, too), data_segments,
        retransmitted_segments
    """

    received: pl.DataFrame
    sent: pl.DataFrame

    def at(self, moments: pl.DataFrame, counters: Sequence[str]) -> pl.DataFrame:
        """Returns `moments` (host, port, moment_s) with the values of RECEIVED or SENT, the sum of all connections.

        Flows that nothing counted are left out.
        """
        samples = self.received if tuple(counters) == RECEIVED else self.sent
        connections = samples.select(_CONNECTION).unique(maintain_order=True)
        of_each = moments.unique(maintain_order=True).join(connections, on=FLOW, maintain_order="left")
        values = values_at(samples, _CONNECTION, of_each, counters)
        return values.group_by(*FLOW, "moment_s", maintain_order=True).agg(pl.col(counters).sum())

    def grown(self, spans: pl.DataFrame, counters: Sequence[str]) -> pl.DataFrame:
        """Returns `spans` (host, port, begin_s, end_s and others), with how much the counters grew in each.

        Null for flows that nothing counted.
        """
        spans = spans.with_columns(end_s=pl.max_horizontal("begin_s", "end_s"))
        bounds = [spans.select(*FLOW, moment_s=pl.col(name).cast(pl.Float64)) for name in ("begin_s", "end_s")]
        values = self.at(pl.concat(bounds), counters)
        ended = {name: f"{name}_ended" for name in counters}
        return (
            spans.join(values.rename({"moment_s": "begin_s"}), on=[*FLOW, "begin_s"], how="left", maintain_order="left")
            .join(values.rename({"moment_s": "end_s", **ended}), on=[*FLOW, "end_s"], how="left", maintain_order="left")
            .with_columns((pl.col(ended[name]) - pl.col(name)).alias(name) for name in counters)
            .drop(ended.values())
        )

    @property
    def sources(self) -> pl.DataFrame:
        """Returns host, port and counted_by of each flow."""
        return self.received.select(*FLOW, COUNTED_BY).unique(FLOW, keep="first", maintain_order=True)


def count_flows(sockets: pl.DataFrame, intervals: pl.DataFrame, starts: pl.DataFrame) -> FlowCounters:
    """Returns the counters of flows whose sockets were sampled, all states of them, and of those of `intervals` alone.

    intervals: INTERVAL_COLUMNS of a generator
    starts: host, port, begin_s; a flow sends nothing before that, so its counters are then what they were at the sample
        before
    """
    seen = _connections(sockets)
    receiving = _counted(seen, "receiver", {"received": "bytes_received"}, "receiver")
    unseen = seen.join(receiving.select(FLOW).unique(), on=FLOW, how="anti", maintain_order="left")
    acked = _counted(unseen, "sender", {"received": "bytes_acked"}, "sender")
    by_sockets = pl.concat([receiving, acked])
    others = intervals.join(by_sockets.select(FLOW).unique(), on=FLOW, how="anti", maintain_order="left")
    received = [_still_until(by_sockets, starts, 0.0, RECEIVED), _of_generator(others)]
    sent = _counted(seen, "sender", _SENDERS, None)
    return FlowCounters(
        pl.concat(received, how="diagonal").sort("time_s", maintain_order=True),
        _still_until(sent, starts, JITTER_S / 2, SENT),
    )


def _connections(sockets: pl.DataFrame) -> pl.DataFrame:
    """Adds `connection`: the kernel never gives a cookie twice; ss, which shows none, tells connections by the peer."""
    peers = pl.concat_str([pl.col(name).cast(pl.String) for name in PEER if name in sockets.columns] or pl.lit("-"))
    if "cookie" not in sockets.columns:
        return sockets.with_columns(connection=peers)
    return sockets.with_columns(connection=pl.col("cookie").cast(pl.String).fill_null(peers))


def _counted(sockets: pl.DataFrame, end: str, counters: dict[str, str], counted_by: CountedBy | None) -> pl.DataFrame:
    """Returns the samples of one end, with these counters; a column that a probe lacks is 0."""
    known = {
        new: pl.col(old).fill_null(0) if old in sockets.columns else pl.lit(0, pl.UInt32)
        for new, old in counters.items()
    }
    own = sockets.filter(pl.col("end") == end).select(*_CONNECTION, "time_s", **known)
    if own.is_empty():
        own = own.cast(dict.fromkeys(counters, pl.Float64))
    samples = unwrapped(own, _CONNECTION, list(counters))
    return samples.with_columns(pl.lit(counted_by).alias(COUNTED_BY)) if counted_by else samples


def _still_until(samples: pl.DataFrame, starts: pl.DataFrame, early_s: float, counters: Sequence[str]) -> pl.DataFrame:
    """Adds a sample at the start of each flow, as its last one was at least `early_s` before."""
    own = samples.select(_CONNECTION).unique(maintain_order=True).join(starts, on=FLOW, maintain_order="left")
    before = samples.join(starts, on=FLOW).filter(pl.col("time_s") <= pl.col("begin_s") - early_s)
    last = before.group_by(_CONNECTION, maintain_order=True).agg(pl.col(counters).last())
    others = [name for name in samples.columns if name not in (*_CONNECTION, "time_s", *counters)]
    first = (
        own.join(last, on=_CONNECTION, how="left", maintain_order="left")
        .join(samples.select(*_CONNECTION, *others).unique(_CONNECTION), on=_CONNECTION, maintain_order="left")
        .with_columns(pl.col(counters).fill_null(0.0), time_s=pl.col("begin_s").cast(pl.Float64))
        .select(samples.columns)
    )
    later = samples.join(starts, on=FLOW, how="left", maintain_order="left").filter(
        pl.col("begin_s").is_null() | (pl.col("time_s") > pl.col("begin_s") + early_s)
    )
    return pl.concat([first, later.select(samples.columns)]).sort("time_s", maintain_order=True)


def _of_generator(intervals: pl.DataFrame) -> pl.DataFrame:
    """Returns what a generator had counted at the end of each interval, and 0 at the beginning of the first."""
    known = intervals.sort("time_s", maintain_order=True).with_columns(connection=pl.lit("-"))
    received = (pl.col("goodput_bps") * pl.col("seconds") / 8).fill_null(0.0)
    begins = known.unique(FLOW, keep="first", maintain_order=True).select(
        *_CONNECTION, pl.col("time_s") - pl.col("seconds"), received=pl.lit(0.0)
    )
    rows = pl.concat([begins, known.select(*_CONNECTION, "time_s", received=received)])
    return rows.with_columns(pl.col("received").cum_sum().over(_CONNECTION), pl.lit("generator").alias(COUNTED_BY))
