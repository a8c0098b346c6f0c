"""Computes RTTs of the flows' sockets, and their queueing delays."""

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
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


def rtt_samples(run: Run, tables: RunTables, ping_rtt_s: PingRtts) -> pl.DataFrame:
    """Returns the RTT samples of all flows in the measured time: host, port, group, time_s, rtt_s, and queueing_s.

    rtt_s: smoothed RTT (tcpi_rtt). queueing_s: that less the base RTT, at least 0. The base RTT is the configured one
    of the flow's sender at that moment, or between hosts the smallest that pings before the traffic or any socket saw.
    """
    if tables.reported is None:
        samples = measured(run, tables.sockets).select(*FLOW, "time_s", "rtt_s")
    else:
        reported = tables.reported.select(*FLOW, rtt_s="rtts_s").explode("rtt_s")
        samples = reported.with_columns(time_s=pl.lit(None, pl.Float64)).drop_nulls("rtt_s")
    samples = samples.join(tables.flows.select(*FLOW, "group"), on=FLOW).sort("time_s")
    if isinstance(run.path, Topology):
        bases = _configured(run.path)
        based = samples.join_asof(bases, on="time_s", by="host", check_sortedness=False)
    else:
        of_sockets = (
            (samples["rtt_s"] if tables.reported is not None else tables.sockets["min_rtt_s"]).drop_nulls().to_list()
        )
        base_s = min([*of_sockets, *ping_rtt_s.get(SRC, ())], default=None)
        based = samples.with_columns(base_s=pl.lit(base_s, pl.Float64))
    return based.with_columns(queueing_s=(pl.col("rtt_s") - pl.col("base_s")).clip(0)).drop("base_s")


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
