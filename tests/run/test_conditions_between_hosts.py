"""What runs between hosts change on them, and how they are afterwards.

On a guest of the lab, whose kernel has netem and fq; its namespaces are the hosts: near ─ router ─ far.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ccmix.tools import find_iperf3
from support import CCMIX, Ccmix

MEMORY_MIB = 3000  # the harness with all its libraries runs inside

HOSTS = """
for name in near router far; do ip netns add $name; ip -n $name link set lo up; done
ip link add eth0 numtxqueues 2 numrxqueues 2 netns near type veth \\
    peer name west numtxqueues 2 numrxqueues 2 netns router
ip link add eth0 netns far type veth peer name east netns router
ip -n near addr add 10.0.1.1/24 dev eth0; ip -n router addr add 10.0.1.2/24 dev west
ip -n far addr add 10.0.2.1/24 dev eth0; ip -n router addr add 10.0.2.2/24 dev east
for link in near:eth0 router:west router:east far:eth0; do
    ip -n ${link%:*} link set ${link#*:} up
    ip netns exec ${link%:*} ethtool -K ${link#*:} gro off tso off gso off
done
ip -n near route add default via 10.0.1.2; ip -n far route add default via 10.0.2.2
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
"""
STATE = """
for name in near router far; do
    tc -n $name qdisc show | sed 's/ 8[0-9a-f]*: / /'
    ip netns exec $name sh -c 'grep -s "" /proc/sys/net/ipv4/tcp_*; cat /sys/module/tcp_cubic/parameters/*'
done
ls $CCMIX_STATE
"""
DEFAULT = """[DEFAULT]
src = netns:near
dst = 10.0.2.1
dst-host = netns:far
interval = 100ms
cca = bbr
"""
COMMANDS = f"dst-cmd = {find_iperf3()} -s -1\nsrc-cmd = {find_iperf3()} -c {{dst}} -t 2 -J"


class Guest:
    """Runs a campaign in a guest, and says what the hosts were before it and after."""

    def __init__(self, ccmix: Ccmix, tmp_path: Path) -> None:
        self._ccmix = ccmix
        self._folder = tmp_path

    def __call__(self, entries: str, *options: str, prepare: str = "", seconds: float = 240) -> str:
        (self._folder / "test.ini").write_text(DEFAULT + entries)
        run = f"{CCMIX} run {self._folder}/test.ini -o out {' '.join(options)}"
        script = self._folder / "script.sh"
        script.write_text(
            f"set -u\n{HOSTS}{prepare}\n({STATE}) >before\n{run} || echo STATUS $?\n({STATE}) >after\n"
            f"diff before after && echo SAME\n"
            f"{CCMIX} report out --format json >rows.json; echo ROWS; cat rows.json; echo; echo LOGS\n"
            f"cat out/*/*/*/*/logs/run.log\n"
        )
        done = self._ccmix("lab", "exec", "--memory", MEMORY_MIB, "--", "sh", script, timeout=seconds)
        return done.stdout


@pytest.fixture
def guest(ccmix: Ccmix, tmp_path: Path) -> Guest:
    return Guest(ccmix, tmp_path)


def rows(said: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said.partition("ROWS\n")[2].partition("\nLOGS")[0])
    return found


def test_netem_over_a_sweep_acts_in_both_directions_and_goes(guest: Guest) -> None:
    said = guest(
        f"[sweep]\ntype = x\nnetem-at = netns:router:east,west\nlat-sweep = 5,20\nnetem-loss = 0.5\n{COMMANDS}\n"
    )
    assert "STATUS" not in said, said  # each run's own verdict compares ping's RTT and netem's losses with the entry
    assert "SAME" in said, said
    assert [row["condition"] for row in rows(said)] == [{"netem-lat": "5"}, {"netem-lat": "20"}]
    assert [row["rtt_median_s"] for row in rows(said)] == pytest.approx([0.010, 0.040], abs=0.004)


def test_the_place_of_netem_may_come_from_the_command_line(guest: Guest) -> None:
    entry = f"[one]\ntype = x\nnetem-lat = 10\n{COMMANDS}\n"
    said = guest(entry, "--netem-at", "netns:router:east,west")
    assert "STATUS" not in said, said
    assert rows(said)[0]["rtt_median_s"] == pytest.approx(0.020, abs=0.003)


@pytest.mark.parametrize(
    ("prepare", "before"),
    [
        ("", "the kernel's own qdisc"),
        ("tc -n near qdisc replace dev eth0 root fq limit 4321 flow_limit 99", "an fq"),
        ("tc -n near qdisc replace dev eth0 root fq maxrate 900mbit", "an fq with a rate of its own"),
        ("tc -n near qdisc replace dev eth0 root handle 1: mq; "
         "for queue in 1 2; do tc -n near qdisc replace dev eth0 parent 1:$queue fq limit 777; done", "an mq of fq"),
        ("tc -n near qdisc replace dev eth0 root fq_codel limit 1234 target 7ms", "an fq_codel"),
        ("tc -n near qdisc replace dev eth0 root pfifo limit 55", "a pfifo"),
    ],
    ids=lambda value: value if value.startswith(("the", "a ", "an ")) else "",
)  # fmt: skip
def test_pacing_holds_and_the_device_is_as_before(guest: Guest, prepare: str, before: str) -> None:
    said = guest(f"[paced]\ntype = x\npacing = 20mbit\n{COMMANDS}\n", prepare=prepare)
    assert "SAME" in said, said
    [row] = rows(said)
    assert row["goodput_mean_bps"] == pytest.approx(20e6 * 1448 / 1514, rel=0.03), before


def test_a_qdisc_that_could_not_be_put_back_is_left_alone(guest: Guest) -> None:
    said = guest(
        f"[paced]\ntype = x\npacing = 20mbit\n{COMMANDS}\n", prepare="tc -n near qdisc replace dev eth0 root sfq"
    )
    assert "eth0 has a qdisc sfq" in said
    assert "SAME" in said


def test_a_parameter_s_sweep_is_written_and_put_back(guest: Guest) -> None:
    said = guest(
        "[sweep]\ntype = x\nparam-sweep = tcp_cubic/parameters/beta, sys-module-list,700,800\n"
        "src-cmd = cat /sys/module/tcp_cubic/parameters/beta >&2; exit 1\n"
    )
    assert "exit status 1: 700" in said
    assert "exit status 1: 800" in said
    assert "SAME" in said, said


def test_a_profile_acts_on_its_own_interface(guest: Guest, tmp_path: Path) -> None:
    (tmp_path / "profiles.yml").write_text(
        "profiles:\n  WAN:\n    interface: eth0\n    latency: 30ms\n    rate: 10Mbit\n"
    )
    said = guest(f"[one]\ntype = x\nprofile = WAN\nprofile-file = profiles.yml\n{COMMANDS}\n")
    assert "SAME" in said, said
    [row] = rows(said)
    assert row["goodput_mean_bps"] == pytest.approx(10e6, rel=0.1)
    assert row["rtt_median_s"] > 0.030


def test_a_killed_campaign_is_put_back_by_its_own_agents(guest: Guest) -> None:
    """kill -9 of the harness in the middle of the traffic: nobody else does anything."""
    prepare = """
cat >killer.sh <<'END'
until ls out/*/*/*/*/logs/sockets.jsonl >/dev/null 2>&1; do sleep 0.1; done
sleep 1
for process in /proc/[0-9]*; do
    if tr '\\0' ' ' <$process/cmdline 2>/dev/null | grep -q 'ccmix run'; then kill -9 ${process#/proc/}; fi
done
END
sh killer.sh &
"""
    said = guest(
        f"[one]\ntype = x\nnetem-at = netns:router:east,west\nnetem-lat = 10\npacing = 20mbit\n"
        f"dst-cmd = {find_iperf3()} -s -D\nsrc-cmd = sleep 100\n"
        "pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7\npost-src-cmd = sysctl -qw net.ipv4.tcp_reordering=3\n",
        prepare=prepare,
    )
    assert "STATUS 137" in said, said
    assert "SAME" in said, said
