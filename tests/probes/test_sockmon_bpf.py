"""Compares the values of sockets that BPF programs write with those of netlink, on this
machine's kernel.
"""

import ctypes
import itertools
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.hosts.local import entered
from ccmix.tools import find_cca
from support.cca_bpf import linked_namespaces, require_programs_of_sockets
from support.commands import REPOSITORY, assert_has, wait_for

pytestmark = pytest.mark.root

LOSSY = ("tbf", "rate", "200mbit", "burst", "20k", "limit", "40k")  # not every kernel has netem
# With the mode of ECN: accurate ECN, where the kernel has it, and that of RFC 3168
ADDRESSES = {"10.88.0.1": "3", "fd88::1": "1"}
TCP_ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
SO_MAX_PACING_RATE = 47
CCAS = ("cubic", "reno", "bbr")
BYTES = 2_000_000
OF_THE_SAMPLE = {"time_s", "monotonic_s", "took_s", "socket", "age_s"}
# Counters of a socket that none of its events makes smaller
COUNTERS = (
    "bytes_sent",
    "bytes_retransmitted",
    "bytes_acked",
    "bytes_received",
    "segs_out",
    "segs_in",
    "data_segs_out",
    "data_segs_in",
    "retransmits",
    "delivered",
    "busy_s",
    "receiver_window_limited_s",
    "send_buffer_limited_s",
    "dsack_duplicates",
    "reorderings_seen",
    "out_of_order_received",
    "timeouts",
)


@dataclass(frozen=True)
class Watched:
    """Runs the probe by netlink, and under `ccmix-cca watch`."""

    by_netlink: Any
    by_bpf: Any


@pytest.fixture(scope="session")
def cca_program() -> Path:
    program = find_cca()
    require_programs_of_sockets(program)
    return program


