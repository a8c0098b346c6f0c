"""-C with a list: which stream gets which CCA, and what JSON says about it."""

import re
import subprocess
from collections.abc import Callable
from typing import Any


def by_port(end: Any, key: str = "local_port") -> dict[int, str | None]:
    """The CCA in end.streams[].sender, by the port of the stream on that side."""
    ports = {c["socket"]: c[key] for c in end.json["start"]["connected"]}
    senders = [s["sender"] for s in end.json["end"]["streams"]]
    return {ports[s["socket"]]: s.get("congestion") for s in senders}


def seen_by_kernel(port: int) -> dict[tuple[int, int], str]:
    """The CCA of both sockets of each connection to the port, by local and remote port."""
    sockets = subprocess.run(
        ["ss", "-tinHO", f"( sport = :{port} or dport = :{port} )"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = {}
    for line in sockets.splitlines():
        ports = re.findall(r"\S+:(\d+)\s", line)[:2]
        cca = re.search(r"\s(cubic|bbr|reno|vegas|dctcp|htcp|westwood|illinois)\s", line)
        if cca:
            found[int(ports[0]), int(ports[1])] = cca[1]
    return found


def test_forward(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-C", f"{a},{b}", "-P", "5")
    assert (got.client.status, got.server.status) == (0, 0)
    assert got.client.congestion() == [a, b, a, b, a]
    assert got.server.congestion() == []
    assert list(by_port(got.client).values()) == [a, b, a, b, a]
    # the server only receives, and knows it from the client
    assert by_port(got.server, "remote_port") == by_port(got.client)
    assert got.client.json["end"]["sender_tcp_congestion"] == f"{a},{b}"


def test_list_order_counts(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-C", f"{b},{b},{a}", "-P", "4")
    assert got.client.congestion() == [b, b, a, b]
    assert got.client.json["end"]["sender_tcp_congestion"] == f"{b},{a}"


def test_reverse(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-R", "-C", f"{a},{b}", "-P", "3")
    assert (got.client.status, got.server.status) == (0, 0)
    assert got.client.congestion() == []
    assert got.server.congestion() == [a, b, a]
    assert list(by_port(got.client).values()) == [a, b, a]
    assert by_port(got.server, "remote_port") == by_port(got.client)
    assert got.client.json["end"]["sender_tcp_congestion"] == f"{a},{b}"


def test_bidirectional(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("--bidir", "-C", f"{a},{b}", "-P", "2")
    assert (got.client.status, got.server.status) == (0, 0)
    assert got.client.congestion() == [a, b]
    assert got.server.congestion() == [a, b]
    assert list(by_port(got.client).values()) == [a, b, a, b]
    assert by_port(got.server, "remote_port") == by_port(got.client)
    end = got.client.json["end"]
    assert (end["sender_tcp_congestion"], end["receiver_tcp_congestion"]) == (f"{a},{b}", f"{a},{b}")


def test_agrees_with_the_kernel(start: Callable, ccas: tuple[str, str]) -> None:
    """ss sees the CCA of every sending socket, of both sides, while the test runs."""
    a, b = ccas
    running = start("-J", "-t", "1", "-b", "20M", "--bidir", "-C", f"{a},{b}", "-P", "2")
    seen = {}
    while running.client.poll() is None:
        seen |= seen_by_kernel(running.port)
    got = running.finish()
    connected = [c for side in (got.client, got.server) for c in side.json["start"]["connected"] if "congestion" in c]
    assert len(connected) == 4
    assert {(c["local_port"], c["remote_port"]): c["congestion"] for c in connected} == {
        (c["local_port"], c["remote_port"]): seen.get((c["local_port"], c["remote_port"])) for c in connected
    }


def test_text_names_each_sending_stream(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = start("-i", "0.1", "-n", "1M", "-C", f"{a},{b}", "-P", "2", server_arguments=()).finish()
    assert re.findall(r"^\[ *\d+\] congestion control algorithm (\w+)$", got.client.output, re.MULTILINE) == [a, b]
    assert "congestion control algorithm" not in got.server.output


def test_json_stream(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = start("--json-stream", "-i", "0.1", "-n", "1M", "-R", "-C", f"{a},{b}", "-P", "2").finish()
    assert f'"congestion":"{a}"' in re.sub(r"\s", "", got.client.output.splitlines()[-1])


def test_more_names_than_streams_is_a_warning(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-C", f"{a},{b}", "-P", "1")
    assert (got.client.status, got.client.congestion()) == (0, [a])
    assert got.client.errors == "warning: -C lists more congestion control algorithms than there are streams\n"


def test_forward_mix_to_an_unpatched_server(pair: Callable, ccas: tuple[str, str], stock: str) -> None:
    a, b = ccas
    got = pair("-C", f"{a},{b}", "-P", "2", server=stock)
    assert (got.client.status, got.server.status) == (0, 0)
    assert list(by_port(got.client).values()) == [a, b]
    assert got.server.errors == ""


def test_reverse_mix_from_an_unpatched_server_is_an_error(pair: Callable, ccas: tuple[str, str], stock: str) -> None:
    a, b = ccas
    for direction in ("-R", "--bidir"):
        got = pair(direction, "-C", f"{a},{b}", "-P", "2", server=stock)
        assert got.client.status == 1
        assert got.client.json["error"].endswith(
            f"the server did not confirm the list of congestion control algorithms '{a},{b}': "
            "its iperf3 cannot use a list"
        )
        # no result that could be taken for one of the mix
        assert "streams" not in got.client.json["end"]
