"""bbr2 and bbr3 as BPF programs, on this machine's kernel."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

from support.cca_bpf import CCAS, Loader, Sink, bpf_maps, cca_of, connect, eventually, send
from support.commands import run_program

MEGABYTE = 1_000_000
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
Pair = tuple[str, str]


@pytest.mark.parametrize("cca", CCAS)
@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, "10.88.0.2"), (socket.AF_INET6, "fd88::2")],
    ids=["IPv4", "IPv6"],
)
@pytest.mark.usefixtures("lists_of_sockets")
def test_it_carries_traffic_and_shows_its_state(
    loader: Loader, pair: Pair, cca: str, family: socket.AddressFamily, address: str
) -> None:
    loader.must("load", cca)
    assert cca in AVAILABLE.read_text().split()
    with Sink(pair[1], family) as sink, connect(pair[0], address, sink.port, cca) as connection:
        assert cca_of(connection) == cca
        send(connection, 50 * MEGABYTE)
        assert eventually(lambda: sink.received == 50 * MEGABYTE)
        (state,) = loader.status(cca)
        cookie = connection.getsockopt(socket.SOL_SOCKET, 57, 8)  # SO_COOKIE
        assert state["cookie"] == int.from_bytes(cookie, "little")
        assert (state["local_address"], state["local_port"]) == connection.getsockname()[:2]
        assert (state["remote_address"], state["remote_port"]) == (address, sink.port)
        assert state["bw_bps"] > 10e6
        assert 0 < state["min_rtt_us"] < 1e6
        assert state["phase"] == "startup" or state["cycle"] > 0 or state["phase"] == "drain"
        assert state["pacing_gain"] > 0
        assert state["cwnd_gain"] > 0
        entry = loader.list()[cca]
        assert (entry["sockets"], entry["fallbacks"]) == (1, 0)
    assert eventually(lambda: loader.list()[cca]["sockets"] == 0)
    loader.must("unload", cca)
    assert cca not in AVAILABLE.read_text().split()
    assert eventually(lambda: bpf_maps() == [])


@pytest.mark.usefixtures("lists_of_sockets")
def test_both_work_beside_each_other(loader: Loader, pair: Pair) -> None:
    for cca in CCAS:
        loader.must("load", cca)
    with Sink(pair[1]) as sink:
        with (
            connect(pair[0], "10.88.0.2", sink.port, "bbr2") as two,
            connect(pair[0], "10.88.0.2", sink.port, "bbr3") as three,
        ):
            for _ in range(10):
                send(two, MEGABYTE)
                send(three, MEGABYTE)
            assert sorted(state["name"] for state in loader.status()) == ["bbr2", "bbr3"]
            assert [state["name"] for state in loader.status("bbr2")] == ["bbr2"]
        assert eventually(lambda: sink.received == 20 * MEGABYTE)


@pytest.mark.usefixtures("lists_of_sockets")
def test_a_parameter_counts_for_a_live_socket(loader: Loader, pair: Pair) -> None:
    """With a gain of 64/256 in all phases of ProbeBW, the gain of a live socket becomes
    a quarter.
    """
    loader.must("load", "bbr3")
    with Sink(pair[1]) as sink, connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:

        def gain_is_a_quarter() -> bool:
            send(connection, MEGABYTE)
            return bool(loader.status()[0]["pacing_gain"] == 0.25)

        send(connection, 50 * MEGABYTE)
        loader.must(
            "set", "bbr3", "pacing_gain=64,64,64,64", "startup_pacing_gain=256", "drain_gain=64"
        )
        assert eventually(gain_is_a_quarter)
        assert loader.list()["bbr3"]["parameters"]["pacing_gain"] == "64,64,64,64"


@pytest.mark.usefixtures("lists_of_sockets")
def test_a_socket_without_memory_for_its_state_uses_reno(loader: Loader, pair: Pair) -> None:
    """A socket may take at most net.core.optmem_max of the kernel's memory for such state."""
    loader.must("load", "bbr3")
    subprocess.run(
        ["ip", "netns", "exec", pair[0], "sysctl", "-qw", "net.core.optmem_max=1024"], check=True
    )
    with Sink(pair[1]) as sink, connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
        assert cca_of(connection) == "reno"
        send(connection, 10 * MEGABYTE)
        assert eventually(lambda: sink.received == 10 * MEGABYTE)
        entry = loader.list()["bbr3"]
        assert (entry["sockets"], entry["fallbacks"]) == (0, 1)
        assert loader.status() == []


def test_sockets_above_max_sockets_use_reno(loader: Loader, pair: Pair) -> None:
    loader.must("load", "bbr3", "max_sockets=2")
    with Sink(pair[1]) as sink:
        connections = [connect(pair[0], "10.88.0.2", sink.port, "bbr3") for _ in range(3)]
        assert [cca_of(connection) for connection in connections] == ["bbr3", "bbr3", "reno"]
        connections[0].close()
        assert eventually(lambda: loader.list()["bbr3"]["sockets"] == 1)
        with connect(pair[0], "10.88.0.2", sink.port, "bbr3") as another:
            assert cca_of(another) == "bbr3"
        for connection in connections[1:]:
            connection.close()
        assert loader.list()["bbr3"]["fallbacks"] == 1


