"""Judges whether a run was long enough: whether goodputs and shares still have a trend, and whether
the run could show a trend.

The test for a trend takes batch means of the measured time, and the likelihood ratio of a trend in
noise of first order (AR(1)) against only such noise. Both are exact likelihoods of normal values,
maximised over the noise's correlation (Beach and MacKinnon 1978). So noise that wanders slowly does
not count as a trend, as it would in a test for which batches are independent. The trend is linear,
approaches its end exponentially, or is a step. The warm-up is found by MSER-5 (White 1997).
docs/explanation/settling.md has the reasons and the simulations.
"""

import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.counters import omitted_intervals
from ccmix.analysis.lengths import (
    LEAST_CHANGE,
    LEAST_INTERVALS,
    changes_by_design,
    rounded_up,
    slowest_period,
    too_short,
)
from ccmix.model import Run
from ccmix.model.results import GroupMetrics, Quantity, Settling, Trend
from ccmix.units import format_time

BATCHES = LEAST_INTERVALS  # of a measured time
QUARTER = BATCHES // 4
# The likelihood ratio exceeds this in 4% of runs without a trend if noise is correlated over 20% of
# the measured time, and in fewer runs if it is correlated over less. Several groups share these 4%
# (Bonferroni). Simulated: tests/analysis/test_settled.py,
# test_the_critical_values_are_those_of_a_simulation
CRITICAL = 10.0
CRITICAL_OF_TWICE_AS_MANY = 1.75
CORRELATIONS = (
    *np.arange(0.0, 0.9, 0.05),
    0.9,
    0.93,
    0.95,
    0.97,
)  # of neighbouring batches, that are tried
APPROACHES = (0.05, 0.3)  # of the measured time: time constants of the exponential approach
# As CRITICAL, for a step, in 1% of runs: test_the_critical_value_of_a_step_is_that_of_a_simulation
CRITICAL_OF_STEP = 17.0
STEPS = range(3, BATCHES - 2)  # batches before a step: nearer to an end, one or two would decide
NO_NOISE = 1e-9  # of the mean: smaller deviations come from rounding

MSER_BATCH = 5  # intervals

Floats = NDArray[np.float64]


def settling(run: Run, flows: pl.DataFrame, groups: Sequence[GroupMetrics]) -> Settling:
    """Judges a run by its dynamics.goodputs() and its groups."""
    if why_not := _not_judged(run, flows):
        return Settling(settled=None, reasons=(why_not,))
    names, series = goodputs_of_groups(run, flows)
    period = slowest_period(run, groups)
    measured_s, interval_s = run.traffic.measured_s, run.traffic.goodput_interval_s
    trends = tuple(trends_of(names, series, measured_s)) if series.shape[1] >= BATCHES else ()
    short = list(too_short(run, period))
    seen = [trend for trend in trends if trend.seen]
    stepping = any(trend.step_s is not None for trend in seen)
    warm_up = max((mser_5(values) for values in series), default=0)
    is_early = not stepping or warm_up <= series.shape[1] // 4
    is_warm_up = bool(seen) and is_early and not _has_trend(names, series[:, warm_up:])
    enough_s = [enough for _, enough in short]
    if is_warm_up:
        enough_s.append(measured_s)
    elif not stepping:
        enough_s += [measured_s * abs(trend.change) / LEAST_CHANGE for trend in seen]
    return Settling(
        settled=not (short or seen),
        reasons=(*(clause for clause, _ in short), *_clauses(seen)),
        trends=trends,
        warm_up_s=warm_up * interval_s,
        slowest=period.name if period else None,
        slowest_period_s=period.seconds if period else None,
        enough_s=rounded_up(max(enough_s)) if enough_s else None,
        enough_omit_s=rounded_up(run.traffic.omit_s + warm_up * interval_s) if is_warm_up else None,
    )


def goodputs_of_groups(run: Run, flows: pl.DataFrame) -> tuple[list[str], Floats]:
    """Returns the groups' names, and a row for each group: its goodput in each interval of the
    measured time, in bits/s.
    """
    first = omitted_intervals(run.traffic, run.traffic.goodput_interval_s)
    last = flows["interval"].max()
    count = max(0, (last if isinstance(last, int) else 0) - first + 1)
    own = flows.filter(pl.col("interval").is_between(first, first + count - 1))
    names = own["group"].unique(maintain_order=True).to_list()
    series = np.zeros((len(names), count))
    for group, interval, goodput_bps in own.select("group", "interval", "goodput_bps").iter_rows():
        series[names.index(group), interval - first] += goodput_bps
    return names, series


