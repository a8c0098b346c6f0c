"""Fuzzes the agent's protocol in both directions, with messages whose structure is damaged.

`make fuzz-agent` runs it for CCMIX_FUZZ_SECONDS. A failure names its seed.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccmix.hosts import CommandError, NamespaceHost
from ccmix.hosts import agent_host as agent_host_module
from ccmix.hosts.address import agent_command, agent_source, parse_host
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.pool import connect
from support.commands import REPOSITORY
from support.fuzzed_messages import Message, damaged

CASES = 25  # of each direction in `make test-long`
SECONDS = float(os.environ.get("CCMIX_FUZZ_SECONDS", "0"))
AGENT_LEAVES_WITHIN_S = 120


def seeds() -> Iterator[int]:
    """Yields the same few seeds, or random ones for the requested time."""
    if not SECONDS:
        yield from range(CASES)
        return
    end, first = time.monotonic() + SECONDS / 2, random.randrange(10**9)
    for seed in itertools.count(first):
        if time.monotonic() > end:
            print(f"{seed - first} cases from seed {first}")
            return
        yield seed


def uses(host: AgentHost, folder: Path) -> list[Callable[[], object]]:
    """Uses a host the way ccmix does."""

    def start() -> None:
        with host.start(["a"], stdout=folder / "out", stderr=folder / "err") as process:
            process.listening()
            process.command_lines()
            process.wait(0.2)

    def change() -> None:
        with host.changed("a", ["b"], ["c"]):
            host.run(["d"], timeout_s=0.2)

    return [
        lambda: host.run(["a"], timeout_s=0.2),
        lambda: host.read("/a"),
        host.clock_ahead_s,
        start,
        change,
        lambda: host.put(Path(__file__), "a"),
        lambda: host.forget(host.remember("a", ["b"])),
    ]


@pytest.mark.long
def test_a_controller_with_an_agent_stand_in_that_damages_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(agent_host_module, "ANSWERS_WITHIN_S", 0.3)
    monkeypatch.setattr(agent_host_module, "ENDS_WITHIN_S", 0.3)
    monkeypatch.setattr(agent_host_module, "LEAVES_WITHIN_S", 0.3)
    dead: list[object] = []
    monkeypatch.setattr(threading, "excepthook", dead.append)
    ssh = tmp_path / "ssh"
    for seed in seeds():
        ssh.write_text(
            f"#!/bin/sh\nexec {sys.executable} -I -S {REPOSITORY}/tests/support/fuzzed_messages.py "
            f'{seed} "$@"\n'
        )
        ssh.chmod(0o755)
        dice = random.Random(seed)
        try:
            host = connect(parse_host("far"), "a test", within_s=2)
        except CommandError:
            continue
        try:
            for use in dice.choices(uses(host, tmp_path), k=6):
                try:
                    use()
                except CommandError:
                    continue
                except Exception as error:
                    raise AssertionError(f"seed {seed}") from error
        finally:
            assert host.abandon(30) or host.lost, f"seed {seed}"
        assert not dead, f"seed {seed}: {dead}"


def beginning(done: Path) -> Iterator[Message]:
    """Yields the first messages of a controller, which make a change."""
    owner = {"campaign": "fuzz", "user": "u", "host": "h", "pid": 1, "since": "now"}
    first: Message = {"owner": owner, "token": "t", "silence_s": 60.0, "onlooker": False}
    change: Message = {
        "op": "about_to",
        "call": 0,
        "what": "w",
        "undo": ["touch", str(done)],
        "privileged": False,
    }
    yield from (first, change, {"op": "made", "call": 1, "number": 1})


def more(seed: int) -> bytes:
    """Returns damaged messages."""
    dice = random.Random(seed)
    possible: list[Message] = [
        {"op": "start", "id": 5, "argv": ["sleep", "0.1"], "stdin": "", "privileged": False},
        {"op": "start", "id": 6, "argv": ["cat"], "stdin": "AAAA", "privileged": False},
        {"op": "end", "id": 5},
        {"op": "listening", "id": 5, "call": 2},
        {"op": "commands", "id": 6, "call": 3},
        {"op": "clock", "call": 4},
        {"op": "beat"},
        {"op": "about_to", "call": 7, "what": "x", "undo": ["true"], "privileged": False},
    ]
    return b"".join(damaged(message, dice) for message in dice.choices(possible, k=12))


@pytest.mark.long
def test_an_agent_whose_controller_damages_messages(
    namespace: NamespaceHost, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that the agent leaves without a traceback, and undoes its earlier changes."""
    monkeypatch.setenv("CCMIX_STATE", str(state))
    for seed in seeds():
        done = tmp_path / f"undone-{seed}"
        agent = subprocess.Popen(
            agent_command(parse_host(f"netns:{namespace.name}")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert agent.stdin
        assert agent.stdout
        agent.stdin.write(agent_source())
        for message in beginning(done):
            agent.stdin.write(json.dumps(message).encode() + b"\n")
            agent.stdin.flush()
            agent.stdout.readline()
        errors = agent.communicate(more(seed), timeout=AGENT_LEAVES_WITHIN_S)[1].decode(
            errors="replace"
        )
        assert "Traceback" not in errors, f"seed {seed}: {errors}"
        assert done.exists(), f"seed {seed}: {errors}"
        assert not list(state.glob("undo-*")), f"seed {seed}: {errors}"
        done.unlink()
