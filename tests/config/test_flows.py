"""Tests lines of traffic as people write them, right and wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.config import Config, Problem
from ccmix.generators.distributions import NAMED
from ccmix.model import (
    CommandSource,
    Group,
    HttpSource,
    Iperf3Source,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]

TOPOLOGY = "[topology t]\nrate = 100mbit\ndelay = 5ms\nhosts = 3\n"
ENTRY = "[one]\ntype = iperf3\ntopology = t\n"


def flows(read: Files, text: str, default: str = "") -> tuple[TrafficSource, ...]:
    [condition] = read(default + TOPOLOGY + ENTRY + text).entries[0].conditions
    assert condition.traffic.groups == ()
    return condition.traffic.named_sources


def test_groups_whose_weights_are_streams(read: Files) -> None:
    assert flows(
        read, "duration = 40s\nflows.short = h1 bbr:1\nflows.long = h2..h3 cubic:8,bbr:4+30s\n"
    ) == (
        Iperf3Source("short", "h1", (Group("bbr"),), 1),
        Iperf3Source("long", "h2", (Group("cubic", 8), Group("bbr", 4, delay_s=30.0)), 12),
        Iperf3Source("long", "h3", (Group("cubic", 8), Group("bbr", 4, delay_s=30.0)), 12),
    )


def test_other_generators(read: Files) -> None:
    text = (
        "flows.noise = h1 udp@10M\nflows.more = h2 udp:2@1M+2s\n"
        "flows.web = h1 http requests 5000 size 15kb parallel 3 cca bbr +1s\n"
        "flows.load = h2 workload web-search load 30%\n"
        "flows.tool = h3 command ./tool --to {dst} + 5s\nflows.server = h3-receiver command "
        "./tool --serve\n"
    )
    assert flows(read, text) == (
        UdpSource("noise", "h1", 1e7, 1),
        UdpSource("more", "h2", 1e6, 2, start_s=2.0),
        HttpSource("web", "h1", 5000, 15_000, 3, "bbr", start_s=1.0),
        WorkloadSource("load", "h2", "web-search", NAMED["web-search"], 3e7, "-"),
        CommandSource("tool", "h3", "./tool --to {dst} + 5s"),
        CommandSource("server", "h3-receiver", "./tool --serve"),
    )


def test_a_host_that_sends_nothing_has_no_source(read: Files) -> None:
    text = TOPOLOGY + ENTRY + "cca = bbr\nsweep.flows.others =\n  h2..h3 none\n  h2..h3 udp@10M\n"
    [nobody, both] = (condition.traffic.sources for condition in read(text).entries[0].conditions)
    assert nobody == (Iperf3Source("", "h1", (Group("bbr"),), 1),)
    assert both == (*nobody, UdpSource("others", "h2", 1e7, 1), UdpSource("others", "h3", 1e7, 1))


def test_files_of_lines_have_names_of_their_own() -> None:
    """'a' of host 'x-h1', 'a-x' of host 'h1'"""
    labels = {UdpSource(name, host, 1e6, 1).label for name, host in (("a", "x-h1"), ("a-x", "h1"))}
    assert len(labels) == 2


def test_requests_are_dealt_out_to_clients() -> None:
    assert HttpSource("web", "h1", 10, 1, 3, "-").requests_of_clients == (4, 3, 3)


def test_a_distribution_of_one_s_own(read: Files, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# bytes, share\n1000 0.5\n2000 1\n")
    [line] = flows(read, "flows.load = h1 workload mine.txt rate 5mbit cca cubic\n")
    assert line == WorkloadSource(
        line.name, line.host, "mine.txt", ((1000.0, 0.5), (2000.0, 1.0)), 5e6, "cubic"
    )


def test_a_line_is_swept(read: Files) -> None:
    text = TOPOLOGY + ENTRY + "sweep.flows.a =\n  h1 cubic:1\n  h1 cubic:1,bbr:1\n"
    conditions = read(text).entries[0].conditions
    assert [condition.traffic.sources[0].streams for condition in conditions] == [1, 2]


def test_beside_a_test_every_other_source_is_cross_traffic(read: Files) -> None:
    """The first sender sends the test. The other traffic may be swept like the test."""
    text = (
        "streams = 8\nsweep.cca =\n  cubic\n  cubic:8,bbr:8\n"
        "flows.others = h3 udp@10M\nflows.web = h2 http requests 5 size 1mb\nflows.tool = h1 "
        "command ./tool\n"
        "sweep.flows.load =\n  h2 workload web-search load 10%\n  h2 udp@1M+2s\n"
    )
    conditions = read(TOPOLOGY + ENTRY + text).entries[0].conditions
    assert [condition.traffic.test for condition in conditions] == [
        Iperf3Source("", "h1", groups, 8)
        for groups in ((Group("cubic"),), (Group("cubic", 8), Group("bbr", 8)))
        for _ in range(2)
    ]
    for condition in conditions:
        traffic = condition.traffic
        assert traffic.sources == (traffic.test, *traffic.cross_traffic)
        assert {source.name: source.host for source in traffic.cross_traffic} == {
            "others": "h3",
            "web": "h2",
            "tool": "h1",
            "load": "h2",
        }


@pytest.mark.parametrize(
    "own", ["cca = cubic", "streams = 1", "sweep.cca = cubic, bbr", "sweep.streams = 1, 2"]
)
def test_each_key_of_a_test_makes_one_beside_cross_traffic(read: Files, own: str) -> None:
    for condition in (
        read(TOPOLOGY + ENTRY + own + "\nflows.a = h2..h3 udp@1M\n").entries[0].conditions
    ):
        assert [source.kind for source in condition.traffic.sources] == ["iperf3", "udp", "udp"]


@pytest.mark.parametrize("keys", ["cca = bbr\nstreams = 4\n", "sweep.cca = bbr, cubic\n"])
def test_a_cca_of_default_makes_no_test_beside_lines(read: Files, keys: str) -> None:
    for condition in (
        read(f"[DEFAULT]\n{keys}" + TOPOLOGY + ENTRY + "flows.a = h2 udp@1M\n")
        .entries[0]
        .conditions
    ):
        assert condition.traffic.sources == (UdpSource("a", "h2", 1e6, 1),)


def test_pacing_holds_the_test_and_not_what_others_send(read: Files) -> None:
    """So only the queue of the test's sender must support pacing."""
    hosts = (
        "[topology t]\nrate = 100mbit\nhost.h1 = delay 5ms\nhost.h2 = delay 5ms "
        "sender-qdisc pfifo\n"
    )
    [condition] = (
        read(hosts + ENTRY + "pacing = 5mbit\ncca = bbr\nflows.a = h2 udp@9M\n")
        .entries[0]
        .conditions
    )
    assert [condition.traffic.paces(host) for host in ("h1", "h2")] == [True, False]


def test_pacing_holds_all_senders_without_cross_traffic(read: Files, told: Told) -> None:
    text = "pacing = 5mbit\nflows.test = h1 bbr:1\nflows.a = h2 udp@9M\n"
    [condition] = read(TOPOLOGY + ENTRY + text).entries[0].conditions
    assert [condition.traffic.paces(host) for host in ("h1", "h2", "h3")] == [True] * 3
    assert not replace(condition.traffic, pacing_bps=None).paces("h1")
    hosts = (
        "[topology t]\nrate = 100mbit\nhost.h1 = delay 5ms\nhost.h2 = delay 5ms "
        "sender-qdisc pfifo\n"
    )
    [problem] = told(hosts + ENTRY + text)
    assert "needs fq, but h2 has sender-qdisc pfifo" in str(problem)
