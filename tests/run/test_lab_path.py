"""Tests a command in a guest on the emulated path of a run."""

import json
from pathlib import Path

import pytest

from support.commands import Ccmix

pytestmark = pytest.mark.lab


def test_a_command_on_the_path_of_a_run(ccmix: Ccmix, small_ini: Path) -> None:
    """Expects a base RTT of 10 ms, from the first ping on: nobody has to ask for a MAC address."""
    ping = ("ip", "netns", "exec", "ccmix-h1", "ping", "-c", 2, "-s", 56, "10.0.3.2")
    done = ccmix("lab", "exec", "--path", small_ini, "--run", "#2", "--", *ping, status=0)
    assert all("time=10.0 ms" in line for line in done.stdout.splitlines()[1:3])
    assert "both all #2: h1 eth0" in done.stderr


def test_nothing_passes_but_what_is_sent(ccmix: Ccmix, small_ini: Path) -> None:
    """Expects no ARP, which a lossy path could lose, and nothing of IPv6's own."""
    ping, queue = (
        "ip netns exec ccmix-h1 ping -c 5 10.0.3.2",
        "tc -n ccmix-bottleneck -s -j qdisc show dev east",
    )
    done = ccmix(
        "lab",
        "exec",
        "--path",
        small_ini,
        "--",
        "sh",
        "-c",
        f"sleep 60; {ping} >/dev/null; {queue}",
        status=0,
    )
    assert json.loads(done.stdout)[0]["packets"] == 5


def test_the_exit_status_and_the_programs_of_ccmix_are_there(ccmix: Ccmix, small_ini: Path) -> None:
    done = ccmix(
        "lab",
        "exec",
        "--path",
        small_ini,
        "--",
        "sh",
        "-c",
        "ccmix-iperf3 --version; exit 9",
        status=9,
    )
    assert "+ccmix" in done.stdout


def test_a_run_that_the_plan_does_not_have(ccmix: Ccmix, small_ini: Path) -> None:
    done = ccmix("lab", "exec", "--path", small_ini, "--run", "mixd", "--", "true", status=2)
    assert "'mixd' in its name" in done.stderr
