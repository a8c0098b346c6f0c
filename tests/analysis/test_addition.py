"""Tests that numbers are added up in the same way on every Python."""

from ccmix.analysis.dynamics import sum_in_order


def test_each_step_is_rounded() -> None:
    assert sum_in_order([0.1] * 10) == 0.9999999999999999  # and 1.0 by sum() of Python 3.12
    assert sum_in_order([1e16, 1.0, -1e16]) == 0.0


def test_nothing_is_zero() -> None:
    assert sum_in_order(()) == 0.0
