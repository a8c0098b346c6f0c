"""Tests intervals against SciPy's, and against simulations whose mean is known."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from ccmix.analysis.intervals import (
    confidence_interval,
    confidence_interval_of_positive,
    fewest,
    iterations_for_precision,
)

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
DISTRIBUTIONS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, count: rng.normal(10, 1, count), 10.0),
    "skewed": (lambda rng, count: rng.lognormal(0, 0.5, count), math.exp(0.125)),
    # a flow that now and then never gets going
    "two modes": (
        lambda rng, count: np.where(rng.random(count) < 0.8, 10, 4) + rng.normal(0, 0.3, count),
        8.8,
    ),
}
numbers = st.floats(1, 1e10, allow_nan=False)


def coverage(name: str, count: int, trials: int) -> float:
    draw, mean = DISTRIBUTIONS[name]
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(trials):
        interval = confidence_interval(draw(rng, count).tolist())
        assert interval
        held += interval[0] <= mean <= interval[1]
    return held / trials


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=3, max_size=14), st.sampled_from([0.9, 0.95, 0.99]))
def test_below_15_values_it_is_scipy_s_t(values: list[float], level: float) -> None:
    low, high = stats.t.interval(level, len(values) - 1, np.mean(values), stats.sem(values))
    found = confidence_interval(values, level)
    if np.std(values) > 1e-9 * np.mean(values):
        assert found == pytest.approx((low, high), rel=1e-6, abs=1e-6 * float(np.mean(values)))


def bootstrapped_by_scipy(values: NDArray[np.float64]) -> tuple[float, float]:
    """Returns SciPy's BCa interval, at the level to which the quantiles of few values expand."""
    reach = math.sqrt(len(values) / (len(values) - 1)) * stats.t.ppf(0.975, len(values) - 1)
    found = stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=2 * ndtr(reach) - 1,
        method="BCa",
        rng=2,
        n_resamples=4999,
    ).confidence_interval
    return float(found.low), float(found.high)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(15, 60))
def test_from_15_on_it_is_scipy_s_bootstrap(seed: int, count: int) -> None:
    """The resamples of both are random, so a few of many examples may deviate too much."""
    values = np.random.default_rng(seed).lognormal(0, 0.5, count)
    low, high = bootstrapped_by_scipy(values)
    found = confidence_interval(values.tolist())
    assert found
    error = stats.sem(values)
    assert found[0] == pytest.approx(low, abs=0.25 * error)
    assert found[1] == pytest.approx(high, abs=0.35 * error)  # the longer tail has fewer resamples


def test_it_is_as_wide_as_scipy_s_in_the_mean() -> None:
    """Takes 40 samples of 15 values, which vary by 0.5% of the width; without the expansion,
    intervals would be 3% narrower.
    """
    ratios = []
    for seed in range(40):
        values = np.random.default_rng(seed).normal(10, 1, 15)
        low, high = bootstrapped_by_scipy(values)
        found = confidence_interval(values.tolist())
        assert found
        ratios.append((found[1] - found[0]) / (high - low))
    assert np.mean(ratios) == pytest.approx(1, abs=0.015)


def test_the_same_values_give_the_same_interval() -> None:
    values = [float(value) for value in range(20)]
    assert confidence_interval(values) == confidence_interval(values)


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=3, max_size=40), st.floats(1e-3, 1e3))
def test_other_units_give_the_same_interval(values: list[float], factor: float) -> None:
    found, scaled = (
        confidence_interval(values),
        confidence_interval([value * factor for value in values]),
    )
    assert found
    assert scaled == pytest.approx(
        (found[0] * factor, found[1] * factor), rel=1e-3, abs=1e-6 * factor * max(values)
    )


@pytest.mark.parametrize("count", [3, 15, 40])
def test_what_does_not_vary_has_an_interval_of_nothing(count: int) -> None:
    assert confidence_interval([4.0] * count) == (4, 4)


