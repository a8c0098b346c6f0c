"""Many connections by bbr2 and bbr3 as BPF programs: nothing leaks, crashes or stops."""

from __future__ import annotations

import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cca_bpf import CCAS, Loader, Sink, bpf_maps, cca_of, connect, eventually, send

SHORT = 100_000
AT_ONCE = 1000
RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER that closes by RST: no port stays in TIME_WAIT
Pair = tuple[str, str]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_100000_short_connections(loader: Loader, pair: Pair) -> None:
    loader.must("load", "bbr3")

    def connections(count: int) -> None:
        for _ in range(count):
            with connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
                connection.send(b"x" * 3000)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with Sink(pair[1], keep=False) as sink, ThreadPoolExecutor(4) as threads:
        list(threads.map(connections, [SHORT // 4] * 4))
    assert eventually(lambda: loader.list()["bbr3"]["sockets"] == 0)
    assert loader.status() == []
    loader.must("unload", "bbr3")
    assert eventually(lambda: bpf_maps() == [])


@pytest.mark.deep
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
    """New sockets come and go while each generation of the congestion control is removed under them."""
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
    """The limit changes while connections begin: each has its state or Reno, and all carry their data."""
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
