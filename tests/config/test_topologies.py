"""What a topology's section comes to, and what is told of a wrong one."""

from collections.abc import Callable

import pytest

from ccmix.config import Config, Problem
from ccmix.config.queues import QUEUES, read_queue
from ccmix.model import Buffer, DelayChange, Loss, LossChange, Queue, RateChange, Sender, Topology
from support import one_sender

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]

TOPOLOGY = "[topology t]\nrate = 1gbit\n"
ENTRY = "[one]\ntype = iperf3\ntopology = t\n"
LOSS = Loss("gemodel", (0.01, 0.1))


def path(read: Files, text: str, entry: str = "") -> Topology:
    [condition] = read(TOPOLOGY + text + ENTRY + entry).entries[0].conditions
    assert isinstance(condition.path, Topology)
    return condition.path


def test_hosts_take_from_the_topology_what_their_own_lines_leave_out(read: Files) -> None:
    text = (
        "delay = 5ms\nloss = gemodel 1% 10%\ncontrol = beside\nhosts = 2\nhost.h2 = delay 80ms loss 0% rate 100mbit\n"
    )
    text += "host.FAR = jitter 1ms\n"
    assert path(read, text).senders == (
        Sender("h1", 0.005, LOSS), Sender("h2", 0.08, None, rate_bps=1e8), Sender("far", 0.005, LOSS, jitter_s=0.001),
    )  # fmt: skip


def test_receivers_windows_of_all_and_of_one_host(read: Files) -> None:
    text = "delay = 5ms\nhosts = 2\nreceiver-window = 4mb\nhost.h2 = receiver-window 64kib\n"
    assert [sender.receiver_window_bytes for sender in path(read, text).senders] == [4_000_000, 65_536]
    assert path(read, "delay = 5ms\n").senders[0].receiver_window_bytes is None


def test_a_range_of_hosts_and_one_of_them(read: Files) -> None:
    senders = path(read, "host.h1..h3 = delay 5ms\nhost.h2 = loss 1%\n").senders
    assert [(sender.name, sender.delay_s, sender.loss) for sender in senders] == [
        ("h1", 0.005, None), ("h2", 0.005, Loss("random", (0.01,))), ("h3", 0.005, None),
    ]  # fmt: skip


def test_a_host_without_a_name_is_h1(read: Files) -> None:
    plain = path(read, "delay = 5ms\njitter = 1ms\nreorder = 1%\n")
    assert plain.senders == (Sender("h1", 0.005, None, 0.001, 0.01),)


def test_the_buffer_is_of_the_largest_base_rtt(read: Files) -> None:
    assert path(read, "host.h1 = delay 5ms\nhost.h2 = delay 80ms\n").buffer_bytes == 20_000_000


def test_changes_in_the_order_of_their_moments(read: Files) -> None:
    text = "delay = 5ms\nhosts = 2\nbuffer = 1bdp\nat.8s = loss 1%\nat.2s = rate 100mbit, h2 delay 20ms\n"
    changed = path(read, text)
    lossy = Loss("random", (0.01,))
    assert changed.changes == (
        RateChange(2.0, 1e8), DelayChange(2.0, "h2", 0.02), LossChange(8.0, None, lossy),
    )  # fmt: skip
    (_, first), (two_s, second), (eight_s, third) = changed.phases
    assert (two_s, eight_s) == (2.0, 8.0)
    assert first is changed
    assert (second.rate_bps, [sender.delay_s for sender in second.senders]) == (1e8, [0.005, 0.02])
    assert [sender.loss for sender in third.senders] == [lossy, lossy]
    assert {phase.buffer_bytes for _, phase in changed.phases} == {1_250_000}


