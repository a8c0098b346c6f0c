"""Tests ratios of means over the same blocks."""

import numpy as np
import pytest

from ccmix.analysis.sharing import paired_ratio


def test_by_hand() -> None:
    """Each value is twice the baseline's: with means 6 and 3, variances 4 and 1, covariance 2 and
    t(2)^2 / 3 = 6.17094, square = 9 - 6.17094, cross = 18 - 2 x 6.17094 = 2 square, rest = 4
    square, and nothing under the root.
    """
    ratio = paired_ratio([4, 6, 8], [2, 3, 4])
    assert ratio
    assert ratio.value == 2
    assert ratio.interval == pytest.approx((2, 2))


def test_at_both_ends_of_the_interval_the_paired_test_is_just_significant() -> None:
    values, baseline = [5.0, 4.0, 6.0], [200.0, 190.0, 230.0]
    ratio = paired_ratio(values, baseline)
    assert ratio
    assert ratio.interval
    for end in ratio.interval:
        differences = np.asarray(values) - end * np.asarray(baseline)
        statistic = differences.mean() / (differences.std(ddof=1) / np.sqrt(3))
        assert abs(statistic) == pytest.approx(4.302653, rel=1e-5)


def test_too_few_or_nothing_to_divide_by() -> None:
    two = paired_ratio([2, 4], [1, 2])
    assert two
    assert (two.value, two.interval) == (2, None)
    assert paired_ratio([], []) is None
    assert paired_ratio([1, 2, 3], [0, 0, 0]) is None
    unsure = paired_ratio([1, 2, 3], [0.1, 5, 0.2])  # a baseline that may be 0
    assert unsure
    assert unsure.interval is None


def test_the_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    draw = np.random.default_rng(3)
    held = 0
    for _ in range(2000):
        baseline = draw.normal(100, 10, 5)
        ratio = paired_ratio(list(2 * baseline + draw.normal(0, 20, 5)), list(baseline))
        assert ratio
        held += bool(ratio.interval and ratio.interval[0] <= 2 <= ratio.interval[1])
    assert held / 2000 == pytest.approx(0.95, abs=0.015)
