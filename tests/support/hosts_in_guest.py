"""Provides three hosts that are namespaces of a guest of the lab, near ─ router ─ far, and
campaigns between them.

The guest's kernel has netem and fq, and every module parameter of its CCAs may be set.
"""

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.commands import CCMIX, Ccmix

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
    ip -n $name -4 route show table all; ip -n $name -4 rule show; ip -n $name -o link show
    ip netns exec $name sh -c 'grep -s "" /proc/sys/net/ipv4/tcp_* /proc/sys/net/core/*'
done
grep -s "" /sys/module/tcp_*/parameters/* /sys/module/sch_*/parameters/*
ls $CCMIX_STATE
"""
DEFAULT = """[DEFAULT]
src = netns:near
dst = 10.0.2.1
dst-host = netns:far
interval = 100ms
accept-limits = probe, cpu
type = x
"""
PROFILES = "profiles:\n  WAN:\n    interface: eth0\n    latency: 30ms\n    rate: 10Mbit\n"


@dataclass(frozen=True)
class Printed:
    """Holds what a campaign in a guest printed, its rows by entry, and the files that it and the
    script left.
    """

    output: str
    rows: dict[str, list[dict[str, Any]]]
    folder: Path

    @property
    def as_before(self) -> bool:
        return "SAME" in self.output


def run_in_guest(
    folder: Path, entries: str, *options: str, prepare: str = "", then: str = ""
) -> Printed:
    """Runs the campaign in a guest whose namespaces are the hosts; "SAME" if these are the same
    before and after.

    Files of the folder that begin with before- and after- come back, also those of the commands
    `then`.
    """
    (folder / "test.ini").write_text(DEFAULT + entries)
    (folder / "profiles.yml").write_text(PROFILES)
    launch = folder / "launch"
    launch.mkdir()
    script = folder / "script.sh"
    script.write_text(
        f"set -u\n{HOSTS}{prepare}\n({STATE}) >before\n"
        f"{CCMIX} run {folder}/test.ini -o out {' '.join(options)} || echo STATUS $?\n"
        f"sleep 10; ({STATE}) >after; diff before after && echo SAME\n"
        f"{CCMIX} report out --format json >rows.json\n"
        f"{then}\n"
        f"echo ROWS; cat rows.json; echo FILES; tar -c before-* after-* 2>/dev/null | base64\n"
    )
    done = Ccmix(launch)(
        "lab", "exec", "--host-root", "--memory", MEMORY_MIB, "--", "sh", script, timeout=600
    )
    assert done.stdout, done.stderr
    output, _, rest = done.stdout.partition("ROWS\n")
    table, _, files = rest.partition("FILES\n")
    subprocess.run(["tar", "-x", "-C", folder], input=base64.b64decode(files), check=False)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(table) if table.strip().startswith("[") else []:
        rows.setdefault(row["entry"], []).append(row)
    return Printed(output, rows, folder)
