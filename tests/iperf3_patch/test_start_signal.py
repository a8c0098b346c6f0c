"""Tests --start-signal: the client tells another process when the test starts."""

import subprocess
from collections.abc import Callable, Iterator

import pytest

from support.commands import run_program

WAITS = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
print(time.time(), flush=True)
"""


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen]:
    """Yields a process that prints the time at which SIGUSR1 comes."""
    with subprocess.Popen(["python3", "-c", WAITS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_the_signal_comes_when_the_test_starts(pair: Callable, waiting: subprocess.Popen) -> None:
    client = pair("-P", "2", "--start-signal", str(waiting.pid)).client
    told_s, errors = waiting.communicate(timeout=30)
    assert (client.errors, errors) == ("", None)
    assert float(told_s) - client.json["start"]["test_start"]["start_time"] == pytest.approx(
        0, abs=0.2
    )


def test_a_process_that_has_ended_is_a_warning(pair: Callable) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    client = pair("--start-signal", str(ended.pid)).client
    assert "--start-signal: no process has this number, or it is another user's" in client.errors
    assert client.status == 0


@pytest.mark.parametrize("number", ["", "0", "-1", "1x", "4194305", "99999999999999999999"])
def test_what_is_not_the_number_of_a_process(number: str, iperf3: str) -> None:
    done = run_program([iperf3, "-c", "127.0.0.1", "--start-signal", number], timeout=30)
    assert done.returncode == 1
    assert f"bad process '{number}': give a number from 1 to 4194304" in done.stderr
