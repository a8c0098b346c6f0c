"""Tests the values that a topology's section sets, and the messages about wrong ones."""

from collections.abc import Callable

import pytest

from ccmix.config import Config, Problem
from ccmix.config.queues import QUEUES, read_queue
from ccmix.model import Buffer, DelayChange, Loss, LossChange, Queue, RateChange, Sender, Topology
from support.model import one_sender

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
        "delay = 5ms\nloss = gemodel 1% 10%\ncontrol = beside\nhosts = 2\nhost.h2 = delay "
        "80ms loss 0% rate 100mbit\n"
    )
    text += "host.FAR = jitter 1ms\n"
    assert path(read, text).senders == (
        Sender("h1", 0.005, LOSS),
        Sender("h2", 0.08, None, rate_bps=1e8),
        Sender("far", 0.005, LOSS, jitter_s=0.001),
    )


def test_receivers_windows_of_all_and_of_one_host(read: Files) -> None:
    text = "delay = 5ms\nhosts = 2\nreceiver-window = 4mb\nhost.h2 = receiver-window 64kib\n"
    assert [sender.receiver_window_bytes for sender in path(read, text).senders] == [
        4_000_000,
        65_536,
    ]
    assert path(read, "delay = 5ms\n").senders[0].receiver_window_bytes is None


def test_a_range_of_hosts_and_one_of_them(read: Files) -> None:
    senders = path(read, "host.h1..h3 = delay 5ms\nhost.h2 = loss 1%\n").senders
    assert [(sender.name, sender.delay_s, sender.loss) for sender in senders] == [
        ("h1", 0.005, None),
        ("h2", 0.005, Loss("random", (0.01,))),
        ("h3", 0.005, None),
    ]


def test_a_host_without_a_name_is_h1(read: Files) -> None:
    plain = path(read, "delay = 5ms\njitter = 1ms\nreorder = 1%\n")
    assert plain.senders == (Sender("h1", 0.005, None, 0.001, 0.01),)


def test_the_buffer_is_of_the_largest_base_rtt(read: Files) -> None:
    assert path(read, "host.h1 = delay 5ms\nhost.h2 = delay 80ms\n").buffer_bytes == 20_000_000


def test_changes_in_the_order_of_their_moments(read: Files) -> None:
    text = (
        "delay = 5ms\nhosts = 2\nbuffer = 1bdp\nat.8s = loss 1%\nat.2s = rate 100mbit, h2 "
        "delay 20ms\n"
    )
    changed = path(read, text)
    lossy = Loss("random", (0.01,))
    assert changed.changes == (
        RateChange(2.0, 1e8),
        DelayChange(2.0, "h2", 0.02),
        LossChange(8.0, None, lossy),
    )
    (_, first), (two_s, second), (eight_s, third) = changed.phases
    assert (two_s, eight_s) == (2.0, 8.0)
    assert first is changed
    assert (second.rate_bps, [sender.delay_s for sender in second.senders]) == (1e8, [0.005, 0.02])
    assert [sender.loss for sender in third.senders] == [lossy, lossy]
    assert {phase.buffer_bytes for _, phase in changed.phases} == {1_250_000}


@pytest.mark.parametrize(
    ("loss", "mean"),
    [
        (Loss("random", (0.25,)), 0.25),
        (Loss("gemodel", (0.01,)), 0.01),
        (Loss("gemodel", (0.01, 0.19)), 0.05),
        (Loss("gemodel", (0.1, 0.3, 0.5, 0.01)), 0.25 * 0.5 + 0.75 * 0.01),
        (Loss("gemodel", (0.1, 0.0)), 1.0),
        (Loss("gemodel", (0.0, 0.0, 1.0, 0.2)), 0.2),
    ],
)
def test_the_mean_of_a_loss(loss: Loss, mean: float) -> None:
    assert loss.mean == pytest.approx(mean)


def test_hosts_and_moments_are_swept(read: Files) -> None:
    text = (
        TOPOLOGY
        + "host.h1 = delay 5ms\n"
        + ENTRY
        + "sweep.host.h1 = delay 1ms, delay 2ms\nsweep.at.1s = rate 1mbit\n"
    )
    conditions = read(text).entries[0].conditions
    assert [condition.path.senders[0].delay_s for condition in conditions] == [0.001, 0.002]
    assert [condition.path.changes for condition in conditions] == [(RateChange(1.0, 1e6),)] * 2
    assert conditions[0].values == {"host.h1": "delay 1ms", "at.1s": "rate 1mbit"}


def test_a_queue_s_parameters_in_the_units_that_tc_takes() -> None:
    assert read_queue("codel ecn ce_threshold 24.2ms") == Queue(
        "codel", ("ecn", "ce_threshold", "24200us")
    )
    assert read_queue("red min 30kb max 90kb probability 2% ecn").parameters == (
        "min",
        "30000",
        "max",
        "90000",
        "probability",
        "0.02",
        "ecn",
    )
    assert read_queue("fq maxrate 1gbit flow_limit 100").parameters == (
        "maxrate",
        "1000000000bit",
        "flow_limit",
        "100",
    )
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
        "": 5000,
        "ack-buffer = 20p\n": 20,
        "ack-buffer = 4kb\n": 4000,
        "ack-buffer = 0.001bdp\n": 1514,
    }
    assert path(read, "rtt = 40ms\n").ack_bottleneck is None


@pytest.mark.parametrize("loss", ["40%", "gemodel 1% 30% 70% 0.1%", "gemodel 0.00146% 1%"])
def test_loss_that_the_control_connection_outlasts(read: Files, loss: str) -> None:
    assert path(read, f"delay = 5ms\nloss = {loss}\n").control == "path"


@pytest.mark.parametrize("loss", ["50%", "gemodel 5% 10%", "gemodel 10% 10%"])
def test_loss_that_only_streams_meet(read: Files, loss: str) -> None:
    assert path(read, f"delay = 5ms\nloss = {loss}\ncontrol = beside\n").control == "beside"


def test_beside_the_path_no_queue_is_too_long_for_the_control_connection(
    read: Files, told: Told
) -> None:
    text = "delay = 5ms\nrate = 1mbit\nbuffer = 10mb\n"
    [problem] = told("[topology t]\n" + text + ENTRY)
    assert "makes a round trip of 80 s when it is full" in str(problem)
    [condition] = read("[topology t]\ncontrol = beside\n" + text + ENTRY).entries[0].conditions
    assert condition.path.longest_rtt_s == pytest.approx(80.01)


def test_a_change_of_delay_leaves_both_buffers(read: Files) -> None:
    changed = path(read, "rtt = 40ms\nack-rate = 1mbit\nat.1s = rtt 80ms\n")
    assert {(phase.buffer_bytes, phase.ack_limit) for _, phase in changed.phases} == {
        (5_000_000, 5000)
    }


def test_the_longest_rtt_has_both_queues(read: Files) -> None:
    bytes_each = path(read, "rtt = 40ms\nbuffer = 1mb\nack-rate = 1mbit\nack-buffer = 100kb\n")
    assert bytes_each.longest_rtt_s == pytest.approx(0.04 + 0.008 + 0.8)


def test_a_burst_of_its_own_is_the_bottleneck_s_alone(read: Files) -> None:
    plain, burst = path(read, "delay = 5ms\n"), path(read, "delay = 5ms\nburst = 64kib\n")
    assert (plain.bottleneck_bucket_bytes, burst.bottleneck_bucket_bytes) == (3028, 65536)
    assert burst.bucket_bytes(1e8) == 3028, "of a sender's own device"
