"""Kills harness, agents, keepers, sockmon, iperf3 and sshd at random moments, with every kind of
change of a run.

The hosts are namespaces of a guest of the lab. Its virtual time passes only while the campaign
waits and sends, so kills hit it then, not while a process computes.
"""

import json
import sys
from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from support.commands import REPOSITORY, Ccmix, long
from support.hosts_in_guest import DEFAULT, HOSTS, MEMORY_MIB, PROFILES, STATE

pytestmark = pytest.mark.lab

SEED = 20261123
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


@pytest.mark.parametrize(
    ("reached", "kills", "iterations"),
    [
        long("in namespaces", 50, 4, id="in namespaces-50"),
        long("over SSH", 30, 4, id="over SSH-30"),
    ],
)
@pytest.mark.timeout(7200)
def test_kills_leave_every_run_once_and_every_host_as_before(
    reached: str, kills: int, iterations: int, ccmix: Ccmix, tmp_path: Path
) -> None:
    ssh = ["--ssh"] if reached == "over SSH" else []
    text = f"{DEFAULT}iterations = {iterations}\n{ENTRIES}"
    (tmp_path / "test.ini").write_text(text.replace("netns:", "") if ssh else text)
    (tmp_path / "profiles.yml").write_text(PROFILES)
    script = tmp_path / "script.sh"
    script.write_text(f'set -u\n{HOSTS}\nmkdir out\nPYTHONPATH={REPOSITORY}/tests exec "$@"\n')
    argv = [
        "sh",
        script,
        sys.executable,
        PROGRAM,
        tmp_path / "test.ini",
        "out",
        kills,
        SEED,
        STATE,
        *ssh,
    ]
    done = ccmix("lab", "exec", "--host-root", "--memory", MEMORY_MIB, "--", *argv, timeout=7000)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["faults"] == [], done.stdout
    assert sum(summary["kills"].values()) == kills
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(summary["kills"].items()))
    print(f"{kills} kills ({kinds}) {reached}")
