"""Measures how flows start: start-up, overshoot and convergence, from goodput per interval. Also
computes Jain's fairness index and the state of a BBR flow.

struct tcp_bbr_info does not have that state, so it comes from two sources. The kernel's own BBR,
the first version, shows it by its gains. ccmix's later versions write it to a file, from which
ccmix-sockmon makes the column bbr_phase.
"""

import functools
import operator
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from ccmix.analysis.counters import omitted_intervals
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.lengths import LEAST_INTERVALS
from ccmix.analysis.tables import RunTables
from ccmix.model import (
    CommandSource,
    GroupedSource,
    HttpSource,
    Run,
    Topology,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.results import StartupMetrics
from ccmix.terms import BBRS

HIGH_GAIN = 2.5  # above PROBE_BW's gain of cwnd, 2, and below that of STARTUP and DRAIN, 2 / ln 2
STARTED_SHARE = (
    0.9  # of the steady goodput, at which a start-up ends; a rise time of control theory
)
DELTA = 0.2  # of delta-fairness
FAIR_INDEX = 1 / (
    1 + DELTA**2
)  # Jain's index of two flows with shares (1 + delta) / 2 and (1 - delta) / 2
CONVERGED_FOR_S = 2.0  # flows are fair if their means over this time are
Flow = tuple[str, int]  # host and port
GOODPUT_COLUMNS = {
    "interval": pl.Int64,
    "host": pl.String,
    "port": pl.Int64,
    "group": pl.String,
    "begin_s": pl.Float64,
    "end_s": pl.Float64,
    "goodput_bps": pl.Float64,
}


def added(values: Iterable[float]) -> float:
    """Returns the sum, rounded at each step from the first value to the last.

    sum() compensates for rounding since Python 3.12, so its last bits differ from those of 3.11.
    """
    return functools.reduce(operator.add, values, 0.0)


def jain_index(values: Sequence[float]) -> float | None:
    """Returns Jain's fairness index, (sum x)^2 / (n sum x^2), RFC 5166 section 2.3; None if all
    values are zero.
    """
    squares = added(value * value for value in values)
    return added(values) ** 2 / (len(values) * squares) if squares else None


def bbr_state(known: Collection[str]) -> pl.Expr:
    """Returns the state of BBR: startup, drain, probe_bw or probe_rtt; for later versions
    probe_bw_down, probe_bw_cruise, probe_bw_refill or probe_bw_up instead of probe_bw. It is null
    for other CCAs, before BBR has gains, and if nobody recorded it.

    Applies to rows of sockets.parquet, whose columns are `known`: cca, bbr_cwnd_gain,
    bbr_pacing_gain, bbr_phase.
    """
    phase = pl.col("bbr_phase") if "bbr_phase" in known else pl.lit(None, pl.String)
    return (
        pl.when(pl.col("cca") == "bbr")
        .then(_state_by_gains())
        .when(pl.col("cca").is_in(BBRS))
        .then(phase)
    )


def _state_by_gains() -> pl.Expr:
    """Returns the state for which bbr_update_gains() of Linux' net/ipv4/tcp_bbr.c sets the gains
    of a row.
    """
    cwnd_gain, pacing_gain = pl.col("bbr_cwnd_gain"), pl.col("bbr_pacing_gain")
    return (
        pl.when(cwnd_gain > HIGH_GAIN, pacing_gain > HIGH_GAIN)
        .then(pl.lit("startup"))
        .when(cwnd_gain > HIGH_GAIN)
        .then(pl.lit("drain"))
        .when(cwnd_gain > 1)
        .then(pl.lit("probe_bw"))
        .when(cwnd_gain == 1)
        .then(pl.lit("probe_rtt"))
    )


@dataclass(frozen=True)
class ActiveTime:
    """Describes a span of a run, in seconds from the start of its traffic."""

    begin_s: float
    end_s: float

    @classmethod
    def of(cls, flows: pl.DataFrame) -> "ActiveTime":
        """Returns the time from the beginning of the first flow to the end of the last one."""
        return cls(float(flows["begin_s"].min()), float(flows["end_s"].max()))  # type: ignore[arg-type]

    @property
    def seconds(self) -> float:
        return max(0.0, self.end_s - self.begin_s)


def active_flows(run: Run, tables: RunTables) -> pl.DataFrame:
    """Returns tables.flows and tables.short_flows, with begin_s and end_s clipped to the measured
    time, and with more columns:

    active_s: the time between begin_s and end_s
    short: whether the row represents all connections of a source of short flows
    tcp: whether it is not UDP
    unit: the name of what counts as one flow in comparisons: the flow, or its source if that is
        http, a workload or a command
    """
    flows = pl.concat(
        [tables.flows.with_columns(short=False), tables.short_flows.with_columns(short=True)]
    )
    begin_s = pl.col("begin_s").fill_null(0.0).clip(run.traffic.omit_s)
    end_s = pl.col("end_s")
    if run.traffic.duration_s is not None:
        end_s = end_s.fill_null(run.traffic.total_s).clip(upper_bound=run.traffic.total_s)
    sources = run.traffic.named_sources
    are_one = [
        run.group_name(each)
        for each in sources
        if isinstance(each, CommandSource | HttpSource | WorkloadSource)
    ]
    of_udp = [
        run.group_name(source) for source in run.traffic.sources if isinstance(source, UdpSource)
    ]
    flow = pl.concat_str("host", "port", separator=" ")
    return flows.with_columns(
        begin_s=begin_s,
        end_s=pl.max_horizontal(begin_s, end_s.fill_null(begin_s)),
        tcp=~pl.col("udp").fill_null(pl.col("group").is_in(of_udp)),
        unit=pl.when(pl.col("group").is_in(are_one)).then("group").otherwise(flow),
    ).with_columns(active_s=pl.col("end_s") - pl.col("begin_s"))


def common_time(flows: pl.DataFrame) -> ActiveTime | None:
    """Returns the time in which all TCP flows of active_flows() are active, or all flows if none is
    TCP; None if they never are.
    """
    compared = flows.filter("tcp") if flows["tcp"].any() else flows
    units = compared.group_by("unit").agg(pl.col("begin_s").min(), pl.col("end_s").max())
    if units.is_empty():
        return None
    common = ActiveTime(float(units["begin_s"].max()), float(units["end_s"].min()))  # type: ignore[arg-type]
    return common if common.seconds else None


def joins_or_changes(run: Run, flows: pl.DataFrame) -> bool:
    """Returns whether flows of active_flows() begin or end while others go on, or whether the path
    changes.

    If so, such events cause the start-up and the overshoot, not only the flows themselves.
    """
    if isinstance(run.path, Topology) and any(
        change.at_s < run.traffic.total_s for change in run.path.changes
    ):
        return True
    if run.traffic.duration_s is None or flows.is_empty():
        return False
    grouped = [source for source in run.traffic.sources if isinstance(source, GroupedSource)]
    starts_s = [source.start_s for source in run.traffic.sources]
    starts_s += [source.start_s + group.delay_s for source in grouped for group in source.groups]
    apart_s = run.traffic.measured_s / LEAST_INTERVALS
    of_units = flows.group_by("unit").agg(pl.col("begin_s").min(), pl.col("end_s").max())
    moments_s = (starts_s, of_units["begin_s"].to_list(), of_units["end_s"].to_list())
    return any(max(each) - min(each) > apart_s for each in moments_s)


def goodputs(run: Run, intervals: pl.DataFrame) -> pl.DataFrame:
    """Returns the goodput per flow and interval of the run: GOODPUT_COLUMNS. Intervals are numbered
    from 0, beginning with the omitted ones.

    Intervals of several iperf3 processes may end a little apart; here they are on one grid.
    """
    interval_s = run.traffic.goodput_interval_s
    middle_s = pl.col("time_s") - pl.col("seconds") / 2
    since_omitted = ((middle_s - run.traffic.omit_s) / interval_s).floor().cast(pl.Int64)
    number = since_omitted + omitted_intervals(run.traffic, interval_s)
    each = intervals.with_columns(interval=number).group_by(
        "interval", *FLOW, "group", maintain_order=True
    )
    return each.agg(
        begin_s=(pl.col("time_s") - pl.col("seconds")).min(),
        end_s=pl.col("time_s").max(),
        goodput_bps=pl.col("goodput_bps").mean(),
    ).sort("interval", maintain_order=True)


def as_units(goodputs: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Returns the goodputs() of `flows` (with `unit`), added up by `unit`: over the flows that
    count as one.
    """
    own = goodputs.join(flows.select(*FLOW, "unit"), on=FLOW, maintain_order="left")
    return own.group_by("interval", "unit", maintain_order=True).agg(
        pl.col("begin_s").min(), pl.col("end_s").max(), pl.col("goodput_bps").sum()
    )


def start_up(run: Run, flows: pl.DataFrame) -> StartupMetrics:
    """Computes the start-up of some flows together, from their goodputs().

    startup_s: from their first data to the end of the first interval with STARTED_SHARE of their
        steady goodput, which is the median of the intervals in the measured time since they began
    overshoot: by what fraction the best interval of the first excursion above the steady goodput is
        above it
    Both are None if there is no steady goodput.
    """
    together = (
        flows.group_by("interval", maintain_order=True)
        .agg(pl.col("begin_s").min(), pl.col("end_s").max(), pl.col("goodput_bps").sum())
        .sort("interval")
    )
    began = together.filter(pl.col("goodput_bps") > 0)["interval"].min()
    if not isinstance(began, int):
        return StartupMetrics()
    since = together.filter(pl.col("interval") >= began)
    omitted = omitted_intervals(run.traffic, run.traffic.goodput_interval_s)
    steady = since.filter(pl.col("interval") >= omitted)["goodput_bps"].median()
    if not isinstance(steady, float) or not steady:
        return StartupMetrics()
    up_s = since.filter(pl.col("goodput_bps") >= STARTED_SHARE * steady)["end_s"].min()
    assert isinstance(up_s, float)
    excess = (since["goodput_bps"] / steady - 1).to_list()
    above = next((at for at, value in enumerate(excess) if value >= 0), len(excess))
    back = next((at for at in range(above, len(excess)) if excess[at] < 0), len(excess))
    return StartupMetrics(
        startup_s=up_s - float(since["begin_s"][0]),
        overshoot=max(excess[above:back], default=0.0),
    )


def convergence_s(run: Run, flows: pl.DataFrame) -> float | None:
    """Returns the time from the start of the last flow until all flows stay fair: to the end of the
    first CONVERGED_FOR_S from which on they are delta-fair in the mean of every CONVERGED_FOR_S,
    until the end of the run.

    It follows the delta-fair convergence time of RFC 5166 section 2.3 (Bansal et al. 2001), for any
    number of flows: they are fair if Jain's index is at least FAIR_INDEX, which for two flows is
    the same. Fairness must last, as for the settling time of control theory: flows that are fair
    only for a while have not converged. `flows` are as_units(). Returns None if the flows are not
    fair at the end, or are fewer than two.
    """
    since_s: float | None = None
    for seconds, means in _competing(run, flows):
        if (jain_index(list(means.values())) or 0) < FAIR_INDEX:
            since_s = None
        elif since_s is None:
            since_s = seconds
    return since_s


def convergence_of_flows_s(run: Run, flows: pl.DataFrame) -> dict[str, float]:
    """Returns for each unit of as_units() the time from the start of the last flow to the end of
    the first CONVERGED_FOR_S from which on its mean stays within DELTA of the mean of all units.
    For two units, that is convergence_s().

    Leaves out units that are not within DELTA at the end.
    """
    since_s: dict[str, float] = {}
    for seconds, means in _competing(run, flows):
        fair = statistics.fmean(means.values())
        for flow, mean in means.items():
            if abs(mean - fair) <= DELTA * fair * (1 + 1e-12):
                since_s.setdefault(flow, seconds)
            else:
                since_s.pop(flow, None)
    return since_s


def _competing(run: Run, flows: pl.DataFrame) -> Iterator[tuple[float, dict[str, float]]]:
    """Yields for each CONVERGED_FOR_S its end, counted from the start of the last flow, and the
    means of the flows within it. Yields nothing unless two flows or more all carry data.
    """
    names: list[str] = flows["unit"].unique(maintain_order=True).to_list()
    first = flows.filter(pl.col("goodput_bps") > 0).group_by("unit").agg(pl.col("interval").min())
    if len(names) < 2 or first.height < len(names):
        return
    wide = flows.pivot(on="unit", index="interval", values="goodput_bps", aggregate_function="sum")
    last_start = first["interval"].max()
    assert isinstance(last_start, int)
    window = max(1, round(CONVERGED_FOR_S / run.traffic.goodput_interval_s))
    times = flows.group_by("interval").agg(pl.col("begin_s").min(), pl.col("end_s").max())
    competing = (
        wide.join(times, on="interval")
        .filter(pl.col("interval") >= last_start)
        .sort("interval")
        .fill_null(0)
    )
    if competing.is_empty():
        return
    start_s = float(competing["begin_s"][0])
    means = competing.select("end_s", pl.col(names).rolling_mean(window)).drop_nulls()
    for end_s, *shares in means.iter_rows():
        yield end_s - start_s, dict(zip(names, shares, strict=True))