def test_of_fewer_than_three_values_there_is_none() -> None:
    assert confidence_interval([1.0, 2.0]) is None
    assert confidence_interval([]) is None


def test_of_very_many_values_both_are_the_same() -> None:
    values = np.random.default_rng(1).normal(10, 1, 1001).tolist()
    assert confidence_interval(values) == pytest.approx(
        confidence_interval(values[:1000]), abs=0.005
    )


@pytest.mark.parametrize(
    ("name", "count", "trials", "least", "most"),
    [
        ("normal", 5, 1000, 0.922, 0.978),  # 95% and four standard deviations
        ("normal", 15, 1000, 0.922, 0.978),
        *(
            pytest.param(name, count, 10_000, least, 0.99, marks=pytest.mark.long)
            for name, least in (("normal", 0.94), ("skewed", 0.92), ("two modes", 0.94))
            for count in (15, 20, 30, 50)
        ),
    ],
)
def test_intervals_hold_the_mean_as_often_as_they_say(
    name: str, count: int, trials: int, least: float, most: float
) -> None:
    """As docs/explanation/statistics.md says, a few skewed values show their long tail too
    rarely.
    """
    assert least < coverage(name, count, trials) < most


def test_an_interval_of_positive_values_by_hand() -> None:
    """The mean is 2 and its error 1 / sqrt(3), which is 0.28868 of it; t(0.975, 2) is 4.30265."""
    low, high = confidence_interval_of_positive([1.0, 2.0, 3.0]) or (0.0, 0.0)
    factor = math.exp(4.30265 * 0.28868)
    assert (low, high) == pytest.approx((2 / factor, 2 * factor), rel=1e-4)
    below, _ = confidence_interval([1.0, 2.0, 3.0]) or (0.0, 0.0)
    assert below < 0 < low


@pytest.mark.parametrize("values", [[0.0, 1.0, 2.0], [1.0, 2.0], [1.0, 1.0, 1.0], [*range(1, 16)]])
def test_where_there_is_no_logarithm_or_a_bootstrap_it_is_the_usual_interval(
    values: list[float],
) -> None:
    assert confidence_interval_of_positive(values) == confidence_interval(values)


@pytest.mark.parametrize("count", [3, 5, 10])
def test_of_skewed_positive_values_it_holds_the_mean_more_often(count: int) -> None:
    """Takes 4000 samples of log-normal values for each size."""
    draw, mean = DISTRIBUTIONS["skewed"]
    rng = np.random.default_rng(1)
    samples = [draw(rng, count).tolist() for _ in range(4000)]

    def coverage_of(intervals: list[tuple[float, float] | None]) -> float:
        return sum(low <= mean <= high for low, high in filter(None, intervals)) / len(samples)

    usual = coverage_of([confidence_interval(values) for values in samples])
    of_positive = coverage_of([confidence_interval_of_positive(values) for values in samples])
    assert usual < of_positive < 0.97


def test_how_many_iterations_make_it_precise() -> None:
    """A CV of 10% and 5% of precision: t(0.975, n-1) * 0.1 / sqrt(n) <= 0.05 holds from 18 on:
    2.1098 * 0.1 / 4.2426 is 0.0497, and with 17 it is 2.1199 * 0.1 / 4.1231 = 0.0514.
    """
    values = [9.0, 10.0, 11.0]  # s = 1
    assert iterations_for_precision(values) == 18
    assert iterations_for_precision([10.0, 10.0]) == 3
    assert iterations_for_precision([10.0]) is None
    assert iterations_for_precision([-1.0, 1.0]) is None
    assert iterations_for_precision([1.0, 1000.0], precision=1e-3) is None


@given(st.integers(3, 10_000))
def test_the_fewest_that_are_enough(least: int) -> None:
    assert fewest(lambda count: count >= least) == least
    assert fewest(lambda count: count > 10_000) is None
