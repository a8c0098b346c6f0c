"""Kills the harness by kill -9 at random moments of a campaign between hosts: restored each time, resumed, nothing
twice.
"""

import json
import random
import time
from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from support import Ccmix, Pair, Write, wait_for

ITERATIONS = 5
KILLS = {False: 30, True: 200}
MOST_WAIT_S = 3.0  # a start takes about one, a run a half
UNCHANGED, CHANGED = "3", "7"
QUIET = ["sysctl", "-n", "net.ipv4.tcp_reordering"]


@pytest.mark.parametrize(
    "long", [pytest.param(False, id="30", marks=pytest.mark.deep), pytest.param(True, id="200", marks=pytest.mark.long)]
)
def test_killed_at_random_moments(long: bool, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path) -> None:
    config = ini(f"""[many]
type = x
iterations = {ITERATIONS}
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering={CHANGED}; tc qdisc add dev eth0 root pfifo limit 777
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering={UNCHANGED}; tc qdisc del dev eth0 root
dst-cmd = {find_iperf3()} -s -D
src-cmd = {find_iperf3()} -c {{dst}} -n 100K -b 5M
""")
    moments = random.Random(20261120)
    before = state(pair)
    campaigns, killed_at_work = [tmp_path / "0"], 0
    for _ in range(KILLS[long]):
        if len(finished(campaigns[-1])) == ITERATIONS:
            campaigns.append(tmp_path / str(len(campaigns)))
        running = ccmix.start("run", config, "-o", campaigns[-1], "--resume")
        time.sleep(moments.uniform(0.3, MOST_WAIT_S))
        running.kill()
        _, stderr = running.communicate(timeout=30)
        killed_at_work += running.returncode < 0
        assert running.returncode < 0 or "5 runs valid" in stderr or "not valid" in stderr, stderr
        wait_for(lambda: pair.running() == [], 15, "the end of every process on the hosts")
        wait_for(lambda: state(pair) == before, 5, "the hosts as they were")
    assert killed_at_work > KILLS[long] / 2
    for outdir in campaigns:
        ccmix("run", config, "-o", outdir, "--resume")
        assert sorted(finished(outdir)) == [f"{number:03d}" for number in range(1, ITERATIONS + 1)]
        assert not list(outdir.rglob("*.partial"))
        [row] = json.loads(ccmix("report", outdir, "--format", "json").stdout)
        assert row["runs"] == ITERATIONS
    assert state(pair) == before


def finished(outdir: Path) -> list[str]:
    return [file.parent.name for file in outdir.rglob("run.json")]


def state(pair: Pair) -> str:
    return pair.near_says(*QUIET) + pair.near_says("tc", "qdisc", "show")
