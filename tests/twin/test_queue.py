"""Tests the buffer and the kind of the queue, against series whose truth is known."""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.twin.bottleneck import MANAGED, Waits, buffer, has_queue_per_flow, queue, read_waits
from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun
from ccmix.twin.received import Overflow, Overload, Overloads, overloads
from support.synthetic_path import PACKET_BYTES, Truth, covers, measured

PACKET_S = PACKET_BYTES * 8 / 50e6


def rate_of(truth: Truth) -> Estimate:
    return Estimate("rate", truth.rate_bps, 0.98 * truth.rate_bps, 1.02 * truth.rate_bps)


def buffer_of(seen: PathRun, truth: Truth, *, of_flows: bool = False) -> Estimate:
    found = overloads(seen, 0.0)
    return buffer(
        seen,
        read_waits(seen, truth.base_rtt_s, found),
        rate_of(truth),
        PACKET_BYTES,
        of_flows,
        found,
    )


@pytest.mark.parametrize("buffer_bytes", [20e3, 125e3, 1e6])
def test_a_full_buffer_is_the_longest_delay_times_the_rate(buffer_bytes: float) -> None:
    truth = Truth(buffer_bytes=buffer_bytes, noise_s=1e-4)
    estimate = buffer_of(measured(truth), truth)
    assert estimate.value == pytest.approx(buffer_bytes, rel=0.1)
    assert covers(estimate, buffer_bytes)


def test_a_queue_that_still_grows_is_a_lower_bound() -> None:
    truth = Truth(buffer_bytes=500e6)
    seen = measured(truth)
    found = Overloads(
        replace(each, received_bps=truth.rate_bps) for each in overloads(seen, 0.0)
    ) or Overloads(Overload(step, step.offered_bps or 0.0, truth.rate_bps) for step in seen.above)
    estimate = buffer(
        seen, read_waits(seen, truth.base_rtt_s, found), rate_of(truth), PACKET_BYTES, False, found
    )
    assert estimate.value is None
    assert estimate.low is not None
    assert estimate.low > 10e6


def test_the_probe_does_not_see_the_queues_of_others() -> None:
    truth = Truth()
    estimate = buffer_of(measured(truth), truth, of_flows=True)
    assert estimate.value is None
    assert estimate.unknown


def test_a_buffer_that_nothing_filled_is_not_told() -> None:
    truth = Truth()
    estimate = buffer_of(measured(truth, above=(0.5,)), truth)
    assert estimate.value is None
    assert estimate.unknown


def seen(probe_s: float, fill_s: float, tcp_s: float) -> Waits:
    return Waits(probe_s, probe_s, probe_s, probe_s, fill_s, tcp_s, tcp_s)


def test_a_probe_that_does_not_wait_where_tcp_does_shows_queues_of_flows() -> None:
    assert has_queue_per_flow(seen(1e-5, 1e-5, 5e-3), PACKET_S, 0.0) is True
    assert has_queue_per_flow(seen(20e-3, 18e-3, 18e-3), PACKET_S, 0.0) is False
    assert has_queue_per_flow(seen(1e-5, 1e-5, 2e-5), PACKET_S, 0.0) is None


def test_a_probe_that_is_lost_with_ours_shows_one_queue_for_all() -> None:
    """The probe does not wait: a queue of one packet accepts it only while it is empty."""
    tiny = replace(seen(1e-5, 1e-5, 5e-3), probes_lost=0.5)
    assert has_queue_per_flow(tiny, PACKET_S, 0.0) is False


@pytest.mark.parametrize("from_head", [False, True])
def test_where_trains_lose_packets_shows_how_they_are_queued(from_head: bool) -> None:
    of_train = Overflow(4, 64, 3, PACKET_BYTES, None, False, from_head)
    assert has_queue_per_flow(seen(1e-5, 1e-5, 5e-3), PACKET_S, 0.0, of_train) is from_head
    assert has_queue_per_flow(seen(20e-3, 18e-3, 18e-3), PACKET_S, 0.0, of_train) is False


def test_unanswered_questions_beside_overload_are_counted() -> None:
    truth = Truth()
    run = measured(truth)
    times_s = run.above[0].begin_s + 3.5, run.above[0].end_s
    lost = pl.col("time_s").is_between(*times_s) & (pl.int_range(pl.len()) % 4 == 0)
    some = replace(run, rtt=run.rtt.with_columns(rtt_s=pl.when(~lost).then("rtt_s")))
    found = overloads(some, 0.0)
    assert read_waits(run, truth.base_rtt_s, found).probes_lost == 0
    assert read_waits(some, truth.base_rtt_s, found).probes_lost == pytest.approx(0.21, abs=0.05)
    always = replace(
        run, rtt=run.rtt.with_columns(rtt_s=pl.when(pl.int_range(pl.len()) % 4 > 0).then("rtt_s"))
    )
    assert read_waits(always, truth.base_rtt_s, found).probes_lost == pytest.approx(0, abs=0.02)


def test_a_queue_of_less_than_a_packet_that_varies_does_not_grow() -> None:
    truth = Truth(buffer_bytes=2000)
    run = measured(truth)
    found = overloads(run, 0.0)
    varying = Waits(0.3e-3, 0.2e-3, 0.3e-3, 0.3e-3, None, None, None)
    assert buffer(run, varying, rate_of(truth), PACKET_BYTES, False, found).value is not None


@pytest.mark.parametrize(
    ("fill_s", "retransmitted", "loss_high", "word"),
    [
        (19e-3, 0.01, 0.001, "fifo"),
        (6e-3, 0.01, 0.001, MANAGED),
        (6e-3, 0.01, 0.01, None),  # random loss explains why the flows did not fill it
        (15e-3, 0.01, 0.001, None),
    ],
)
def test_a_queue_that_drops_before_it_is_full_is_managed(
    fill_s: float, retransmitted: float, loss_high: float, word: str | None
) -> None:
    estimate = queue(seen(20e-3, fill_s, fill_s), False, retransmitted, loss_high)
    assert estimate.word == word
    assert bool(estimate.unknown) == (word is None)


def test_a_queue_that_gets_shorter_beside_overload_is_managed_and_held_the_peak_at_least() -> None:
    falling = Waits(90e-3, 92e-3, 88e-3, 100e-3, 60e-3, 60e-3, 60e-3)
    assert queue(falling, False, None, None).word == MANAGED
    truth = Truth()
    seen_of_run = measured(truth)
    found = overloads(seen_of_run, 0.0)
    estimate = buffer(seen_of_run, falling, rate_of(truth), PACKET_BYTES, False, found)
    assert estimate.value == pytest.approx(100e-3 * truth.rate_bps / 8, rel=0.01)
    assert estimate.high is not None
    assert estimate.high > 1.1 * estimate.value
    steady = replace(falling, second_half_s=92e-3)
    estimate = buffer(seen_of_run, steady, rate_of(truth), PACKET_BYTES, False, found)
    assert estimate.value == pytest.approx(90e-3 * truth.rate_bps / 8, rel=0.01)


def test_nothing_is_said_of_a_run_without_a_probe() -> None:
    assert (
        has_queue_per_flow(
            read_waits(PathRun("a run", (), pl.DataFrame(), pl.DataFrame()), 0.02, []), PACKET_S, 0
        )
        is None
    )
