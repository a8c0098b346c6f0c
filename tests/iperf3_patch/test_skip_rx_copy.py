"""Tests that a receiver with --skip-rx-copy waits for whole blocks and loses no byte at the end."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BLOCK_BYTES = 128 * 1024
# Seven whole blocks, and a part of one.
FILE_BYTES = 7 * BLOCK_BYTES + 12345

RECORDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>

static int waits, plain;

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
    ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");

    __atomic_add_fetch(flags & MSG_WAITALL ? &waits : &plain, 1, __ATOMIC_RELAXED);
    return next(fd, buf, len, flags);
}

static __attribute__((destructor)) void report(void)
{
    fprintf(stderr, "recv: %d waiting, %d not\n", waits, plain);
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "data"
    path.write_bytes(bytes(FILE_BYTES))
    return str(path)


@pytest.fixture
def recorder(tmp_path: Path, iperf3: str) -> tuple[str, ...]:
    """Returns the beginning of a command whose process then records its calls of recv()."""
    if b"__asan_init" in Path(iperf3).read_bytes():
        pytest.skip("AddressSanitizer wants to be the first library of a process")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing: it compiles a library that records calls of recv()")
    source, library = tmp_path / "recorder.c", tmp_path / "recorder.so"
    source.write_text(RECORDER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return ("env", f"LD_PRELOAD={library}")


def recv_calls(errors: str) -> tuple[int, ...]:
    return tuple(map(int, re.search(r"recv: (\d+) waiting, (\d+) not", errors).groups()))


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
    got = start("-J", "-R", "-t", "1", "--skip-rx-copy", server_arguments=("-J", "-F", file)).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    assert total(got.client, "received") == FILE_BYTES
    assert total(got.client, "sent") == FILE_BYTES


def test_both_ends_agree(start: Callable) -> None:
    """At a rate that the path carries, nothing is under way when the test ends: every byte has arrived."""
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
    """Streams are blocked in recv() and send() when the test ends. What is missing fits into the buffers."""
    got = start("-J", "-t", "1", "-P", "4", "--skip-rx-copy", *direction).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    sent, received = total(got.client, "sent"), total(got.client, "received")
    assert sent > 1e7
    assert 0.5 * sent < received < sent + 4 * BLOCK_BYTES


def test_the_server_does_it_when_the_client_asks(start: Callable, recorder: tuple[str, ...]) -> None:
    got = start("-t", "1", "-b", "100M", "--skip-rx-copy", before_server=recorder, server_arguments=()).finish()
    waiting, others = recv_calls(got.server.errors)
    # one for each of about 95 blocks, and at most one for what has arrived at the end
    assert 20 < waiting < 200
    assert others <= 1


def test_without_it_nothing_changes(start: Callable, recorder: tuple[str, ...]) -> None:
    got = start("-t", "1", "-b", "100M", before_server=recorder, server_arguments=()).finish()
    assert recv_calls(got.server.errors) == (0, 0)
