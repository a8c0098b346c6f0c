"""Counts the lies, whose runs are deep tests (tests/run/test_lies_in_lab.py)."""

from support.lies import LIES, REPRESENTATIVES

ASKED_FOR = 71 + 30  # the first lies, and the number of additional lies that were wanted


def test_there_are_as_many_different_lies_as_were_asked_for() -> None:
    """Counts a lie once, whatever its name, and not again for the other direction."""
    pairs = {frozenset((lie.ini(lie.one), lie.ini(lie.other))) for lie in LIES.values()}
    assert all(len(pair) == 2 for pair in pairs)
    assert len(pairs) == len(LIES) >= ASKED_FOR


def test_those_that_make_test_runs_are_lies() -> None:
    assert set(REPRESENTATIVES) <= LIES.keys()
