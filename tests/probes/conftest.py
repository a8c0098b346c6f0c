"""Provides the probe under test: the binary that CCMIX_SOCKMON names, or what
probes/sockmon/build makes.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ccmix.lab import GuestSpec, run_guest
from ccmix.probes.stream.reader import Stream, read_stream
from support.commands import REPOSITORY

ENDS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Sockmon:
    """Runs the probe; `file` gets its stream."""

    binary: str
    file: Path

    def argv(self, *arguments: object) -> list[str]:
        return [self.binary, *map(str, arguments), f"--output={self.file}"]

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Starts the probe, which writes the header before it samples anything."""
        self.file.unlink(missing_ok=True)
        return subprocess.Popen(
            self.argv(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(
        self, process: subprocess.Popen[str], by_signal: int | None = signal.SIGTERM
    ) -> Stream:
        if by_signal is not None:
            process.send_signal(by_signal)
        _, errors = process.communicate(timeout=ENDS_WITHIN_S)
        assert (process.returncode, errors) == (0, ""), errors
        return read_stream(self.file)

    def record(self, *arguments: object) -> Stream:
        """Runs the probe until it ends by itself."""
        return self.finish(self.start(*arguments), by_signal=None)


@pytest.fixture(scope="session")
def sockmon_binary() -> str:
    built = subprocess.run(
        [REPOSITORY / "probes" / "sockmon" / "build"], check=True, stdout=subprocess.PIPE, text=True
    )
    return os.environ.get("CCMIX_SOCKMON") or built.stdout.strip()


@pytest.fixture
def sockmon(sockmon_binary: str, tmp_path: Path) -> Sockmon:
    return Sockmon(sockmon_binary, tmp_path / "stream")


@contextmanager
def _connection(address: str, cca: str = "cubic") -> Iterator[tuple[socket.socket, socket.socket]]:
    """Chooses a port that no other socket has, because connect() may choose one that a connection of
    another test has.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family))
        client = stack.enter_context(socket.socket(family))
        if address.startswith("::ffff:"):
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, 0))
        listener.listen()
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
        except OSError:
            pytest.skip(f"this machine's kernel has no {cca}, or only for root")
        client.bind((address, 0))
        client.connect(listener.getsockname()[:2])
        server, _ = listener.accept()
        stack.enter_context(server)
        yield client, server


@pytest.fixture(name="connection")
def connection_fixture() -> Callable[..., object]:
    return _connection


@dataclass(frozen=True)
class Guest:
    """Runs scripts in a guest of the lab, with the probe's static binary in its job folder as
    ./sockmon.
    """

    kernel: Path
    job: Path

    def run(self, script: str, memory_mib: int = 192) -> str:
        """Returns the output of a shell script; it must exit with status 0."""
        argv = ("sh", "-e", "-u", "-c", script)
        spec = GuestSpec(argv=argv, job_dir=self.job, memory_bytes=memory_mib << 20, seed=1)
        result = asyncio.run(run_guest(self.kernel, spec))
        assert result.exit_status == 0, result.console
        return result.console

    def stream(self, name: str = "stream") -> Stream:
        return read_stream(self.job / name)


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    launch = tmp_path / "launch"
    launch.mkdir()
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(launch))
    built = subprocess.run(
        [REPOSITORY / "lab" / "build"], check=True, stdout=subprocess.PIPE, text=True
    )
    probe = subprocess.run(
        [REPOSITORY / "probes" / "sockmon" / "build"], check=True, stdout=subprocess.PIPE, text=True
    )
    job = tmp_path / "job"
    job.mkdir()
    shutil.copy(probe.stdout.strip(), job / "sockmon")
    return Guest(Path(built.stdout.strip()), job)
