"""Measures how TCP flows start up and converge to fair shares, from goodput per interval.

Also computes Jain's fairness index and the state of a BBR flow.

struct tcp_bbr_info does not have that state, so it comes from two sources. The kernel's own BBR,
the first version, shows it by its gains. ccmix's later versions write it to a file, from which
ccmix-sockmon makes the column bbr_phase.
"""

import functools
import operator
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence

import polars as pl

from ccmix.analysis.counters import omitted_intervals
from ccmix.analysis.iperf3_tables import FLOW, FLOW_KEY
from ccmix.analysis.lengths import LEAST_INTERVALS
from ccmix.analysis.tables import RunTables
from ccmix.model import (
    CommandSource,
    HttpSource,
    Run,
    Topology,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.results import StartupMetrics
from ccmix.terms import BBRS

HIGH_GAIN = 2.5  # above PROBE_BW's gain of cwnd, 2, and below that of STARTUP and DRAIN, 2 / ln 2
# of the steady goodput, at which a start-up ends; a rise time of control theory
STARTED_SHARE = 0.9
DELTA = 0.2  # of delta-fairness
FAIR_INDEX = 1 / (
    1 + DELTA**2
)  # Jain's index of two flows with shares (1 + delta) / 2 and (1 - delta) / 2
CONVERGED_FOR_S = 2.0  # flows are fair if their means over this time are
Flow = tuple[str, int]  # host and port
_SPAN = (pl.col("begin_s").min(), pl.col("end_s").max())
GOODPUT_COLUMNS = {
    "interval": pl.Int64,
    **FLOW_KEY,
    "group": pl.String,
    "begin_s": pl.Float64,
    "end_s": pl.Float64,
    "goodput_bps": pl.Float64,
}


def sum_in_order(values: Iterable[float]) -> float:
    """Returns the plain floating-point sum, added from the first value to the last.

    The built-in sum() compensates for rounding errors since Python 3.12. It is not used, because
    metrics must be the same to the last bit with every version of Python.
    """
    return functools.reduce(operator.add, values, 0.0)


def jain_index(values: Sequence[float]) -> float | None:
    """Returns Jain's fairness index of the flows' goodputs or shares: (sum x)^2 / (n sum x^2), as
    in RFC 5166 section 2.3. It is 1 if all are equal, and None if all are zero.
    """
    squares = sum_in_order(value * value for value in values)
    return sum_in_order(values) ** 2 / (len(values) * squares) if squares else None


def bbr_state(columns: Collection[str]) -> pl.Expr:
    """Returns a polars expression for the state of BBR in each row of sockets.parquet.

    The state is startup, drain, probe_bw or probe_rtt; later versions of BBR have probe_bw_down,
    probe_bw_cruise, probe_bw_refill or probe_bw_up instead of probe_bw. It is null for other CCAs,
    before BBR has set its gains, and if the state was not recorded.

    `columns` are the names of the table's columns: cca, bbr_cwnd_gain and bbr_pacing_gain must be
    among them, and bbr_phase may be missing.
    """
    phase = pl.col("bbr_phase") if "bbr_phase" in columns else pl.lit(None, pl.String)
    return (
        pl.when(pl.col("cca") == "bbr")
        .then(_state_by_gains())
        .when(pl.col("cca").is_in(BBRS))
        .then(phase)
    )


def _state_by_gains() -> pl.Expr:
    """Returns an expression that derives the state of the kernel's own BBR from a row's cwnd gain
    and pacing gain, by the inverse of bbr_update_gains() in Linux' net/ipv4/tcp_bbr.c.
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


def active_flows(run: Run, tables: RunTables) -> pl.DataFrame:
    """Returns all flows of a run (tables.flows and tables.short_flows) with the time in which each
    was active: begin_s and end_s are clipped to the measured time, which follows the omitted start.

    Columns that are added:
    active_s: the time between begin_s and end_s
    short: whether the row stands for all connections of a source of short flows
    tcp: false for a UDP flow
    unit: the name of what counts as one flow when fairness is computed. This is the flow itself, or
        its traffic source if that opens many connections: http, a workload or a command
    """
    flows = pl.concat(
        [tables.flows.with_columns(short=False), tables.short_flows.with_columns(short=True)]
    )
    begin_s = pl.col("begin_s").fill_null(0.0).clip(run.traffic.omit_s)
    end_s = pl.col("end_s")
    if run.traffic.duration_s is not None:
        end_s = end_s.fill_null(run.traffic.total_s).clip(upper_bound=run.traffic.total_s)
    sources = run.traffic.named_sources
    single_unit_groups = [
        run.group_name(source)
        for source in sources
        if isinstance(source, CommandSource | HttpSource | WorkloadSource)
    ]
    udp_groups = [
        run.group_name(source) for source in run.traffic.sources if isinstance(source, UdpSource)
    ]
    flow_name = pl.concat_str("host", "port", separator=" ")
    return flows.with_columns(
        begin_s=begin_s,
        end_s=pl.max_horizontal(begin_s, end_s.fill_null(begin_s)),
        tcp=~pl.col("udp").fill_null(pl.col("group").is_in(udp_groups)),
        unit=pl.when(pl.col("group").is_in(single_unit_groups)).then("group").otherwise(flow_name),
    ).with_columns(active_s=pl.col("end_s") - pl.col("begin_s"))


def common_time(flows: pl.DataFrame) -> tuple[float, float] | None:
    """Returns the time in which all TCP flows send at once, because their shares can be compared
    only then: its begin and its end in seconds from the start of the traffic. If no flow is TCP, it
    is the time in which all flows send. Returns None if there is no such time.

    flows: a frame as returned by active_flows()
    """
    compared = flows.filter("tcp") if flows["tcp"].any() else flows
    units = compared.group_by("unit").agg(_SPAN)
    if units.is_empty():
        return None
    begin_s, end_s = float(units["begin_s"].max()), float(units["end_s"].min())  # type: ignore[arg-type]
    return (begin_s, end_s) if begin_s < end_s else None


def joins_or_changes(run: Run, flows: pl.DataFrame) -> bool:
    """Returns whether flows begin or end while others go on, or whether the path changes during the
    run. In both cases start-up times and overshoots are not computed, because these events would
    affect them.

    `flows` is a frame as returned by active_flows().
    """
    if isinstance(run.path, Topology) and any(
        change.at_s < run.traffic.total_s for change in run.path.changes
    ):
        return True
    if run.traffic.duration_s is None or flows.is_empty():
        return False
    tolerance_s = run.traffic.measured_s / LEAST_INTERVALS
    units = flows.group_by("unit").agg(_SPAN)
    events_s = (run.traffic.starts_s, units["begin_s"].to_list(), units["end_s"].to_list())
    return any(max(times_s) - min(times_s) > tolerance_s for times_s in events_s)


def goodputs(run: Run, intervals: pl.DataFrame) -> pl.DataFrame:
    """Puts the goodputs of all flows on one common grid of intervals, because the intervals that
    several iperf3 processes report may end at slightly different times.

    intervals: a row for each flow and reported interval, with INTERVAL_COLUMNS
    Returns a frame with GOODPUT_COLUMNS, whose intervals are numbered from 0, beginning with those
    of the omitted time.
    """
    interval_s = run.traffic.goodput_interval_s
    middle_s = pl.col("time_s") - pl.col("seconds") / 2
    since_omitted = ((middle_s - run.traffic.omit_s) / interval_s).floor().cast(pl.Int64)
    number = since_omitted + omitted_intervals(run.traffic, interval_s)
    by_interval_and_flow = intervals.with_columns(interval=number).group_by(
        "interval", *FLOW, "group", maintain_order=True
    )
    return by_interval_and_flow.agg(
        begin_s=(pl.col("time_s") - pl.col("seconds")).min(),
        end_s=pl.col("time_s").max(),
        goodput_bps=pl.col("goodput_bps").mean(),
    ).sort("interval", maintain_order=True)


def sum_by_unit(goodputs: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Adds up the goodputs of the flows that count as one, such as all connections of a command.

    goodputs: a frame as returned by goodputs()
    flows: a frame as returned by active_flows(), whose column `unit` says which flows count as one
    Returns a row for each interval and unit: interval, unit, begin_s, end_s, goodput_bps.
    """
    with_unit = goodputs.join(flows.select(*FLOW, "unit"), on=FLOW, maintain_order="left")
    return with_unit.group_by("interval", "unit", maintain_order=True).agg(
        *_SPAN, pl.col("goodput_bps").sum()
    )


def start_up(run: Run, goodputs: pl.DataFrame) -> StartupMetrics:
    """Computes how long some flows together take to start up, and how far they overshoot.

    The reference is their steady goodput: the median of the intervals in the measured time, from
    their first data on.
    startup_s: the time from their first data to the end of the first interval in which they reach
        90% of the steady goodput (STARTED_SHARE)
    overshoot: the highest goodput of the first excursion above the steady goodput, as a fraction
        above it: 0.2 if it is 20% higher
    Both are None if the flows carried no data in the measured time.

    goodputs: a frame as returned by goodputs(), with only the rows of these flows
    """
    together = (
        goodputs.group_by("interval", maintain_order=True)
        .agg(*_SPAN, pl.col("goodput_bps").sum())
        .sort("interval")
    )
    first_interval = together.filter(pl.col("goodput_bps") > 0)["interval"].min()
    if not isinstance(first_interval, int):
        return StartupMetrics()
    sending = together.filter(pl.col("interval") >= first_interval)
    omitted = omitted_intervals(run.traffic, run.traffic.goodput_interval_s)
    steady_bps = sending.filter(pl.col("interval") >= omitted)["goodput_bps"].median()
    if not isinstance(steady_bps, float) or not steady_bps:
        return StartupMetrics()
    started_s = sending.filter(pl.col("goodput_bps") >= STARTED_SHARE * steady_bps)["end_s"].min()
    assert isinstance(started_s, float)
    excess = (sending["goodput_bps"] / steady_bps - 1).to_list()
    rise = next((index for index, value in enumerate(excess) if value >= 0), len(excess))
    fall = next((index for index in range(rise, len(excess)) if excess[index] < 0), len(excess))
    return StartupMetrics(
        startup_s=started_s - float(sending["begin_s"][0]),
        overshoot=max(excess[rise:fall], default=0.0),
    )


def convergence_s(run: Run, unit_goodputs: pl.DataFrame) -> float | None:
    """Returns the time in seconds from the start of the last flow until the flows' shares are fair
    and stay fair until the end of the run. Returns None if the flows are not fair at the end, or
    are fewer than two.

    It is the delta-fair convergence time of RFC 5166 section 2.3 (Bansal et al. 2001), extended to
    any number of flows: their mean goodputs over a sliding window of CONVERGED_FOR_S are fair if
    Jain's index is at least FAIR_INDEX. Flows that are fair only for a while have not converged.

    unit_goodputs: a frame as returned by sum_by_unit()
    """
    fair_since_s: float | None = None
    for window_end_s, means in _sliding_means(run, unit_goodputs):
        if (jain_index(list(means.values())) or 0) < FAIR_INDEX:
            fair_since_s = None
        elif fair_since_s is None:
            fair_since_s = window_end_s
    return fair_since_s


def convergence_of_flows_s(run: Run, unit_goodputs: pl.DataFrame) -> dict[str, float]:
    """Returns for each unit (what counts as one flow) the seconds from the start of the last flow
    until the unit gets its fair share, and keeps it until the end of the run. Units that do not
    have a fair share at the end are left out.

    A share is fair if the unit's mean goodput over a sliding window of CONVERGED_FOR_S differs from
    the mean of all units by at most DELTA. For two units the times equal convergence_s().

    unit_goodputs: a frame as returned by sum_by_unit()
    """
    fair_since_s: dict[str, float] = {}
    for window_end_s, means in _sliding_means(run, unit_goodputs):
        fair_bps = statistics.fmean(means.values())
        for unit, mean_bps in means.items():
            if abs(mean_bps - fair_bps) <= DELTA * fair_bps * (1 + 1e-12):
                fair_since_s.setdefault(unit, window_end_s)
            else:
                fair_since_s.pop(unit, None)
    return fair_since_s


def _sliding_means(
    run: Run, unit_goodputs: pl.DataFrame
) -> Iterator[tuple[float, dict[str, float]]]:
    """Slides a window of CONVERGED_FOR_S, interval by interval, over the time in which all flows
    send. Yields the end of each window, in seconds from the start of the last flow, and the mean
    goodput in bit/s of each unit within it.

    Yields nothing if there are fewer than two units, or if one of them carries no data.
    `unit_goodputs` is a frame as returned by sum_by_unit().
    """
    units: list[str] = unit_goodputs["unit"].unique(maintain_order=True).to_list()
    first = (
        unit_goodputs.filter(pl.col("goodput_bps") > 0)
        .group_by("unit")
        .agg(pl.col("interval").min())
    )
    if len(units) < 2 or first.height < len(units):
        return
    wide = unit_goodputs.pivot(
        on="unit", index="interval", values="goodput_bps", aggregate_function="sum"
    )
    last_start = first["interval"].max()
    assert isinstance(last_start, int)
    window = max(1, round(CONVERGED_FOR_S / run.traffic.goodput_interval_s))
    times = unit_goodputs.group_by("interval").agg(_SPAN)
    competing = (
        wide.join(times, on="interval")
        .filter(pl.col("interval") >= last_start)
        .sort("interval")
        .fill_null(0)
    )
    if competing.is_empty():
        return
    start_s = float(competing["begin_s"][0])
    means = competing.select("end_s", pl.col(units).rolling_mean(window)).drop_nulls()
    for end_s, *means_bps in means.iter_rows():
        yield end_s - start_s, dict(zip(units, means_bps, strict=True))
