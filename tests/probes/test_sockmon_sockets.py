"""Compares ccmix-sockmon's sockets with ss, with the sockets' own getsockopt(), and with iperf3."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.probes.stream.reader import read_stream
from support.commands import assert_has, wait_for
from support.ss_fields import differences

needs_ss = pytest.mark.skipif(
    not shutil.which("ss"), reason="ss is not installed: apt-get install iproute2"
)
destroy_events = pytest.mark.namespaces  # which the kernel gives only with CAP_NET_ADMIN
ADDRESSES = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
TCP_INFO_LENGTH, SO_MAX_PACING_RATE = 255, 47


def ss_line(port: int) -> str:
    """Returns the line of ss for the socket of a local port."""
    argv = ["ss", "-tinmoOH", "sport", "=", str(port)]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def port_of(end: socket.socket) -> int:
    return int(end.getsockname()[1])


def exchange(client: socket.socket, server: socket.socket, count: int) -> None:
    client.sendall(bytes(count))
    left = count
    while left:
        left -= len(server.recv(left))
    server.sendall(b"thanks")
    client.recv(6)


def row_of(sockets: pl.DataFrame, port: int) -> dict[str, Any]:
    """Returns the last sample of the socket of a local port."""
    return sockets.filter(pl.col("local_port") == port, ~pl.col("final")).row(-1, named=True)


@needs_ss
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("cca", ["cubic", "reno", "bbr"])
@pytest.mark.parametrize("rest", ["idle", "blocked"])
def test_every_field_that_ss_prints(
    address: str, cca: str, rest: str, sockmon: Any, connection: Any
) -> None:
    """The sockets are idle: after an exchange, or because the receiver has stopped reading, so that
    the window is closed.
    """
    with connection(address, cca) as (client, server):
        client.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("@Q", 10_000_000_000))
        exchange(client, server, 100_000)
        if rest == "blocked":
            client.setblocking(False)
            while True:
                try:
                    client.send(bytes(100_000))
                except BlockingIOError:
                    break
        time.sleep(0.6)
        for end in (client, server):
            before = ss_line(port_of(end))
            stream = sockmon.record("--sockets", f"--local-port={port_of(end)}", "--duration=0.001")
            wrong = differences(before, row_of(stream.sockets, port_of(end)), ss_line(port_of(end)))
            # a probe of the closed window may go out, or delayed work come, in between
            if wrong and rest == "blocked":
                time.sleep(0.1)
                before = ss_line(port_of(end))
                stream = sockmon.record(
                    "--sockets", f"--local-port={port_of(end)}", "--duration=0.001"
                )
                wrong = differences(
                    before, row_of(stream.sockets, port_of(end)), ss_line(port_of(end))
                )
            assert wrong == [], before


def test_every_field_that_the_socket_has(sockmon: Any, connection: Any) -> None:
    """Compares with tcp_info of getsockopt(), which has fields that this machine's ss
    does not know.
    """
    with connection("127.0.0.1") as (client, server):
        exchange(client, server, 100_000)
        time.sleep(0.3)
        stream = sockmon.record("--sockets", f"--local-port={port_of(client)}", "--duration=0.001")
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_LENGTH)
        row = row_of(stream.sockets, port_of(client))
    assert_has(
        row,
        rto_s=struct.unpack_from("<I", info, 8)[0] / 1e6,
        receive_mss_bytes=struct.unpack_from("<I", info, 20)[0],
        retransmits=struct.unpack_from("<I", info, 100)[0],
        pacing_rate_bps=struct.unpack_from("<Q", info, 104)[0] * 8,
        bytes_acked=struct.unpack_from("<Q", info, 120)[0],
        min_rtt_s=struct.unpack_from("<I", info, 148)[0] / 1e6,
    )
    assert row["bytes_sent"] == struct.unpack_from("<Q", info, 200)[0] == 100_000
    if len(info) >= 240:
        assert row["send_window_bytes"] == struct.unpack_from("<I", info, 228)[0] > 0
        assert row["receive_window_bytes"] == struct.unpack_from("<I", info, 232)[0] > 0
        assert (row["rehashes"], row["timeouts"]) == (0, 0)
    else:
        assert row["receive_window_bytes"] is None


def test_queues_of_a_socket_and_its_states(sockmon: Any, connection: Any) -> None:
    with connection("127.0.0.1") as (client, server):
        client.sendall(bytes(1234))
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        port = port_of(server)
        stream = sockmon.record("--sockets", f"--port={port}", "--duration=0.001")
        assert row_of(stream.sockets, port)["state"] == "close-wait"
        assert row_of(stream.sockets, port)["recv_queue_bytes"] == 1235  # with the FIN
        assert row_of(stream.sockets, port_of(client))["state"] == "fin-wait-2"
        assert row_of(stream.sockets, port)["uid"] == os.geteuid()


def test_a_changed_cca_is_seen(sockmon: Any, connection: Any) -> None:
    with connection("127.0.0.1", "cubic") as (client, _):
        process = sockmon.start("--sockets", f"--local-port={port_of(client)}", "--rate=100")
        time.sleep(0.3)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        time.sleep(0.3)
        stream = sockmon.finish(process)
    assert stream.sockets["cca"].unique(maintain_order=True).to_list() == ["cubic", "reno"]
    assert stream.sockets["cookie"].n_unique() == 1


def test_the_sample_that_sees_a_changed_cca_has_it(sockmon: Any, connection: Any) -> None:
    """The sample has rows of other sockets before and after that of the socket."""
    with ExitStack() as opened:
        clients = [opened.enter_context(connection("127.0.0.1", "cubic"))[0] for _ in range(40)]
        ports = list(map(port_of, clients))
        process = sockmon.start("--sockets", "--remote=127.0.0.1", "--rate=0.1")
        time.sleep(0.3)
        for client in clients[10:30]:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        stream = sockmon.finish(process)
    for at, port in enumerate(ports):
        seen = stream.sockets.filter(local_port=port, final=False)
        assert seen["cca"].to_list() == ["cubic", "reno" if 10 <= at < 30 else "cubic"]
        assert seen["remote_port"].n_unique() == seen["cookie"].n_unique() == 1
        assert seen["state"].unique().to_list() == ["established"]


def test_a_slow_probe_has_a_new_socket_in_its_next_sample(sockmon: Any, connection: Any) -> None:
    with connection("127.0.0.1"):
        process = sockmon.start("--sockets", "--rate=2", "--discover-rate=2")
        time.sleep(0.25)
        with connection("127.0.0.1") as (client, _):
            time.sleep(0.5)
            stream = sockmon.finish(process)
            sampled = stream.sockets.filter(local_port=port_of(client), final=False)
    assert sampled.height == stream.report["samples"] - 1  # all but the first one


def test_before_a_moment_it_searches(sockmon: Any, connection: Any) -> None:
    """A new socket is in the sample of that moment, even if searches and samples are rare."""
    moment_s = time.time() + 0.6
    rarely = [f"--{name}=0.0001" for name in ("rate", "slow-rate", "discover-rate")]
    process = sockmon.start("--sockets", *rarely, f"--also={moment_s:.6f}")
    time.sleep(0.3)
    with connection("127.0.0.1") as (client, _):
        wait_for(lambda: time.time() > moment_s + 0.3, 5, "the moment")
        port, stream = port_of(client), sockmon.finish(process)
    sampled = stream.sockets.filter(local_port=port, final=False)
    assert -1e-4 < sampled["time_s"][0] - moment_s < 0.2


def test_it_may_search_more_often_than_it_samples(sockmon: Any, connection: Any) -> None:
    """So it has a socket that came after its first sample, although there was no later sample at
    which it would have searched.
    """
    process = sockmon.start("--sockets", "--rate=0.0001", "--discover-rate=50")
    time.sleep(0.3)
    with connection("127.0.0.1") as (client, _):
        port = port_of(client)
        time.sleep(0.3)
        stream = sockmon.finish(process)
    assert stream.sockets.filter(local_port=port, final=False).height == 1
    assert stream.report["samples"] == 2


def endpoints(pairs: list[tuple[socket.socket, socket.socket]]) -> list[tuple[str, str, int, int]]:
    ends = [end for pair in pairs for end in pair]
    return [
        (*(name[0] for name in (e.getsockname(), e.getpeername())), port_of(e), e.getpeername()[1])
        for e in ends
    ]


IPV4 = ("127.0.0.1", "::ffff:127.0.0.1")  # the latter is IPv4 in an IPv6 socket


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ("--local=127.0.0.0/8", lambda local, remote, port, peer, servers: local in IPV4),
        ("--remote=127.0.0.1", lambda local, remote, port, peer, servers: remote in IPV4),
        ("--remote=127.0.0.2", lambda local, remote, port, peer, servers: False),
        ("--remote=127.0.0.2/31", lambda local, remote, port, peer, servers: False),
        ("--remote=127.0.0.0/31", lambda local, remote, port, peer, servers: remote in IPV4),
        ("--remote=::1", lambda local, remote, port, peer, servers: remote == "::1"),
        ("--remote=::1 --remote=127.0.0.1", lambda local, remote, port, peer, servers: True),
        (
            "--remote=10.0.0.1 --remote=::1 --remote=10.0.0.2 --port={0}-{1}",
            lambda local, remote, port, peer, servers: (
                remote == "::1"
                and any(servers[0] <= number <= servers[1] for number in (port, peer))
            ),
        ),
        (
            "--remote=::2" + 6 * " --remote=fe80::1" + " --remote=127.0.0.0/8",
            lambda local, remote, port, peer, servers: remote in IPV4,
        ),
        ("--local=::/0", lambda local, remote, port, peer, servers: ":" in local),
        (
            "--local=::/8 --remote-port={0}",
            lambda local, remote, port, peer, servers: ":" in local and peer == servers[0],
        ),
        ("--local-port={0}", lambda local, remote, port, peer, servers: port == servers[0]),
        ("--remote-port={0}", lambda local, remote, port, peer, servers: peer == servers[0]),
        ("--port={0}", lambda local, remote, port, peer, servers: servers[0] in (port, peer)),
        ("--port={1}", lambda local, remote, port, peer, servers: servers[1] in (port, peer)),
        (
            "--port={0}-{1}",
            lambda local, remote, port, peer, servers: any(
                servers[0] <= number <= servers[1] for number in (port, peer)
            ),
        ),
        (
            "--port={1} --local-port={1}",
            lambda local, remote, port, peer, servers: port == servers[1],
        ),
        (
            "--port={0} --remote=127.0.0.1",
            lambda local, remote, port, peer, servers: (
                remote in IPV4 and servers[0] in (port, peer)
            ),
        ),
    ],
)
@destroy_events
def test_filters(options: str, holds: Any, sockmon: Any, connection: Any) -> None:
    """The kernel filters open sockets, and the probe filters ended sockets, in the same way."""
    with connection("127.0.0.1") as a, connection("::1") as b, connection("::ffff:127.0.0.1") as c:
        pairs = sorted((a, b, c), key=lambda pair: port_of(pair[1]))
        servers = [port_of(server) for _, server in pairs]
        ours = endpoints(pairs)
        expected = sorted(end for end in ours if holds(*end, servers))
        process = sockmon.start("--sockets", *options.format(*servers).split(), "--rate=100")
        time.sleep(0.2)
    time.sleep(0.1)
    sockets = sockmon.finish(process).sockets
    columns = ("local_address", "remote_address", "local_port", "remote_port")
    for final in (False, True):
        rows = sockets.filter(pl.col("final") == final).select(columns).unique().rows()
        assert sorted(row for row in rows if row in ours) == expected, f"final: {final}"


@destroy_events
def test_events_alone_are_filtered_too(sockmon: Any, connection: Any) -> None:
    """The probe records sockets that no dump saw, since there was none while they lived."""
    process = sockmon.start(
        "--sockets", "--local=127.0.0.1", "--port=1-32000", "--discover-rate=0.01"
    )
    time.sleep(0.3)
    with connection("127.0.0.1") as (client, server):  # ports above
        exchange(client, server, 1000)
        ours = {port_of(client), port_of(server)}
    time.sleep(0.1)
    stream = sockmon.finish(process)
    assert stream.report["events"] >= 2
    assert not ours & set(
        stream.sockets["local_port"]
    )  # others on this machine may have connections too


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """Makes a cgroup of version 2 for the test."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    version_2 = [Path(mount) for _, mount, kind, *_ in mounts if kind == "cgroup2"]
    if not version_2:
        pytest.skip("cgroup v2 is not mounted")
    folder = version_2[0] / f"ccmix-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    wait_for(lambda: not (folder / "cgroup.procs").read_text(), 20, "the cgroup is empty")
    folder.rmdir()


