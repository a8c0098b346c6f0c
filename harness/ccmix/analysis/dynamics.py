"""Measures how flows get going: start-up, overshoot and convergence, from goodput per interval."""

import statistics
from collections.abc import Iterator

import polars as pl

from ccmix.analysis.fairness import jain_index
from ccmix.analysis.interval_series import omitted_intervals
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.model import Run
from ccmix.model.results import StartupMetrics

STARTED_SHARE = 0.9  # of the steady goodput, at which a start-up ends; a rise time of control theory
DELTA = 0.2  # of delta-fairness
FAIR_INDEX = 1 / (1 + DELTA**2)  # Jain's index of two flows with shares (1 + delta) / 2 and (1 - delta) / 2
CONVERGED_FOR_S = 2.0  # flows are fair when they are so in the mean over this time

Flow = tuple[str, int]  # host and port


GOODPUT_COLUMNS = {
    "interval": pl.Int64, "host": pl.String, "port": pl.Int64, "group": pl.String, "begin_s": pl.Float64,
    "end_s": pl.Float64, "goodput_bps": pl.Float64,
}  # fmt: skip


def goodputs(run: Run, intervals: pl.DataFrame) -> pl.DataFrame:
    """Per flow and interval of the run: GOODPUT_COLUMNS; intervals are numbered from 0, the omitted ones first.

    Flows of several iperf3 processes may have intervals that end a little apart: here they are on one grid.
    """
    interval_s = run.traffic.goodput_interval_s
    middle_s = pl.col("time_s") - pl.col("seconds") / 2
    since_omitted = ((middle_s - run.traffic.omit_s) / interval_s).floor().cast(pl.Int64)
    number = since_omitted + omitted_intervals(run.traffic, interval_s)
    each = intervals.with_columns(interval=number).group_by("interval", *FLOW, "group", maintain_order=True)
    return each.agg(
        begin_s=(pl.col("time_s") - pl.col("seconds")).min(), end_s=pl.col("time_s").max(),
        goodput_bps=pl.col("goodput_bps").mean(),
    ).sort("interval", maintain_order=True)  # fmt: skip


def as_units(goodputs: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Returns the goodputs() of `flows` (with `unit`), added up of those that count as one flow: by `unit`."""
    own = goodputs.join(flows.select(*FLOW, "unit"), on=FLOW, maintain_order="left")
    return own.group_by("interval", "unit", maintain_order=True).agg(
        pl.col("begin_s").min(), pl.col("end_s").max(), pl.col("goodput_bps").sum()
    )


def start_up(run: Run, flows: pl.DataFrame) -> StartupMetrics:
    """Computes the start-up of some flows together, from their goodputs().

    startup_s: from their first data to the end of the first interval with STARTED_SHARE of their steady goodput, which
        is the median of the intervals in the measured time since they began
    overshoot: by what fraction the best interval of the first excursion above the steady goodput is above it
    Both None where there is no steady goodput.
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
    """Returns the time from the start of the last flow to the end of the first CONVERGED_FOR_S from which on all are
    delta-fair in the mean of every CONVERGED_FOR_S until the end of the run.

    After the delta-fair convergence time of RFC 5166 section 2.3 (Bansal et al. 2001), for any number of flows: fair is
    a Jain's index of at least FAIR_INDEX, which for two flows is the same. That it must last is the settling time of
    control theory: who is fair only in passing has not converged. `flows` are as_units(). None where they are not fair
    at the end, or are fewer than two.
    """
    since_s: float | None = None
    for seconds, means in _competing(run, flows):
        if (jain_index(list(means.values())) or 0) < FAIR_INDEX:
            since_s = None
        elif since_s is None:
            since_s = seconds
    return since_s


def convergence_of_flows_s(run: Run, flows: pl.DataFrame) -> dict[str, float]:
    """Returns for each unit of as_units() the time from the start of the last flow to the end of the first
    CONVERGED_FOR_S from which on its mean is within DELTA of the mean of all until the end; for two, that is
    convergence_s().

    Leaves out those that are not within it at the end.
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
    """Since the last flow's start, the end of each CONVERGED_FOR_S and the flows' means within it; of two flows or more
    that all carry data.
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
    competing = wide.join(times, on="interval").filter(pl.col("interval") >= last_start).sort("interval").fill_null(0)
    if competing.is_empty():
        return
    start_s = float(competing["begin_s"][0])
    means = competing.select("end_s", pl.col(names).rolling_mean(window)).drop_nulls()
    for end_s, *shares in means.iter_rows():
        yield end_s - start_s, dict(zip(names, shares, strict=True))
