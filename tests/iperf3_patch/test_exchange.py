"""Tests the exchange of groups and streams, with a client or a server whose messages a test
chooses.
"""

import contextlib
import json
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.ports import await_listening, free_port

PARAM_EXCHANGE, CREATE_STREAMS, EXCHANGE_STREAMS, TEST_START, TEST_RUNNING = 9, 10, 17, 1, 2
TEST_END, EXCHANGE_RESULTS, DISPLAY_RESULTS, IPERF_DONE, SERVER_ERROR = 4, 13, 14, 16, 254
UTILIZATION = {
    "cpu_util_total": 0,
    "cpu_util_user": 0,
    "cpu_util_system": 0,
    "sender_has_retransmits": 1,
}
PARAMETERS = {
    "tcp": True,
    "omit": 0,
    "time": 1,
    "parallel": 2,
    "len": 1000,
    "exchange_streams": True,
}
ENDS_WITHIN_S = 60.0  # a binary with sanitizers on a busy machine takes its time
COOKIE = b"c" * 36 + b"\0"


class Control:
    """Holds a control connection."""

    def __init__(self, control: socket.socket) -> None:
        self.socket = control

    def expect(self, *states: int) -> None:
        assert [self.socket.recv(1)[0] for _ in states] == list(states)

    def say(self, *states: int) -> None:
        self.socket.sendall(bytes(states))

    def send(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.socket.sendall(struct.pack("!I", len(data)) + data)

    def receive(self) -> Any:
        (length,) = struct.unpack("!I", self.socket.recv(4, socket.MSG_WAITALL))
        return json.loads(self.socket.recv(length, socket.MSG_WAITALL))


def connect(port: int) -> socket.socket:
    s = socket.create_connection(("127.0.0.1", port), ENDS_WITHIN_S)
    s.sendall(COOKIE)
    return s


def connected(port: int, parameters: dict[str, Any]) -> tuple[Control, list[socket.socket]]:
    """Begins a test of two streams."""
    client = Control(connect(port))
    client.expect(PARAM_EXCHANGE)
    client.send(PARAMETERS | parameters)
    client.expect(CREATE_STREAMS)
    return client, [connect(port), connect(port)]


def end(client: Control, streams: list[socket.socket]) -> Any:
    """Ends a test, and returns the server's results."""
    client.say(TEST_END)
    client.expect(EXCHANGE_RESULTS)
    client.send(UTILIZATION | {"streams": [result(1), result(3)]})
    results = client.receive()
    client.expect(DISPLAY_RESULTS)
    client.say(IPERF_DONE)
    for s in (*streams, client.socket):
        s.close()
    return results


def result(number: int) -> dict[str, Any]:
    return {"id": number, "bytes": 5000, "retransmits": 0, "jitter": 0, "errors": 0, "packets": 0}


def label(s: socket.socket, group: int, cca: str) -> dict[str, Any]:
    return {
        "local_port": s.getsockname()[1],
        "remote_port": s.getpeername()[1],
        "group": group,
        "congestion": cca,
    }


@pytest.fixture
def server(iperf3: str) -> Iterator[tuple[subprocess.Popen, int]]:
    port = free_port()
    argv = [iperf3, "-4", "-s", "-1", "-J", "-i", "0.1", "-p", str(port)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            await_listening(process, port)
            yield process, port
        finally:
            process.kill()


@pytest.mark.parametrize("ports", ["right", "translated"])
def test_connections_that_were_accepted_in_another_order(
    server: tuple[subprocess.Popen, int], ports: str
) -> None:
    """The receiver matches streams by their ports, and by their order where the ports
    don't match.
    """
    process, port = server
    client, streams = connected(port, {"congestion_groups": "cubic,reno"})
    client.expect(EXCHANGE_STREAMS)
    labels = [label(streams[1], 1, "cubic"), label(streams[0], 2, "reno")]
    if ports == "translated":
        labels = [label | {"local_port": 1} for label in labels]
    client.send({"streams": labels})
    assert client.receive() == {"streams": []}
    client.expect(TEST_START, TEST_RUNNING)
    streams[0].sendall(bytes(5000))
    time.sleep(0.15)
    end(client, streams)
    output, errors = process.communicate(timeout=ENDS_WITHIN_S)
    assert errors == ""
    report = json.loads(output)
    groups = [2, 1] if ports == "right" else [1, 2]
    ccas = [{1: "cubic", 2: "reno"}[g] for g in groups]
    for records in (
        report["start"]["connected"],
        report["end"]["streams"],
        report["intervals"][-1]["streams"],
    ):
        assert [r["group"] for r in records] == groups
        assert [r["congestion"] for r in records] == ccas
    received = {
        g["group"]: (g["congestion"], g["receiver"]["bytes"]) for g in report["end"]["groups"]
    }
    assert received == {groups[0]: (ccas[0], 5000), groups[1]: (ccas[1], 0)}


@pytest.mark.parametrize(
    "streams",
    [
        [],
        {},
        [1, None, "a", []],
        [{"congestion": 1, "group": "a", "local_port": []}],
        [{"group": 3}] * 9,
    ],
)
def test_streams_that_mean_nothing(server: tuple[subprocess.Popen, int], streams: Any) -> None:
    process, port = server
    client, sockets = connected(port, {"congestion_groups": "cubic,reno"})
    client.expect(EXCHANGE_STREAMS)
    client.send({"streams": streams})
    if isinstance(streams, list):
        client.receive()
        client.expect(TEST_START, TEST_RUNNING)
    for s in (*sockets, client.socket):
        s.close()
    report = json.loads(process.communicate(timeout=ENDS_WITHIN_S)[0])
    if isinstance(streams, list):
        assert [c["group"] for c in report["start"]["connected"]] == [1, 2]
        assert not [c for c in report["start"]["connected"] if "congestion" in c]
    else:
        assert report["error"].startswith(
            "error - unable to exchange what is known about the streams"
        )


def test_a_client_that_does_not_ask_for_the_exchange(server: tuple[subprocess.Popen, int]) -> None:
    """The server also confirms in the results the groups that it sent."""
    process, port = server
    client, streams = connected(
        port, {"exchange_streams": False, "reverse": True, "congestion": "reno:1,-:1"}
    )
    client.expect(TEST_START, TEST_RUNNING)
    assert end(client, streams)["congestion_list"] == "reno:1,-:1"
    process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0


def test_a_server_that_gets_a_malformed_list_says_so(server: tuple[subprocess.Popen, int]) -> None:
    process, port = server
    client = Control(connect(port))
    client.expect(PARAM_EXCHANGE)
    client.send(
        {
            "tcp": True,
            "time": 1,
            "parallel": 1,
            "len": 1000,
            "reverse": True,
            "congestion": "cubic:0,reno",
        }
    )
    client.expect(SERVER_ERROR)
    (error,) = struct.unpack("!i", client.socket.recv(4, socket.MSG_WAITALL))
    assert error == 400
    client.socket.close()
    output, _ = process.communicate(timeout=ENDS_WITHIN_S)
    assert "column 7, at '0,reno': a weight must be a whole number" in json.loads(output)["error"]


@pytest.mark.parametrize("exchanges", [False, True])
@pytest.mark.parametrize("confirms", [False, True])
def test_a_server_must_exchange_and_confirm(iperf3: str, exchanges: bool, confirms: bool) -> None:
    """Without the exchange the client ends before the test; without the confirmation, after it."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as stack:
        listening.settimeout(ENDS_WITHIN_S)
        port = listening.getsockname()[1]
        options = ["-J", "-R", "-n", "1K", "-l", "1000", "-P", "2", "-C", "cubic,reno"]
        argv = [iperf3, "-c", "127.0.0.1", "-p", str(port), *options]
        process = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)

        def accept() -> socket.socket:
            s = stack.enter_context(listening.accept()[0])
            s.settimeout(ENDS_WITHIN_S)
            assert s.recv(37, socket.MSG_WAITALL)[36:] == b"\0"
            return s

        control = Control(accept())
        control.say(PARAM_EXCHANGE)
        asked = control.receive()
        assert (asked["congestion"], asked["exchange_streams"]) == ("cubic,reno", True)
        control.say(CREATE_STREAMS)
        streams = [accept(), accept()]
        if exchanges:
            control.say(EXCHANGE_STREAMS)
            assert control.receive() == {"streams": []}
            control.send({"streams": [label(streams[1], 1, "cubic"), label(streams[0], 2, "reno")]})
        control.say(TEST_START, TEST_RUNNING)
        if exchanges:
            for s in streams:
                s.sendall(bytes(5000))
            control.expect(TEST_END)
            control.say(EXCHANGE_RESULTS)
            control.receive()
            confirmation = {"congestion_list": "cubic,reno"} if confirms else {}
            control.send(UTILIZATION | {"streams": [result(1), result(3)]} | confirmation)
            control.say(DISPLAY_RESULTS)
        report = json.loads(process.communicate(timeout=ENDS_WITHIN_S)[0])
    assert process.returncode == (0 if exchanges and confirms else 1)
    if not (exchanges and confirms):
        assert report["error"] == (
            "the server did not confirm the list of congestion control algorithms 'cubic,reno': "
            "its iperf3 cannot use a list"
        )
        assert "streams" not in report["end"]
    if exchanges:
        assert [(c["group"], c["congestion"]) for c in report["start"]["connected"]] == [
            (2, "reno"),
            (1, "cubic"),
        ]
    else:
        assert report["intervals"] == []