IN_CGROUP = """
import os, socket, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
long = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
long.sendall(b"long")
sys.stdin.readline()
with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as short:
    short.sendall(b"short")
    short.recv(1)
"""


@pytest.mark.root
def test_sockets_of_a_cgroup(sockmon: Any, cgroup: Path) -> None:
    """The stream has only the sockets that the process made, and the end of those that a search
    saw.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = port_of(listener)
        argv = [sys.executable, "-c", IN_CGROUP, cgroup, str(port)]
        inside = subprocess.Popen(argv, stdin=subprocess.PIPE)
        server, (_, client_port) = listener.accept()
        assert server.recv(4) == b"long"
        process = sockmon.start(
            "--sockets", f"--port={port}", f"--cgroup={cgroup}", "--discover-rate=0.01"
        )
        time.sleep(0.3)
        assert inside.stdin
        inside.stdin.write(b"\n")
        inside.stdin.flush()
        with listener.accept()[0] as short:
            assert short.recv(5) == b"short"
        assert inside.wait(20) == 0
        server.close()
        inside.stdin.close()
        time.sleep(0.3)
        stream = sockmon.finish(process)
    assert set(stream.sockets["local_port"]) == {client_port}
    assert stream.sockets.filter("final")["bytes_sent"].to_list() == [4]
    assert stream.report["events"] >= 2
    assert stream.report["sockets_vanished"] == 0


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("/no/such/folder", "cgroup /no/such/folder: No such file or directory"),
        ("/proc", "cgroup /proc: no folder of cgroup v2"),
    ],
)
def test_what_is_no_cgroup_is_said(
    folder: str, words: str, sockmon_binary: str, tmp_path: Path
) -> None:
    argv = [
        sockmon_binary,
        "--sockets",
        f"--cgroup={folder}",
        "--duration=0.1",
        f"--output={tmp_path}/stream",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@destroy_events
@pytest.mark.parametrize("address", ADDRESSES)
def test_short_flows_leave_their_final_counters(
    address: str, sockmon: Any, connection: Any
) -> None:
    """300 connections of about a millisecond, between two dumps: each end is seen once, with all
    its bytes.
    """
    process = sockmon.start("--sockets", "--rate=200", "--discover-rate=0.5")
    time.sleep(0.3)
    sent: dict[
        tuple[int, int], int
    ] = {}  # by both ports: others on this machine may use one of them
    for number in range(300):
        with connection(address) as (client, server):
            sent[port_of(client), port_of(server)] = count = 1000 + 7 * number
            exchange(client, server, count)
    time.sleep(0.1)
    stream = sockmon.finish(process)
    ends = list(stream.sockets.filter("final").iter_rows(named=True))
    clients = [row for row in ends if (row["local_port"], row["remote_port"]) in sent]
    assert len({row["cookie"] for row in clients}) == len(clients) == 300
    assert {(row["local_port"], row["remote_port"]): row["bytes_sent"] for row in clients} == sent
    servers = [row for row in ends if (row["remote_port"], row["local_port"]) in sent]
    received = {
        (row["remote_port"], row["local_port"]): row["bytes_received"] - 1 for row in servers
    }  # with the FIN
    assert received == sent
    assert stream.report["lost_events"] == 0


@destroy_events
@pytest.mark.parametrize(
    "rate", [1000, 10]
)  # a sample sees the end before the event comes, or does not
def test_known_sockets_keep_their_identity_to_the_end(
    rate: int, sockmon: Any, connection: Any
) -> None:
    # an address that nobody else on this machine talks to
    process = sockmon.start(
        "--sockets", "--remote=127.77.0.1", f"--rate={rate}", "--discover-rate=50"
    )
    time.sleep(0.2)
    ports = []
    for _ in range(10):
        with connection("127.77.0.1") as (client, server):
            ports.append(port_of(client))
            exchange(client, server, 10_000)
            time.sleep(0.25)
    time.sleep(0.1)
    stream = sockmon.finish(process)
    ours = stream.sockets.filter(pl.col("local_port").is_in(ports))
    assert (
        ours.group_by("local_port").agg(pl.col("socket").n_unique())["socket"].to_list() == [1] * 10
    )
    assert ours.filter("final").height == 10
    assert set(ours["cca"]) == {"cubic"}
    assert stream.report["sockets_vanished"] == 0
    grown = (
        ours.sort("monotonic_s")
        .group_by("socket")
        .agg(pl.col("bytes_sent").last() - pl.col("bytes_sent").first())
    )
    assert (grown["bytes_sent"] >= 0).all()


def test_an_ordinary_user_is_told_what_is_missing(sockmon_binary: str, tmp_path: Path) -> None:
    """Sockets can be sampled. If the kernel refuses destroy events, the probe reports that in both
    ways.
    """
    argv = [sockmon_binary, "--sockets", "--duration=0.01"]
    if os.geteuid() == 0:
        shutil.copy(sockmon_binary, tmp_path / "sockmon")
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        argv = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            tmp_path / "sockmon",
            *argv[1:],
        ]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    if done.stderr:
        assert b"no destroy events: Operation not permitted" in done.stderr
        assert b"no destroy events: Operation not permitted" in done.stdout


@destroy_events
def test_bytes_agree_with_iperf3(sockmon: Any) -> None:
    """Compares, per stream, the sent and acknowledged bytes of the sockets at their end with
    iperf3's counts.
    """
    iperf3 = subprocess.run(
        [Path(__file__).parents[2] / "iperf3-patch" / "build"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = port_of(unused)
    server = subprocess.Popen(
        [iperf3, "-4", "-s", "-1", "-p", str(port), "-J"], stdout=subprocess.PIPE
    )
    process = sockmon.start("--sockets", f"--port={port}", "--rate=100")
    listens = f":{port:04X} 00000000:0000 0A"
    wait_for(lambda: listens in Path("/proc/net/tcp").read_text(), 20, "iperf3 listens")
    argv = [iperf3, "-c", "127.0.0.1", "-p", str(port), "-P", "4", "-n", "80M", "-J", "-b", "200M"]
    client = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    server.communicate(timeout=10)
    time.sleep(0.2)
    stream = sockmon.finish(process)
    final = {row["local_port"]: row for row in stream.sockets.filter("final").iter_rows(named=True)}
    ports = {
        connected["socket"]: connected["local_port"] for connected in client["start"]["connected"]
    }
    assert len(client["end"]["streams"]) == 4
    for one_stream in client["end"]["streams"]:
        row = final[ports[one_stream["sender"]["socket"]]]
        cookie = 37  # iperf3's, at the beginning of each connection
        # iperf3 may send one more block of 128 KiB after it has stopped counting
        beyond = (
            row["bytes_sent"] - row["bytes_retransmitted"] - cookie - one_stream["sender"]["bytes"]
        )
        assert beyond in (0, 131_072)
        assert (
            one_stream["receiver"]["bytes"] + cookie <= row["bytes_acked"] <= row["bytes_sent"] + 2
        )  # SYN and FIN
        assert row["retransmits"] == one_stream["sender"]["retransmits"]


IN_SMALL_TABLE = """
import json, socket, subprocess, sys, time

