"""Runs in a guest of the lab: two namespaces and a user with wrong settings, the doctor before and
after its commands.

Prints a JSON object: for each stage, the checks before and after, as {check: [status, remedy]}.
"""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence

from ccmix.doctor.checks import DoctorOptions
from ccmix.doctor.examine import examine
from ccmix.doctor.report import to_json
from ccmix.model import Run
from support.model import host_run

NOBODY = 65534
Checks = dict[str, tuple[str, list[str]]]


def sh(*lines: str) -> None:
    for line in lines:
        subprocess.run(["sh", "-c", line], check=True, stdout=subprocess.DEVNULL)


def checks(runs: Sequence[Run]) -> Checks:
    reports = json.loads(to_json(examine(DoctorOptions(tuple(runs), None))))
    return {
        f"{report['host']} {check['check']}": (check["status"], check["remedy"])
        for report in reports
        for check in report["checks"]
    }


def settings() -> set[str]:
    """Returns the state that the doctor could have changed, as lines."""
    files = "grep -s '' /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_* | grep -v fastopen_key"
    lines = [f'ip netns exec {name} sh -c "tc qdisc; ip -o link; {files}"' for name in "ab"]
    script = "; ".join([*lines, "ip netns exec a ethtool -k va", "ls /sys/module"])
    output = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout
    return {re.sub(r"direct_packets_stat \d+", "", line) for line in output.splitlines()}


def fixed(runs: Sequence[Run], also: str = "nothing") -> dict[str, object]:
    """Runs the remedies of failed checks, and of this check even if it only warns."""
    was = settings()
    before = checks(runs)
    changed = sorted(was ^ settings())
    for name, (status, commands) in before.items():
        if status == "fail" or name == also:
            sh(*commands)
    return {
        "before": before,
        "after": checks(runs),
        "settings": len(was),
        "changed_by_looking": changed,
    }


def between_namespaces() -> dict[str, dict[str, object]]:
    sh(
        "ip netns add a; ip netns add b; ip link add va netns a type veth peer name vb netns b",
        "ip -n a addr add 10.9.0.1/24 dev va; ip -n b addr add 10.9.0.2/24 dev vb",
        "ip -n a link set va up; ip -n b link set vb up; ip -n b link set vb mtu 1000",
        # the kernel says a moment later that they are up
        "until ip -n a -o link | grep -q 'va.*state UP' && ip -n b -o link | grep -q 'vb.*state UP'; "
        "do sleep 0.1; done",
        "ip netns exec a ethtool -K va gro on",
        "ip netns exec a sysctl -w net.ipv4.tcp_wmem='4096 16384 65536'",
        "ip netns exec b sysctl -w net.ipv4.tcp_rmem='4096 8192 8192'",
        "tc -n a qdisc add dev va root handle 1: htb",
    )
    run = host_run("netns:a", "netns:b", "10.9.0.2", pacing_bps=1e9, netem="va")
    stages = {"wrong": fixed([run])}
    # More packets of a flow than fq takes
    sh("tc -n a qdisc replace dev va root fq flow_limit 2 maxrate 100kbit")
    flood = (
        "s = socket.socket(type=socket.SOCK_DGRAM); [s.sendto(b'x' * 400, ('10.9.0.2', 9)) "
        "for _ in range(50)]"
    )
    sh(f'ip netns exec a python3 -c "import socket; {flood}"')
    sh("tc -n a qdisc change dev va root fq maxrate 10gbit")
    stages["drops"] = fixed([run], "netns:a fq va flow_limit")
    return stages


def as_nobody() -> tuple[Checks, str]:
    """Returns the checks of an ordinary user, and whether its socket may use BBR."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        findings = checks([host_run("localhost", "localhost")])
        with socket.socket() as tcp:
            try:
                tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
                may = "may"
            except PermissionError:
                may = "EPERM"
        os.write(write, json.dumps([findings, may]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        findings, may = json.loads(answer.read())
    os.waitpid(pid, 0)
    return findings, may


def by_a_user() -> dict[str, object]:
    sh("ip link set lo up; sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic'")
    before, refused = as_nobody()
    _, commands = before["localhost CCA bbr"]
    sh(*(command.removeprefix("sudo ") for command in commands))  # the administrator
    after, allowed = as_nobody()
    return {"before": before, "after": after, "socket": [refused, allowed]}


if __name__ == "__main__":
    json.dump({**between_namespaces(), "user": by_a_user()}, sys.stdout)
