"""Tests a guest's folder for memory, its processor, and its processor time."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ccmix.lab import GuestError, GuestSpec, host, run_guest

MIB = 1 << 20


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends that a folder has this much room, and these flags."""
    true_statvfs = os.statvfs
    status_by_folder: dict[str, SimpleNamespace] = {}

    def statvfs(folder: Path) -> object:
        return status_by_folder.get(str(folder)) or true_statvfs(folder)

    def tell(folder: Path, room_bytes: int, flags: int = 0) -> None:
        status_by_folder[str(folder)] = SimpleNamespace(
            f_flag=flags, f_bavail=room_bytes // 4096, f_frsize=4096
        )

    monkeypatch.setattr(os, "statvfs", statvfs)
    return tell


def test_memory_goes_where_it_can_be_executed_and_has_room(
    launch_parent: Path, pretend: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shm = Path("/dev/shm")
    pretend(shm, 64 * MIB)
    assert host.memory_dir(64 * MIB) == shm
    assert host.memory_dir(65 * MIB) == launch_parent
    pretend(shm, 64 * MIB, os.ST_NOEXEC)
    assert host.memory_dir(64 * MIB) == launch_parent
    pretend(launch_parent, 10 * MIB)
    monkeypatch.setenv("CCMIX_CACHE", str(launch_parent / "none"))
    with pytest.raises(
        GuestError, match=r"64 MiB \(/dev/shm: mounted noexec; .*: 10 MiB free; .*none: No such"
    ) as error:
        host.memory_dir(64 * MIB)
    assert error.value.reason == "start"


def test_memory_on_a_disk(
    kernel: Path, job: Path, launch_parent: Path, pretend: Callable[..., None]
) -> None:
    pretend(Path("/dev/shm"), 0)
    result = asyncio.run(run_guest(kernel, GuestSpec(("echo", "here"), job, 64 * MIB, 1)))
    assert result.console == "here\n"
    assert list(launch_parent.iterdir()) == []


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignores guests of other processes, such as those of tests that run at the same time."""
    monkeypatch.setattr(host, "TAKEN", f"{host.TAKEN}{os.getpid()}-")


def test_the_least_used_processor_is_taken(alone: None) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    with host.processor(None) as first, host.processor(None) as second:
        assert first == allowed[0]
        assert second == allowed[1 % len(allowed)]
    with host.processor(allowed[0]), host.processor(None) as other:
        assert other == allowed[1 % len(allowed)]


def test_another_process_keeps_its_processor_to_itself(alone: None) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"{host.TAKEN}{allowed[0]}")
        with host.processor(None) as first, host.processor(None) as second:
            assert (first, second) == (allowed[1 % len(allowed)], allowed[0])
    with host.processor(None) as again:
        assert again == allowed[0]


def test_processor_time_includes_that_of_ended_processes() -> None:
    """A guest's processes come and go: without the time of ended ones, a busy guest looks idle."""
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    work = f"{sys.executable} -c '{burn}'; echo done; read line"
    with subprocess.Popen(
        ["sh", "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout
        assert shell.stdout.readline() == b"done\n"
        assert host.processor_seconds(shell.pid) > 0.2
        shell.communicate(b"\n")
