"""Tests distributions against closed forms, sums and limits that are computed here."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from ccmix.analysis.intervals import (
    binomial_cdf,
    binomial_tail,
    normal_cdf,
    normal_quantile,
    t_cdf,
    t_quantile,
)

degrees_of_freedom = st.integers(1, 10_000) | st.floats(1, 10_000)
tails = st.floats(-12, math.log10(0.4)).map(lambda exponent: 10**exponent) | st.sampled_from(
    [0.025, 0.05, 0.1, 0.2]
)
trials = st.integers(1, 1000) | st.integers(1, 10**8)
probabilities = st.floats(-8, 0).map(lambda exponent: 10**exponent)


@given(st.floats(-37, 37))
def test_normal_cdf(z: float) -> None:
    assert normal_cdf(z) == pytest.approx(special.ndtr(z), rel=1e-12)


@given(tails)
def test_normal_quantile(tail: float) -> None:
    assert normal_quantile(tail) == pytest.approx(special.ndtri(tail), rel=1e-12)
    assert normal_quantile(1 - tail) == pytest.approx(special.ndtri(1 - tail), rel=1e-12)


def within(t: float, degrees: int) -> float:
    """Returns the probability between -t and t, by a finite series (Abramowitz and Stegun 26.7.3
    and 26.7.4).
    """
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    term, total = (cosine, 0.0) if degrees % 2 else (1.0, 0.0)
    first = 3 if degrees % 2 else 2
    for number in range(first, degrees + 1, 2):
        total += term
        term *= cosine**2 * (number - 1) / number
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if degrees % 2 else series


@settings(max_examples=300, deadline=None)
@given(st.floats(-2, 2), st.sampled_from([-1, 1]), st.integers(1, 400))
def test_t_cdf(exponent: float, sign: int, degrees: int) -> None:
    t = 10**exponent
    assert t_cdf(sign * t, degrees) == pytest.approx(0.5 + sign * within(t, degrees) / 2, abs=1e-13)


@settings(max_examples=300, deadline=None)
@given(tails, degrees_of_freedom)
def test_t_quantile(tail: float, degrees: float) -> None:
    assert t_cdf(t_quantile(tail, degrees), degrees) == pytest.approx(tail, rel=1e-10)
    assert t_quantile(1 - tail, degrees) == pytest.approx(
        -t_quantile(1 - (1 - tail), degrees), rel=1e-8
    )


@settings(deadline=None)
@given(tails)
def test_t_quantile_of_few_degrees_is_a_formula(tail: float) -> None:
    assert t_quantile(tail, 1) == pytest.approx(-1 / math.tan(math.pi * tail), rel=1e-12)
    assert t_quantile(tail, 2) == pytest.approx(
        (2 * tail - 1) / math.sqrt(2 * tail * (1 - tail)), rel=1e-9
    )


@settings(max_examples=300, deadline=None)
@given(trials, probabilities, st.floats(-8, 8))
def test_binomial(count: int, probability: float, deviations: float) -> None:
    """It is tested as far from the mean as p-values of 1e-15. Both tails include the probability of
    one number.
    """
    mean, deviation = count * probability, math.sqrt(count * probability * (1 - probability))
    successes = min(max(round(mean + deviations * deviation), 0), count)
    both = binomial_cdf(successes, count, probability) + binomial_tail(
        successes, count, probability
    )
    rest = count - successes
    log_number = math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(rest + 1)
    log_one = (
        log_number
        + successes * math.log(probability)
        + (rest * math.log1p(-probability) if rest else 0.0)
    )
    error = max(1e-12, 1e-15 * count * math.log(count))
    assert both - 1 == pytest.approx(math.exp(log_one), rel=error, abs=1e-12)


@given(st.integers(1, 60), st.floats(0, 1), st.data())
def test_binomial_as_a_sum(count: int, probability: float, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, count))
    terms = [
        math.comb(count, k) * probability**k * (1 - probability) ** (count - k)
        for k in range(count + 1)
    ]
    assert binomial_cdf(successes, count, probability) == pytest.approx(
        math.fsum(terms[: successes + 1]), abs=1e-12
    )
    assert binomial_tail(successes, count, probability) == pytest.approx(
        math.fsum(terms[successes:]), abs=1e-12
    )


def test_limits() -> None:
    assert [binomial_cdf(lost, 10, 0.5) for lost in (-1, 10)] == [0, 1]
    assert [binomial_tail(lost, 10, 0.5) for lost in (0, 11)] == [1, 0]
    assert [binomial_cdf(3, 10**8, probability) for probability in (0.0, 1.0)] == [1, 0]
    assert [t_cdf(t, 5) for t in (-math.inf, -1e200, 0, 1e200, math.inf)] == [0, 0, 0.5, 1, 1]
    assert t_quantile(0.5, 5) == 0
    # half of the probability of a tie is on either side of the mean
    tie = math.exp(math.lgamma(10**8 + 1) - 2 * math.lgamma(5 * 10**7 + 1) - 10**8 * math.log(2))
    assert binomial_cdf(5 * 10**7, 10**8, 0.5) == pytest.approx(0.5 + tie / 2, rel=1e-6)


def test_what_is_no_number_has_no_probability() -> None:
    assert math.isnan(t_cdf(math.nan, 5))
    assert math.isnan(t_quantile(0.9, math.nan))
