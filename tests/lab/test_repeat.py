"""Tests that a network in the lab repeats itself: TCP, random loss and every counter, whatever else
the machine does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ccmix.lab import GuestSpec, run_guest
from support.commands import run_program

pytestmark = pytest.mark.lab

NETWORK = """
ip netns add a && ip netns add b
ip link add va netns a type veth peer name vb netns b
for side in "a va 1" "b vb 2"; do
    set -- $side
    ip -n $1 addr add 10.0.0.$3/24 dev $2
    ip -n $1 addr add fd00::$3/64 dev $2
    ip -n $1 link set $2 up
    tc -n $1 qdisc add dev $2 root netem delay 5ms 1ms loss 5% rate 100mbit
done
ip netns exec b "$PYTHON" -c '
import socket
listener = socket.create_server(("10.0.0.2", 5001))
connection, peer = listener.accept()
size = 0
while data := connection.recv(1 << 16):
    size += len(data)
print(size, peer, flush=True)
' > received &
sleep 1
ip netns exec a "$PYTHON" -c '
import os, socket, subprocess
connection = socket.create_connection(("10.0.0.2", 5001))
for _ in range(40):
    connection.sendall(os.urandom(1 << 16))
    subprocess.run(["ss", "-tinmoe"])
' > sockets
wait
for name in a b; do tc -s -n $name qdisc; ip netns exec $name cat /proc/net/snmp /proc/net/netstat; done > counters
"""


async def measure(kernel: Path, job: Path, seed: int, cpu: int | None = None) -> dict[str, str]:
    job.mkdir(parents=True)
    environment = {"PYTHON": sys.executable}
    result = await run_guest(
        kernel, GuestSpec(("sh", "-c", NETWORK), job, 256 << 20, seed, cpu, environment)
    )
    assert (result.exit_status, result.console) == (0, "")
    return {path.name: path.read_text() for path in job.iterdir()}


def test_same_seed_same_network(kernel: Path, tmp_path: Path) -> None:
    processor = min(os.sched_getaffinity(0))

    async def beside_each_other() -> tuple[dict[str, str], ...]:
        # Two that fight for a processor, and a longer path: neither may show.
        return await asyncio.gather(
            measure(kernel, tmp_path / "one", seed=3, cpu=processor),
            measure(kernel, tmp_path / "another-folder" / "two", seed=3, cpu=processor),
            measure(kernel, tmp_path / "three", seed=4),
        )

    first, second, other = asyncio.run(beside_each_other())
    assert set(first) == {"received", "sockets", "counters"}
    assert first["received"].startswith(f"{40 << 16} ")
    assert "retrans" in first["sockets"]
    assert first == second
    assert all(first[name] != other[name] for name in ("received", "sockets", "counters"))


LOOKS_AND_DRAWS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    os.path.exists("/no-such-file")
for _ in range(5):
    time.sleep(0.7)
print(os.urandom(16).hex())
"""


def test_files_that_are_looked_for_change_no_random_number(kernel: Path, tmp_path: Path) -> None:
    """Makes failed system calls, which take a microsecond each in virtual time, before the pool
    of random numbers is renewed.
    """

    def drawn(looks: int) -> str:
        job = tmp_path / str(looks)
        job.mkdir()
        argv = (sys.executable, "-c", LOOKS_AND_DRAWS, str(looks))
        return asyncio.run(run_guest(kernel, GuestSpec(argv, job, 128 << 20, 1))).console

    assert drawn(700) == drawn(0) != ""


ROUNDED = """
import hashlib, math, random
numbers = random.Random(1)
functions = (math.log, math.exp, math.sin, lambda number: number ** 0.3)
print(hashlib.sha256(repr([f(numbers.random()) for f in functions for _ in range(10_000)]).encode()).hexdigest())
"""


def test_the_c_library_rounds_as_on_the_oldest_processor(kernel: Path, job: Path) -> None:
    """Checks libm, whose routines for processors with fused multiply-add round otherwise: arrivals
    of flows would follow.
    """

    def here(tunables: str) -> str:
        python = [sys.executable, "-c", ROUNDED]
        environment = {"GLIBC_TUNABLES": tunables}
        return run_program(python, env=environment, check=True).stdout

    oldest = here("glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2")
    if here("") == oldest:
        pytest.skip(
            "NOT TESTED: this machine's processor has no fused multiply-add; run the tests on "
            "one that has"
        )
    result = asyncio.run(
        run_guest(kernel, GuestSpec((sys.executable, "-c", ROUNDED), job, 128 << 20, 1))
    )
    assert result.console == oldest
