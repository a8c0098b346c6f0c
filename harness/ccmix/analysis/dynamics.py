"""Measures how flows get going: start-up, overshoot and convergence, from goodput per interval."""

import statistics
from collections.abc import Iterator

import polars as pl

from ccmix.analysis.fairness import jain_index
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.model import Run
from ccmix.model.results import StartupMetrics

STARTED_SHARE = 0.9  # of the steady goodput, at which a start-up ends; a rise time of control theory
DELTA = 0.2  # of delta-fairness
FAIR_INDEX = 1 / (1 + DELTA**2)  # Jain's index of two flows with shares (1 + delta) / 2 and (1 - delta) / 2
CONVERGED_FOR_S = 2.0  # flows are fair when they are so in the mean over this time

Flow = tuple[str, int]  # host and port


def goodputs(run: Run, intervals: pl.DataFrame) -> pl.DataFrame:
    """Per flow and interval of the run: number of the interval, counted from 0, host, port, group, goodput_bps.

    Flows of several iperf3 processes have intervals that end a little apart: here they are on one grid.
    """
    number = (pl.col("time_s") / run.traffic.goodput_interval_s).round().cast(pl.Int64) - 1
    binned = intervals.with_columns(interval=number)
    each = binned.group_by("interval", *FLOW, "group", maintain_order=True)  # so that sums round the same each time
    return each.agg(pl.col("goodput_bps").mean()).sort("interval", maintain_order=True)


def start_up(run: Run, flows: pl.DataFrame) -> StartupMetrics:
    """Computes the start-up of some flows together, from their goodputs().

    startup_s: from their first data to the end of the first interval with STARTED_SHARE of their steady goodput, which
        is the median of the intervals in the measured time since they began
    overshoot: by what fraction the best interval of the first excursion above the steady goodput is above it
    Both None where there is no steady goodput.
    """
    none = StartupMetrics()
    together = flows.group_by("interval", maintain_order=True).agg(pl.col("goodput_bps").sum()).sort("interval")
    began = together.filter(pl.col("goodput_bps") > 0)["interval"].min()
    if not isinstance(began, int):
        return none
    since = together.filter(pl.col("interval") >= began)
    omitted = round(run.traffic.omit_s / run.traffic.goodput_interval_s)
    steady = since.filter(pl.col("interval") >= omitted)["goodput_bps"].median()
    if not isinstance(steady, float) or not steady:
        return none
    up = since.filter(pl.col("goodput_bps") >= STARTED_SHARE * steady)["interval"].min()
    assert isinstance(up, int)
    excess = (since["goodput_bps"] / steady - 1).to_list()
    above = next((at for at, value in enumerate(excess) if value >= 0), len(excess))
    back = next((at for at in range(above, len(excess)) if excess[at] < 0), len(excess))
    return StartupMetrics(
        startup_s=(up + 1 - began) * run.traffic.goodput_interval_s,
        overshoot=max(excess[above:back], default=0.0),
    )


def convergence_s(run: Run, flows: pl.DataFrame) -> float | None:
    """Returns the time from the start of the last flow to the end of the first CONVERGED_FOR_S from which on all are
    delta-fair in the mean of every CONVERGED_FOR_S until the end of the run.

    After the delta-fair convergence time of RFC 5166 section 2.3 (Bansal et al. 2001), for any number of flows: fair is
    a Jain's index of at least FAIR_INDEX, which for two flows is the same. That it must last is the settling time of
    control theory: who is fair only in passing has not converged. `flows` are goodputs(). None where they are not fair
    at the end, or are fewer than two.
    """
    since_s: float | None = None
    for seconds, means in _competing(run, flows):
        if (jain_index(list(means.values())) or 0) < FAIR_INDEX:
            since_s = None
        elif since_s is None:
            since_s = seconds
    return since_s


def convergence_of_flows_s(run: Run, flows: pl.DataFrame) -> dict[Flow, float]:
    """Returns for each flow the time from the start of the last flow to the end of the first CONVERGED_FOR_S from which
    on the flow's mean is within DELTA of the mean of all until the end; for two flows that is convergence_s().

    Leaves out flows that are not within it at the end.
    """
    since_s: dict[Flow, float] = {}
    for seconds, means in _competing(run, flows):
        fair = statistics.fmean(means.values())
        for flow, mean in means.items():
            if abs(mean - fair) <= DELTA * fair * (1 + 1e-12):
                since_s.setdefault(flow, seconds)
            else:
                since_s.pop(flow, None)
    return since_s


def _competing(run: Run, flows: pl.DataFrame) -> Iterator[tuple[float, dict[Flow, float]]]:
    """Since the last flow's start, the end of each CONVERGED_FOR_S and the flows' means within it; of two flows or more
    that all carry data.
    """
    names: list[Flow] = list(flows.select(FLOW).unique(maintain_order=True).iter_rows())
    first = flows.filter(pl.col("goodput_bps") > 0).group_by(FLOW).agg(pl.col("interval").min())
    if len(names) < 2 or first.height < len(names):
        return
    wide = flows.with_columns(flow=pl.concat_str(FLOW, separator=" ")).pivot(
        on="flow", index="interval", values="goodput_bps", aggregate_function="sum"
    )
    last_start = first["interval"].max()
    assert isinstance(last_start, int)
    window = max(1, round(CONVERGED_FOR_S / run.traffic.goodput_interval_s))
    competing = wide.filter(pl.col("interval") >= last_start).sort("interval").fill_null(0)
    columns = [f"{host} {port}" for host, port in names]
    means = competing.select("interval", pl.col(columns).rolling_mean(window)).drop_nulls()
    for interval, *shares in means.iter_rows():
        yield float((interval + 1 - last_start) * run.traffic.goodput_interval_s), dict(zip(names, shares, strict=True))
