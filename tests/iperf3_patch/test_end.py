"""Tests that a test ends, and that the client waits for the server's results without using a
processor.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.commands import long

STOPPED_S = 2.0


def read_until(client: subprocess.Popen[str], omitted: bool) -> list[dict[str, Any]]:
    """Returns the events that the client prints by --json-stream, up to a whole interval that is
    omitted, or is not.
    """
    events: list[dict[str, Any]] = []
    for line in client.stdout or ():
        events.append(json.loads(line))
        if events[-1]["event"] == "interval" and events[-1]["data"]["sum"]["omitted"] is omitted:
            return events
    raise AssertionError(f"the client ended before such an interval: {events}")


def test_waiting_for_a_slow_server_costs_nothing(start: Callable[..., Any]) -> None:
    """The server is stopped across the end of the test; timers of intervals become due while the
    client waits.
    """
    running = start("--json-stream", "-t", "300", "-i", "0.1", "-b", "1M")
    read_until(running.client, omitted=False)
    running.server.send_signal(signal.SIGSTOP)
    running.client.send_signal(signal.SIGUSR1)
    time.sleep(STOPPED_S)
    running.server.send_signal(signal.SIGCONT)
    _, status, usage = os.wait4(running.client.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_utime + usage.ru_stime < STOPPED_S / 4


@pytest.mark.parametrize("times", [3, long(30)])
def test_a_number_of_bytes_always_ends(pair: Callable[..., Any], times: int) -> None:
    """The threads leave their loops just when they are cancelled.

    With sanitizers, one such test in 6 did not end before the series had
    0002-no-cancel-at-thread-end.
    """
    for _ in range(times):
        assert pair("-P", "16").client.status == 0


def test_a_signal_ends_a_test_as_if_its_time_were_over(start: Callable[..., Any]) -> None:
    """Both sides have the whole result, and agree on the received bytes. A signal in the omitted
    time is ignored.
    """
    for omit, sent_in in (("0", (False,)), ("2", (True, False))):
        running = start(
            "--json-stream", "-t", "60", "-O", omit, "-i", "0.1", "-b", "10M", "-P", "2"
        )
        printed = []
        for omitted in sent_in:
            printed += read_until(running.client, omitted)
            running.client.send_signal(signal.SIGUSR1)
        printed += map(json.loads, running.client.stdout)
        ends = running.finish()
        assert (ends.client.status, ends.server.status) == (0, 0)
        client = {event["event"]: event["data"] for event in printed}
        assert set(client) == {"start", "interval", "end"}  # and no error
        assert "error" not in ends.server.json
        assert client["start"]["test_start"]["duration"] == 60
        assert 0 < client["end"]["sum_sent"]["seconds"] < 60
        assert (
            client["end"]["sum_received"]["bytes"]
            == ends.server.json["end"]["sum_received"]["bytes"]
        )
