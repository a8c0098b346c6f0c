"""Tests time limits with a clock that the test sets."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from ccmix.agent.deadline import Deadline


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    with patch("ccmix.agent.deadline.time", clock):
        yield clock


def test_it_expires_at_its_moment(clock: Clock) -> None:
    deadline = Deadline(10)
    assert (deadline.remaining_s, deadline.expired) == (10, False)
    clock.now_s += 10
    assert (deadline.remaining_s, deadline.expired) == (0, True)
    clock.now_s += 5
    assert (deadline.remaining_s, deadline.expired) == (0, True)


def test_it_allows_what_ends_in_time(clock: Clock) -> None:
    deadline = Deadline(10)
    clock.now_s += 4
    assert deadline.allows(6)
    assert not deadline.allows(6.5)


def test_it_starts_anew_with_all_of_its_seconds(clock: Clock) -> None:
    deadline = Deadline(10)
    clock.now_s += 25
    deadline.restart()
    assert deadline.remaining_s == 10


def test_others_are_counted_from_it(clock: Clock) -> None:
    deadline = Deadline(10)
    clock.now_s += 4
    assert deadline.plus(3).remaining_s == pytest.approx(9)
    assert deadline.plus(-8).expired
    assert Deadline(-1).expired
