"""How long each host's packets take, and what queues on its own device: of all hosts, of one, and in a change."""

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
        ("rtt = 60ms\n", 0.03, 0.03), ("delay = 30ms\n", 0.03, 0.03), ("rtt = 0ms\nbuffer = 9p\n", 0.0, 0.0),
        ("data-delay = 50ms\nack-delay = 10ms\n", 0.05, 0.01), ("ack-delay = 60ms\ndata-delay = 0ms\n", 0.0, 0.06),
    ],
)  # fmt: skip
def test_each_key_of_delays_says_what_both_directions_take(
    read: Files, text: str, data_s: float, acks_s: float
) -> None:
    [path] = paths(read, text)
    assert delays(path) == [("h1", data_s, acks_s)]
    assert path.base_rtt_s == pytest.approx(data_s + acks_s)


def test_equal_delays_are_one_however_they_are_written(read: Files) -> None:
    [half], [each], [apart] = (
        paths(read, text) for text in ("rtt = 60ms\n", "delay = 30ms\n", "data-delay = 30ms\nack-delay = 30ms\n")
    )
    assert half == each == apart


def test_a_host_overrides_each_direction_by_itself(read: Files) -> None:
    [path] = paths(
        read, "delay = 5ms\nhosts = 2\nhost.h2 = ack-delay 20ms\nhost.h3..h4 = rtt 80ms\nhost.h4 = data-delay 1ms\n"
    )
    assert delays(path) == [
        ("h1", 0.005, 0.005), ("h2", 0.005, 0.02), ("h3", 0.04, 0.04), ("h4", 0.001, 0.04),
    ]  # fmt: skip


def test_the_directions_of_a_host_may_come_from_two_lines(read: Files) -> None:
    [path] = paths(read, "host.h1..h2 = data-delay 1ms\nhost.h1 = ack-delay 2ms\nhost.h2 = rtt 6ms\n")
    assert delays(path) == [("h1", 0.001, 0.002), ("h2", 0.003, 0.003)]


def test_rtts_are_swept(read: Files) -> None:
    swept = paths(read, "", "sweep.rtt = 20ms, 60ms\n")
    assert [path.base_rtt_s for path in swept] == [0.02, 0.06]
    swept = paths(read, "data-delay = 1ms\n", "sweep.ack-delay = 2ms, 3ms\n")
    assert [delays(path)[0][1:] for path in swept] == [(0.001, 0.002), (0.001, 0.003)]


def test_changes_of_one_direction_leave_the_other(read: Files) -> None:
    text = "delay = 5ms\nhosts = 2\nat.1s = h2 ack-delay 20ms\nat.2s = data-delay 7ms\nat.3s = h1 rtt 40ms\n"
    [path] = paths(read, text)
    assert path.changes == (
        DelayChange(1.0, "h2", 0.02, direction="ack"), DelayChange(2.0, None, 0.007, direction="data"),
        DelayChange(3.0, "h1", 0.02),
    )  # fmt: skip
    assert [delays(phase) for _, phase in path.phases[1:]] == [
        [("h1", 0.005, 0.005), ("h2", 0.005, 0.02)], [("h1", 0.007, 0.005), ("h2", 0.007, 0.02)],
        [("h1", 0.02, 0.02), ("h2", 0.007, 0.02)],
    ]  # fmt: skip


def test_each_sender_has_the_queue_of_all_or_its_own(read: Files) -> None:
    text = "delay = 5ms\nsender-qdisc = fq_codel limit 1000 target 5ms\nhosts = 2\n"
    [path] = paths(read, text + "host.h2 = loss 1% sender-qdisc cake rtt 10ms besteffort\n")
    assert [sender.queue for sender in path.senders] == [
        Queue("fq_codel", ("limit", "1000", "target", "5000us")), Queue("cake", ("rtt", "10000us", "besteffort")),
    ]  # fmt: skip
    assert [sender.queue for sender in paths(read, "delay = 5ms\n")[0].senders] == [Queue("fq")]


def test_the_senders_queue_is_swept(read: Files) -> None:
    swept = paths(read, "delay = 5ms\n", "sweep.sender-qdisc = fq, bfifo limit 100kb, noqueue\n")
    assert [path.senders[0].queue for path in swept] == [
        Queue("fq"), Queue("bfifo", ("limit", "100000")), Queue("noqueue"),
    ]  # fmt: skip


