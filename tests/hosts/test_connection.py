"""Tests how much of the controller's memory and time a connection takes. A stand-in for an agent
sends the messages.
"""

import sys
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from ccmix.agent.messages import AgentMessage
from ccmix.hosts import connection as connection_module
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.connection import READ_BYTES, Connection
from ccmix.hosts.errors import CommandError, HostLost
from support.commands import wait_for

MESSAGES = 50
STAND_IN = f"""
import sys, time
print('{{"beat": true}}', flush=True)
sys.stdin.readline()
for _ in range({MESSAGES}):
    print('{{"beat": true}}', flush=True)
    time.sleep(0.01)
sys.stdin.read()
"""


@pytest.fixture
def stand_in() -> Iterator[Connection]:
    connection = Connection("stand-in", [sys.executable, "-c", STAND_IN], b"", silence_s=600)
    yield connection
    connection.cut("the test is over")
    assert connection.wait_ended(60)


def test_a_small_message_needs_no_large_piece_of_the_heap(stand_in: Connection) -> None:
    """Such pieces left gaps, and a campaign's memory grew by 130 KiB with each run."""
    heard: list[AgentMessage] = []
    stand_in.listen(heard.append)
    wait_for(lambda: heard, 60, "the first message")
    tracemalloc.start()
    try:
        stand_in.send({"op": "beat"})
        wait_for(lambda: len(heard) == 1 + MESSAGES, 60, "all messages")
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < READ_BYTES


def deaf(reads: str) -> list[str]:
    """Returns the command of an agent that sends heartbeats, and reads as slowly as the statement
    does.
    """
    beats = (
        "import os, sys, time\nwhile True:\n    print('{\"beat\": true}', flush=True)\n    "
        "time.sleep(0.1)\n    "
    )
    return [sys.executable, "-c", beats + reads]


@pytest.mark.parametrize("reads", ["pass", "os.read(0, 1000)"])
def test_an_agent_stand_in_that_beats_and_does_not_read_is_lost(
    reads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that reads a little now and then could block all sending threads for days."""
    monkeypatch.setattr(connection_module, "SLOWEST_BYTES_PER_S", 10_000_000)
    connection = Connection("stand-in", deaf(reads), b"", silence_s=1)
    reasons: list[str] = []

    def send() -> None:
        with pytest.raises(HostLost) as lost:
            connection.send(
                {"op": "start", "id": 1, "argv": [], "stdin": "x" * 5_000_000, "privileged": False}
            )
        reasons.append(lost.value.reason)

    connection.listen(lambda _: None)
    threads = [threading.Thread(target=send, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(reasons) == 2, 60, "both senders are told")
    assert reasons == ["it does not read what ccmix sends it"] * 2
    assert connection.wait_ended(60)


def test_a_host_stand_in_that_does_not_read_is_closed_in_time() -> None:
    connection = Connection("stand-in", deaf("pass"), b"x" * 5_000_000, silence_s=1)
    host, errors = AgentHost(connection, is_this_machine=False), []

    def close() -> None:
        with pytest.raises(CommandError) as error:
            host.close()
        errors.append(error.value)

    threading.Thread(target=close, daemon=True).start()
    wait_for(lambda: errors, 60, "the host is closed")
    assert connection.wait_ended(60)
