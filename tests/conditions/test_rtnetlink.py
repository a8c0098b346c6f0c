"""Tests that requests of rtnetlink have the same effect as ip(8)."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ccmix.agent.deadline import Deadline
from ccmix.conditions import rtnetlink
from ccmix.hosts import CommandError, NamespaceHost
from ccmix.hosts.local import entered

LINES = """
link set lo up
addr add 10.0.1.2/24 dev eth0
addr add 10.1.1.2/16 dev eth0
link set eth0 up
neigh add 10.0.1.1 lladdr 02:00:00:00:00:07 nud permanent dev eth0
route add 10.0.3.0/24 via 10.0.1.1
route add default via 10.0.1.1
route add 10.7.0.0/16 via 10.0.1.1 table 100
"""
# Fields that differ between any two pairs of devices: random addresses and times
OF_THEIR_OWN = (
    "address",
    "broadcast",
    "link_netnsid",
    "valid_life_time",
    "preferred_life_time",
    "ifindex",
    "link_index",
)


@pytest.fixture
def other(namespace: NamespaceHost) -> Iterator[NamespaceHost]:
    """A second network namespace for the test."""
    name = f"{namespace.name}-other"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield NamespaceHost(name)
    subprocess.run(["ip", "netns", "del", name], check=True)


def requests() -> list[rtnetlink.RtnetlinkRequest]:
    return [
        rtnetlink.up("lo"),
        rtnetlink.address("eth0", "10.0.1.2/24"),
        rtnetlink.address("eth0", "10.1.1.2/16"),
        rtnetlink.up("eth0"),
        rtnetlink.neighbour("eth0", "10.0.1.1", "02:00:00:00:00:07"),
        rtnetlink.route("10.0.3.0/24", "10.0.1.1", rtnetlink.MAIN_TABLE),
        rtnetlink.route("0.0.0.0/0", "10.0.1.1", rtnetlink.MAIN_TABLE),
        rtnetlink.route("10.7.0.0/16", "10.0.1.1", 100),
    ]


def shown(host: NamespaceHost) -> dict[str, Any]:
    """Returns ip's output on the namespace's devices, addresses, neighbours and routes."""
    asked = ("addr", "neigh", "route show table all")
    return {
        what: _common(json.loads(host.run(["ip", "-j", "-4", "-d", *what.split()])))
        for what in asked
    }


def _common(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _common(inner) for name, inner in value.items() if name not in OF_THEIR_OWN}
    return [_common(inner) for inner in value] if isinstance(value, list) else value


def test_requests_do_what_ip_does(namespace: NamespaceHost, other: NamespaceHost) -> None:
    for host in (namespace, other):
        host.run(["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"])
        host.run(["ip", "link", "set", "eth1", "up"])
    namespace.run(["ip", "-batch", "-"], stdin=LINES)
    with entered(other.name):
        rtnetlink.carry_out(requests())
    for host in (namespace, other):
        deadline = Deadline(10)
        while json.loads(host.run(["ip", "-j", "link", "show", "eth0"]))[0]["operstate"] != "UP":
            assert not deadline.expired, "the kernel does not call the device up"
            time.sleep(0.02)
    assert shown(other) == shown(namespace)
    assert "10.7.0.0/16" in str(shown(other))


def test_many_requests_at_once(namespace: NamespaceHost) -> None:
    with entered(namespace.name):
        rtnetlink.carry_out([rtnetlink.up("lo")])
        rtnetlink.carry_out(
            [rtnetlink.address("lo", f"10.{at // 250}.{at % 250}.1/24") for at in range(1000)]
        )
    assert len(shown(namespace)["addr"][0]["addr_info"]) == 1001


def test_the_refused_request_is_named(namespace: NamespaceHost) -> None:
    some = [rtnetlink.address, rtnetlink.address]
    with (
        entered(namespace.name),
        pytest.raises(OSError, match=r"address 10\.0\.0\.1/24 of lo: File exists"),
    ):
        rtnetlink.carry_out([request("lo", "10.0.0.1/24") for request in some])


def test_a_device_that_is_not_there(namespace: NamespaceHost) -> None:
    with pytest.raises(CommandError, match="no interface"), entered(namespace.name):
        rtnetlink.up(f"none{os.getpid() % 1000}")
