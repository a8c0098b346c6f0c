"""Tests that the doctor reports problems, and that its commands fix them: in a guest of the lab,
and in a namespace.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ccmix.doctor.checks import DoctorOptions
from ccmix.doctor.examine import examine
from ccmix.doctor.report import Status, to_run
from ccmix.hosts import NamespaceHost
from support.commands import CCMIX, REPOSITORY
from support.model import host_run

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def guest() -> dict[str, Any]:
    """Returns the report of tests/doctor/in_a_guest.py from one guest."""
    script = Path(__file__).with_name("in_a_guest.py")
    paths = f"PYTHONPATH={REPOSITORY / 'tests'}:{REPOSITORY / 'harness'}"
    argv = [CCMIX, "lab", "exec", "--host-root", "--", "env", paths, sys.executable, str(script)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


WRONG = {
    # 1 Gbit/s x 20 ms x 2 = 5 MB
    "netns:a net.ipv4.tcp_wmem": "sysctl -w 'net.ipv4.tcp_wmem=4096 16384 8388608'",
    "netns:b net.ipv4.tcp_rmem": "sysctl -w 'net.ipv4.tcp_rmem=4096 8192 8388608'",
    # of the usual sizes, the largest that passes 1000
    "netns:a path MTU 10.9.0.2": "ip link set dev va mtu 576",
    "netns:a fq va": "tc qdisc replace dev va root fq",
    "netns:a queue va": "tc qdisc del dev va root",
    "netns:a offloads va": "ethtool -K va gro off",
}


@pytest.mark.parametrize("check", WRONG)
def test_a_wrong_setting_of_a_namespace(check: str, guest: dict[str, Any]) -> None:
    before, after = guest["wrong"]["before"], guest["wrong"]["after"]
    inside = f"ip netns exec {check.partition(' ')[0].removeprefix('netns:')} "
    assert before[check] == ["fail", [inside + WRONG[check]]]
    assert after[check][0] == "ok"


def test_nothing_else_fails_in_the_guest(guest: dict[str, Any]) -> None:
    assert {
        name for name, (status, _) in guest["wrong"]["before"].items() if status == "fail"
    } == set(WRONG)
    assert not [name for name, (status, _) in guest["wrong"]["after"].items() if status == "fail"]
    for check in ("kernel: fq", "kernel: netem", "CCA bbr", "IPv4 10.9.0.2", "privileges"):
        assert guest["wrong"]["before"][f"netns:a {check}"] == ["ok", []]


def test_looking_changes_nothing(guest: dict[str, Any]) -> None:
    assert guest["wrong"]["settings"] > 150
    assert guest["wrong"]["changed_by_looking"] == []


def test_drops_of_fq(guest: dict[str, Any]) -> None:
    check = "netns:a fq va flow_limit"
    assert guest["drops"]["before"][check] == [
        "warn",
        ["ip netns exec a tc qdisc change dev va root fq flow_limit 10000"],
    ]
    assert guest["drops"]["after"][check][0] == "ok"


def test_a_cca_that_a_user_may_not_use(guest: dict[str, Any]) -> None:
    user = guest["user"]
    remedy = "sudo sysctl -w 'net.ipv4.tcp_allowed_congestion_control=reno cubic bbr'"
    assert user["before"]["localhost CCA bbr"] == ["fail", [remedy]]
    assert user["after"]["localhost CCA bbr"] == ["ok", []]
    assert user["socket"] == ["EPERM", "may"]


def test_a_namespace_of_this_machine(namespace: NamespaceHost) -> None:
    for argv in (
        ["ip", "link", "set", "dev", "lo", "up", "mtu", "1200"],
        ["sysctl", "-q", "-w", "net.ipv4.tcp_wmem=4096 4096 4096"],
    ):
        namespace.run(argv)
    where = f"netns:{namespace.name}"
    runs = (
        host_run(where, where, pacing_bps=1e9, netem="lo"),
    )  # 20 ms: next to them, the loopback's RTT is nothing
    wrong = {"net.ipv4.tcp_wmem": Status.FAIL, "MTU lo": Status.WARN}
    report = {host_report.host: host_report for host_report in examine(DoctorOptions(runs, None))}[
        where
    ]
    findings = {finding.check: finding for finding in report.findings}
    assert {name: findings[name].status for name in wrong} == wrong
    for name in wrong:
        for command in to_run(findings[name].remedy, where, report.uid, findings[name].root):
            subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    report = {host_report.host: host_report for host_report in examine(DoctorOptions(runs, None))}[
        where
    ]
    assert {finding.status for finding in report.findings if finding.check in wrong} == {Status.OK}