def trends_of(names: Sequence[str], series: Floats, measured_s: float = 1.0) -> Iterator[Trend]:
    """Yields the trend of each group's goodput and, if there are several groups, of its share;
    `series` has a row for each group.

    A trend that is a step has the time of the step, and its factor: the mean after it over the mean
    before it.
    """
    goodputs = batch_means(series)
    quantities: list[tuple[Quantity, Floats]] = [("goodput", goodputs)]
    if len(names) > 1:
        total = goodputs.sum(axis=0)
        quantities.append(("share", goodputs / np.where(total > 0, total, 1.0)))
    for quantity, batches in quantities:
        changes, seen, steps = (
            changes_of(batches),
            trends_seen(batches, len(names)),
            steps_seen(batches, len(names)),
        )
        for at, (name, step) in enumerate(zip(names, steps, strict=True)):
            before, after = (
                (batches[at, :step], batches[at, step:]) if step else _outer_quarters(batches[at])
            )
            start = float(before.mean())
            yield Trend(
                name,
                quantity,
                float(changes[at]),
                float(after.mean()) / start if start else None,
                bool(seen[at]) or step is not None,
                None if step is None else step * measured_s / BATCHES,
            )


def _outer_quarters(batches: Floats) -> tuple[Floats, Floats]:
    return batches[:QUARTER], batches[-QUARTER:]


def steps_seen(batches: Floats, groups: int) -> list[int | None]:
    """Returns for each row of batch means after how many of them it has a step that matters; None
    if it has none.
    """
    none = _log_likelihoods(batches, _fits()[0])
    ratios = np.array([_log_likelihoods(batches, fit) for fit in _step_fits()]) - none
    critical = np.maximum(
        CRITICAL_OF_STEP + critical_value(groups) - CRITICAL, likelihood_ratios(batches)
    )
    steps: list[int | None] = []
    for row, best, is_seen in zip(
        batches, ratios.argmax(axis=0), ratios.max(axis=0) > critical, strict=True
    ):
        step = STEPS[int(best)]
        jump = abs(row[step:].mean() - row[:step].mean())
        steps.append(step if is_seen and jump >= LEAST_CHANGE * row.mean() > 0 else None)
    return steps


def trends_seen(batches: Floats, groups: int) -> NDArray[np.bool_]:
    """Returns for each row of batch means whether it has a trend that matters; `groups` is the
    number of groups of the runs.
    """
    return (likelihood_ratios(batches) > critical_value(groups)) & (
        np.abs(changes_of(batches)) >= LEAST_CHANGE
    )


def changes_of(batches: Floats) -> Floats:
    """Returns for each row the mean of the last quarter minus that of the first, over the mean; 0
    if the mean is 0.
    """
    means = batches.mean(axis=1)
    quarters = batches[:, -QUARTER:].mean(axis=1) - batches[:, :QUARTER].mean(axis=1)
    changes: Floats = quarters / np.where(means > 0, means, np.inf)
    return changes


def critical_value(groups: int) -> float:
    """Returns the value that the likelihood ratio of a trend must exceed, so that a trend is seen
    in at most 5% of the runs without one.
    """
    return CRITICAL + CRITICAL_OF_TWICE_AS_MANY * math.log2(groups)


def batch_means(series: Floats) -> Floats:
    """Returns BATCHES means of each row, over equal times; an interval that crosses a border counts
    in part on both sides.
    """
    count = series.shape[1]
    sums = np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)
    borders = np.linspace(0, count, BATCHES + 1)
    at = np.minimum(borders.astype(int), count - 1)
    until = sums[:, at] + (borders - at) * series[:, at]
    means: Floats = np.diff(until, axis=1) * BATCHES / count
    return means


def likelihood_ratios(batches: Floats) -> Floats:
    """Returns for each row of batch means 2 log(L1 / L0), of the trend that fits best against no
    trend.
    """
    alone, *with_trend = _fits()
    none = _log_likelihoods(batches, alone)
    ratios: Floats = np.max([_log_likelihoods(batches, fit) for fit in with_trend], axis=0) - none
    return ratios