def test_a_sender_may_have_any_queue_discipline(read: Files) -> None:
    needed = {"red": " limit 1mb avpkt 1500b", "choke": " limit 1000 bandwidth 1gbit"}
    assert {read_sender_queue(kind + needed.get(kind, "")).kind for kind in SENDER_QUEUES} == set(SENDER_QUEUES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("delay = 5ms\nsender-qdisc = fq_codel\n", "needs fq, and h1 has sender-qdisc fq_codel"),
        ("host.h1 = delay 5ms sender-qdisc pfifo limit 9\n", "needs fq, and h1 has sender-qdisc pfifo limit 9"),
        ("delay = 5ms\nsender-qdisc = fq nopacing\n", "needs fq, and h1 has sender-qdisc fq nopacing"),
        ("delay = 5ms\nsender-qdisc = fq maxrate 1gbit\n", "and the maxrate of the sender-qdisc of h1 both say"),
    ],
)  # fmt: skip
def test_pacing_by_a_queue_that_does_not_pace_is_a_mistake(told: Told, text: str, sentence: str) -> None:
    [problem] = told(TOPOLOGY + text + ENTRY + "pacing = 100mbit\n")
    assert (problem.section, problem.key) == ("one", "pacing")
    assert sentence in str(problem)


def test_a_rate_in_cca_needs_no_fq(read: Files) -> None:
    assert paths(read, "delay = 5ms\nsender-qdisc = pfifo\n", "cca = bbr@50M\n")


MISTAKES = {
    "unknown queue of a sender": ("delay = 5ms\nsender-qdisc = fq_coddel\n", "sender-qdisc", "mean 'fq_codel'?"),
    "unknown parameter": ("delay = 5ms\nsender-qdisc = pfifo_fast limit 3\n", "sender-qdisc", "pfifo_fast has none"),
    "parameter that red needs": ("delay = 5ms\nsender-qdisc = red limit 1mb\n", "sender-qdisc", "has no avpkt"),
    "rate of a sender's queue": ("delay = 5ms\nsender-qdisc = pfifo rate 9mbit\n", "sender-qdisc", "host.NAME = rate"),
    "unknown setting of a host": ("host.h1 = dealy 5ms qdisc pfifo\n", "host.h1", "did you mean 'delay'?"),
    "queue of a host by another name": ("host.h1 = delay 5ms sender_qdisc pfifo\n", "host.h1", "mean 'sender-qdisc'?"),
    "queue of a host": ("host.h1 = delay 5ms sender-qdisc fq limt 9\n", "host.h1", "did you mean 'limit'?"),
    "no queue of a host": ("host.h1 = delay 5ms sender-qdisc\n", "host.h1", "has no value after sender-qdisc"),
    "settings after the queue": (
        "host.h1 = sender-qdisc pfifo delay 5ms\n", "host.h1", "known are limit; write sender-qdisc last",
    ),
    "noqueue behind a rate": (
        "host.h1 = delay 5ms rate 1mbit sender-qdisc noqueue\n", "sender-qdisc", "of h1 is noqueue",
    ),
    "delay and rtt": ("delay = 5ms\nrtt = 10ms\n", "rtt", "and delay both say how long packets take"),
    "delay and data-delay": ("delay = 5ms\ndata-delay = 1ms\n", "data-delay", "and delay both say"),
    "rtt and ack-delay": ("rtt = 5ms\nack-delay = 1ms\n", "ack-delay", "and rtt both say"),
    "data-delay alone": ("data-delay = 5ms\n", "ack-delay", "is missing: host h1 has data-delay alone"),
    "ack-delay alone": ("ack-delay = 5ms\n", "data-delay", "is missing: host h1 has ack-delay alone"),
    "both of a host": ("host.h1 = delay 5ms rtt 4ms\n", "host.h1", "contradicts itself: rtt and delay both say"),
    "odd microseconds": ("rtt = 61us\n", "rtt", "is no even number of microseconds"),
    "rtt of a minute": ("rtt = 60s\n", "rtt", "is more than 8 s"),
    "no delay at all": ("", "delay", "is missing: delay in each direction"),
    "jitter beyond the delay of ACKs": (
        "data-delay = 5ms\nack-delay = 1ms\njitter = 2ms\n", "jitter", "of h1 is more than its delay",
    ),
    "a change twice": ("delay = 5ms\nat.1s = delay 1ms, ack-delay 2ms\n", "at.1s", "changes one thing twice"),
    "a change's delay and rtt": ("delay = 5ms\nat.1s = rtt 2ms, delay 2ms\n", "at.1s", "changes one thing twice"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "key", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_delays_that_contradict_each_other_are_a_mistake(told: Told, text: str, key: str, sentence: str) -> None:
    [problem] = told(TOPOLOGY + text + ENTRY)
    assert (problem.section, problem.key) == ("topology t", key)
    assert sentence in str(problem)
