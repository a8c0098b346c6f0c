"""Against scipy, which is a library of the tests alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binom

from ccmix.analysis.distributions import binomial_at_most, binomial_more_than, student_t_quantile

PROBABILITIES = st.floats(1e-7, 0.9)


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 20_000_000), PROBABILITIES, st.floats(-10, 10))
def test_both_tails_are_scipys(trials: int, probability: float, deviations: float) -> None:
    """Down to the sizes at which a verdict turns."""
    spread = (trials * probability * (1 - probability)) ** 0.5
    successes = min(max(round(trials * probability + deviations * spread), 0), trials)
    for ours, theirs in ((binomial_at_most, binom.cdf), (binomial_more_than, binom.sf)):
        expected = float(theirs(successes, trials, probability))
        assert ours(successes, trials, probability) == pytest.approx(expected, rel=1e-6, abs=1e-40)


def test_no_losses_and_no_more_than_all() -> None:
    assert binomial_at_most(-1, 10, 0.5) == 0.0
    assert binomial_more_than(-1, 10, 0.5) == 1.0
    assert binomial_at_most(10, 10, 0.5) == 1.0
    assert binomial_more_than(10, 10, 0.5) == 0.0


@given(st.integers(1, 10_000), st.floats(0.75, 0.9999))
def test_quantiles_are_scipys(degrees: int, level: float) -> None:
    assert student_t_quantile(level, degrees) == pytest.approx(float(stdtrit(degrees, level)), rel=1e-8, abs=1e-8)


def test_the_table_of_every_textbook() -> None:
    assert [round(student_t_quantile(0.975, degrees), 3) for degrees in (1, 2, 4, 9, 30)] == [
        12.706, 4.303, 2.776, 2.262, 2.042,
    ]  # fmt: skip
