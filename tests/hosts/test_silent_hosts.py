"""Tests hosts that accept the connection and then do not answer. A shell script replaces ssh."""

import json
import os
from pathlib import Path

import pytest

from ccmix.hosts import pool as pool_module
from ccmix.hosts.address import parse_host
from ccmix.hosts.errors import ConnectError, HostSilent
from ccmix.hosts.pool import Hosts, connect
from support.fuzzed_messages import HELLO


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the path at which a test writes the script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "ssh"


def write(ssh: Path, script: str) -> None:
    ssh.write_text(f"#!/bin/sh\n{script}\n")
    ssh.chmod(0o755)


def test_a_host_stand_in_that_hangs_is_remembered(
    ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = ssh.with_name("tries")
    write(ssh, f"echo >>{tries}; exec sleep 60")
    monkeypatch.setattr("ccmix.hosts.pool.TELLS_AFTER_S", 0.1)
    sentences: list[str] = []
    with Hosts("a test", tell=sentences.append) as hosts:
        with pytest.raises(
            HostSilent,
            match=r"^far: it accepted the connection, but no agent answered within 1 s: check ",
        ):
            hosts.get(parse_host("far"), within_s=1)
        with pytest.raises(
            HostSilent, match=r"it is not tried again before ([1-5]\d|60) s have passed$"
        ):
            hosts.get(parse_host("far"), within_s=1)
        assert tries.read_text() == "\n"
        assert sentences == ["far: no answer after 0.1 s; ccmix waits 1 s (connect-timeout)"]


def test_the_distances_between_attempts_grow(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ssh, "exec sleep 60")
    distances_s = [pool_module.next_wait_s(former_s) for former_s in (None, 60.0, 120.0, 2000.0)]
    assert distances_s == [60.0, 120.0, 240.0, 3600.0]
    monkeypatch.setattr(
        pool_module, "next_wait_s", lambda former_s: 0.0 if former_s is None else 1000.0
    )
    with Hosts("a test") as hosts:
        for _ in range(2):
            with pytest.raises(HostSilent, match="check that 'ssh"):
                hosts.get(parse_host("far"), within_s=0.1)
        with pytest.raises(HostSilent, match=r"not tried again before (9\d\d|1000) s"):
            hosts.get(parse_host("far"), within_s=0.1)


def test_a_host_stand_in_that_answers_again_is_forgotten(
    ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ssh, "exec sleep 60")
    monkeypatch.setattr(pool_module, "SILENT_S", (0.0, 0.0))
    with Hosts("a test") as hosts:
        with pytest.raises(HostSilent):
            hosts.get(parse_host("far"), within_s=0.1)
        write(ssh, f"echo '{json.dumps(HELLO)}'; exec cat >/dev/null")
        assert hosts.get(parse_host("far")).uid == 0
        hosts.abandon()


def test_an_agent_stand_in_that_says_why_it_waits_is_waited_for(ssh: Path) -> None:
    """Lets the hello come later than the time limit for the first message."""
    sentences: list[str] = []
    write(
        ssh,
        f"""echo '{{"waits": "it undoes"}}'; sleep 6; echo '{json.dumps(HELLO)}'; exec cat >/dev/null""",
    )
    host = connect(parse_host("far"), "a test", within_s=5, tell=sentences.append)
    host.abandon()
    assert sentences[-1] == "far: it undoes; ccmix waits up to 120 s"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"refused": 5}', "its refused can't be 5"),
        ('{"hello": 5}', "its hello is not a single JSON object"),
        ('{"hello": {}, "reply": []}', "its hello is not a single JSON object"),
        ('{"hello": {"pid": 1}}', "its hello lacks boot_id"),
        ('{"surprise": 1}', "it sends 'surprise', which no message of an agent has"),
        ('{"id": true}', "its id can't be True"),
        ('{"id": 1, "stdout": 5}', "its stdout can't be 5"),
        ('{"reply": 7}', "it answers a question that was not asked"),
        ('{"left": [5]}', r"its left can't be \[5\]"),
        ('{"beat": NaN}', "NaN is not a finite number"),
        ('{"beat', "Unterminated string"),
    ],
)
def test_what_no_agent_sends(line: str, reason: str, ssh: Path) -> None:
    write(ssh, f"echo '{line}'; exec cat >/dev/null")
    with pytest.raises(ConnectError, match=f"^far: there is no agent of ccmix: .*{reason}"):
        connect(parse_host("far"), "a test")