@pytest.mark.parametrize(
    ("loss", "mean"),
    [
        (Loss("random", (0.25,)), 0.25), (Loss("gemodel", (0.01,)), 0.01), (Loss("gemodel", (0.01, 0.19)), 0.05),
        (Loss("gemodel", (0.1, 0.3, 0.5, 0.01)), 0.25 * 0.5 + 0.75 * 0.01), (Loss("gemodel", (0.1, 0.0)), 1.0),
        (Loss("gemodel", (0.0, 0.0, 1.0, 0.2)), 0.2),
    ],
)  # fmt: skip
def test_the_mean_of_a_loss(loss: Loss, mean: float) -> None:
    assert loss.mean == pytest.approx(mean)


def test_hosts_and_moments_are_swept(read: Files) -> None:
    text = (
        TOPOLOGY + "host.h1 = delay 5ms\n" + ENTRY + "sweep.host.h1 = delay 1ms, delay 2ms\nsweep.at.1s = rate 1mbit\n"
    )
    conditions = read(text).entries[0].conditions
    assert [condition.path.senders[0].delay_s for condition in conditions] == [0.001, 0.002]
    assert [condition.path.changes for condition in conditions] == [(RateChange(1.0, 1e6),)] * 2
    assert conditions[0].values == {"host.h1": "delay 1ms", "at.1s": "rate 1mbit"}


def test_a_queue_s_parameters_in_the_units_that_tc_takes() -> None:
    assert read_queue("codel ecn ce_threshold 24.2ms") == Queue("codel", ("ecn", "ce_threshold", "24200us"))
    assert read_queue("red min 30kb max 90kb probability 2% ecn").parameters == (
        "min", "30000", "max", "90000", "probability", "0.02", "ecn",
    )  # fmt: skip
    assert read_queue("fq maxrate 1gbit flow_limit 100").parameters == (
        "maxrate", "1000000000bit", "flow_limit", "100",
    )  # fmt: skip
    assert {read_queue(kind).kind for kind in QUEUES} == set(QUEUES)


def test_packets_of_a_buffer_in_bytes(read: Files) -> None:
    assert path(read, "delay = 5ms\nbuffer = 100p\n").buffer_packets == 100
    assert path(read, "delay = 5ms\nbuffer = 15140b\n").buffer_packets == 10
    tiny = one_sender(1e9, 0.005, None, Buffer(1.0, "byte"), 1500, offloads=False)
    assert (tiny.buffer_packets, tiny.buffer_bytes) == (1, 1514)


def test_a_bottleneck_of_acks_has_a_buffer_of_its_own(read: Files) -> None:
    limits = {
        text: path(read, f"rtt = 40ms\nack-rate = 1mbit\n{text}").ack_limit
        for text in ("", "ack-buffer = 20p\n", "ack-buffer = 4kb\n", "ack-buffer = 0.001bdp\n")
    }
    assert limits == {
        "": 5000, "ack-buffer = 20p\n": 20, "ack-buffer = 4kb\n": 4000, "ack-buffer = 0.001bdp\n": 1514,
    }  # fmt: skip
    assert path(read, "rtt = 40ms\n").ack_bottleneck is None


@pytest.mark.parametrize("loss", ["40%", "gemodel 1% 30% 70% 0.1%", "gemodel 0.00146% 1%"])
def test_loss_that_the_control_connection_outlasts(read: Files, loss: str) -> None:
    assert path(read, f"delay = 5ms\nloss = {loss}\n").control == "path"


@pytest.mark.parametrize("loss", ["50%", "gemodel 5% 10%", "gemodel 10% 10%"])
def test_loss_that_only_streams_meet(read: Files, loss: str) -> None:
    assert path(read, f"delay = 5ms\nloss = {loss}\ncontrol = beside\n").control == "beside"


def test_beside_the_path_no_queue_is_too_long_for_the_control_connection(read: Files, told: Told) -> None:
    text = "delay = 5ms\nrate = 1mbit\nbuffer = 10mb\n"
    [problem] = told("[topology t]\n" + text + ENTRY)
    assert "makes a round trip of 80 s when it is full" in str(problem)
    [condition] = read("[topology t]\ncontrol = beside\n" + text + ENTRY).entries[0].conditions
    assert condition.path.longest_rtt_s == pytest.approx(80.01)


