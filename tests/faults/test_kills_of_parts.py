"""Kills the harness, agents, keepers, sockmon and iperf3 at random moments, with every kind of change that a run makes.

The hosts are namespaces of a guest of the lab. Its time is virtual, and passes while the campaign waits and sends: so
kills hit it there, and not while a process computes.
"""

import json
import sys
from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from hosts_in_guest import DEFAULT, HOSTS, MEMORY_MIB, PROFILES, STATE
from support import Ccmix

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parent / "kill_parts.py"
TRAFFIC = f"dst-cmd = {find_iperf3()} -s -1\nsrc-cmd = {find_iperf3()} -c {{dst}} -t 1 -C bbr -J\n"
ENTRIES = f"""
[all]
netem-at = netns:router:east,west
netem-lat = 10
netem-loss = 0.1
pacing = 20mbit
param-sweep = tcp_cubic/parameters/beta, sys-module-list,700,800
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering=3
{TRAFFIC}
[profile]
profile = WAN
profile-file = profiles.yml
{TRAFFIC}
"""


@pytest.mark.parametrize("kills", [pytest.param(5, marks=pytest.mark.deep), pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.timeout(7200)
def test_kills_leave_every_run_once_and_every_host_as_before(kills: int, ccmix: Ccmix, tmp_path: Path) -> None:
    (tmp_path / "test.ini").write_text(DEFAULT + ENTRIES)
    (tmp_path / "profiles.yml").write_text(PROFILES)
    script = tmp_path / "script.sh"
    script.write_text(f'set -u\n{HOSTS}\nmkdir out\nexec "$@"\n')
    argv = ["sh", script, sys.executable, PROGRAM, tmp_path / "test.ini", "out", kills, 20261123, STATE]
    done = ccmix("lab", "exec", "--memory", MEMORY_MIB, "--", *argv, timeout=7000)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["faults"] == [], done.stdout
    assert sum(summary["kills"].values()) == kills
    print(summary)
