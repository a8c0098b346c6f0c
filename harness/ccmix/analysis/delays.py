"""Computes RTTs of the flows' sockets, and their queueing delays."""

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.model import PingRtts, Run, Topology
from ccmix.model.results import DelayMetrics

PERCENTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}
DELAYS = {
    **{f"rtt_{name}_s": pl.col("rtt_s").quantile(share, "linear") for name, share in PERCENTILES.items()},
    **{
        f"queueing_delay_{name}_s": pl.col("queueing_s").quantile(share, "linear")
        for name, share in PERCENTILES.items()
    },
}
BEFORE_ALL_S = -1e9


def rtt_samples(run: Run, tables: RunTables, flows: pl.DataFrame, ping_rtt_s: PingRtts) -> pl.DataFrame:
    """Returns the RTT samples of activity.active_flows(): host, port, group, time_s, rtt_s, and queueing_s.

    rtt_s: smoothed RTT (tcpi_rtt). queueing_s: that less the base RTT, at least 0. The base RTT is the configured one
    of the flow's sender at that moment, or between hosts the smallest that pings before the traffic or any socket saw.
    """
    every = pl.concat([tables.series.sockets, tables.short_sockets], how="diagonal")
    sockets = every.filter(pl.col("end") == "sender", ~pl.col("final"))  # one that is closing gets ACKs, too
    spans = flows.select(*FLOW, "group", "begin_s", "end_s")
    samples = new_rtts(sockets, spans).select(*FLOW, "group", "time_s", "rtt_s")
    if tables.reported is not None:
        seen = sockets.select(FLOW).unique()
        unseen = tables.reported.join(seen, on=FLOW, how="anti").join(spans, on=FLOW).explode("rtts_s")
        reported = unseen.select(*FLOW, "group", time_s=pl.lit(None, pl.Float64), rtt_s="rtts_s").drop_nulls("rtt_s")
        samples = pl.concat([samples, reported])
    samples = samples.sort("time_s")
    if isinstance(run.path, Topology):
        bases = _configured(run.path)
        based = samples.join_asof(bases, on="time_s", by="host", check_sortedness=False)
    else:
        of_sockets = (samples["rtt_s"] if tables.sockets.is_empty() else tables.sockets["min_rtt_s"]).drop_nulls()
        base_s = min([*of_sockets.to_list(), *ping_rtt_s.get(SRC, ())], default=None)
        based = samples.with_columns(base_s=pl.lit(base_s, pl.Float64))
    return based.with_columns(queueing_s=(pl.col("rtt_s") - pl.col("base_s")).clip(0)).drop("base_s")


def new_rtts(sockets: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Returns the samples that a flow took in its span, and that an ACK has updated since the sample before.

    sockets: samples of the senders; spans: host, port, begin_s, end_s and others, which the result has, too
    """
    arrivals = next((name for name in ("segs_in", "bytes_acked") if name in sockets.columns), "time_s")
    ordered = sockets.drop("group", strict=False).sort("time_s", maintain_order=True)
    before = pl.col(arrivals).shift(1).over([*FLOW, *(["cookie"] if "cookie" in sockets.columns else [])])
    return (
        ordered.filter((pl.col(arrivals) != before).fill_null(value=True))
        .join(spans, on=FLOW, maintain_order="left")
        .filter(pl.col("time_s").is_between(pl.col("begin_s") - JITTER_S, pl.col("end_s") + JITTER_S))
    )


def _configured(path: Topology) -> pl.DataFrame:
    """Returns the base RTT of each sender from a moment on."""
    rows: list[dict[str, object]] = [
        {"host": sender.name, "time_s": at_s or BEFORE_ALL_S, "base_s": sender.base_rtt_s}
        for at_s, phase in path.phases
        for sender in phase.senders
    ]
    return pl.DataFrame(rows).sort("time_s")


def delays(samples: pl.DataFrame) -> DelayMetrics:
    """Returns percentiles over all of these samples."""
    return DelayMetrics(**samples.select(**DELAYS).row(0, named=True))
