"""Stops, kills, interrupts and starts again each service of compose, as an operator does."""

import contextlib
import os
import pty
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import SMALL
from support.containers import (
    DEFAULT,
    OWNER,
    PARAMETER,
    SWEEP,
    Docker,
    clone,
    wait_for,
    wait_for_change,
)
from support.kills import runs

pytestmark = pytest.mark.timeout(3000)
MANY = SMALL.replace("iterations = 2", "iterations = 40")
INTERRUPTED = 130
WAITS_S = 300.0  # for a run, on a machine that does other things too
ORDINARY_USER = 1000  # the image's, who works in a folder of root


@pytest.fixture
def folder(docker: Docker, harness: str, work: Path) -> Iterator[Path]:
    """A clone with a campaign for the lab and one for this machine; compose's services end with
    the test.
    """
    clone(work)
    (work / "many.ini").write_text(MANY)
    (work / "sweep.ini").write_text(SWEEP)
    yield work
    ours = ("ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=ccmix")
    if containers := docker.good(*ours).split():
        docker.good("rm", "--force", *containers)


def is_overloaded() -> bool:
    """Returns whether so much else runs on this machine that times say nothing."""
    return os.getloadavg()[0] > 4 * len(os.sched_getaffinity(0))


def started(docker: Docker, folder: Path, service: str, *words: str) -> str:
    """Starts a service in the background, without --rm; returns its container."""
    said = docker.good("compose", "run", "--detach", service, *words, cwd=folder)
    return said.split()[-1]


def stopped(docker: Docker, container: str) -> tuple[int, float]:
    """Stops a container as an operator does; returns its exit status and how long it took in s."""
    began = time.monotonic()
    docker.good("stop", container)
    took_s = time.monotonic() - began
    return docker.inspect(container)["State"]["ExitCode"], took_s


def read_all(controller: int, said: bytearray) -> None:
    """Reads what a terminal shows until its programs have ended."""
    with contextlib.suppress(OSError):  # which then says EIO
        while some := os.read(controller, 4096):
            said += some


class TestHarness:
    """The service `harness`, which runs campaigns on emulated paths."""

    @pytest.mark.parametrize("owner", [OWNER, (0, 0)], ids=["clone of a user", "clone of root"])
    def test_stop_and_resume(self, docker: Docker, folder: Path, owner: tuple[int, int]) -> None:
        """In a clone of root, an ordinary user runs it, too."""
        os.chown(folder, *owner)
        command = ("run", "many.ini", "--lab", "-o", "results/many")
        container = started(docker, folder, "harness", *command)
        wait_for(folder, "run.json", 1, WAITS_S)
        expected = owner[0] or ORDINARY_USER
        processes = docker.good("top", container, "-eo", "pid,uid")
        assert {int(line.split()[1]) for line in processes.splitlines()[1:]} == {expected}
        rights = docker.good("exec", container, "cat", "/proc/1/status")
        assert set(re.findall(r"^Cap(?:Eff|Prm|Inh|Amb):\t0+(.*)$", rights, re.MULTILINE)) == {""}
        docker.good("exec", container, "/opt/ccmix/container/healthcheck")
        status, took_s = stopped(docker, container)
        assert status == INTERRUPTED, docker("logs", container).stderr
        if not is_overloaded():
            assert took_s < 10
        assert not list(folder.rglob("*.partial"))
        finished = runs(folder)
        assert 1 <= len(finished) < 40
        again = started(docker, folder, "harness", *command, "--resume")
        wait_for(folder, "run.json", len(finished) + 1, WAITS_S)
        assert stopped(docker, again)[0] == INTERRUPTED
        assert runs(folder) | finished == runs(folder)
        assert {file.stat().st_uid for file in (folder / "results").rglob("*")} == {expected}

    def test_interrupt(self, docker: Docker, folder: Path) -> None:
        """Ctrl-C in a terminal ends the campaign in order, with the container."""
        controller, terminal = pty.openpty()
        client = subprocess.Popen(
            ["docker", *("compose", "run", "--rm", "harness", "run", "many.ini", "--lab")],
            cwd=folder,
            env=dict(docker.environment),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        said = bytearray()
        reader = threading.Thread(target=read_all, args=(controller, said))
        reader.start()
        wait_for(folder, "run.json", 1, WAITS_S)
        os.write(controller, b"\x03")
        status = client.wait(WAITS_S)
        reader.join()
        os.close(controller)
        assert status == INTERRUPTED, said
        assert b"interrupted: finished runs are kept" in said
        assert not list(folder.rglob("*.partial"))

    def test_kill_and_resume(self, docker: Docker, folder: Path) -> None:
        (folder / "many.ini").write_text(SMALL)
        command = ("run", "many.ini", "--lab", "-j1", "-o", "results/many")
        container = started(docker, folder, "harness", *command)
        wait_for(folder, "*.partial", 1)
        docker.good("kill", container)
        docker.good("compose", "run", "--rm", "harness", *command, "--resume", cwd=folder)
        assert len(runs(folder)) == 2
        assert not list(folder.rglob("*.partial"))


def test_dtn(docker: Docker, folder: Path) -> None:
    """A campaign between hosts undoes its changes within its stop_grace_period, and resumes."""
    assert PARAMETER.read_text() == DEFAULT
    command = ("run", "sweep.ini", "-o", "results/sweep")
    container = started(docker, folder, "dtn", *command)
    wait_for_change()
    status, took_s = stopped(docker, container)
    assert (status, PARAMETER.read_text()) == (INTERRUPTED, DEFAULT)
    if not is_overloaded():
        assert took_s < 60
    again = docker("compose", "run", "--rm", "dtn", *command, "--resume", cwd=folder)
    assert len(runs(folder)) == 2, again.stderr  # not valid: a run that only sleeps
    assert PARAMETER.read_text() == DEFAULT


def test_far_end(docker: Docker, folder: Path) -> None:
    """A server on the host's network is healthy without a volume, ends in order, and starts again."""
    try:
        for _ in range(2):
            docker.good("compose", "up", "--detach", "--wait", "far-end", cwd=folder)
            [container] = docker.good("compose", "ps", "--quiet", "far-end", cwd=folder).split()
            state = docker.inspect(container)
            assert state["Mounts"] == []
            assert state["HostConfig"]["ReadonlyRootfs"] is True
            docker.good("exec", container, "ccmix-iperf3", "-c", "localhost", "-t", "1")
            began = time.monotonic()
            docker.good("compose", "stop", "far-end", cwd=folder)
            if not is_overloaded():
                assert time.monotonic() - began < 10
            assert docker.inspect(container)["State"]["ExitCode"] == 0
    finally:
        docker.good("compose", "--profile", "far-end", "down", "--volumes", cwd=folder)
