"""Tests that nothing of a guest outlives its run, also once a hostile command has taken over the
guest's kernel.

Python takes the kernel's place, as in test_hostile_process.py: it leaves processes that do all that
a process can do to be missed. Each writes into the job folder, so it shows for how long it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.archive import ArchiveError
from ccmix.config import load
from ccmix.generators.results import GeneratorError
from ccmix.lab import GuestResult, GuestSpec, confinement, run_guest
from ccmix.plan import make_plan
from ccmix.run import machines
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon
from support.commands import wait_for

HOSTILE = """#!{python} -IS
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
job = os.readlink("job")

def hide():
    for leave in (os.setsid, lambda: os.setpgid(0, 0), lambda: os.setpgid(0, os.getpgid(os.getppid()))):
        try:
            leave()
        except OSError:
            pass
    libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    os.chdir(job)

def stays():
    hide()
    while True:
        open(job + "/stays", "a").write("x")
        time.sleep(0.002)

def never_the_same():  # a new process each time, and the old one ends
    hide()
    while True:
        open(job + "/changes", "a").write("x")
        time.sleep(0.001)
        if os.fork():
            os._exit(0)

for hostile in (stays, never_the_same):
    if not os.fork():
        if os.fork():
            os._exit(0)  # nobody's child
        hostile()
while not all(os.path.exists(job + "/" + name) for name in ("stays", "changes")):
    time.sleep(0.01)
open("status", "a").write("0")
{then}
"""
FILES = ("stays", "changes")
WAYS = ["landlock", "namespaces", "none"]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    """Returns the job folder. In the end, nothing that a failed test has left lives."""
    folder = tmp_path / "job"
    folder.mkdir()
    yield folder
    while left := living(folder):
        for pid in left:
            os.kill(pid, signal.SIGSTOP)
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def living(job: Path) -> list[int]:
    """Returns the processes that work in the job folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == job and "Z" not in (
                process / "stat"
            ).read_text().rpartition(")")[2][:3]:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def hostile(tmp_path: Path, then: str) -> Path:
    program = tmp_path / "hostile"
    program.write_text(HOSTILE.format(python=Path(sys.executable).resolve(), then=then))
    program.chmod(0o755)
    return program


def spec(job: Path, stall_seconds: float = 120.0) -> GuestSpec:
    return GuestSpec(("true",), job, 64 << 20, 1, stall_seconds=stall_seconds)


def begun(job: Path) -> bool:
    return all((job / name).exists() for name in FILES)


def written(job: Path) -> list[int]:
    return [(job / name).stat().st_size for name in FILES]


def assert_nothing_lives(job: Path) -> None:
    before = written(job)
    assert living(job) == []
    time.sleep(0.3)
    assert written(job) == before


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_a_run_that_ends(
    tmp_path: Path, job: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confinement.WAY, way)
    assert asyncio.run(run_guest(hostile(tmp_path, "sys.exit(0)"), spec(job))).exit_status == 0
    assert_nothing_lives(job)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_a_run_that_is_cancelled(
    tmp_path: Path, job: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confinement.WAY, way)

    async def cancel() -> None:
        task = asyncio.create_task(run_guest(hostile(tmp_path, "time.sleep(1000)"), spec(job)))
        while not begun(job):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert living(job) == []

    asyncio.run(cancel())
    assert_nothing_lives(job)


HARNESS = """
import asyncio, sys
from pathlib import Path
from ccmix.lab import GuestSpec, run_guest
asyncio.run(run_guest(Path(sys.argv[1]), GuestSpec(("true",), Path(sys.argv[2]), 64 << 20, 1)))
"""


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_a_killed_harness(
    tmp_path: Path, job: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confinement.WAY, way)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    argv = [sys.executable, "-c", HARNESS, hostile(tmp_path, "time.sleep(1000)"), job]
    with subprocess.Popen(argv) as harness:
        try:
            wait_for(lambda: begun(job), 60, "hostile processes")
        finally:
            harness.kill()
    wait_for(lambda: not living(job), 10, "their end")
    assert_nothing_lives(job)


@pytest.mark.lab
@pytest.mark.parametrize("late", ["a link", "a file of the guest's"])
def test_what_appears_in_the_folder_late_is_not_written_through(
    tmp_path: Path, job: Path, late: str, small_ini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a process that lives on: after ccmix has looked for links, and before it writes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "guest.log").write_text("host's\n")

    @contextlib.contextmanager
    def planted(folder: Path, _: int) -> Iterator[None]:
        yield
        if late == "a link":
            (folder / "logs").rename(folder / "before")
            (folder / "logs").symlink_to(outside)
        else:
            (folder / "logs/guest.log").symlink_to(outside / "guest.log")
            (folder / "facts.json").symlink_to(outside / "guest.log")

    async def no_guest(*_: object) -> GuestResult:
        return GuestResult(0, 0.1, "guest's\n", "landlock 7")

    monkeypatch.setattr(machines, "_files_checked", planted)
    monkeypatch.setattr(machines, "run_guest", no_guest)
    machine = LabMachine(
        find_kernel(), EmulationPrograms(find_iperf3(), find_sockmon(), find_rtt())
    )
    [run, *_] = make_plan(load(small_ini).entries, seed=1)
    with pytest.raises(
        (ArchiveError, GeneratorError), match=r"is a link, and ccmix does not follow|it is a link"
    ):
        asyncio.run(machine.measure(run, job))
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [
        ("guest.log", "host's\n")
    ]
