"""Tests the delays of hosts and the queues on their devices: for all hosts, for one host, and in a
change.
"""

from collections.abc import Callable

import pytest

from ccmix.config import Config, Problem
from ccmix.config.queues import SENDER_QUEUES, read_sender_queue
from ccmix.model import DelayChange, Queue, Topology

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]

TOPOLOGY = "[topology t]\nrate = 1gbit\n"
ENTRY = "[one]\ntype = iperf3\ntopology = t\n"


def paths(read: Files, text: str, entry: str = "") -> list[Topology]:
    conditions = read(TOPOLOGY + text + ENTRY + entry).entries[0].conditions
    emulated = [condition.path for condition in conditions if isinstance(condition.path, Topology)]
    assert len(emulated) == len(conditions)
    return emulated


def delays(path: Topology) -> list[tuple[str, float, float]]:
    return [(sender.name, sender.delay_s, sender.delay_of_acks_s) for sender in path.senders]


@pytest.mark.parametrize(
    ("text", "data_s", "acks_s"),
    [
        ("rtt = 60ms\n", 0.03, 0.03),
        ("delay = 30ms\n", 0.03, 0.03),
        ("rtt = 0ms\nbuffer = 9p\n", 0.0, 0.0),
        ("data-delay = 50ms\nack-delay = 10ms\n", 0.05, 0.01),
        ("ack-delay = 60ms\ndata-delay = 0ms\n", 0.0, 0.06),
    ],
)
def test_each_key_of_delays_says_what_both_directions_take(
    read: Files, text: str, data_s: float, acks_s: float
) -> None:
    [path] = paths(read, text)
    assert delays(path) == [("h1", data_s, acks_s)]
    assert path.base_rtt_s == pytest.approx(data_s + acks_s)


def test_equal_delays_are_one_however_they_are_written(read: Files) -> None:
    [half], [each], [apart] = (
        paths(read, text)
        for text in ("rtt = 60ms\n", "delay = 30ms\n", "data-delay = 30ms\nack-delay = 30ms\n")
    )
    assert half == each == apart


def test_a_host_overrides_each_direction_by_itself(read: Files) -> None:
    [path] = paths(
        read,
        "delay = 5ms\nhosts = 2\nhost.h2 = ack-delay 20ms\nhost.h3..h4 = rtt 80ms\nhost.h4 = "
        "data-delay 1ms\n",
    )
    assert delays(path) == [
        ("h1", 0.005, 0.005),
        ("h2", 0.005, 0.02),
        ("h3", 0.04, 0.04),
        ("h4", 0.001, 0.04),
    ]


def test_the_directions_of_a_host_may_come_from_two_lines(read: Files) -> None:
    [path] = paths(
        read, "host.h1..h2 = data-delay 1ms\nhost.h1 = ack-delay 2ms\nhost.h2 = rtt 6ms\n"
    )
    assert delays(path) == [("h1", 0.001, 0.002), ("h2", 0.003, 0.003)]


def test_rtts_are_swept(read: Files) -> None:
    swept = paths(read, "", "sweep.rtt = 20ms, 60ms\n")
    assert [path.base_rtt_s for path in swept] == [0.02, 0.06]
    swept = paths(read, "data-delay = 1ms\n", "sweep.ack-delay = 2ms, 3ms\n")
    assert [delays(path)[0][1:] for path in swept] == [(0.001, 0.002), (0.001, 0.003)]


def test_changes_of_one_direction_leave_the_other(read: Files) -> None:
    text = (
        "delay = 5ms\nhosts = 2\nat.1s = h2 ack-delay 20ms\nat.2s = data-delay 7ms\nat.3s = "
        "h1 rtt 40ms\n"
    )
    [path] = paths(read, text)
    assert path.changes == (
        DelayChange(1.0, "h2", 0.02, direction="ack"),
        DelayChange(2.0, None, 0.007, direction="data"),
        DelayChange(3.0, "h1", 0.02),
    )
    assert [delays(phase) for _, phase in path.phases[1:]] == [
        [("h1", 0.005, 0.005), ("h2", 0.005, 0.02)],
        [("h1", 0.007, 0.005), ("h2", 0.007, 0.02)],
        [("h1", 0.02, 0.02), ("h2", 0.007, 0.02)],
    ]


def test_each_sender_has_the_queue_of_all_or_its_own(read: Files) -> None:
    text = "delay = 5ms\nsender-qdisc = fq_codel limit 1000 target 5ms\nhosts = 2\n"
    [path] = paths(read, text + "host.h2 = loss 1% sender-qdisc cake rtt 10ms besteffort\n")
    assert [sender.queue for sender in path.senders] == [
        Queue("fq_codel", ("limit", "1000", "target", "5000us")),
        Queue("cake", ("rtt", "10000us", "besteffort")),
    ]
    assert [sender.queue for sender in paths(read, "delay = 5ms\n")[0].senders] == [Queue("fq")]


def test_the_senders_queue_is_swept(read: Files) -> None:
    swept = paths(read, "delay = 5ms\n", "sweep.sender-qdisc = fq, bfifo limit 100kb, noqueue\n")
    assert [path.senders[0].queue for path in swept] == [
        Queue("fq"),
        Queue("bfifo", ("limit", "100000")),
        Queue("noqueue"),
    ]


def test_a_sender_may_have_any_queue_discipline(read: Files) -> None:
    needed = {"red": " limit 1mb avpkt 1500b", "choke": " limit 1000 bandwidth 1gbit"}
    assert {read_sender_queue(kind + needed.get(kind, "")).kind for kind in SENDER_QUEUES} == set(
        SENDER_QUEUES
    )


def test_a_rate_in_cca_needs_no_fq(read: Files) -> None:
    assert paths(read, "delay = 5ms\nsender-qdisc = pfifo\n", "cca = bbr@50M\n")
