"""Tests the changes that runs between hosts make on them, and the hosts' state afterwards.

Runs in a guest of the lab, whose kernel has netem and fq; its namespaces are the hosts: near ─
router ─ far.
"""

from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from support.hosts_in_guest import Printed, run_in_guest

pytestmark = [pytest.mark.lab, pytest.mark.deep]

IPERF3 = find_iperf3()
COMMANDS = f"dst-cmd = {IPERF3} -s -1\nsrc-cmd = {IPERF3} -c {{dst}} -t 2 -C bbr -J\n"
NETEM = "netem-at = netns:router:east,west\n"

# The queue of the sending device before pacing, without handles that the kernel chooses.
QDISCS = {
    "own": "true",
    "fq": "tc qdisc replace dev eth0 root fq limit 4321 flow_limit 99",
    "rate": "tc qdisc replace dev eth0 root fq maxrate 900mbit",
    "mq": "tc qdisc replace dev eth0 root handle 1: mq; "
    "for queue in 1 2; do tc qdisc replace dev eth0 parent 1:$queue fq limit 777; done",
    "mq-of-defaults": "sysctl -qw net.core.default_qdisc=fq; tc qdisc replace dev eth0 root mq; "
    "tc qdisc add dev eth0 clsact",
    "fq_codel": "tc qdisc replace dev eth0 root fq_codel limit 1234 target 7ms",
    "pfifo": "tc qdisc replace dev eth0 root pfifo limit 55",
}
SHOW = "tc qdisc show dev eth0 | sed 's/ 8[0-9a-f]*: / /; s/refcnt [0-9]*//'"
PACED = "".join(
    f"[paced-{name}]\npacing = 20mbit\npre = {command}; {SHOW} >before-{name}\n"
    f"post = {SHOW} >after-{name}; tc qdisc del dev eth0 root; tc qdisc del dev eth0 clsact; \
sysctl -qw net.core.default_qdisc=pfifo_fast; true\n{COMMANDS}"
    for name, command in QDISCS.items()
)
ENTRIES = f"""
[sweep]
{NETEM}lat-sweep = 5,20
pacing = 20mbit
netem-loss = 0.5
{COMMANDS}
{PACED}
[no-way-back]
pacing = 20mbit
pre = tc qdisc replace dev eth0 root htb
post = tc qdisc del dev eth0 root
{COMMANDS}
[parameter]
param-sweep = tcp_cubic/parameters/beta, sys-module-list,700,800
src-cmd = cat /sys/module/tcp_cubic/parameters/beta >&2; exit 1

[profile]
profile = WAN
profile-file = profiles.yml
{COMMANDS}
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    return run_in_guest(tmp_path_factory.mktemp("conditions"), ENTRIES)


def test_the_hosts_are_as_before(printed: Printed) -> None:
    assert printed.as_before, printed.output
    assert "left changed" not in printed.output


def test_netem_over_a_sweep_acts_in_both_directions(printed: Printed) -> None:
    """Relies on each run's own verdict, which compares ping's RTT and netem's losses with
    the entry.
    """
    rows = printed.rows["sweep"]
    assert [row["condition"] for row in rows] == [{"netem-lat": "5"}, {"netem-lat": "20"}]
    assert [row["invalid"] for row in rows] == [0, 0], printed.output
    assert [row["rtt_median_s"] for row in rows] == pytest.approx([0.010, 0.040], abs=0.004)


@pytest.mark.parametrize("name", QDISCS)
def test_pacing_holds_and_the_device_is_as_before(printed: Printed, name: str) -> None:
    [row] = printed.rows[f"paced-{name}"]
    assert row["goodput_mean_bps"] == pytest.approx(20e6 * 1448 / 1514, rel=0.03), printed.output
    before, after = (
        (printed.folder / f"{when}-{name}").read_text() for when in ("before", "after")
    )
    assert before.startswith("qdisc ")
    assert after == before


def test_a_qdisc_that_could_not_be_put_back_is_left_alone(printed: Printed) -> None:
    assert "eth0 has a qdisc htb" in printed.output
    assert "no-way-back" not in printed.rows


def test_a_parameter_s_sweep_is_written(printed: Printed) -> None:
    assert "exit status 1: 700" in printed.output
    assert "exit status 1: 800" in printed.output


def test_a_profile_acts_on_its_own_interface(printed: Printed) -> None:
    [row] = printed.rows["profile"]
    assert row["goodput_mean_bps"] == pytest.approx(10e6, rel=0.1)
    assert row["rtt_median_s"] > 0.030


def test_a_killed_campaign_is_put_back_by_its_own_agents(tmp_path: Path) -> None:
    """Kills the harness with kill -9 in the middle of the traffic; nothing else intervenes. An
    option sets netem's place.
    """
    prepare = """
cat >killer.sh <<'END'
until ls out/*/*/*/*/logs/run.sockmon >/dev/null 2>&1; do sleep 0.1; done
sleep 1
for process in /proc/[0-9]*; do
    if tr '\\0' ' ' <$process/cmdline 2>/dev/null | grep -q 'ccmix run'; then kill -9 ${process#/proc/}; fi
done
END
sh killer.sh &
"""
    printed = run_in_guest(
        tmp_path,
        f"[one]\nnetem-lat = 10\npacing = 20mbit\ndst-cmd = {IPERF3} -s -D\nsrc-cmd = sleep 100\n"
        "pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7\npost-src-cmd = sysctl -qw "
        "net.ipv4.tcp_reordering=3\n",
        "--netem-at",
        "netns:router:east,west",
        prepare=prepare,
    )
    assert "STATUS 137" in printed.output, printed.output
    assert printed.as_before, printed.output