def test_a_change_of_delay_leaves_both_buffers(read: Files) -> None:
    changed = path(read, "rtt = 40ms\nack-rate = 1mbit\nat.1s = rtt 80ms\n")
    assert {(phase.buffer_bytes, phase.ack_limit) for _, phase in changed.phases} == {(5_000_000, 5000)}


def test_the_longest_rtt_has_both_queues(read: Files) -> None:
    bytes_each = path(read, "rtt = 40ms\nbuffer = 1mb\nack-rate = 1mbit\nack-buffer = 100kb\n")
    assert bytes_each.longest_rtt_s == pytest.approx(0.04 + 0.008 + 0.8)


def test_a_burst_of_its_own_is_the_bottleneck_s_alone(read: Files) -> None:
    plain, burst = path(read, "delay = 5ms\n"), path(read, "delay = 5ms\nburst = 64kib\n")
    assert (plain.bottleneck_bucket_bytes, burst.bottleneck_bucket_bytes) == (3028, 65536)
    assert burst.bucket_bytes(1e8) == 3028, "of a sender's own device"


MISTAKES = {
    "unknown qdisc": ("delay = 5ms\nqdisc = fq_coddel\n", "qdisc", "did you mean 'fq_codel'?"),
    "unknown parameter": ("delay = 5ms\nqdisc = codel ecm\n", "qdisc", "'ecm' of codel; did you mean 'ecn'?"),
    "parameter of a FIFO": ("delay = 5ms\nqdisc = pfifo ecn\n", "qdisc", "pfifo has none"),
    "limit": ("delay = 5ms\nqdisc = pfifo limit 100\n", "qdisc", "buffer = ... says how much"),
    "no value": ("delay = 5ms\nqdisc = codel target\n", "qdisc", "no value after target"),
    "wrong value": ("delay = 5ms\nqdisc = codel target 5\n", "qdisc", "for target '5', which has no unit"),
    "time of zero": ("delay = 5ms\nqdisc = codel target 0ms\n", "qdisc", "'0ms', which is not from 10us to 1h"),
    "number too small": ("delay = 5ms\nqdisc = fq_codel flows 0\n", "qdisc", "'0', which is not from 1 to 65536"),
    "size too small": ("delay = 5ms\nqdisc = fq_codel quantum 10b\n", "qdisc", "which is not from 256b to 1mb"),
    "rate of 64 bits": ("delay = 5ms\nqdisc = fq maxrate 40gbit\n", "qdisc", "is not from 1kbit to 34gbit"),
    "no power of two": ("delay = 5ms\nqdisc = sfq divisor 3\n", "qdisc", "'3', which is no power of two"),
    "half a percent": ("delay = 5ms\nqdisc = fq_pie ecn_prob 0.5%\n", "qdisc", "is no whole percentage"),
    "fraction over 1": ("delay = 5ms\nqdisc = sfb increment 1.5\n", "qdisc", "'1.5', which is not from 0 to 1"),
    "ecn and noecn": ("delay = 5ms\nqdisc = codel ecn noecn\n", "qdisc", "says both ecn and noecn"),
    "two modes of cake": ("delay = 5ms\nqdisc = cake besteffort diffserv4\n", "qdisc", "both besteffort and diffserv4"),
    "two RTTs of cake": ("delay = 5ms\nqdisc = cake rtt 20ms lan\n", "qdisc", "says both lan and rtt"),
    "min over max": ("delay = 5ms\nqdisc = red min 90kb max 30kb\n", "qdisc", "a min that is not less than its max"),
    "parameter twice": ("delay = 5ms\nqdisc = codel ecn ecn\n", "qdisc", "ecn twice"),
    "delay below the step of tc": ("delay = 0.4us\n", "delay", "'0.4us' is less than 1us, the step in which tc"),
    "jitter below the step of tc": ("delay = 5ms\njitter = 0.9us\n", "jitter", "'0.9us' is less than 1us"),
    "loss without unit": ("delay = 5ms\nloss = gemodel 1 10\n", "loss", "no unit"),
    "loss of five": ("delay = 5ms\nloss = gemodel 1% 1% 1% 1% 1%\n", "loss", "is no loss"),
    "almost all lost": ("delay = 5ms\nloss = 51%\n", "loss", "a path that loses 50% at most"),
    "all lost in the end": ("delay = 5ms\nloss = gemodel 100% 0%\n", "loss", "lets nothing pass"),
    "lost most of the time": ("delay = 5ms\nloss = gemodel 30% 10%\n", "loss", "loses 75% of all packets"),
    "delay of a minute": ("delay = 60s\n", "delay", "is more than 4 s"),
    "rate of a host too low": ("host.h1 = delay 5ms rate 1kbit\n", "host.h1", "for rate '1kbit', which is less"),
    "two changes of one thing": ("delay = 5ms\nat.1s = rate 1mbit rate 2mbit\n", "at.1s", "says rate twice"),
    "two changes with a comma": ("delay = 5ms\nat.1s = loss 1%, h1 loss 1%, loss 2%\n", "at.1s", "one thing twice"),
    "all lost": ("delay = 5ms\nloss = 100%\n", "loss", "lets nothing pass"),
    "name of a router": ("host.delay = delay 5ms\n", "host.delay", "name of something else of the path"),
    "name of a receiver": ("host.h1-receiver = delay 5ms\n", "host.h1-receiver", "name of something else of the path"),
    "empty change": ("delay = 5ms\nat.1s = rate 5mbit,\n", "at.1s", "nothing between two commas"),
    "no name": ("host.1 = delay 5ms\n", "host.1", "is no name of a host"),
    "no range": ("host.h5..h1 = delay 5ms\n", "host.h5..h1", "is no range of hosts"),
    "unknown word": ("host.h1 = lag 5ms\n", "host.h1", "unknown word 'lag'"),
    "no value of a host": ("host.h1 = delay\n", "host.h1", "no value after delay"),
    "wrong value of a host": ("host.h1 = delay 5\n", "host.h1", "for delay '5', which has no unit"),
    "no moment": ("delay = 5ms\nat.soon = rate 1mbit\n", "at.soon", "is not a number with a unit"),
    "no change": ("delay = 5ms\nat.1s = mtu 1500\n", "at.1s", "unknown word 'mtu'"),
    "rate of a host": ("delay = 5ms\nat.1s = h1 rate 1mbit\n", "at.1s", "only the bottleneck's changes"),
}  # fmt: skip
OF_CONDITIONS = {
    "host without delay": ("host.h1 = loss 1%\n", "delay", "host h1 has no delay"),
    "too many": ("delay = 5ms\nhosts = 254\nhost.more = delay 1ms\n", "hosts", "255 hosts, more than 254"),
    "change of an unknown host": ("delay = 5ms\nat.1s = h2 delay 1ms\n", "at.1s", "the host 'h2'; known are h1"),
    "one moment twice": (
        "delay = 5ms\nat.1s = rate 1mbit\nat.1000ms = rate 2mbit\n", "at.1000ms", "is the same moment as at.1s"
    ),
    "buffer of minutes": (
        "delay = 5ms\nbuffer = 1000p\nat.1s = rate 100kbit\n", "buffer", "makes a round trip of 121 s when it is full"
    ),
    "jitter beyond delay": ("delay = 5ms\njitter = 6ms\n", "jitter", "of h1 is more than its delay"),
    "reordering without delay": ("delay = 0ms\nreorder = 1%\nbuffer = 9p\n", "reorder", "pass without delay"),
    "RED beyond the buffer": (
        "delay = 5ms\nbuffer = 10kb\nqdisc = red max 11kb\n", "qdisc", "for max 11000b, more than the buffer, 10000b"
    ),
    "CHOKe beyond the buffer": (
        "delay = 5ms\nbuffer = 10p\nqdisc = choke min 11\n", "qdisc", "for min 11 packets, more than the buffer"
    ),
    "bursts that the control connection meets": (
        "delay = 5ms\nloss = gemodel 5% 10%\n", "loss", "fails in some tests: write control = beside",
    ),
    "much loss on the control connection": ("delay = 5ms\nat.1s = loss 45%\n", "loss", "write control = beside"),
    "bursts that no connection outlasts": (
        "delay = 5ms\nloss = gemodel 0.1% 0.5% 100% 0%\ncontrol = beside\n", "loss", "no connection is made",
    ),
    "ack-buffer alone": ("delay = 5ms\nack-buffer = 9p\n", "ack-buffer", "without ack-rate, ACKs pass no bottleneck"),
    "ack-buffer in BDP without delay": (
        "delay = 0ms\nbuffer = 9p\nack-rate = 1mbit\n", "ack-buffer", "the BDP of a path without delay is 0"
    ),
    "ack-buffer of minutes": (
        "delay = 5ms\nack-rate = 100kbit\nack-buffer = 1mb\n", "buffer", "makes a round trip of 80 s when it is full"
    ),
    "windows of one receiver": (
        "delay = 5ms\nhosts = 2\nreceivers = one\nreceiver-window = 1mb\nhost.h2 = receiver-window 2mb\n",
        "receiver-window", "a receiver has one window",
    ),
    "burst below a packet": ("delay = 5ms\nburst = 1513b\n", "burst", "write at least 1514b"),
    "burst of minutes": (
        "delay = 5ms\nat.2s = rate 10mbit\nburst = 500mb\n", "burst", "is more than 274 s of 10.0 Mbit/s"
    ),
    "sweep in a topology": ("delay = 5ms\nsweep.loss = 0%, 1%\n", "sweep.loss", "belongs to an entry"),
    "key of an entry": ("delay = 5ms\npacing = 1mbit\n", "pacing", "belongs to an entry"),
    "bandwidth of 64 bits": (
        "rate = 40gbit\ndelay = 5ms\nqdisc = red\n", "qdisc", "red takes the rate for its bandwidth"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "key", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_at_its_key(told: Told, text: str, key: str, sentence: str) -> None:
    [problem] = told(TOPOLOGY + text + ENTRY)
    assert (problem.section, problem.key) == ("topology t", key)
    assert sentence in str(problem)


@pytest.mark.parametrize(("text", "key", "sentence"), OF_CONDITIONS.values(), ids=OF_CONDITIONS)
def test_what_values_say_against_each_other_is_told_at_one_of_them(
    told: Told, text: str, key: str, sentence: str
) -> None:
    [problem] = told(("[topology t]\n" if text.startswith("rate") else TOPOLOGY) + text + ENTRY)
    assert (problem.section, problem.key) == ("topology t", key)
    assert sentence in str(problem)


def test_a_rate_that_no_packet_passes(told: Told) -> None:
    [problem] = told("[topology t]\nrate = 99kbit\ndelay = 5ms\n" + ENTRY)
    assert "rate: '99kbit' is less than 100 kbit/s" in str(problem)


def test_a_path_that_changes_while_a_run_is_to_settle(told: Told) -> None:
    entry = ENTRY + "duration = settled, at most 1m\nomit = 2s\n"
    [problem] = told(TOPOLOGY + "delay = 5ms\nat.2s = rate 1mbit\nat.3s = rate 2mbit\n" + entry)
    assert (problem.section, problem.key) == ("topology t", "at.3s")
    assert "changes goodput, so that the run can't settle: give duration a time" in str(problem)


def test_a_change_after_the_end(told: Told) -> None:
    [problem] = told(TOPOLOGY + "delay = 5ms\nat.10s = rate 1mbit\n" + ENTRY)
    assert (problem.section, problem.key) == ("topology t", "at.10s")
    assert "changes nothing: the traffic, omit and duration, takes 10 s" in str(problem)
