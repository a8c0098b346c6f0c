"""Run the patched iperf3 against itself, or against Debian's, over 127.0.0.1.

CCMIX_IPERF3 names the binary under test; without it, iperf3-patch/build makes it, or finds it in
its cache.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.commands import ccas_of_this_machine
from support.ports import await_listening, free_port

REPOSITORY = Path(__file__).resolve().parents[2]
STOCK = Path("/usr/bin/iperf3")
# Binaries with sanitizers and 128 threads take their time on a busy machine.
ENDS_WITHIN_S = 60.0


@dataclass(frozen=True)
class End:
    """Holds how one side of a test ended."""

    status: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)

    def connected(self, sends: bool) -> list[dict[str, Any]]:
        """Returns the connected records of the streams that this side sends, or receives, in
        their order.
        """
        streams = [
            s["sender"] for s in self.json["end"]["streams"] if s["sender"]["sender"] == sends
        ]
        sockets = {s["socket"] for s in streams}
        return [c for c in self.json["start"]["connected"] if c["socket"] in sockets]

    def congestion(self) -> list[str]:
        """Returns the CCA of each sending stream of this side, in the order in which they were
        connected.
        """
        return [c["congestion"] for c in self.connected(sends=True)]


@dataclass(frozen=True)
class Pair:
    client: End
    server: End


@dataclass(frozen=True)
class Running:
    """Holds a server and a client that were started."""

    port: int
    server: subprocess.Popen
    client: subprocess.Popen

    def finish(self) -> Pair:
        client = _end(self.client)
        return Pair(client, _end(self.server))


def _end(process: subprocess.Popen) -> End:
    output, errors = process.communicate(timeout=ENDS_WITHIN_S)
    # of a binary of `build --sanitize`
    assert "Sanitizer" not in errors, errors
    assert "runtime error" not in errors, errors
    return End(process.returncode, output, errors)


@pytest.fixture(scope="session")
def iperf3() -> Iterator[str]:
    """Yields the binary under test, in a folder from which any user can run it."""
    source = os.environ.get("CCMIX_IPERF3")
    if source is None:
        build = REPOSITORY / "iperf3-patch" / "build"
        source = subprocess.run(
            [build], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    folder = Path(tempfile.mkdtemp(prefix="ccmix-iperf3-"))
    folder.chmod(0o755)
    yield shutil.copy(source, folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def stock() -> str:
    """Returns an iperf3 without the patches."""
    if not STOCK.exists():
        pytest.skip(
            f"{STOCK} is missing: install the Debian package iperf3 to test against an unpatched "
            "one"
        )
    return str(STOCK)


@pytest.fixture
def start(iperf3: str) -> Iterator[Callable[..., Running]]:
    """Yields start(ARGUMENT..., server=, client=, before_server=, before_client=, address=).

    It starts a server for one test, and a client with these arguments. "before_..." begins a
    command, as in `setpriv ... iperf3`.
    """
    processes: list[subprocess.Popen] = []

    def popen(*command: str) -> subprocess.Popen:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    def run(
        *arguments: str,
        server: str = iperf3,
        client: str = iperf3,
        server_arguments: Sequence[str] = ("-J",),
        before_server: Sequence[str] = (),
        before_client: Sequence[str] = (),
        address: str = "127.0.0.1",
    ) -> Running:
        port = free_port()
        family = "-6" if ":" in address else "-4"
        serving = popen(
            *before_server, server, family, "-s", "-1", "-p", str(port), *server_arguments
        )
        await_listening(serving, port)
        return Running(
            port, serving, popen(*before_client, client, "-c", address, "-p", str(port), *arguments)
        )

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            stream.close()


@pytest.fixture
def pair(start: Callable[..., Running]) -> Callable[..., Pair]:
    """Returns a function that starts both ends and waits for them; by default tests are short and
    both write JSON.
    """

    def run(*arguments: str, **options: Any) -> Pair:
        return start("-J", "-i", "0.1", "-n", "2M", *arguments, **options).finish()

    return run


@pytest.fixture(scope="session")
def ccas() -> tuple[str, str]:
    """Returns two CCAs of this machine, of which the second is its default."""
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    others = [name for name in ccas_of_this_machine() if name != default]
    if not others:
        pytest.skip(
            f"this machine has no other CCA than {default}: load one, as in `modprobe tcp_bbr`"
        )
    return others[0], default
