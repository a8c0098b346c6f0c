"""Tests that a test ends, and that the client waits for the server's results without using a processor."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

STOPPED_S = 2.0


def test_waiting_for_a_slow_server_costs_nothing(start: Callable[..., Any]) -> None:
    """The server is stopped across the end of the test; timers of intervals become due while the client waits."""
    running = start("-J", "-t", "1", "-i", "0.1", "-b", "1M")
    time.sleep(0.5)
    running.server.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    running.server.send_signal(signal.SIGCONT)
    _, status, usage = os.wait4(running.client.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_utime + usage.ru_stime < STOPPED_S / 4


@pytest.mark.parametrize("times", [3, pytest.param(30, marks=pytest.mark.deep)])
def test_a_number_of_bytes_always_ends(pair: Callable[..., Any], times: int) -> None:
    """The threads leave their loops just when they are cancelled.

    With sanitizers, one such test in 6 did not end before the series had 0002-no-cancel-at-thread-end.
    """
    for _ in range(times):
        assert pair("-P", "16").client.status == 0


def test_a_signal_ends_a_test_as_if_its_time_were_over(start: Callable[..., Any]) -> None:
    """Both sides have the whole result, and agree on what arrived; a signal in the omitted time has no effect."""
    for omit, sent_after_s in (("0", (1.0,)), ("2", (0.5, 2.5))):
        running = start("-J", "-t", "60", "-O", omit, "-i", "0.1", "-b", "10M", "-P", "2")
        for seconds in sent_after_s:
            time.sleep(seconds)
            running.client.send_signal(signal.SIGUSR1)
        ends = running.finish()
        assert (ends.client.status, ends.server.status) == (0, 0)
        client, server = (end.json for end in (ends.client, ends.server))
        assert "error" not in client
        assert "error" not in server
        assert client["start"]["test_start"]["duration"] == 60
        assert 0.5 < client["end"]["sum_sent"]["seconds"] < 30
        assert client["end"]["sum_received"]["bytes"] == server["end"]["sum_received"]["bytes"]
        assert omit == "0" or {interval["sum"]["omitted"] for interval in client["intervals"]} >= {True}
