"""Provides two hosts that are namespaces of this machine, joined by a veth pair."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.commands import Ccmix, Pair, RunIni, Write


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    hosts = Pair(
        f"ccmix-near-{os.getpid()}", f"ccmix-far-{os.getpid()}", "10.213.7.2", "far.example"
    )
    for name in (hosts.near, hosts.far):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ends = f"eth0 netns {hosts.near} type veth peer name eth0 netns {hosts.far}"
    ip("link", "add", *ends.split())
    hosts_file = Path(
        "/etc/netns", hosts.near, "hosts"
    )  # which ip-netns shows there in place of /etc/hosts
    hosts_file.parent.mkdir(parents=True)
    hosts_file.write_text(f"127.0.0.1 localhost\n{hosts.address} {hosts.name}\n")
    for name, address in ((hosts.near, "10.213.7.1"), (hosts.far, hosts.address)):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
    yield hosts
    shutil.rmtree(hosts_file.parent)
    for name in (hosts.near, hosts.far):
        ip("netns", "del", name)


@pytest.fixture
def own_state(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives ccmix a separate state folder. A test must request this fixture before `ccmix`."""
    monkeypatch.setenv("CCMIX_STATE", str(state))
    return state


@pytest.fixture
def ini(tmp_path: Path, pair: Pair) -> Write:
    """Writes a configuration whose entries run from the near host to the far one."""

    def write(text: str) -> Path:
        file = tmp_path / "test.ini"
        file.write_text(
            f"[DEFAULT]\nsrc = netns:{pair.near}\ndst-host = netns:{pair.far}\ndst = "
            f"{pair.address}\n"
            f"interval = 100ms\naccept-limits = probe, cpu\n{text}"
        )
        return file

    return write


@pytest.fixture
def run_ini(ini: Write, ccmix: Ccmix, tmp_path: Path) -> RunIni:
    """Runs a configuration, or a text that is appended to `ini`, into the folder `out`."""

    def run(
        config: str | Path, *options: object, status: int | None = 0, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        file = ini(config) if isinstance(config, str) else config
        return ccmix("run", file, *options, "-o", tmp_path / "out", status=status, **more)

    return run