def _log_likelihoods(batches: Floats, fit: Sequence[tuple[Floats, float]]) -> Floats:
    """Returns twice the largest log-likelihood over CORRELATIONS, up to a constant."""
    least = BATCHES * (NO_NOISE * np.abs(batches).mean(axis=1)) ** 2 + np.finfo(float).tiny
    of_each = []
    for residuals, log_determinant in fit:
        squares = np.maximum(((batches @ residuals.T) ** 2).sum(axis=1), least)
        of_each.append(-BATCHES * np.log(squares) - log_determinant)
    largest: Floats = np.max(of_each, axis=0)
    return largest


Fit = list[tuple[Floats, float]]


@functools.lru_cache(maxsize=1)
def _fits() -> list[Fit]:
    """Returns the fits of no trend, of a linear trend, and of those of APPROACHES."""
    times = (np.arange(BATCHES) + 0.5) / BATCHES
    constant = np.ones(BATCHES)
    trends = [times, *(np.exp(-times / approach) for approach in APPROACHES)]
    return [
        _fit(constant[:, np.newaxis]),
        *(_fit(np.column_stack([constant, trend])) for trend in trends),
    ]


@functools.lru_cache(maxsize=1)
def _step_fits() -> list[Fit]:
    """Returns the fits of a step after each of STEPS."""
    return [_fit(np.column_stack([np.ones(BATCHES), np.arange(BATCHES) >= step])) for step in STEPS]


def _fit(design: Floats) -> Fit:
    """Returns for each correlation the matrix that turns batch means into independent residuals,
    and the logarithm of the determinant of the correlation matrix.
    """
    lags = np.abs(np.subtract.outer(np.arange(BATCHES), np.arange(BATCHES)))
    fit = []
    for correlation in CORRELATIONS:
        root = np.linalg.cholesky(correlation**lags)
        whitened = np.linalg.inv(root)
        orthogonal, _ = np.linalg.qr(whitened @ design)
        residuals = whitened - orthogonal @ (orthogonal.T @ whitened)
        fit.append((residuals, float(2 * np.log(np.diag(root)).sum())))
    return fit


def _has_trend(names: Sequence[str], series: Floats) -> bool:
    """Returns whether any group has a trend, or the series is too short to tell."""
    return series.shape[1] < BATCHES or any(trend.seen for trend in trends_of(names, series))


def mser_5(values: Floats) -> int:
    """Returns how many values at the start of a series are its warm-up.

    MSER-5 leaves out means of 5 values at the start, at most half of them, so that the standard
    error of the mean of the rest is smallest (White 1997; White, Cobb and Spratt 2000).
    """
    count = len(values) // MSER_BATCH
    batches = values[: count * MSER_BATCH].reshape(count, MSER_BATCH).mean(axis=1)
    rests = [batches[at:] for at in range(count // 2 + 1)] if count else []
    return int(np.argmin([rest.var() / len(rest) for rest in rests])) * MSER_BATCH if rests else 0


def _clauses(seen: Sequence[Trend]) -> Iterator[str]:
    """Yields a clause for each group with a trend, about its goodput or otherwise its share."""
    of_goodput = {trend.group for trend in seen if trend.quantity == "goodput"}
    for trend in seen:
        if trend.quantity == "goodput" or trend.group not in of_goodput:
            rises = trend.change > 0 if trend.factor is None else trend.factor > 1
            times = "from nothing" if trend.factor is None else f"x{trend.factor:.2g}"
            if trend.step_s is not None:
                way = f"steps {'up' if rises else 'down'} after {format_time(trend.step_s)}"
                yield f"{trend.group}'s {trend.quantity} {way} of the measured time ({times})"
            else:
                way = "rises" if rises else "falls"
                yield (
                    f"{trend.group}'s {trend.quantity} still {way} ({times} from the first to "
                    "the last quarter)"
                )


def _not_judged(run: Run, flows: pl.DataFrame) -> str | None:
    """Returns why the goodput of a run is not expected to settle, or is not known; None if the run
    can be judged.
    """
    if run.traffic.steps:
        return "its steps send one after the other, each otherwise than the one before"
    if run.traffic.duration_s is None or flows.is_empty():
        return "no goodput per interval is known"
    return changes_by_design(run)
