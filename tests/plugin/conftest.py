"""Unpacks the tool from its package, and makes two ends between which it measures."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import commands_in, wait_for
from support.plugin_runner import Tool, unpacked_package

NEAR, FAR = (f"ccmix-plugin-{os.getpid()}-{side}" for side in "ab")


@pytest.fixture(scope="session")
def package() -> Iterator[Path]:
    with unpacked_package() as folder:
        yield folder


@pytest.fixture(scope="session")
def tool(package: Path) -> Tool:
    return Tool(package)


@pytest.fixture(scope="session")
def _namespaces() -> Iterator[None]:
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    if not {"reno", "bbr"} <= set(allowed):
        pytest.skip(
            f"this kernel allows users only {' '.join(allowed)}: run plugin/tool/allow-ccas as root"
        )
    commands = [
        *(f"ip netns add {name}" for name in (NEAR, FAR)),
        f"ip link add plugin-a netns {NEAR} type veth peer name plugin-b netns {FAR}",
    ]
    for name, device, number in ((NEAR, "plugin-a", 1), (FAR, "plugin-b", 2)):
        commands += [
            f"ip -n {name} address add 10.99.7.{number}/24 dev {device}",
            f"ip -n {name} address add fd99:7::{number}/64 dev {device} nodad",
            f"ip -n {name} link set {device} up",
            f"ip -n {name} link set lo up",
        ]
    for command in commands:
        subprocess.run(command.split(), check=True)
    yield
    for name in (NEAR, FAR):
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def ends(package: Path, _namespaces: None) -> Iterator[list[Tool]]:
    """Yields source and dest, on which no process may run after the test."""
    for name in (NEAR, FAR):
        wait_for(lambda name=name: not commands_in(name), 30, f"nothing runs in {name}")
    yield [Tool(package, NEAR), Tool(package, FAR)]
    for name in (NEAR, FAR):
        wait_for(lambda name=name: not commands_in(name), 30, f"nothing is left in {name}")