def connect(listener, number):
    client = socket.create_connection(listener.getsockname()[:2])
    server, _ = listener.accept()
    client.sendall(bytes(10_000 + number))
    left = 10_000 + number
    while left:
        left -= len(server.recv(left))
    return client, server

def ss():
    lines = subprocess.run(["ss", "-tinmoOH"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {" ".join(end.rsplit(":", 1)[1] for end in line.split()[3:5]): line for line in lines}

listeners = [socket.create_server(("127.0.0.1", 0)), socket.create_server(("::1", 0), family=socket.AF_INET6)]
pairs = [connect(listeners[number % 2], number) for number in range(12)]
ports = [pair[0].getsockname()[1] for pair in pairs]
time.sleep(0.6)
before = ss()
probe = subprocess.Popen([*sys.argv[1:], "--sockets", "--rate=100", "--discover-rate=10"])
time.sleep(0.5)
after = ss()
for end in (*pairs[0], *pairs[1]):
    end.close()
pairs.append(connect(listeners[0], 12))
time.sleep(0.5)
probe.terminate()
assert probe.wait() == 0
print(json.dumps({"ports": ports, "before": before, "after": after, "new": pairs[-1][0].getsockname()[1]}))
"""
SMALL_TABLE = (
    'echo 512 >/proc/sys/net/ipv4/tcp_child_ehash_entries; exec unshare --net sh -c "$0" "$@"'
)


@needs_ss
@pytest.mark.namespaces
def test_a_small_table_is_dumped_instead_of_asked(sockmon: Any) -> None:
    """The rows come from requests: in the order of the sockets, with all values that ss prints,
    until a socket is gone.
    """
    argv = [
        "unshare",
        "--net",
        "sh",
        "-ec",
        SMALL_TABLE,
        'ip link set lo up; exec "$0" "$@"',
        sys.executable,
        "-c",
        IN_SMALL_TABLE,
        *sockmon.argv(),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    stream = read_stream(sockmon.file)
    assert stream.report["dumps"] > stream.report["samples"]
    rows = stream.sockets.filter(~pl.col("final"))
    first = rows.filter(pl.col("time_s") == rows["time_s"].min())
    assert first["socket"].to_list() == list(range(24))
    for row in first.iter_rows(named=True):
        ports = f"{row['local_port']} {row['remote_port']}"
        row["rttvar_s"] = row["rttvar_s"] or 0.0  # null: below 4 us, as the RTT may be here
        assert not differences(seen["before"][ports], row, seen["after"][ports])
    last = rows.filter(pl.col("time_s") == rows["time_s"].max())
    alive = {*seen["ports"][2:], seen["new"]}
    assert set(last["local_port"]) & {*seen["ports"], seen["new"]} == alive
    ends = stream.sockets.filter("final", pl.col("local_port").is_in(seen["ports"]))
    assert dict(ends.select("local_port", "bytes_sent").iter_rows()) == {
        port: 10_000 + number for number, port in enumerate(seen["ports"][:2])
    }
    assert stream.report["lost_replies"] == stream.report["sockets_vanished"] == 0
