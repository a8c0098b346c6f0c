"""Tests whose sockets can be sampled: those of this machine, by whatever name."""

import pytest

from ccmix.run.by_pscheduler import is_this_machine
from ccmix.run.limits import latest_end_s

DAY_S = 86400.0


@pytest.mark.parametrize(
    ("name", "here"),
    [("127.0.0.2", True), ("localhost", True), ("192.0.2.1", False), ("2001:db8::1", False), ("x.invalid", False)],
)  # fmt: skip
def test_this_machine(name: str, here: bool) -> None:
    assert is_this_machine(name) == here


@pytest.mark.parametrize(
    ("window", "now_s", "ends_s"),
    [
        ((3600.0, 18000.0), 7200.0, 18000.0),
        ((79200.0, 7200.0), 3 * DAY_S + 80000.0, 4 * DAY_S + 7200.0),
        ((79200.0, 7200.0), 3 * DAY_S + 60.0, 3 * DAY_S + 7200.0),
    ],
)
def test_when_the_window_closes_that_is_open(window: tuple[float, float], now_s: float, ends_s: float) -> None:
    assert latest_end_s(window, now_s) == ends_s
