"""Kills sshd's processes at random moments of a campaign over SSH: every run once, and the host as before."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from sshd import CHANGES, SshServer
from support import Ccmix, wait_for

ITERATIONS = 5
MOST_WAIT_S = 3.0


@pytest.mark.parametrize("kills", [pytest.param(4, marks=pytest.mark.deep), pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.timeout(5400)
def test_killed_connections_cost_no_run_twice(kills: int, sshd: SshServer, ccmix: Ccmix, tmp_path: Path) -> None:
    entry = f"""[killed]
type = x
iterations = {ITERATIONS}
retries = 2
{CHANGES}dst-cmd = {find_iperf3()} -s -D
src-cmd = {find_iperf3()} -c {{dst}} -n 200K -b 2M
"""
    config = sshd.ini(tmp_path / "test.ini", entry)
    moments = random.Random(20261123)
    killed, campaigns = 0, 0
    while killed < kills:
        outdir = tmp_path / str(campaigns)
        status = 1
        while status != 0:
            running = ccmix.start("run", config, "-o", outdir, "--resume")
            while running.poll() is None:
                time.sleep(moments.uniform(0.1, MOST_WAIT_S))
                if killed < kills and (sessions := sshd.sessions()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(moments.choice(sessions), signal.SIGKILL)
                        killed += 1
            _, errors = running.communicate()
            status = running.returncode
            assert status in (0, 1), errors
            assert "Traceback" not in errors
            wait_for(sshd.is_as_before, 120, "the host as it was")
        runs = [file.parent.name for file in outdir.rglob("run.json")]
        assert sorted(runs) == [f"{number:03d}" for number in range(1, ITERATIONS + 1)]
        assert not list(outdir.rglob("*.partial"))
        campaigns += 1
    print(f"{killed} kills of sshd's processes in {campaigns} campaigns of {ITERATIONS} runs")
