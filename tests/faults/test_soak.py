"""Tests that a long campaign with injected faults ends complete, while memory and descriptors stay
flat. soak.py has the faults.

In real time the hosts are namespaces of this machine, and a library sets the campaign's clock back.
In a guest of the lab a day passes in minutes, and the machine's clock can be set. Reboots are only
imitated: processes die, and the journals get another boot's identity.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from support.commands import Ccmix, long, run_program
from support.hosts_in_guest import MEMORY_MIB

PROGRAM = Path(__file__).parent / "soak.py"
HALF_AN_HOUR_S, A_DAY_S = 1800, 86400
GROWTH_KIB_PER_RUN = 100.0
HOSTS = """
for name in near far; do ip netns add $name; ip -n $name link set lo up; done
ip link add eth0 netns near type veth peer name eth0 netns far
ip -n near addr add 10.213.9.1/24 dev eth0; ip -n far addr add 10.213.9.2/24 dev eth0
ip -n near link set eth0 up; ip -n far link set eth0 up
exec "$@"
"""


def soak(prefix: list[object], folder: Path, *options: object, timeout: float) -> dict[str, Any]:
    script = folder / "hosts.sh"
    script.write_text(HOSTS)
    argv = [*map(str, prefix), "sh", str(script), sys.executable, str(PROGRAM), *map(str, options)]
    done = run_program(argv, timeout=timeout)
    assert done.stdout, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(summary)
    return summary


def check(summary: dict[str, Any]) -> None:
    assert summary["whole"], summary
    assert summary["as_before"], summary
    first, last = summary["longest"]
    runs = last["finished"] - first["finished"]
    if runs >= 20:  # of a shorter time, libraries that are loaded are the most
        assert last["descriptors"] <= first["descriptors"] + 16  # some are of the run that goes on
        assert last["threads"] <= first["threads"] + 16
        assert (last["rss_kib"] - first["rss_kib"]) / runs < GROWTH_KIB_PER_RUN, summary


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("seconds", "runs", "every"),
    [
        long(30, 8, 6, id="half a minute"),
        long(HALF_AN_HOUR_S, 320, 45, id="half an hour"),
    ],
)
@pytest.mark.timeout(6000)
def test_faults_in_real_time(seconds: int, runs: int, every: int, tmp_path: Path) -> None:
    unshared: list[object] = [
        "unshare",
        "--net",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs tmpfs /run && exec "$@"',
        "sh",
    ]
    options = (
        tmp_path / "soak",
        "--seconds",
        seconds,
        "--runs",
        runs,
        "--every",
        every,
        "--preload-clock",
    )
    check(soak(unshared, tmp_path, *options, timeout=5900))


@pytest.mark.long
@pytest.mark.lab
@pytest.mark.timeout(6000)
def test_a_day_of_virtual_time(ccmix: Ccmix, tmp_path: Path) -> None:
    """Makes a run each half an hour, with a fault every 50 minutes, and the clock set back
    among them.
    """
    (tmp_path / "hosts.sh").write_text(HOSTS)
    options = (
        "--seconds",
        A_DAY_S,
        "--runs",
        44,
        "--pause",
        "30m",
        "--every",
        3000,
        "--samples-each",
        600,
    )
    argv = ["sh", tmp_path / "hosts.sh", sys.executable, PROGRAM, "soak", *options, "--set-clock"]
    done = ccmix("lab", "exec", "--host-root", "--memory", MEMORY_MIB, "--", *argv, timeout=5900)
    summaries = re.findall(r"^\{.*\}$", done.stdout, re.MULTILINE)
    assert summaries, done.stdout + done.stderr
    print(summaries[-1])
    summary = json.loads(summaries[-1])
    assert summary["faults"].get("clock_set_back"), summary
    check(summary)
