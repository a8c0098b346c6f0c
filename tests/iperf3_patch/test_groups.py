"""Tests the groups of -C, CCA[:WEIGHT][@RATE][+DELAY], in JSON, in the kernel (ss) and at
the receiver.
"""

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

DIRECTIONS = pytest.mark.parametrize(
    "direction", [(), ("-R",), ("--bidir",)], ids=["forward", "-R", "bidir"]
)
# Only complete blocks are counted. They are small, so that the missing part of the last block
# doesn't matter.
SMALL_BLOCKS = ("-l", "4K")


def senders(got: Any) -> list[list[dict[str, Any]]]:
    """Returns the connected records of each direction, from the side that sends."""
    connected = (end.connected(sends=True) for end in (got.client, got.server))
    return [c for c in connected if c]


def end_groups(end: Any, sends: bool) -> list[dict[str, Any]]:
    return [g for g in end.json["end"]["groups"] if g["sender"]["sender"] == sends]


def received(got: Any) -> list[list[dict[str, Any]]]:
    """Returns the end's groups of each direction, from the side that receives."""
    groups = (end_groups(end, sends=False) for end in (got.client, got.server))
    return [g for g in groups if g]


def sampled(running: Any) -> dict[tuple[int, int], tuple[str, str, int]]:
    """Returns the last report of ss about sending sockets, by both ports: (CCA, maximum pacing rate
    or "", bytes).
    """
    sockets = {}
    argv = ["ss", "-tinHO", f"( sport = :{running.port} or dport = :{running.port} )"]
    while running.client.poll() is None:
        for line in subprocess.run(
            argv, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.splitlines():
            local, remote = re.findall(r"\S+:(\d+)(?:\s|$)", line)[:2]
            cca = re.search(r"\s(cubic|bbr|reno|vegas|dctcp|htcp|westwood|illinois)\s", line)
            pacing = re.search(r"\spacing_rate \d+bps/(\d+)bps", line)
            sent = re.search(r"\sbytes_sent:(\d+)", line)
            if cca and sent:
                sockets[int(local), int(remote)] = cca[1], pacing[1] if pacing else "", int(sent[1])
    return sockets


@DIRECTIONS
def test_weights(pair: Callable, ccas: tuple[str, str], direction: tuple[str, ...]) -> None:
    a, b = ccas
    got = pair(*direction, "-C", f"{a}:3,{b}", "-P", "8")
    assert (got.client.status, got.server.status) == (0, 0)
    for connected in senders(got):
        assert [c["congestion"] for c in connected] == [a, a, b, a] * 2
        assert [c["group"] for c in connected] == [1, 1, 2, 1] * 2
    assert len(senders(got)) == (2 if "--bidir" in direction else 1)


@pytest.mark.parametrize(
    ("weights", "streams", "groups"),
    [
        ((1, 1), 5, "12121"),
        ((12, 4), 16, "1121" * 4),
        ((1, 3), 4, "2122"),
        ((2, 1, 1), 4, "1231"),
        ((5, 1), 3, "111"),
        ((1, 1000), 3, "222"),
    ],
)
def test_order(
    pair: Callable, ccas: tuple[str, str], weights: tuple[int, ...], streams: int, groups: str
) -> None:
    """The order is smooth weighted round robin, whatever the number of streams."""
    spec = ",".join(f"{ccas[n % 2]}:{w}" for n, w in enumerate(weights))
    got = pair("-C", spec, "-P", str(streams))
    assert "".join(str(c["group"]) for c in got.client.json["start"]["connected"]) == groups
    unused = "-C has a group that gets no stream" in got.client.errors
    assert unused == (len(set(groups)) < len(weights))


@DIRECTIONS
def test_minus_is_the_default(
    pair: Callable, ccas: tuple[str, str], direction: tuple[str, ...]
) -> None:
    a, default = ccas
    got = pair(*direction, "-C", f"-,{a}", "-P", "2")
    assert (got.client.status, got.server.status) == (0, 0)
    for connected in senders(got):
        assert [c["congestion"] for c in connected] == [default, a]
    # the receiver has learnt the name from the sender
    for groups in received(got):
        assert [g["congestion"] for g in groups] == [default, a]


def test_minus_alone_is_a_group(pair: Callable, ccas: tuple[str, str]) -> None:
    got = pair("-C", "-")
    assert (got.client.status, got.client.congestion()) == (0, [ccas[1]])
    assert len(end_groups(got.client, sends=True)) == 1


@DIRECTIONS
def test_the_kernel_has_the_algorithm_and_the_rate(
    start: Callable, ccas: tuple[str, str], direction: tuple[str, ...]
) -> None:
    a, b = ccas
    running = start(
        "-J", "-t", "1", *direction, "-C", f"{a}:2@40M,{b}@8M", "-P", "3", "--fq-rate", "1G"
    )
    seen = sampled(running)
    got = running.finish()
    assert (got.client.status, got.server.status) == (0, 0)
    for connected in senders(got):
        kernel = [seen[c["local_port"], c["remote_port"]][:2] for c in connected]
        assert kernel == [(a, "40000000"), (b, "8000000"), (a, "40000000")]


def test_a_group_without_a_rate_has_that_of_fq_rate(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    running = start("-J", "-t", "1", "-C", f"{a}@40M,{b}", "-P", "2", "--fq-rate", "16M")
    seen = sampled(running)
    connected = running.finish().client.json["start"]["connected"]
    kernel = [seen[c["local_port"], c["remote_port"]][1] for c in connected]
    assert kernel == ["40000000", "16000000"]


@DIRECTIONS
def test_a_delayed_group_sends_nothing_before_its_time(
    start: Callable, ccas: tuple[str, str], direction: tuple[str, ...]
) -> None:
    a, b = ccas
    got = start(
        "-J",
        "-t",
        "1",
        "-i",
        "0.1",
        *direction,
        "-C",
        f"{a}@50M,{b}@50M+650ms",
        "-P",
        "2",
        *SMALL_BLOCKS,
        server_arguments=("-J", "-i", "0.1"),
    ).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    for end in (got.client, got.server):
        early = [g for i in end.json["intervals"] for g in i["groups"] if g["end"] < 0.62]
        assert {g["group"] for g in early} == {1, 2}
        assert sum(g["bytes"] for g in early if g["group"] == 1) > 1e6
        assert sum(g["bytes"] for g in early if g["group"] == 2) == 0
    for groups in received(got):
        first, late = (g["receiver"] for g in groups)
        assert (first["start"], late["start"]) == (0, 0.65)
        # it sent, it had no more time than the others, and its rate is over the time that it had
        assert late["bytes"] > 5e5
        assert late["end"] == first["end"] < 1 + 0.65
        assert late["seconds"] == pytest.approx(late["end"] - 0.65)
        assert late["bits_per_second"] == pytest.approx(late["bytes"] * 8 / late["seconds"])


def test_the_kernel_sees_nothing_of_a_group_that_waits(
    start: Callable, ccas: tuple[str, str]
) -> None:
    """Its connection has carried only the cookie, by which the server recognises the connection."""
    a, b = ccas
    running = start("-J", "-t", "1", "-C", f"{a}@50M,{b}+5s", "-P", "2")
    seen = sampled(running)
    got = running.finish()
    assert got.client.status == 0
    assert (
        got.client.errors
        == "warning: -C has a group that sends nothing: the test ends before its delay does\n"
    )
    sent = [
        seen[c["local_port"], c["remote_port"]][2] for c in got.client.json["start"]["connected"]
    ]
    assert sent[0] > 1e6
    assert sent[1] == 37
    assert [g["sender"]["bytes"] for g in end_groups(got.client, sends=True)][1] == 0


def test_a_delay_counts_with_the_omitted_time(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = start("-J", "-O", "1", "-t", "1", "-C", f"{a}@50M,{b}@50M+1.4s", "-P", "2").finish()
    assert [g["sender"]["start"] for g in end_groups(got.client, sends=True)] == [
        0,
        pytest.approx(0.4),
    ]


def test_a_delayed_group_does_not_catch_up_on_its_bitrate(
    start: Callable, ccas: tuple[str, str]
) -> None:
    """iperf3 reaches --bitrate by counting the bytes that it should have sent so far."""
    a, b = ccas
    got = start(
        "-J", "-t", "1", "-b", "20M", "-l", "16K", "-C", f"{a},{b}+0.7s", "-P", "2"
    ).finish()
    sent = [g["sender"]["bytes"] for g in end_groups(got.client, sends=True)]
    assert sent[0] > 2e6
    # 0.75 MB would be right, 2.5 MB if it made up for the time that it waited
    assert 0 < sent[1] < 1.5e6


@DIRECTIONS
def test_sums_are_those_of_the_streams(
    pair: Callable, ccas: tuple[str, str], direction: tuple[str, ...]
) -> None:
    a, b = ccas
    got = pair(*direction, "-C", f"{a}:2,{b},{a}@1G", "-P", "4")
    for end in (got.client, got.server):
        for interval in end.json["intervals"]:
            for group in interval["groups"]:
                own = [
                    s
                    for s in interval["streams"]
                    if (s["group"], s["sender"]) == (group["group"], group["sender"])
                ]
                assert group["streams"] == len(own)
                assert group["bytes"] == sum(s["bytes"] for s in own)
                assert group["congestion"] == [a, b, a][group["group"] - 1]
                assert {s["congestion"] for s in own} == {group["congestion"]}
                if group["sender"]:
                    assert group["retransmits"] == sum(s["retransmits"] for s in own)
        for group in end.json["end"]["groups"]:
            own = [
                s
                for s in end.json["end"]["streams"]
                if (s["group"], s["sender"]["sender"])
                == (group["group"], group["sender"]["sender"])
            ]
            assert group["streams"] == len(own) == {1: 2, 2: 1, 3: 1}[group["group"]]
            # the server makes its records before it knows what the client has counted
            mine = "sender" if group["sender"]["sender"] else "receiver"
            for side in (mine,) if end is got.server else ("sender", "receiver"):
                assert group[side]["bytes"] == sum(s[side]["bytes"] for s in own)
                assert group[side]["bits_per_second"] == pytest.approx(
                    sum(s[side]["bits_per_second"] for s in own)
                )


def test_streams_have_numbers_and_ports_everywhere(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("--bidir", "-C", f"{a},{b}", "-P", "2")
    labels = {}
    for name, end in (("client", got.client), ("server", got.server)):
        records = [*end.json["start"]["connected"], *end.json["end"]["streams"]]
        records += [s for i in end.json["intervals"] for s in i["streams"]]
        for r in records:
            labels.setdefault((name, r["id"]), set()).add(
                (r["group"], r["local_port"], r["remote_port"])
            )
    assert {n: len(v) for n, v in labels.items()} == {
        (n, i): 1 for n in ("client", "server") for i in (1, 2, 3, 4)
    }
    # both sides mean the same groups
    groups = {side: {} for side in ("client", "server")}
    for (side, _), ((group, local, remote),) in labels.items():
        groups[side][(local, remote) if side == "client" else (remote, local)] = group
    assert groups["client"] == groups["server"]
    assert sorted(groups["client"].values()) == [1, 1, 2, 2]


@pytest.mark.parametrize("direction", [(), ("-R",)], ids=["forward", "-R"])
def test_json_stream_has_groups(
    start: Callable, ccas: tuple[str, str], direction: tuple[str, ...]
) -> None:
    a, b = ccas
    got = start(
        "--json-stream",
        "-i",
        "0.1",
        "-t",
        "1",
        *direction,
        "-b",
        "20M",
        "-C",
        f"{a},{b}",
        "-P",
        "2",
    ).finish()
    events = [json.loads(line) for line in got.client.output.splitlines()]
    intervals = [e["data"] for e in events if e["event"] == "interval"]
    assert len(intervals) > 2
    for interval in intervals:
        assert [(g["group"], g["congestion"]) for g in interval["groups"]] == [(1, a), (2, b)]
        assert [s["group"] for s in interval["streams"]] == [1, 2]
    (end,) = (e["data"] for e in events if e["event"] == "end")
    assert [(g["group"], g["congestion"]) for g in end["groups"]] == [(1, a), (2, b)]


def test_text_has_sums(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = start(
        "-t", "1", "-b", "20M", "-R", "-C", f"{a},{b}+0.5s", "-P", "2", server_arguments=()
    ).finish()
    lines = re.findall(
        r"^\[G *(\d+)\] +(\d\.\d\d)-\S+ +sec .* (\w+)  (sender|receiver)?$",
        got.client.output,
        re.MULTILINE,
    )
    assert [(g, start, cca, side) for g, start, cca, side in lines if side] == [
        ("1", "0.00", a, "sender"),
        ("1", "0.00", a, "receiver"),
        ("2", "0.50", b, "sender"),
        ("2", "0.50", b, "receiver"),
    ]
    assert [(g, cca) for g, _, cca, side in lines if not side][:2] == [("1", a), ("2", b)]
    assert re.findall(
        r"^\[ *\d+\] congestion control algorithm (\w+)$", got.client.output, re.MULTILINE
    ) == [a, b]


def test_without_a_list_there_are_no_sums_per_group(pair: Callable, ccas: tuple[str, str]) -> None:
    got = pair("-C", ccas[0], "-P", "2")
    for end in (got.client, got.server):
        assert "groups" not in end.json["end"]
        assert not [i for i in end.json["intervals"] if "groups" in i]


@pytest.mark.parametrize("spec", ["{a}:2@1G+0.1s,{b}", "-@1G"])
@pytest.mark.parametrize("direction", ["-R", "--bidir"])
def test_a_server_without_groups_is_an_error(
    pair: Callable, ccas: tuple[str, str], stock: str, direction: str, spec: str
) -> None:
    spec = spec.format(a=ccas[0], b=ccas[1])
    got = pair(direction, "-C", spec, "-P", "3", server=stock)
    assert got.client.status == 1
    assert got.client.json["error"].endswith(
        f"the server did not confirm the list of congestion control algorithms '{spec}': its "
        "iperf3 cannot use a list"
    )
    assert "streams" not in got.client.json["end"]


def test_groups_to_an_unpatched_server(pair: Callable, ccas: tuple[str, str], stock: str) -> None:
    a, b = ccas
    got = pair("-C", f"{a}:2@1G,{b}", "-P", "3", server=stock)
    assert (got.client.status, got.server.status, got.server.errors) == (0, 0, "")
    assert [g["congestion"] for g in end_groups(got.client, sends=True)] == [a, b]