@pytest.mark.usefixtures("lists_of_sockets")
def test_unloading_leaves_sockets_what_they_use(loader: Loader, pair: Pair) -> None:
    loader.must("load", "bbr3", "loss_thresh=7")
    with Sink(pair[1]) as sink, connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
        send(connection, MEGABYTE)
        loader.must("unload", "bbr3")
        assert loader.list() == {}
        send(connection, 10 * MEGABYTE)
        assert cca_of(connection) == "bbr3"
        for names in ((), ("bbr3",)):
            assert [state["name"] for state in loader.status(*names)] == ["bbr3"]
        loader.must("load", "bbr3")  # a second instance; connections still use the first
        with connect(pair[0], "10.88.0.2", sink.port, "bbr3") as another:
            send(another, MEGABYTE)
            assert len(loader.status()) == 2
            entry = loader.list()["bbr3"]
            assert (entry["sockets"], entry["parameters"]["loss_thresh"]) == (1, "5")
        assert eventually(lambda: sink.received == 12 * MEGABYTE)
    loader.must("unload", "bbr3")
    assert eventually(lambda: loader.run("status", "bbr3").returncode == 1)
    assert eventually(lambda: bpf_maps() == [])


def test_a_live_socket_changes_its_congestion_control(loader: Loader, pair: Pair) -> None:
    for cca in CCAS:
        loader.must("load", cca)
    with Sink(pair[1]) as sink, connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
        for cca in ("cubic", "bbr2", "bbr3", "reno", "bbr3", "bbr", "bbr2") * 3:
            send(connection, MEGABYTE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
            assert cca_of(connection) == cca
            counts = {name: entry["sockets"] for name, entry in loader.list().items()}
            assert counts == {"bbr2": int(cca == "bbr2"), "bbr3": int(cca == "bbr3")}
        assert eventually(lambda: sink.received == 21 * MEGABYTE)


def test_a_user_chooses_it_only_if_the_administrator_allows(loader: Loader) -> None:
    choose = (
        "setpriv",
        "--reuid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "/usr/bin/python3",
    )
    script = (
        "import socket; socket.socket().setsockopt(socket.IPPROTO_TCP, "
        "socket.TCP_CONGESTION, b'bbr3')"
    )
    loader.must("load", "bbr3")
    allowed = ALLOWED.read_text()
    assert "bbr3" not in allowed.split()
    refused = run_program([*choose, "-c", script])
    assert refused.returncode != 0
    assert "PermissionError" in refused.stderr
    try:
        ALLOWED.write_text(f"{allowed.strip()} bbr3\n")
        subprocess.run([*choose, "-c", script], check=True)
    finally:
        ALLOWED.write_text(allowed)


def test_a_restart_from_idle_does_no_harm(loader: Loader, pair: Pair) -> None:
    loader.must("load", "bbr3")
    with Sink(pair[1]) as sink, connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
        for _ in range(5):
            send(connection, MEGABYTE)
            time.sleep(0.3)
        assert eventually(lambda: sink.received == 5 * MEGABYTE)


@pytest.mark.usefixtures("lists_of_sockets")
def test_the_status_of_many_sockets_is_whole(loader: Loader, pair: Pair) -> None:
    loader.must("load", "bbr3")
    with Sink(pair[1]) as sink:
        connections = [connect(pair[0], "10.88.0.2", sink.port, "bbr3") for _ in range(300)]
        try:
            ports = sorted(connection.getsockname()[1] for connection in connections)
            assert sorted(state["local_port"] for state in loader.status()) == ports
        finally:
            for connection in connections:
                connection.close()


READS_STATES = """
import ctypes, os, sys
BPF, ITER_CREATE = 321, 33
assert "CCMIX_STATE_BBR2" not in os.environ
link = (ctypes.c_uint32 * 2)(int(os.environ["CCMIX_STATE_BBR3"]), 0)
for _ in range(2):
    print(os.fdopen(ctypes.CDLL(None).syscall(BPF, ITER_CREATE, link, 8)).read(), end="")
"""


@pytest.mark.usefixtures("lists_of_sockets")
def test_a_program_under_watch_reads_states_as_the_module_writes_them(
    loader: Loader, pair: Pair
) -> None:
    loader.must("load", "bbr3")
    assert loader.must("watch", "--", "python3", "-c", READS_STATES) == ""
    with Sink(pair[1]) as sink, connect(pair[0], "10.88.0.2", sink.port, "bbr3") as connection:
        send(connection, MEGABYTE)
        assert eventually(lambda: sink.received == MEGABYTE)
        [state] = loader.status()
        read = loader.must("watch", "--", "python3", "-c", READS_STATES).splitlines()
    bounds = ("bw_lo_bps", "inflight_hi_packets", "inflight_lo_packets")
    header = (
        f"cookie phase cycle {' '.join(bounds)} bw_bytes_per_s min_rtt_us pacing_gain cwnd_gain"
    )
    row = [state["cookie"], state["phase"], state["cycle"], *(state[bound] for bound in bounds)]
    row += [state["bw_bps"] // 8, state["min_rtt_us"]]
    row += [round(state[gain] * 256) for gain in ("pacing_gain", "cwnd_gain")]
    assert read == 2 * [header, " ".join("-" if value is None else str(value) for value in row)]
    assert state["bw_bps"] > 10e6
    assert state["min_rtt_us"] > 0
    assert loader.run("watch", "--").returncode == 2
    assert loader.run("watch", "--", "/nonexistent").returncode == 1
