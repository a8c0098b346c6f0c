"""Kills the harness by kill -9 at random moments of a campaign between hosts: restored each time,
resumed, nothing twice.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from support.commands import Ccmix, Pair, Write, wait_for
from support.kills import Killer

ITERATIONS = 5
KILLS = 200
UNCHANGED, CHANGED = "3", "7"
QUIET = ["sysctl", "-n", "net.ipv4.tcp_reordering"]


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_killed_at_random_moments(ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path) -> None:
    config = ini(f"""[many]
type = x
iterations = {ITERATIONS}
connect-timeout = 120s
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering={CHANGED}; tc qdisc add dev eth0 root pfifo limit 777
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering={UNCHANGED}; tc qdisc del dev eth0 root
dst-cmd = {find_iperf3()} -s -D
src-cmd = {find_iperf3()} -c {{dst}} -n 500K -b 5M
""")
    before = state(pair)

    def check(_: set[str]) -> Sequence[str]:
        wait_for(lambda: pair.running() == [], 15, "the end of every process on the hosts")
        wait_for(lambda: state(pair) == before, 30, "the hosts as they were")
        return ()

    made = Killer(
        tmp_path,
        lambda outdir, output: ccmix.start("run", config, "-o", outdir, "--resume", output=output),
        lambda harness: {"harness": [harness]},
        check,
        seed=20261120,
        longest_wait_s=3.0,  # a start takes about one, a run one and a half
    ).make(KILLS)
    assert made.faults == []
    for campaign in range(made.campaigns):
        [row] = json.loads(ccmix("report", tmp_path / str(campaign), "--format", "json").stdout)
        assert row["runs"] == ITERATIONS
    print(made)


def state(pair: Pair) -> str:
    return pair.near_says(*QUIET) + pair.near_says("tc", "qdisc", "show")
