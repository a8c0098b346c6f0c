"""Reads packets from tcpdump while it captures them in a network namespace; no capture is
kept on disk.
"""

import ctypes
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ccmix.hosts import NamespaceHost
from probes.capflow.tool import Capflow, whole
from support.commands import assert_has

CLONE_NEWNET = 0x40000000
SIZE = 1_000_000


def connect(namespace: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Returns both ends of a connection over the namespace's loopback."""
    ends: list[socket.socket] = []

    def inside() -> None:  # of this thread only
        with Path("/run/netns", namespace).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        with socket.create_server(("127.0.0.1", port)) as listener:
            ends.append(socket.create_connection(("127.0.0.1", port)))
            ends.append(listener.accept()[0])

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    client, server = ends
    return client, server


def bytes_retransmitted(connection: socket.socket) -> int:
    """Returns tcpi_bytes_retrans of struct tcp_info."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 224)
    return int.from_bytes(raw[208:216], sys.byteorder)


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="tcpdump is not installed")
@pytest.mark.root  # tcpdump sets its groups, which a user namespace refuses
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_a_pipe_from_tcpdump(
    interface: str, namespace: NamespaceHost, capflow: Capflow, tmp_path: Path
) -> None:
    namespace.run(["ip", "link", "set", "lo", "up"])
    argv = [
        "tcpdump",
        "-Z",
        "root",
        "-i",
        interface,
        "-s",
        "96",
        "-U",
        "-w",
        "-",
        "--immediate-mode",
        "tcp",
    ]
    with (tmp_path / "tcpdump.log").open("w") as log:
        tcpdump = subprocess.Popen(namespace.command(argv), stdout=subprocess.PIPE, stderr=log)
    series = tmp_path / "series.csv"
    reader = subprocess.Popen(
        [capflow.binary, "--summary-json", f"--series={series}", "-"],
        stdin=tcpdump.stdout,
        stdout=subprocess.PIPE,
    )
    assert tcpdump.stdout is not None
    tcpdump.stdout.close()
    try:
        deadline = time.monotonic() + 10
        while "listening on" not in (tmp_path / "tcpdump.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        sender, receiver = connect(namespace.name, 5201)
        with sender, receiver:
            thread = threading.Thread(target=sender.sendall, args=(bytes(SIZE),))
            thread.start()
            got = 0
            while got < SIZE:
                got += len(receiver.recv(65536))
            thread.join()
            retransmitted = bytes_retransmitted(sender)  # a busy machine can be slow to answer
        time.sleep(0.5)
    finally:
        tcpdump.terminate()
        tcpdump.wait()
    output = reader.communicate(timeout=20)[0]
    assert reader.returncode == 0
    (connection,) = whole(output.decode())["connections"]
    side = connection["a2b"]
    assert connection["complete"] is True
    assert_has(
        side,
        unique_bytes=SIZE,
        acked_bytes=SIZE,
        stream_length_bytes=SIZE,
        retransmitted_bytes=retransmitted,
        missed_bytes=0,
    )
    assert side["segment_max_bytes"] > 30_000  # loopback's MTU is 64 kB, and TSO makes more of it
    assert 0 <= side["ack_rtt_min_s"] < 0.01
    assert series.read_text().count("\n") >= 3
