"""Tests campaigns to a host over OpenSSH, with a real sshd: its runs, and a connection that is cut
during a run.
"""

import os
import signal
from pathlib import Path

import polars as pl
import pytest

from ccmix.tools import find_iperf3
from support.commands import Ccmix, rows, summaries, wait_for
from support.sshd import CHANGES, REORDERING, USER, SshServer


@pytest.mark.parametrize("user", ["root", USER])
def test_ccmix_s_own_iperf3_to_a_host_that_has_none(
    sshd: SshServer, ccmix: Ccmix, tmp_path: Path, user: str
) -> None:
    entry = (
        f"[one]\ntype = iperf3\nuser = {user}\ncca = bbr@20M,reno@20M\nstreams = 2\nduration = 1s\n"
    )
    ccmix("run", sshd.ini(tmp_path / "test.ini", entry), "-o", tmp_path / "out", status=0)
    assert [(row["cca"], row["dst"]) for row in rows(tmp_path / "out")] == [
        ("bbr", sshd.address),
        ("reno", sshd.address),
    ]
    [summary] = summaries(tmp_path / "out")
    assert set(summary["facts"]["probes"]) == {"sockmon-src", "sockmon-dst"}
    assert summary["execution"]["diagnostics"] == []
    [cores] = [pl.read_parquet(file) for file in (tmp_path / "out").rglob("cpu.parquet")]
    near, far = (cores.filter(host=host)["time_s"].to_list() for host in ("src", "dst"))
    assert max(near[0], far[0]) < min(near[-1], far[-1])  # they overlap, by one clock
    assert sshd.is_as_before()


def test_a_connection_that_is_cut_fails_its_run_and_not_the_campaign(
    sshd: SshServer, ccmix: Ccmix, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    entry = f"""[cut]
type = x
iterations = 2
{CHANGES}dst-cmd = {find_iperf3()} -s -D
src-cmd = test -e {started} || {{ touch {started}; sleep 5; }}; {find_iperf3()} -c {{dst}} -t 1 -b 20M -J
"""
    running = ccmix.start("run", sshd.ini(tmp_path / "test.ini", entry), "-o", tmp_path / "out")
    wait_for(started.exists, 30, "the first run is at work")
    assert sshd.namespace.run(REORDERING) == "7\n"
    for pid in sshd.sessions():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: sshd.namespace.run(REORDERING) == "3\n", 10, "the guard puts the host back")
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "1 run valid, 0 not valid, 1 failed" in stderr
    assert "dtn" in stderr
    assert sshd.is_as_before()


def test_a_lost_connection_is_retried(sshd: SshServer, ccmix: Ccmix, tmp_path: Path) -> None:
    started = tmp_path / "started"
    entry = f"""[cut]
type = x
retries = 1
{CHANGES}src-cmd = test -e {started} || {{ touch {started}; sleep 300; }}
"""
    running = ccmix.start("run", sshd.ini(tmp_path / "test.ini", entry), "-o", tmp_path / "out")
    wait_for(started.exists, 30, "the first try is at work")
    sessions = sshd.sessions()
    for pid in sessions:
        os.kill(pid, signal.SIGKILL)
    _, stderr = running.communicate(timeout=60)
    assert "0 failed" in stderr
    [summary] = summaries(tmp_path / "out")
    assert len(summary["execution"]["retries"]) == 1
    assert sshd.is_as_before()


def test_a_host_that_another_campaign_has_is_left_to_it(
    sshd: SshServer, ccmix: Ccmix, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    file = sshd.ini(
        tmp_path / "test.ini", f"[long]\ntype = x\n{CHANGES}src-cmd = touch {started}; sleep 300\n"
    )
    first = ccmix.start("run", file, "-o", tmp_path / "first")
    wait_for(started.exists, 30, "the first campaign is at work")
    second = ccmix("run", file, "-o", tmp_path / "second")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert second.returncode == 1
    assert str(tmp_path / "first") in second.stderr
    assert sshd.is_as_before()
