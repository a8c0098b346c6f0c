"""Many connections by bbr2 and bbr3 as BPF programs: nothing leaks, crashes or stops."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.cca_bpf import (
    CCAS,
    Loader,
    Sink,
    bpf_maps,
    cca_of,
    connect,
    eventually,
    linked_namespaces,
    send,
)

SHORT = 100_000
AT_ONCE = 1000
SWITCHES = 6000
OTHERS = ("bbr", "cubic", "reno")
TCP_MEMORY = Path("/proc/sys/net/ipv4/tcp_mem")
PROTOCOLS = Path("/proc/net/protocols")
RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER that closes by RST: no port stays in TIME_WAIT
Pair = tuple[str, str]


@pytest.fixture
def narrow() -> Iterator[Pair]:
    """Two namespaces with a link on which data waits."""
    with linked_namespaces("tbf", "rate", "200mbit", "burst", "20k", "limit", "200k") as names:
        yield names


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("lists_of_sockets")
def test_100000_short_connections(loader: Loader, pair: Pair) -> None:
    for cca in CCAS:
        loader.must("load", cca)

    def connections(count: int) -> None:
        for number in range(count):
            with connect(pair[0], "10.88.0.2", sink.port, CCAS[number % 2]) as connection:
                connection.send(b"x" * 3000)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with Sink(pair[1], keep=False) as sink, ThreadPoolExecutor(4) as threads:
        list(threads.map(connections, [SHORT // 4] * 4))
    assert eventually(lambda: all(entry["sockets"] == 0 for entry in loader.list().values()))
    assert [entry["fallbacks"] for entry in loader.list().values()] == [0, 0]
    assert loader.status() == []
    for cca in CCAS:
        loader.must("unload", cca)
    assert eventually(lambda: bpf_maps() == [])


@pytest.mark.long
def test_thousands_of_switches_of_live_sockets(loader: Loader, pair: Pair) -> None:
    """Each of 16 connections changes its CCA after each 50 kB, at random."""
    for cca in CCAS:
        loader.must("load", cca)
    choices = random.Random(20261123)

    def switched(connection: socket.socket) -> None:
        for _ in range(SWITCHES // 16):
            send(connection, 50_000)
            cca = choices.choice((*CCAS, *OTHERS))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
            assert cca_of(connection) == cca

    with Sink(pair[1]) as sink:
        connections = [connect(pair[0], "10.88.0.2", sink.port, "bbr3") for _ in range(16)]
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(switched, connections))
        used = [cca_of(connection) for connection in connections]
        assert {name: entry["sockets"] for name, entry in loader.list().items()} == {
            cca: used.count(cca) for cca in CCAS
        }
        assert eventually(lambda: sink.received == SWITCHES // 16 * 16 * 50_000)
        for connection in connections:
            connection.close()
    assert eventually(lambda: all(entry["sockets"] == 0 for entry in loader.list().values()))
    assert [entry["fallbacks"] for entry in loader.list().values()] == [0, 0]


@contextmanager
def short_of_memory() -> Iterator[None]:
    """Limits TCP's memory on the whole machine to 2 MiB, with pressure from 8 KiB on."""
    former = TCP_MEMORY.read_text()
    try:
        TCP_MEMORY.write_text("1 2 512\n")
        yield
    finally:
        TCP_MEMORY.write_text(former)


def is_under_pressure() -> bool:
    """Returns whether the kernel reports that TCP's memory is under pressure."""
    header, *rows = (line.split() for line in PROTOCOLS.read_text().splitlines())
    [tcp] = [row for row in rows if row[0] == "TCP"]
    return tcp[header.index("press")] == "yes"


@pytest.mark.deep
def test_sockets_under_memory_pressure(loader: Loader, narrow: Pair) -> None:
    """Half of 16 connections exist before, and half begin meanwhile; all carry their data, then and
    afterwards.
    """
    for cca in CCAS:
        loader.must("load", cca)

    def connected() -> list[socket.socket]:
        made = [connect(narrow[0], "10.88.0.2", sink.port, CCAS[number % 2]) for number in range(8)]
        return [opened.enter_context(connection) for connection in made]

    # A connection that a failed assertion left open would keep the program loaded, and the next
    # tests would fail
    with Sink(narrow[1]) as sink, ThreadPoolExecutor(16) as threads, ExitStack() as opened:
        connections = connected()
        with short_of_memory():
            connections += connected()
            sending = [threads.submit(send, connection, 1_000_000) for connection in connections]
            assert eventually(is_under_pressure)
            for one in sending:
                one.result()
        list(threads.map(lambda connection: send(connection, 1_000_000), connections))
        assert eventually(lambda: sink.received == 32_000_000)
        assert not is_under_pressure()
        assert [cca_of(connection) for connection in connections] == list(CCAS) * 8
    assert eventually(lambda: all(entry["sockets"] == 0 for entry in loader.list().values()))
    assert [entry["fallbacks"] for entry in loader.list().values()] == [0, 0]
    for cca in CCAS:
        loader.must("unload", cca)
    assert eventually(lambda: bpf_maps() == [])


@pytest.mark.deep
@pytest.mark.usefixtures("lists_of_sockets")
def test_1000_connections_at_once(loader: Loader, pair: Pair) -> None:
    for cca in CCAS:
        loader.must("load", cca)
    with Sink(pair[1]) as sink:
        names = [CCAS[number % 2] for number in range(AT_ONCE)]
        connections = [connect(pair[0], "10.88.0.2", sink.port, cca) for cca in names]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda connection: send(connection, 100_000), connections))
        assert [cca_of(connection) for connection in connections] == names
        assert len(loader.status()) == AT_ONCE
        assert eventually(lambda: sink.received == AT_ONCE * 100_000)
        for connection in connections:
            connection.close()
    assert eventually(lambda: all(entry["sockets"] == 0 for entry in loader.list().values()))


@pytest.mark.deep
def test_loading_and_unloading_while_data_flows(loader: Loader, pair: Pair) -> None:
    """New sockets come and go while each generation of the congestion control is removed
    under them.
    """
    with Sink(pair[1]) as sink:
        connections: list[socket.socket] = []
        for _ in range(5):
            loader.must("load", "bbr3")
            connections += [connect(pair[0], "10.88.0.2", sink.port, "bbr3") for _ in range(4)]
            sender = threading.Thread(target=send, args=(connections[-1], 10_000_000))
            sender.start()
            loader.must("unload", "bbr3")
            sender.join()
        for connection in connections:
            send(connection, 100_000)
        assert eventually(lambda: sink.received == 5 * 10_000_000 + 20 * 100_000)
        for connection in connections:
            connection.close()
    assert eventually(lambda: bpf_maps() == [])


@pytest.mark.deep
def test_sockets_that_lack_memory_now_and_then(loader: Loader, pair: Pair) -> None:
    """The limit changes while connections begin: each has its state or Reno, and all carry
    their data.
    """
    loader.must("load", "bbr3")
    found = []
    with Sink(pair[1]) as sink:
        for number in range(100):
            limit = 1024 if number % 3 == 0 else 131072
            words = ["sysctl", "-qw", f"net.core.optmem_max={limit}"]
            subprocess.run(["ip", "netns", "exec", pair[0], *words], check=True)
            with connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
                found.append(cca_of(connection))
                send(connection, 100_000)
        assert eventually(lambda: sink.received == 100 * 100_000)
    assert found == ["reno" if number % 3 == 0 else "bbr3" for number in range(100)]
    assert loader.list()["bbr3"]["fallbacks"] == found.count("reno")
