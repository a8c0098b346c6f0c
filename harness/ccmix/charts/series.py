"""Reads the samples in the files of runs as tables for charts: goodput over time, RTTs, BBR."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl

from ccmix.analysis.counting import marked
from ccmix.analysis.iperf3_tables import FLOW_KEY
from ccmix.analysis.measured import measured
from ccmix.analysis.path_metrics import new_rtts
from ccmix.analysis.raw_files import as_archived
from ccmix.analysis.results import Result
from ccmix.archive import parquet
from ccmix.charts.over_time import BOUNDS, phase
from ccmix.model import run_files
from ccmix.terms import BBRS

BBR_COLUMNS = (
    "cca",
    "bbr_bandwidth_bps",
    "bbr_min_rtt_s",
    "bbr_pacing_gain",
    "bbr_cwnd_gain",
    "rtt_s",
    "cwnd_packets",
    "delivery_rate_bps",
    "unacked",
    "sacked",
    "lost",
    "retransmitted_unacked",
)
LATER_COLUMNS = {
    "bbr_phase": pl.String,
    **dict.fromkeys(BOUNDS, pl.Float64),
}  # which older runs, and ss, don't have
MOST_ESTIMATES = 100
_SAMPLE = ("time_s", "host", "port", "end", "final", "state")
MOST_STEPS = 200  # of a line in a panel of 300 pixels


def has_intervals(result: Result) -> bool:
    """Returns whether the run has the file with the goodputs in intervals."""
    return (result.folder / run_files.INTERVALS).exists()


def over_time(results: Sequence[Result]) -> pl.DataFrame:
    """Returns the goodput and the retransmitted segments of each group of flows in intervals, as
    the table that time_series() draws. Raises ArchiveError.

    The ends of intervals differ a little between flows and iterations, so they are moved to
    multiples of the interval. If a run has more than 200 intervals (MOST_STEPS), neighbouring ones
    are joined.
    """
    of_runs = []
    for result in results:
        with parquet.name_file_in_errors(result.folder / run_files.INTERVALS):
            of_runs.append(_goodput_of_run(result))
    return pl.concat(of_runs)


def _goodput_of_run(result: Result) -> pl.DataFrame:
    """Returns the goodput and the retransmitted segments of each group of flows in one run, in
    intervals: entry, iteration, group, cca, begin_s, time_s (end), goodput_bps, retransmits (null
    if they were not counted).
    """
    intervals = parquet.read(
        result.folder / run_files.INTERVALS,
        ["time_s", "seconds", "group", "port", "goodput_bps", "retransmits"],
    )
    interval_s = float(f"{float(intervals.select(pl.col('seconds').median()).item()):.2g}")
    end_s = float(intervals.select(pl.col("time_s").max()).item())
    joined_intervals = max(1, -int(-end_s / interval_s // MOST_STEPS))
    step_s = interval_s * joined_intervals
    step_number = ((pl.col("time_s") / interval_s).round() / joined_intervals).ceil()
    is_known = pl.col("retransmits").is_not_null()
    return (
        intervals.with_columns(number=step_number)
        # the bits of each flow in each joined interval
        .group_by("number", "group", "port", maintain_order=True)
        .agg(
            bits=(pl.col("goodput_bps") * pl.col("seconds")).sum(),
            seconds=pl.col("seconds").sum(),
            retransmits=pl.when(is_known.any()).then(pl.col("retransmits").sum()),
        )
        # the sum over the flows of a group
        .group_by("number", "group", maintain_order=True)
        .agg(
            goodput_bps=pl.col("bits").sum() / pl.col("seconds").max(),
            retransmits=pl.when(is_known.any()).then(pl.col("retransmits").sum()),
        )
        .sort("number", maintain_order=True)
        .select(
            entry=pl.lit(result.run.entry),
            iteration=pl.lit(result.run.iteration),
            group=pl.col("group") + marked("", result.finished),
            cca=cca_of_group(result),
            time_s=pl.col("number") * step_s,
            begin_s=(pl.col("number") - 1) * step_s,
            goodput_bps="goodput_bps",
            retransmits="retransmits",
        )
    )


def cca_of_group(result: Result) -> pl.Expr:
    """Returns an expression for the CCA of the group in each row; '-' for an unknown group."""
    ccas = {group.group: group.cca for group in result.finished.metrics.groups}
    return pl.col("group").replace_strict(ccas, default="-", return_dtype=pl.String)


def may_have_bbr(result: Result) -> bool:
    """Returns whether the run may show the state of BBR: flows used a version of BBR, and sockets
    were sampled.
    """
    has_bbr = any(group.cca in BBRS for group in result.finished.metrics.groups)
    return has_bbr and (result.folder / run_files.SOCKETS).exists()


def bbr_flows(result: Result) -> dict[str, pl.DataFrame]:
    """Returns the samples of one flow of each version of BBR, by CCA: the first flow whose state is
    known. The columns are those that state_over_time() draws. Raises ArchiveError.

    in_flight_packets = packets sent and not acknowledged (unacked) - selectively acknowledged
    (sacked) - taken for lost (lost) + retransmitted, as in the kernel (tcp_packets_in_flight() in
    include/net/tcp.h)
    """
    sockets = _sender_samples(result, BBR_COLUMNS, LATER_COLUMNS)
    if sockets is None:
        return {}
    with_state = sockets.with_columns(bbr_state=phase(sockets.columns)).filter(
        pl.col("bbr_state").is_not_null()
    )
    first_flows = with_state.sort("cca", "host", "port").unique(
        "cca", keep="first", maintain_order=True
    )
    return {
        cca: _samples_of_flow(sockets, host, port)
        for cca, host, port in first_flows.select("cca", "host", "port").iter_rows()
    }


def _samples_of_flow(sockets: pl.DataFrame, host: str, port: int) -> pl.DataFrame:
    """Returns the samples of the flow with this host and port, in the order of time, with two more
    columns: bbr_state and in_flight_packets. `sockets` has samples of all flows.
    """
    samples = sockets.filter(
        pl.col("host") == host, pl.col("port") == port, pl.col("time_s") >= 0
    ).sort("time_s")
    counts = [
        pl.col(name).cast(pl.Int64)
        for name in ("unacked", "sacked", "lost", "retransmitted_unacked")
    ]
    return samples.with_columns(
        bbr_state=phase(samples.columns),
        in_flight_packets=counts[0] - counts[1] - counts[2] + counts[3],
    )


def rtts(result: Result) -> pl.DataFrame | None:
    """Returns the smoothed RTTs of a run, from which its metrics are calculated, too: group,
    seconds. None if sockets were not sampled.

    An idle socket repeats its last RTT. Therefore a sample counts only if its RTT is new, and if
    its flow was active at that time. Raises ArchiveError.
    """
    counters = {"segs_in": pl.Int64, "bytes_acked": pl.Int64, "cookie": pl.UInt64}
    sockets = _sender_samples(result, ["group", "rtt_s"], counters)
    if sockets is None:
        return None
    traffic = as_archived(result.finished, result.folder).traffic
    active_spans = {
        (flow.host, flow.port): (flow.begin_s, flow.begin_s + flow.active_s)
        for flow in result.finished.metrics.flows
        if flow.begin_s is not None and flow.active_s is not None
    }
    # of an older archive, which does not say when a flow sent
    whole_traffic = (traffic.omit_s, traffic.seconds or math.inf)
    flows = sockets.select("host", "port", "group").unique(maintain_order=True).rows()
    spans = pl.DataFrame(
        [(*flow, *active_spans.get(flow[:2], whole_traffic)) for flow in flows],
        schema=FLOW_KEY | {"group": pl.String, "begin_s": pl.Float64, "end_s": pl.Float64},
        orient="row",
    )
    without_empty_columns = sockets.drop(
        name for name in counters if sockets[name].null_count() == sockets.height
    )
    return new_rtts(without_empty_columns, spans).select("group", seconds="rtt_s").drop_nulls()


def bandwidth_estimates(result: Result) -> pl.DataFrame | None:
    """Returns the bandwidths that BBR flows have estimated in the measured time of a run: group,
    cca, bandwidth_bps. None if no sockets of BBR were sampled.

    Each group has at most 100 estimates (MOST_ESTIMATES). If there are more, they are sorted, and
    evenly spaced ones are taken, so that the distribution stays the same. Raises ArchiveError.
    """
    if (
        not may_have_bbr(result)
        or (sockets := _sender_samples(result, ["group", "cca", "bbr_bandwidth_bps"])) is None
    ):
        return None
    of_bbr = pl.col("cca").is_in(BBRS) & (pl.col("bbr_bandwidth_bps") > 0)
    run = as_archived(result.finished, result.folder)
    estimates = measured(run, sockets).filter(of_bbr)
    ranked = estimates.select("group", "cca", bandwidth_bps="bbr_bandwidth_bps").sort(
        "group", "bandwidth_bps"
    )
    rank = pl.int_range(pl.len()).over("group")
    rank_step = (pl.len().over("group") / MOST_ESTIMATES).ceil()
    return ranked.filter(rank % rank_step == rank_step // 2)


def omit_s(result: Result) -> float:
    """Returns the seconds at the start of the run that are not measured. They may differ from those
    of the entry, because a user's src-cmd may set another time.
    """
    return as_archived(result.finished, result.folder).traffic.omit_s


def completions(result: Result) -> pl.DataFrame | None:
    """Returns how long the short flows of a run took until they were complete: group, seconds. None
    if the run had no short flows. Raises ArchiveError.
    """
    file = result.folder / run_files.COMPLETIONS
    return parquet.read(file, ["group", "seconds"]).drop_nulls() if file.exists() else None


def _sender_samples(
    result: Result,
    columns: Sequence[str],
    optional: Mapping[str, type[pl.DataType]] = MappingProxyType({}),
) -> pl.DataFrame | None:
    """Returns samples of the sender's sockets while they were established: time_s, host, port and
    the given columns. None if sockets were not sampled, or if one of the columns is missing.

    optional: further columns with their types; a column that is missing is null
    """
    file = result.folder / run_files.SOCKETS
    if not file.exists():
        return None
    with parquet.scanned(file) as lazy:
        existing = set(lazy.collect_schema().names())
        if not {*columns, *_SAMPLE} <= existing:
            return None
        of_sender = (
            (pl.col("end") == "sender") & ~pl.col("final") & (pl.col("state") == "established")
        )
        optional_columns = [
            pl.col(name).cast(dtype) if name in existing else pl.lit(None, dtype).alias(name)
            for name, dtype in optional.items()
        ]
        samples = lazy.filter(of_sender).select(
            "time_s", "host", "port", *columns, *optional_columns
        )
        return parquet.collected(samples, file)
