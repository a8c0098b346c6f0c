"""Tests what long trains show of the size of a queue or a bucket, against trains with known losses."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest

from ccmix.generators.path_steps import BURST_PACKETS
from ccmix.twin.bottleneck import MANAGED, buffer_from_train
from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.policer import policer
from ccmix.twin.received import Overflow, overflow, overloads
from ccmix.twin.twin import estimates_of
from support.synthetic_path import PACKET_BYTES, Truth, covers, measured

RATE_BPS = 50e6
PACKET_S = PACKET_BYTES * 8 / RATE_BPS


def train(came: list[int], packet_s: float) -> dict[str, float]:
    """Returns the row of a train, by the numbers of the packets that came, all but the first two
    `packet_s` apart.
    """
    lost = sorted(set(range(BURST_PACKETS)) - set(came))
    return {
        "time_s": 10.0,
        "seconds": max(len(came) - 2, 0) * packet_s,
        "received_bytes": len(came) * (PACKET_BYTES - 42),
        "packets": BURST_PACKETS,
        "lost_packets": len(lost),
        "before_loss": lost[0] if lost else BURST_PACKETS,
        "after_loss": BURST_PACKETS - 1 - lost[-1] if lost else BURST_PACKETS,
    }


def through_tail_drop(held: int, arrive_per_packet: float = 100.0) -> list[int]:
    """Returns the packets of a train that a queue lets through. It passes two packets at once, and
    then sends a packet while `arrive_per_packet` arrive.
    """
    came, waiting = [0, 1], 0.0
    for number in range(2, BURST_PACKETS):
        waiting = max(waiting - 1 / arrive_per_packet, 0.0)
        if waiting + 1 <= held:
            came.append(number)
            waiting += 1
    return came


def through_head_drop(limit: int) -> list[int]:
    """Returns the packets that a queue lets through if it drops half of its packets from its head
    when it is full and another packet comes.
    """
    queue: list[int] = []
    for number in range(2, BURST_PACKETS):
        queue.append(number)
        if len(queue) > limit:
            queue = queue[(len(queue) + 1) // 2 :]
    return [0, 1, *queue]


def with_bursts(seen: PathRun, *trains: list[int], packet_s: float = PACKET_S) -> PathRun:
    rows = pl.DataFrame([train(came, packet_s) for came in trains])
    return replace(
        seen,
        steps=(*seen.steps, PathStep("bursts", 10, 12, 0, None, 1e6, PACKET_BYTES, None, rows)),
    )


def found(*trains: list[int], packet_s: float = PACKET_S) -> Overflow:
    seen = overflow(with_bursts(measured(Truth()), *trains, packet_s=packet_s))
    assert seen is not None
    return seen


@pytest.mark.parametrize("held", [1, 3, 17, 50])
def test_a_queue_holds_what_comes_before_the_first_loss(held: int) -> None:
    came = through_tail_drop(held)
    seen = found(came, came, came[:-1])
    assert (seen.held, seen.from_head) == (held, False)
    estimate = buffer_from_train(seen)
    assert estimate.value is not None
    assert held <= estimate.value / PACKET_BYTES < held + 1
    assert covers(estimate, held * PACKET_BYTES)


@pytest.mark.parametrize("arrive_per_packet", [2.0, 3.5, 10.0])
def test_packets_that_leave_while_the_train_arrives_were_not_held(arrive_per_packet: float) -> None:
    came = through_tail_drop(8, arrive_per_packet)
    assert len(came) > 12
    seen = found(came, came)
    assert not seen.from_head
    assert seen.held == pytest.approx(8, abs=1)


@pytest.mark.parametrize("limit", [2, 4, 30])
def test_losses_in_front_of_others_show_a_queue_that_drops_at_its_head(limit: int) -> None:
    came = through_head_drop(limit)
    seen = found(came, came)
    assert seen.from_head
    assert covers(buffer_from_train(seen), limit * PACKET_BYTES)


@pytest.mark.parametrize(
    "trains",
    [
        [list(range(10))],
        [list(range(BURST_PACKETS)), list(range(10))],
        [[n for n in range(BURST_PACKETS) if n % 30], list(range(10))],
        [[], []],
    ],
    ids=["one train", "one came whole", "one lost three at random", "none came"],
)
def test_nothing_is_told(trains: list[list[int]]) -> None:
    assert overflow(with_bursts(measured(Truth()), *trains)) is None


def test_a_run_without_the_step_tells_nothing() -> None:
    assert overflow(measured(Truth())) is None


@pytest.mark.parametrize(
    ("packet_s", "at_once"),
    [(PACKET_S, False), (PACKET_S / 4, True), (0.0, False)],
    ids=["queued", "policed", "joined"],
)
def test_a_policer_passes_its_burst_at_once(packet_s: float, at_once: bool) -> None:
    came = list(range(12))
    assert found(came, came, packet_s=packet_s).at_once(RATE_BPS) == at_once


def policed(*trains: list[int]) -> Callable[[bool], Estimate]:
    seen = with_bursts(
        measured(Truth(rate_bps=RATE_BPS, buffer_bytes=5e3)), *trains, packet_s=PACKET_S / 4
    )
    return lambda queued: policer(seen, overloads(seen, 0.0), overflow(seen), queued=queued)


def test_the_burst_of_a_policer_is_what_comes_at_once() -> None:
    estimate = policed(list(range(12)), list(range(12)))(False)
    assert covers(estimate, 12.7 * PACKET_BYTES)
    assert "12 packets of a train" in estimate.origin


def test_if_cross_traffic_emptied_the_bucket_before_most_trains_it_may_hold_more() -> None:
    trains = [list(range(came)) for came in (4, 5, 5, 7, 9, 12)]
    estimate = policed(*trains)(False)
    assert estimate.low == 11 * PACKET_BYTES
    assert estimate.high is None


@pytest.mark.parametrize("burst_bytes", [20e3, 125e3])
def test_more_that_passes_at_first_of_too_much_is_the_burst(burst_bytes: float) -> None:
    """The queue of the link behind the policer dropped the train."""
    came = list(range(7))
    seen = with_bursts(measured(Truth(buffer_bytes=burst_bytes)), came, came, packet_s=PACKET_S / 4)
    estimate = policer(seen, overloads(seen, 0.0), overflow(seen), queued=False)
    assert estimate.value == pytest.approx(burst_bytes, rel=0.1)
    assert covers(estimate, burst_bytes)


def test_a_queue_of_a_faster_link_that_takes_more_meanwhile_is_no_policer() -> None:
    came = through_tail_drop(4, 3.0)
    assert policed(came, came)(False).value is None


def test_what_waits_was_no_policer() -> None:
    assert policed(list(range(12)), list(range(12)))(True).value is None


def estimates_in(seen: PathRun) -> dict[str, Estimate]:
    return {each.quantity: each for each in estimates_of(seen)}


def that_never_waits(seen: PathRun) -> PathRun:
    return replace(seen, rtt=seen.rtt.with_columns(rtt_s=pl.lit(0.02)))


def test_what_a_policer_drops_of_a_train_says_nothing_of_a_queue() -> None:
    came = list(range(12))
    seen = measured(Truth(rate_bps=RATE_BPS, buffer_bytes=5e3))
    estimates = estimates_in(that_never_waits(with_bursts(seen, came, came, packet_s=PACKET_S / 4)))
    assert estimates["policer's burst"].value == pytest.approx(12.5 * PACKET_BYTES)
    assert estimates["buffer"].unknown == "the policer drops before a queue is full"


def test_cross_traffic_at_a_policer_is_not_told() -> None:
    came = list(range(12))
    seen = measured(Truth(rate_bps=RATE_BPS, buffer_bytes=5e3, cross_bps=10e6))
    estimates = estimates_in(that_never_waits(with_bursts(seen, came, came, packet_s=PACKET_S / 4)))
    assert estimates["policer's burst"].value is not None
    assert estimates["cross traffic"].unknown.startswith("nothing waits at a policer")


def test_a_queue_that_overload_keeps_shorter_than_a_train_does_is_managed() -> None:
    came = through_tail_drop(50)
    estimates = estimates_in(with_bursts(measured(Truth(buffer_bytes=40e3)), came, came))
    assert covers(estimates["buffer"], 40e3)
    assert estimates["queue"].word == MANAGED


def test_the_queue_of_the_link_behind_a_policer_is_told_by_trains() -> None:
    came = through_tail_drop(3)
    seen = that_never_waits(with_bursts(measured(Truth()), came, came, packet_s=PACKET_S / 4))
    estimates = estimates_in(seen)
    assert estimates["policer's burst"].value == pytest.approx(125e3, rel=0.01)
    assert estimates["buffer"].value == pytest.approx(3.5 * PACKET_BYTES)


@pytest.mark.parametrize("overflows", [False, True])
def test_trains_tell_the_rate_of_a_queue_in_which_the_probe_never_waits(overflows: bool) -> None:
    """A queue that trains overflow is not a policer. Behind a policer, trains would show a link."""
    came = through_tail_drop(1)
    seen = that_never_waits(measured(Truth(cross_bps=15e6, buffer_bytes=2e3)))
    gaps = pl.DataFrame({"time_s": [10.0] * 200, "seconds": [PACKET_S] * 200})
    seen = replace(
        seen,
        steps=(*seen.steps, PathStep("trains", 10, 13, 0, None, 1e6, PACKET_BYTES, None, gaps)),
    )
    estimate = estimates_in(with_bursts(seen, came, came) if overflows else seen)["rate"]
    assert ("step trains" in estimate.origin) == overflows


@pytest.mark.parametrize("packet_s", [PACKET_S, PACKET_S / 4])
def test_trains_that_lose_what_a_long_queue_has_room_for_count_for_nothing(packet_s: float) -> None:
    """This happens if a network limits ICMP."""
    came = list(range(12))
    truth = Truth(buffer_bytes=125e3)
    estimates = estimates_in(with_bursts(measured(truth), came, came, packet_s=packet_s))
    assert estimates["buffer"].value == pytest.approx(125e3, rel=0.1)
    assert estimates["policer's burst"].value is None


def test_a_train_that_a_card_handed_over_together_shows_no_policer() -> None:
    came = list(range(12))
    assert not found(came, came, packet_s=1e-6).at_once(1e9)


def test_a_bucket_in_front_of_a_queue_is_no_policer_and_no_larger_buffer() -> None:
    """The train arrives at once because the bucket lets it pass, and packets wait under overload."""
    came = list(range(40))
    estimates = estimates_in(
        with_bursts(measured(Truth(buffer_bytes=30e3)), came, came, packet_s=PACKET_S / 4)
    )
    assert estimates["policer's burst"].value is None
    assert estimates["buffer"].value == pytest.approx(30e3, rel=0.1)


def test_an_early_loss_at_random_in_each_train_leaves_the_upper_end_open() -> None:
    came = [number for number in through_tail_drop(30) if number != 5]
    assert covers(buffer_from_train(found(came, came)), 30 * PACKET_BYTES)
