"""Tests that a receiver with --skip-rx-copy waits for whole blocks and loses no byte at the end."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BLOCK_BYTES = 128 * 1024
# Seven whole blocks, and a part of one.
FILE_BYTES = 7 * BLOCK_BYTES + 12345


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "data"
    path.write_bytes(bytes(FILE_BYTES))
    return str(path)


@pytest.fixture
def recorder(tmp_path: Path) -> tuple[str, ...]:
    """Returns the beginning of a command whose calls of recv() are then recorded."""
    if shutil.which("strace") is None:
        pytest.skip("strace is missing: it records calls of recv()")
    return (
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=recvfrom",
        "-e",
        "signal=none",
        "-o",
        str(tmp_path / "calls"),
    )


def recv_calls(recorder: tuple[str, ...]) -> tuple[int, int]:
    """Returns how many calls waited for whole blocks, and how many did not."""
    calls = [line for line in Path(recorder[-1]).read_text().splitlines() if "recvfrom(" in line]
    waiting = sum("MSG_WAITALL" in line for line in calls)
    return waiting, len(calls) - waiting


def total(end: Any, side: str) -> int:
    return end.json["end"][f"sum_{side}"]["bytes"]


def test_part_of_a_block_counts_on_the_server(start: Callable, file: str) -> None:
    got = start("-J", "-i", "0.1", "--skip-rx-copy", "-F", file).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    assert total(got.client, "sent") == FILE_BYTES
    assert total(got.client, "received") == FILE_BYTES
    assert total(got.server, "received") == FILE_BYTES
    assert sum(i["sum"]["bytes"] for i in got.server.json["intervals"]) == FILE_BYTES


def test_part_of_a_block_counts_on_the_client(start: Callable, file: str) -> None:
    got = start(
        "-J", "-R", "-t", "1", "--skip-rx-copy", server_arguments=("-J", "-F", file)
    ).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    assert total(got.client, "received") == FILE_BYTES
    assert total(got.client, "sent") == FILE_BYTES


def test_both_ends_agree(start: Callable) -> None:
    """At a rate that the path carries, nothing is under way when the test ends: every byte
    has arrived.
    """
    got = start("-J", "-t", "1", "-b", "50M", "-P", "4", "--skip-rx-copy").finish()
    streams = got.client.json["end"]["streams"]
    received = [s["receiver"]["bytes"] for s in streams]
    assert received == [s["receiver"]["bytes"] for s in got.server.json["end"]["streams"]]
    for stream in streams:
        # the sender doesn't count a block that it was writing when it was stopped
        assert 0 <= stream["receiver"]["bytes"] - stream["sender"]["bytes"] <= BLOCK_BYTES
    assert min(received) > 4e6


@pytest.mark.parametrize("direction", [(), ("-R",), ("--bidir",)], ids=["forward", "-R", "bidir"])
def test_full_speed_ends_in_time(start: Callable, direction: tuple[str, ...]) -> None:
    """Streams are blocked in recv() and send() when the test ends. The missing bytes fit into the
    buffers.
    """
    got = start("-J", "-t", "1", "-P", "4", "--skip-rx-copy", *direction).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    sent, received = total(got.client, "sent"), total(got.client, "received")
    assert sent > 1e7
    assert 0.5 * sent < received < sent + 4 * BLOCK_BYTES


def test_the_server_does_it_when_the_client_asks(
    start: Callable, recorder: tuple[str, ...]
) -> None:
    start(
        "-t", "1", "-b", "100M", "--skip-rx-copy", before_server=recorder, server_arguments=()
    ).finish()
    waiting, others = recv_calls(recorder)
    # one for each of about 95 blocks, and at most one for what has arrived at the end
    assert 20 < waiting < 200
    assert others <= 1


def test_without_it_nothing_changes(start: Callable, recorder: tuple[str, ...]) -> None:
    start("-t", "1", "-b", "100M", before_server=recorder, server_arguments=()).finish()
    assert recv_calls(recorder) == (0, 0)
