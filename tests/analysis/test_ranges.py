"""Tests ranges: their ends, their best estimate, and how often a real result is judged wrongly
against a range.
"""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from ccmix.analysis.comparison import SIGNIFICANCE, MetricSample
from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.ranges import (
    AgainstRange,
    MetricRange,
    UnknownValues,
    against,
    best_estimates,
    range_of,
    split,
)

SMALL, MIDDLE, LARGE = ((("buffer", value),) for value in ("0.1bdp", "0.3bdp", "1bdp"))
TRIALS = 1500


def of(**means: tuple[float, ...]) -> MetricRange:
    found = range_of({(("buffer", name),): values for name, values in means.items()})
    assert found
    return found


def test_a_condition_is_what_is_known_and_what_is_not() -> None:
    condition = {"buffer": "1bdp", "streams": "4", "loss": "0%"}
    assert split(condition, ("loss", "buffer")) == (
        {"streams": "4"},
        (("buffer", "1bdp"), ("loss", "0%")),
    )
    assert split(condition, ()) == (condition, ())


@pytest.mark.parametrize("values", [["b"], ["b", "a"], ["b", "a", "c"]])
def test_the_best_estimate_is_the_first_value_of_each_key(values: list[str]) -> None:
    points = [(("buffer", value), ("loss", loss)) for value in values for loss in ("1%", "0%")]
    assert best_estimates(points) == (("buffer", "b"), ("loss", "1%"))


def test_the_ends_are_those_of_the_outermost_intervals() -> None:
    low, wide, high = (10.0, 11.0, 12.0), (10.0, 20.0, 30.0), (31.0, 31.5, 32.0)
    span = of(low=low, wide=wide, high=high)
    ends = [confidence_interval(values) or (0.0, 0.0) for values in (low, wide, high)]
    assert (span.low, span.high) == (ends[1][0], ends[1][1])
    assert (ends[1][0] < ends[0][0], ends[1][1] > ends[2][1]) == (True, True)
    assert (span.lowest.name, span.highest.name) == ("buffer=low", "buffer=high")
    assert span.point
    assert (span.point.name, span.runs) == ("buffer=low", 9)


def test_without_an_interval_the_mean_is_an_end() -> None:
    """Neither a single run nor runs that are all alike have an interval."""
    span = of(one=(5.0,), alike=(7.0, 7.0, 7.0))
    assert (span.low, span.high) == (5.0, 7.0)


def test_a_condition_without_runs_is_missing() -> None:
    span = range_of({MIDDLE: [], SMALL: [1.0, 2.0, 3.0], LARGE: [2.0, 3.0, 4.0]})
    assert span
    assert (span.missing, span.point) == ((MIDDLE,), None)
    assert range_of({SMALL: [], LARGE: []}) is None


def test_the_tests_are_student_s_against_the_ends() -> None:
    real, span = (104.0, 106.0, 111.0), of(low=(90.0, 91.0, 92.0), high=(99.0, 100.0, 101.0))
    found = against(MetricSample(real), span, 0.1)
    inside = [
        stats.ttest_1samp(real, span.low / 1.1, alternative="greater").pvalue,
        stats.ttest_1samp(real, span.high / 0.9, alternative="less").pvalue,
    ]
    assert found.p_inside == pytest.approx(max(inside))
    assert found.p_outside == pytest.approx(stats.ttest_1samp(real, span.high).pvalue)
    assert against(MetricSample((60.0, 61.0, 65.0)), span).p_outside == pytest.approx(
        stats.ttest_1samp((60.0, 61.0, 65.0), span.low).pvalue
    )


def test_what_cannot_be_tested() -> None:
    real, few = MetricSample((99.0, 100.0, 101.0)), (100.0, 100.5)
    many = (98.0, 99.0, 100.0)
    assert against(MetricSample(few), of(many=many)) == AgainstRange(None, None)
    assert against(MetricSample((0.0, 0.0, 0.0)), of(many=many)).p_inside is None  # one observation
    for span in (
        of(many=many, few=few),
        of(alike=(99.0, 99.0, 99.0)),
        range_of({SMALL: many, LARGE: []}),
    ):
        assert span
        found = against(real, span)
        assert found.p_outside is None  # with more runs, the range would be wider
        assert found.p_inside is not None


def test_between_two_conditions_is_in_the_range_though_it_is_like_neither() -> None:
    span = of(low=(49.0, 50.0, 51.0), high=(198.0, 200.0, 202.0))
    found = against(MetricSample((99.0, 100.0, 101.0)), span)
    assert found.p_inside is not None
    assert found.p_inside <= SIGNIFICANCE
    assert found.p_outside == 1.0


MEANS = {"0.1bdp": 100.0, "0.3bdp": 150.0, "1bdp": 200.0}
MOST = SIGNIFICANCE + 3 * math.sqrt(
    SIGNIFICANCE * (1 - SIGNIFICANCE) / TRIALS
)  # three standard deviations of a rate


def trials(truth: float, count: int, seed: int) -> Iterator[tuple[MetricRange, AgainstRange]]:
    """Yields ranges, and samples of a truth, of normal values with a deviation of 5% of their
    means.
    """
    random = np.random.default_rng(seed)
    for _ in range(TRIALS):
        values: dict[UnknownValues, list[float]] = {
            (("buffer", name),): list(random.normal(mean, 0.05 * mean, count))
            for name, mean in MEANS.items()
        }
        span = range_of(values)
        assert span
        yield span, against(MetricSample(tuple(random.normal(truth, 0.05 * truth, count))), span)


def said(p_value: float | None) -> bool:
    assert p_value is not None
    return p_value <= SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("truth", [100.0, 150.0, 200.0])
def test_a_truth_that_was_emulated_is_seldom_outside(truth: float, count: int) -> None:
    assert sum(said(found.p_outside) for _, found in trials(truth, count, 5)) / TRIALS <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("truth", [80.0, 85.0, 90.0, 225.0, 235.0, 245.0])
def test_a_truth_beyond_the_margin_of_a_range_is_seldom_inside(truth: float, count: int) -> None:
    wrong = [
        said(found.p_inside) and not span.low / 1.1 <= truth <= span.high / 0.9
        for span, found in trials(truth, count, 6)
    ]
    assert sum(wrong) / TRIALS <= MOST


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "question"), [(150.0, "p_inside"), (290.0, "p_outside"), (65.0, "p_outside")]
)
def test_a_verdict_sees_what_is_plain(truth: float, question: str) -> None:
    assert sum(said(getattr(found, question)) for _, found in trials(truth, 5, 7)) / TRIALS > 0.95
