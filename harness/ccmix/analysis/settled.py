"""Judges whether a run was long enough: do goodputs and shares still have a trend?

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
# of neighbouring batches, that are tried
CORRELATIONS = (*np.arange(0.0, 0.9, 0.05), 0.9, 0.93, 0.95, 0.97)
APPROACHES = (0.05, 0.3)  # of the measured time: time constants of the exponential approach
# As CRITICAL, for a step, in 1% of runs: test_the_critical_value_of_a_step_is_that_of_a_simulation
CRITICAL_OF_STEP = 17.0
STEPS = range(3, BATCHES - 2)  # batches before a step: nearer to an end, one or two would decide
NO_NOISE = 1e-9  # of the mean: smaller deviations come from rounding

MSER_BATCH = 5  # intervals

Floats = NDArray[np.float64]


def settling(run: Run, flows: pl.DataFrame, groups: Sequence[GroupMetrics]) -> Settling:
    """Judges whether a run has settled: its goodputs and shares show no trend, and it was long
    enough to show one. If it has not settled, says why not, and which duration would probably be
    enough.

    `flows`: the goodput of each flow in each interval, from dynamics.goodputs()
    """
    if why_not := _not_judged(run, flows):
        return Settling(settled=None, reasons=(why_not,))
    names, series = goodputs_of_groups(run, flows)
    slowest_process = slowest_period(run, groups)
    measured_s, interval_s = run.traffic.measured_s, run.traffic.goodput_interval_s
    trends = tuple(trends_of(names, series, measured_s)) if series.shape[1] >= BATCHES else ()
    too_short_reasons = list(too_short(run, slowest_process))
    seen_trends = [trend for trend in trends if trend.seen]
    has_step = any(trend.step_s is not None for trend in seen_trends)
    warm_up = max((mser_5(values) for values in series), default=0)
    is_early = not has_step or warm_up <= series.shape[1] // 4
    is_warm_up = bool(seen_trends) and is_early and not _has_trend(names, series[:, warm_up:])
    enough_s = [seconds for _, seconds in too_short_reasons]
    if is_warm_up:
        enough_s.append(measured_s)
    elif not has_step:
        enough_s += [measured_s * abs(trend.change) / LEAST_CHANGE for trend in seen_trends]
    return Settling(
        settled=not (too_short_reasons or seen_trends),
        reasons=(*(clause for clause, _ in too_short_reasons), *_clauses(seen_trends)),
        trends=trends,
        warm_up_s=warm_up * interval_s,
        slowest=slowest_process.name if slowest_process else None,
        slowest_period_s=slowest_process.seconds if slowest_process else None,
        enough_s=rounded_up(max(enough_s)) if enough_s else None,
        enough_omit_s=rounded_up(run.traffic.omit_s + warm_up * interval_s) if is_warm_up else None,
    )


def goodputs_of_groups(run: Run, flows: pl.DataFrame) -> tuple[list[str], Floats]:
    """Returns the names of the groups, and a matrix with a row for each group and a column for each
    interval of the measured time: the group's goodput in bits/s.
    """
    first_interval = omitted_intervals(run.traffic, run.traffic.goodput_interval_s)
    last_interval = flows["interval"].max()
    intervals = max(
        0, (last_interval if isinstance(last_interval, int) else 0) - first_interval + 1
    )
    measured_flows = flows.filter(
        pl.col("interval").is_between(first_interval, first_interval + intervals - 1)
    )
    names = measured_flows["group"].unique(maintain_order=True).to_list()
    series = np.zeros((len(names), intervals))
    for group, interval, goodput_bps in measured_flows.select(
        "group", "interval", "goodput_bps"
    ).iter_rows():
        series[names.index(group), interval - first_interval] += goodput_bps
    return names, series


def trends_of(names: Sequence[str], series: Floats, measured_s: float = 1.0) -> Iterator[Trend]:
    """Yields the trend of each group's goodput, and if there are several groups, of each group's
    share. Trend.seen says whether it is large and significant. `series`: a row for each group, a
    column for each interval.

    Trend.factor is the mean of the last quarter divided by the mean of the first. For a step (a
    sudden change), it is the mean after the step divided by the mean before, and the trend has the
    time of the step.
    """
    goodputs = batch_means(series)
    quantities: list[tuple[Quantity, Floats]] = [("goodput", goodputs)]
    if len(names) > 1:
        total = goodputs.sum(axis=0)
        quantities.append(("share", goodputs / np.where(total > 0, total, 1.0)))
    for quantity, batches in quantities:
        changes, seen = changes_of(batches), trends_seen(batches, len(names))
        steps = steps_seen(batches, len(names))
        for row, (name, step) in enumerate(zip(names, steps, strict=True)):
            before, after = batches[row, : step or QUARTER], batches[row, step or -QUARTER :]
            start = float(before.mean())
            yield Trend(
                name,
                quantity,
                float(changes[row]),
                float(after.mean()) / start if start else None,
                bool(seen[row]) or step is not None,
                None if step is None else step * measured_s / BATCHES,
            )


def steps_seen(batches: Floats, groups: int) -> list[int | None]:
    """Returns for each row of batch means how many batches come before its significant step (a
    sudden change); None for a row without such a step. `groups` is the number of groups that are
    tested, because more tests need a stricter limit.
    """
    without_step = _log_likelihoods(batches, _fits()[0])
    ratios = np.array([_log_likelihoods(batches, fit) for fit in _step_fits()]) - without_step
    critical = np.maximum(
        CRITICAL_OF_STEP + critical_value(groups) - CRITICAL, likelihood_ratios(batches)
    )
    steps: list[int | None] = []
    for row, best_fit, is_seen in zip(
        batches, ratios.argmax(axis=0), ratios.max(axis=0) > critical, strict=True
    ):
        step = STEPS[int(best_fit)]
        jump = abs(row[step:].mean() - row[:step].mean())
        steps.append(step if is_seen and jump >= LEAST_CHANGE * row.mean() > 0 else None)
    return steps


def trends_seen(batches: Floats, groups: int) -> NDArray[np.bool_]:
    """Returns for each row of batch means whether it has a trend that is significant and large
    enough to matter. `groups` is the number of groups that are tested, because more tests need a
    stricter limit.
    """
    return (likelihood_ratios(batches) > critical_value(groups)) & (
        np.abs(changes_of(batches)) >= LEAST_CHANGE
    )


def changes_of(batches: Floats) -> Floats:
    """Returns for each row of batch means how much it changed: (mean of the last quarter - mean of
    the first quarter) / mean of all. It is 0 if the mean of all is 0.
    """
    means = batches.mean(axis=1)
    differences = batches[:, -QUARTER:].mean(axis=1) - batches[:, :QUARTER].mean(axis=1)
    changes: Floats = differences / np.where(means > 0, means, np.inf)
    return changes


def critical_value(groups: int) -> float:
    """Returns the limit that the likelihood ratio of a trend must exceed to be significant, so that
    at most 5% of runs without a trend seem to have one. It grows with the number of groups, because
    each group is tested.
    """
    return CRITICAL + CRITICAL_OF_TWICE_AS_MANY * math.log2(groups)


def batch_means(series: Floats) -> Floats:
    """Averages each row over BATCHES parts of equal length, whatever the number of intervals. An
    interval on the border of two parts counts in both, in proportion.
    """
    intervals = series.shape[1]
    sums = np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)
    borders = np.linspace(0, intervals, BATCHES + 1)
    border_intervals = np.minimum(borders.astype(int), intervals - 1)
    sums_at_borders = (
        sums[:, border_intervals] + (borders - border_intervals) * series[:, border_intervals]
    )
    means: Floats = np.diff(sums_at_borders, axis=1) * BATCHES / intervals
    return means


def likelihood_ratios(batches: Floats) -> Floats:
    """Returns for each row of batch means the test statistic of a trend: twice the logarithm of the
    likelihood ratio of the best fitting trend to no trend, both with correlated noise.
    """
    constant_fit, *trend_fits = _fits()
    without_trend = _log_likelihoods(batches, constant_fit)
    ratios: Floats = (
        np.max([_log_likelihoods(batches, fit) for fit in trend_fits], axis=0) - without_trend
    )
    return ratios


def _log_likelihoods(batches: Floats, fit: Sequence[tuple[Floats, float]]) -> Floats:
    """Returns for each row of batch means twice the logarithm of the likelihood of a model, without
    a constant that is the same for all models. The noise correlation is the one of CORRELATIONS for
    which the likelihood is largest. `fit`: the model, prepared by _fit().
    """
    smallest = BATCHES * (NO_NOISE * np.abs(batches).mean(axis=1)) ** 2 + np.finfo(float).tiny
    by_correlation = []
    for residuals, log_determinant in fit:
        squares = np.maximum(((batches @ residuals.T) ** 2).sum(axis=1), smallest)
        by_correlation.append(-BATCHES * np.log(squares) - log_determinant)
    largest: Floats = np.max(by_correlation, axis=0)
    return largest


Fit = list[tuple[Floats, float]]


@functools.lru_cache(maxsize=1)
def _fits() -> list[Fit]:
    """Returns the prepared fits (see _fit()) of a constant, of a linear trend, and of exponential
    approaches, in this order. Computed once.
    """
    times = (np.arange(BATCHES) + 0.5) / BATCHES
    constant = np.ones(BATCHES)
    trends = [times, *(np.exp(-times / approach) for approach in APPROACHES)]
    return [
        _fit(constant[:, np.newaxis]),
        *(_fit(np.column_stack([constant, trend])) for trend in trends),
    ]


@functools.lru_cache(maxsize=1)
def _step_fits() -> list[Fit]:
    """Returns the fits of a step after each number of batches in STEPS. Computed once."""
    return [_fit(np.column_stack([np.ones(BATCHES), np.arange(BATCHES) >= step])) for step in STEPS]


def _fit(design: Floats) -> Fit:
    """Prepares the least-squares fit of a model to batch means with AR(1) noise.

    `design`: the model's matrix, a row for each batch. Returns for each of CORRELATIONS the matrix
    that turns batch means into independent residuals, and the log determinant of the correlation
    matrix.
    """
    lags = np.abs(np.subtract.outer(np.arange(BATCHES), np.arange(BATCHES)))
    fit = []
    for correlation in CORRELATIONS:
        cholesky_factor = np.linalg.cholesky(correlation**lags)
        whitened = np.linalg.inv(cholesky_factor)
        orthogonal, _ = np.linalg.qr(whitened @ design)
        residuals = whitened - orthogonal @ (orthogonal.T @ whitened)
        fit.append((residuals, float(2 * np.log(np.diag(cholesky_factor)).sum())))
    return fit


def _has_trend(names: Sequence[str], series: Floats) -> bool:
    """Returns whether any group has a trend in `series`, the rest of the measured time after the
    warm-up. Returns True, too, if the rest is too short to tell.
    """
    return series.shape[1] < BATCHES or any(trend.seen for trend in trends_of(names, series))


def mser_5(values: Floats) -> int:
    """Returns how many values at the start of a series belong to its warm-up, by the method MSER-5
    (White 1997; White, Cobb and Spratt 2000).

    The series is averaged in batches of 5. Then batches at the start are left out, at most half of
    all: as many as make the standard error of the mean of the rest smallest.
    """
    batch_count = len(values) // MSER_BATCH
    batches = values[: batch_count * MSER_BATCH].reshape(batch_count, MSER_BATCH).mean(axis=1)
    rests = [batches[left_out:] for left_out in range(batch_count // 2 + 1)] if batch_count else []
    return int(np.argmin([rest.var() / len(rest) for rest in rests])) * MSER_BATCH if rests else 0


def _clauses(trends: Sequence[Trend]) -> Iterator[str]:
    """Yields a clause for each group with a trend, for the report: "cubic's goodput still rises
    (x1.2 from the first to the last quarter)", or for a sudden change "cubic's goodput steps up
    after 12 s of the measured time (x1.5)".

    If the goodput and the share of a group both have a trend, only the clause for the goodput is
    yielded.
    """
    groups_with_goodput_trend = {trend.group for trend in trends if trend.quantity == "goodput"}
    for trend in trends:
        if trend.quantity == "goodput" or trend.group not in groups_with_goodput_trend:
            rises = trend.change > 0 if trend.factor is None else trend.factor > 1
            ratio = "from nothing" if trend.factor is None else f"x{trend.factor:.2g}"
            if trend.step_s is not None:
                moves = f"steps {'up' if rises else 'down'} after {format_time(trend.step_s)}"
                yield f"{trend.group}'s {trend.quantity} {moves} of the measured time ({ratio})"
            else:
                moves = "rises" if rises else "falls"
                yield (
                    f"{trend.group}'s {trend.quantity} still {moves} ({ratio} from the first to "
                    "the last quarter)"
                )


def _not_judged(run: Run, flows: pl.DataFrame) -> str | None:
    """Returns why it can't be judged whether a run has settled: its goodput changes by design, or
    is not known. Returns None if it can be judged.
    """
    if run.traffic.steps:
        return "its steps send one after the other, each otherwise than the one before"
    if run.traffic.duration_s is None or flows.is_empty():
        return "no goodput per interval is known"
    return changes_by_design(run)
