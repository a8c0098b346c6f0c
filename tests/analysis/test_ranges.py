"""Tests ranges: their ends, their best estimate, and how often a real result is judged wrongly against one."""

import math

import numpy as np
import pytest
from numpy.random import Generator

from ccmix.analysis.comparison import SIGNIFICANCE, MetricSample, unpaired
from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.ranges import MetricRange, UnknownValues, against, best_estimates, range_of, split

SMALL, MIDDLE, LARGE = ((("buffer", value),) for value in ("0.1bdp", "0.3bdp", "1bdp"))
TRIALS = 1500


def of(**means: tuple[float, ...]) -> MetricRange:
    found = range_of({(("buffer", name),): values for name, values in means.items()})
    assert found
    return found


def test_a_condition_is_what_is_known_and_what_is_not() -> None:
    condition = {"buffer": "1bdp", "streams": "4", "loss": "0%"}
    assert split(condition, ("loss", "buffer")) == ({"streams": "4"}, (("buffer", "1bdp"), ("loss", "0%")))
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
    """Neither one run nor runs that are all alike have an interval."""
    span = of(one=(5.0,), alike=(7.0, 7.0, 7.0))
    assert (span.low, span.high) == (5.0, 7.0)


def test_a_condition_without_runs_is_missing() -> None:
    span = range_of({MIDDLE: [], SMALL: [1.0, 2.0, 3.0], LARGE: [2.0, 3.0, 4.0]})
    assert span
    assert (span.missing, span.point) == ((MIDDLE,), None)
    assert range_of({SMALL: [], LARGE: []}) is None


def test_of_one_condition_the_tests_are_those_of_two_campaigns() -> None:
    real, emulated = MetricSample((99.0, 101.0, 104.0)), (107.0, 105.0, 109.0)
    expected, found = unpaired(real, MetricSample(emulated), 0.1), against(real, of(only=emulated), 0.1)
    assert found.p_inside == pytest.approx(expected.p_same)
    assert found.p_outside == pytest.approx(expected.p_different)


def test_what_cannot_be_tested() -> None:
    real, few = MetricSample((99.0, 100.0, 101.0)), (100.0, 100.5)
    many = (98.0, 99.0, 100.0)
    assert against(MetricSample(few), of(many=many)) == against(real, of(few=few))
    for span in (of(many=many, few=few), range_of({SMALL: many, LARGE: []})):
        assert span
        found = against(real, span)
        assert found.p_outside is None
        assert found.p_inside is not None
    assert against(MetricSample((0.0, 0.0, 0.0)), of(many=many)).p_inside is None  # one observation


def test_between_two_conditions_is_in_the_range_though_it_is_like_neither() -> None:
    span = of(low=(49.0, 50.0, 51.0), high=(198.0, 200.0, 202.0))
    found = against(MetricSample((99.0, 100.0, 101.0)), span)
    assert found.p_inside is not None
    assert found.p_inside <= SIGNIFICANCE
    assert found.p_outside == 1.0


def _rate(random: Generator, truth: float, means: dict[str, float], count: int, question: str) -> float:
    """Returns how often a question is answered yes at 5%, of normal values with a deviation of 5% of their means."""
    found = 0
    for _ in range(TRIALS):
        values: dict[UnknownValues, list[float]] = {
            (("buffer", name),): list(random.normal(mean, 0.05 * mean, count)) for name, mean in means.items()
        }
        span = range_of(values)
        assert span
        p = getattr(against(MetricSample(tuple(random.normal(truth, 0.05 * truth, count))), span), question)
        found += p <= SIGNIFICANCE
    return found / TRIALS


MOST = SIGNIFICANCE + 3 * math.sqrt(SIGNIFICANCE * (1 - SIGNIFICANCE) / TRIALS)  # three standard deviations of a rate
MEANS = {"0.1bdp": 100.0, "0.3bdp": 150.0, "1bdp": 200.0}


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize(
    ("truth", "question"),
    [(100.0, "p_outside"), (200.0, "p_outside"), (200.0 / 0.9, "p_inside"), (100.0 / 1.1, "p_inside")],
)
def test_a_verdict_is_wrong_no_more_often_than_it_says(truth: float, question: str, count: int) -> None:
    """The truth is one of the emulated conditions, or it is beyond the range by just the margin."""
    assert _rate(np.random.default_rng(5), truth, MEANS, count, question) <= MOST


@pytest.mark.slow
def test_many_alike_conditions_do_not_make_a_range_wider() -> None:
    """Each is as far from the truth as the margin; that one of them seems nearer is chance."""
    means = {f"{at}bdp": 100.0 for at in range(6)}
    for truth in (100.0 / 0.9, 100.0 / 1.1):
        assert _rate(np.random.default_rng(7), truth, means, 5, "p_inside") <= MOST


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "question"), [(150.0, "p_inside"), (290.0, "p_outside"), (70.0, "p_outside")])
def test_a_verdict_sees_what_is_plain(truth: float, question: str) -> None:
    assert _rate(np.random.default_rng(6), truth, MEANS, 5, question) > 0.95