@dataclass(frozen=True)
class UnderWatch:
    """Runs the probe as `sockmon` does, with BPF programs."""

    sockmon: Any
    program: Path

    def start(self, *arguments: object) -> Any:
        argv = [str(self.program), "watch", "--", *self.sockmon.argv(*arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        file = self.sockmon.file
        # an emulated machine takes seconds to load programs
        wait_for(lambda: file.exists() and file.stat().st_size > 0, 30, "the stream's header")
        return process

    def finish(self, process: Any, by_signal: int | None = signal.SIGTERM) -> Any:
        return self.sockmon.finish(process, by_signal)

    def record(self, *arguments: object) -> Any:
        return self.finish(self.start(*arguments), by_signal=None)


@pytest.fixture
def watched(sockmon: Any, cca_program: Path, tmp_path: Path) -> Watched:
    return Watched(sockmon, UnderWatch(replace(sockmon, file=tmp_path / "by-bpf"), cca_program))


def ask_for_ecn(mode: str) -> None:
    """Sets how new sockets of this network namespace ask for ECN; a kernel without this mode uses
    that of RFC 3168.
    """
    TCP_ECN.write_text("1")
    with suppress(OSError):
        TCP_ECN.write_text(mode)


def fill(sender: socket.socket) -> None:
    """Writes until the receiver's window is closed."""
    sender.settimeout(2)
    with suppress(TimeoutError):
        while True:
            sender.send(bytes(100_000))


def transfer(sender: socket.socket, receiver: socket.socket, count: int) -> None:
    sent = received = 0
    receiver.settimeout(0.001)
    sender.setblocking(False)
    while received < count:
        with suppress(BlockingIOError):
            sent += sender.send(bytes(min(count - sent, 200_000)))
        with suppress(TimeoutError, BlockingIOError):
            received += len(receiver.recv(1 << 20))


@dataclass(frozen=True)
class Flows:
    """Has the names of two namespaces, and of each flow between them its sender and
    its receiver.
    """

    left: str
    right: str
    pairs: list[tuple[socket.socket, socket.socket]]


@pytest.fixture
def flows() -> Iterator[Flows]:
    """Connections of each CCA over IPv4 and IPv6, two each, across a path that drops what is
    sent too fast.
    """
    with linked_namespaces(*LOSSY) as (left, right), ExitStack() as sockets:
        pairs = []
        for address, cca, _ in itertools.product(ADDRESSES, CCAS, range(2)):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with entered(left):
                ask_for_ecn(ADDRESSES[address])
                listener = sockets.enter_context(socket.socket(family))
            listener.bind((address, 0))
            listener.listen()
            with entered(right):
                ask_for_ecn(ADDRESSES[address])
                sender = sockets.enter_context(socket.socket(family))
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sender.setsockopt(
                socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("@Q", 1_000_000_000)
            )
            sender.connect(listener.getsockname()[:2])
            receiver = sockets.enter_context(listener.accept()[0])
            pairs.append((sender, receiver))
        yield Flows(left, right, pairs)


def rows_of(stream: Any) -> dict[int, list[dict[str, Any]]]:
    """Returns the samples of each socket by its cookie, in order."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in stream.sockets.filter(~pl.col("final")).iter_rows(named=True):
        rows.setdefault(row["cookie"], []).append(row)
    return rows


def between(value: Any, before: Any, after: Any) -> bool:
    if value in {before, after}:
        return True
    if isinstance(value, (bool, str)) or None in (value, before, after):
        return False
    return bool(min(before, after) <= value <= max(before, after))


def moved(by_netlink: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the columns in which a row lies outside of what two rows by BPF have, from before it
    and after it.
    """
    assert by_netlink.keys() == before.keys()
    return [
        f"{name}: {before[name]} and {after[name]} by BPF, {value} by netlink"
        for name, value in by_netlink.items()
        if name not in OF_THE_SAMPLE and not between(value, before[name], after[name])
    ]


def differences(by_netlink: dict[str, Any], by_bpf: list[dict[str, Any]]) -> list[str]:
    at_s, done_s = by_netlink["monotonic_s"], by_netlink["monotonic_s"] + by_netlink["took_s"]
    before = [row for row in by_bpf if row["monotonic_s"] + row["took_s"] < at_s]
    after = [row for row in by_bpf if row["monotonic_s"] > done_s]
    return moved(by_netlink, before[-1], after[0])


def assert_equal(watched: Watched, flows: Flows, *not_zero: str) -> None:
    """Compares all columns of all sockets, of which some socket has these not zero.

    A timer may run out between two samples, so of a socket's samples by netlink one must agree.
    """
    what = [f"--sockets={flows.left}", f"--sockets={flows.right}"]
    process = watched.by_bpf.start(*what, "--rate=200")
    time.sleep(0.5)
    by_netlink = rows_of(watched.by_netlink.record(*what, "--rate=20", "--duration=0.3"))
    time.sleep(0.2)
    stream = watched.by_bpf.finish(process)
    by_bpf = rows_of(stream)
    assert set(by_bpf) == set(by_netlink)
    assert len(by_bpf) == 2 * len(flows.pairs)
    wrong = [
        f"{row['cca']} {row['local_address']}: {one}"
        for cookie, [row, *_] in by_netlink.items()
        for one in min((differences(row, by_bpf[cookie]) for row in by_netlink[cookie]), key=len)
    ]
    assert wrong == []
    rows = [row for samples in by_bpf.values() for row in samples]
    assert [name for name in not_zero if not any(row[name] for row in rows)] == [], (
        "so their comparison says nothing"
    )
    # a socket whose delayed-ACK time is that of the least RTO is asked for
    assert stream.report["rows_by_bpf"] >= 0.7 * len(rows)


def test_every_column_is_netlinks_when_lossy_traffic_has_stopped(
    watched: Watched, flows: Flows
) -> None:
    for number, (sender, receiver) in enumerate(flows.pairs):
        transfer(sender, receiver, BYTES)
        if number % 2:
            fill(sender)
    time.sleep(2)  # the last ACKs, and retransmissions of the last losses
    assert_equal(
        watched,
        flows,
        "retransmits",
        "bytes_retransmitted",
        "timer",
        "timer_s",
        "bbr_bandwidth_bps",
        "rttvar_s",
        "receiver_window_limited_s",
        "busy_s",
        "send_queue_bytes",
        "recv_queue_bytes",
        "unsent_bytes",
        "backoff",
        "ecn",
        "max_pacing_rate_bps",
    )


def test_every_column_is_netlinks_while_no_ack_comes_back(watched: Watched, flows: Flows) -> None:
    for sender, receiver in flows.pairs:
        transfer(sender, receiver, BYTES // 10)
    subprocess.run(
        ["tc", "-n", flows.left, "qdisc", "replace", "dev", "veth", "root", "bfifo", "limit", "1"],
        check=True,
    )
    for sender, _ in flows.pairs:
        sender.send(bytes(100_000))
    time.sleep(4)
    assert_equal(
        watched,
        flows,
        "unacked",
        "lost",
        "retransmitted_unacked",
        "timeouts",
        "timeouts_in_row",
        "timeout_recoveries",
        "timeout_recovery_s",
        "timer_retransmits",
        "backoff",
        "send_queue_memory_bytes",
    )


def test_counters_never_fall_under_traffic(watched: Watched, flows: Flows) -> None:
    process = watched.by_bpf.start(
        f"--sockets={flows.left}", f"--sockets={flows.right}", "--rate=1000"
    )
    time.sleep(0.5)
    for sender, receiver in flows.pairs:
        transfer(sender, receiver, BYTES)
    stream = watched.by_bpf.finish(process)
    rows = rows_of(stream)
    assert len(rows) == 2 * len(flows.pairs)
    assert stream.report["rows_by_bpf"] >= 0.7 * stream.sockets.height
    fell = [
        f"{name}: {before[name]}, then {after[name]}"
        for samples in rows.values()
        for before, after in itertools.pairwise(samples)
        for name in COUNTERS
        if after[name] < before[name]
    ]
    assert fell == []
    assert sum(
        samples[-1]["bytes_acked"] - samples[0]["bytes_acked"] >= BYTES for samples in rows.values()
    ) == len(flows.pairs)


def test_a_socket_that_closes_leaves_its_final_counters(watched: Watched, connection: Any) -> None:
    with connection("127.0.0.1") as (client, server):
        process = watched.by_bpf.start(
            "--sockets", f"--port={client.getsockname()[1]}", "--rate=200"
        )
        time.sleep(0.5)
        client.sendall(bytes(1000))
        time.sleep(0.2)
        server.close()
        client.close()
        time.sleep(0.2)
    stream = watched.by_bpf.finish(process)
    report = stream.report
    assert_has(report, sockets_found=2, sockets_closed=2, sockets_vanished=0)
    assert report["rows_by_bpf"] > 0
    for cookie, samples in rows_of(stream).items():
        [last] = stream.sockets.filter(pl.col("cookie") == cookie, pl.col("final")).iter_rows(
            named=True
        )
        assert last["monotonic_s"] >= samples[-1]["monotonic_s"]
        assert all(last[name] >= samples[-1][name] for name in COUNTERS)
        assert "close" not in {row["state"] for row in samples}


def test_a_socket_that_connects_anew_is_another_one(watched: Watched) -> None:
    with ExitStack() as sockets:
        listeners = [
            sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)
        ]
        client = sockets.enter_context(socket.socket())
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        first, second = (listener.getsockname() for listener in listeners)
        client.connect(first)
        process = watched.by_bpf.start(
            "--sockets", "--remote=127.0.0.1", f"--remote-port={first[1]}", "--rate=200"
        )
        time.sleep(0.5)
        disconnect(client)
        client.connect(second)
        connected_s = time.monotonic()
        time.sleep(0.2)
        stream = watched.by_bpf.finish(process)
    assert stream.report["rows_by_bpf"] > 0
    assert stream.sockets["monotonic_s"].max() < connected_s + 0.05


def disconnect(client: socket.socket) -> None:
    """Does what connect() to an address of AF_UNSPEC does, which Python has not."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.connect(client.fileno(), bytes(16), 16) == 0, os.strerror(ctypes.get_errno())


def test_a_changed_cca_is_seen(watched: Watched, connection: Any) -> None:
    with connection("127.0.0.1", "cubic") as (client, _):
        process = watched.by_bpf.start(
            "--sockets", f"--local-port={client.getsockname()[1]}", "--rate=200"
        )
        time.sleep(0.5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        time.sleep(0.3)
        stream = watched.by_bpf.finish(process)
    assert stream.sockets["cca"].unique(maintain_order=True).to_list() == ["cubic", "reno"]
    by_netlink = stream.sockets.height - stream.report["rows_by_bpf"]
    assert by_netlink == 1, "only the sample that finds the change asks"


def test_programs_that_are_gone_cost_no_row(
    sockmon: Any, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCMIX_SOCKETS", "97 98 99")  # no descriptors of the probe
    with connection("127.0.0.1") as (client, _):
        stream = sockmon.record(
            "--sockets", f"--port={client.getsockname()[1]}", "--rate=100", "--duration=0.1"
        )
    assert stream.sockets.height == 2 * stream.report["samples"]
    assert "rows_by_bpf" not in stream.report


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_this_on_a_later_kernel_of_debian(sockmon_binary: str, tmp_path: Path) -> None:
    script = REPOSITORY / "tests/probes/sockmon_bpf_emulated.sh"
    emulate = [REPOSITORY / "lab/emulate", "--kernel", "sid", "--virtual-time", "max", tmp_path]
    command = [*emulate, "bash", script, sys.executable, sockmon_binary, find_cca()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 125 and "can't be fetched" in done.stderr:
        pytest.skip(f"the mirror lacks a package: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout, (
        "the programs don't know the kernel, which may be newer than they are"
    )
    print(done.stdout[-300:])
