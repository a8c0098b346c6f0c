"""Tests which stream gets which CCA of a list, and what JSON reports about it."""

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest


def by_port(end: Any, key: str = "local_port") -> dict[int, str | None]:
    """Returns the CCA in end.streams[].sender, by the port of the stream on that side."""
    ports = {c["socket"]: c[key] for c in end.json["start"]["connected"]}
    senders = [s["sender"] for s in end.json["end"]["streams"]]
    return {ports[s["socket"]]: s.get("congestion") for s in senders}


def seen_by_kernel(port: int) -> dict[tuple[int, int], str]:
    """Returns the CCA of both sockets of each connection to the port, by local and remote port."""
    sockets = subprocess.run(
        ["ss", "-tinHO", f"( sport = :{port} or dport = :{port} )"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    ccas_by_ports = {}
    for line in sockets.splitlines():
        ports = re.findall(r"\S+:(\d+)\s", line)[:2]
        cca = re.search(r"\s(cubic|bbr|reno|vegas|dctcp|htcp|westwood|illinois)\s", line)
        if cca:
            ccas_by_ports[int(ports[0]), int(ports[1])] = cca[1]
    return ccas_by_ports


def test_forward(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-C", f"{a},{b}", "-P", "5")
    assert (got.client.status, got.server.status) == (0, 0)
    assert got.client.congestion() == [a, b, a, b, a]
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
    assert (end["sender_tcp_congestion"], end["receiver_tcp_congestion"]) == (
        f"{a},{b}",
        f"{a},{b}",
    )


def test_agrees_with_the_kernel(start: Callable, ccas: tuple[str, str]) -> None:
    """ss reports the CCA of every sending socket of both sides while the test runs."""
    a, b = ccas
    running = start("-J", "-t", "1", "-b", "20M", "--bidir", "-C", f"{a},{b}", "-P", "2")
    seen = {}
    while running.client.poll() is None:
        seen |= seen_by_kernel(running.port)
    got = running.finish()
    connected = [c for side in (got.client, got.server) for c in side.connected(sends=True)]
    assert len(connected) == 4
    assert {(c["local_port"], c["remote_port"]): c["congestion"] for c in connected} == {
        (c["local_port"], c["remote_port"]): seen.get((c["local_port"], c["remote_port"]))
        for c in connected
    }


def test_text_names_each_stream_on_both_sides(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = start("-i", "0.1", "-n", "1M", "-C", f"{a},{b}", "-P", "2", server_arguments=()).finish()
    for end in (got.client, got.server):
        assert re.findall(
            r"^\[ *\d+\] congestion control algorithm (\w+)$", end.output, re.MULTILINE
        ) == [a, b]


@pytest.mark.parametrize("direction", [(), ("-R",), ("--bidir",)], ids=["forward", "-R", "bidir"])
@pytest.mark.parametrize("asked", ["{a},{b}", "{a}", None])
def test_every_record_of_both_sides_has_it_from_the_start(
    start: Callable, ccas: tuple[str, str], direction: tuple[str, ...], asked: str | None
) -> None:
    """The events of --json-stream have it too, to which nothing can be added afterwards."""
    a, b = ccas
    expected = {"{a},{b}": [a, b], "{a}": [a, a], None: [b, b]}[asked]
    options = ("--json-stream", "-i", "0.1")
    more = () if asked is None else ("-C", asked.format(a=a, b=b))
    two_intervals = ("-n", "1M", "-b", "20M")
    got = start(
        *options, *two_intervals, "-P", "2", *direction, *more, server_arguments=options
    ).finish()
    streams = 4 if "--bidir" in direction else 2
    ports = []
    for end, local in ((got.client, "local_port"), (got.server, "remote_port")):
        events = [json.loads(line) for line in end.output.splitlines()]
        data = {
            kind: [e["data"] for e in events if e["event"] == kind]
            for kind in ("start", "interval", "end")
        }
        ((connected,), (last,)) = (
            [d["connected"] for d in data["start"]],
            [d["streams"] for d in data["end"]],
        )
        for records in (connected, last, *(i["streams"] for i in data["interval"])):
            assert len(records) == streams
            by_port = sorted((r[local], r["congestion"]) for r in records)
            ports.append(by_port)
            assert sorted(r["congestion"] for r in records) == sorted(expected * (streams // 2))
    # each side has read back one direction, and the other side says the same of it
    assert len(ports) >= 6
    assert all(p == ports[0] for p in ports)


def test_more_names_than_streams_is_a_warning(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-C", f"{a},{b}", "-P", "1")
    assert (got.client.status, got.client.congestion()) == (0, [a])
    assert (
        got.client.errors
        == "warning: -C lists more congestion control algorithms than there are streams\n"
    )


def test_forward_mix_to_an_unpatched_server(
    pair: Callable, ccas: tuple[str, str], stock: str
) -> None:
    a, b = ccas
    got = pair("-C", f"{a},{b}", "-P", "2", server=stock)
    assert (got.client.status, got.server.status) == (0, 0)
    assert list(by_port(got.client).values()) == [a, b]
    assert got.server.errors == ""


def test_reverse_mix_from_an_unpatched_server_is_an_error(
    pair: Callable, ccas: tuple[str, str], stock: str
) -> None:
    a, b = ccas
    for direction in ("-R", "--bidir"):
        got = pair(direction, "-C", f"{a},{b}", "-P", "2", server=stock)
        assert got.client.status == 1
        assert got.client.json["error"].endswith(
            f"the server did not confirm the list of congestion control algorithms '{a},{b}': "
            "its iperf3 cannot use a list"
        )
        # it ended before the test, so there is no result that could be taken for one of the mix
        assert got.client.json["intervals"] == []
        assert "streams" not in got.client.json["end"]
