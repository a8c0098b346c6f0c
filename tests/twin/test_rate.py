"""Tests the rate and cross traffic, against series whose truth is known."""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.others import CrossTraffic, share_of_late_answers, widen_by_idle_bursts
from ccmix.twin.rate import _rates_of_shared_queue, rate
from ccmix.twin.received import overloads
from support.synthetic_path import Truth, covers, measured, udp_step


def estimates(
    seen: PathRun, *, of_flows: bool = False, tcp_waits_s: float = 0.02
) -> dict[str, Estimate]:
    return {each.quantity: each for each in rate(seen, 0.0, of_flows, 0.02, tcp_waits_s)}


@pytest.mark.parametrize("cross", [0.0, 0.1, 0.3, 0.5])
def test_rate_and_cross_traffic_of_a_shared_queue(cross: float) -> None:
    truth = Truth(cross_bps=cross * 50e6)
    found = estimates(measured(truth))
    for quantity, true in (("rate", truth.rate_bps), ("cross traffic", truth.cross_bps)):
        estimate = found[quantity]
        assert covers(estimate, true)
    assert found["rate"].value == pytest.approx(truth.rate_bps, rel=0.02)
    assert found["cross traffic"].value == pytest.approx(truth.cross_bps, abs=0.03 * truth.rate_bps)


def test_random_loss_before_the_bottleneck_is_no_cross_traffic() -> None:
    truth = Truth(loss=0.01)
    found = {each.quantity: each for each in rate(measured(truth), 0.01, False, 0.02)}
    assert found["rate"].value == pytest.approx(truth.rate_bps, rel=0.01)


def test_a_path_that_was_never_full_has_a_rate_of_at_least_what_came_through() -> None:
    found = estimates(measured(Truth(rate_bps=50e6), above=(0.5, 0.8)))
    assert found["rate"].value is None
    assert found["rate"].low == pytest.approx(40e6, rel=0.01)
    assert found["rate"].unknown


def test_one_rate_above_tells_no_cross_traffic() -> None:
    found = estimates(measured(Truth(), above=(1.6,)))
    assert found["rate"].value == pytest.approx(50e6, rel=0.01)
    assert found["cross traffic"].value is None


def test_flows_of_a_queue_each_leave_others_a_share() -> None:
    """One flow gets what the other leaves, 16 flows 16 of 17 parts."""
    rate_bps, cross_bps = 50e6, 20e6
    alone = [
        udp_step(Truth(rate_bps - cross_bps), f"above-{number}", 10.0 * number, 6.0, offered)[0]
        for number, offered in ((1, 60e6), (2, 90e6))
    ]
    many = replace(udp_step(Truth(rate_bps * 16 / 17), "share", 40.0, 6.0, 90e6)[0], streams=16)
    seen = replace(measured(Truth(), above=()), steps=(*alone, many))
    found = estimates(seen, of_flows=True)
    assert found["rate"].value == pytest.approx(rate_bps, rel=0.01)
    assert found["cross traffic"].value == pytest.approx(cross_bps, rel=0.05)


def test_queues_that_hold_too_little_for_many_flows_leave_half_of_the_rate_open() -> None:
    alone = udp_step(Truth(30e6), "above-1", 10.0, 6.0, 60e6)[0]
    many = replace(udp_step(Truth(30e6), "share", 40.0, 6.0, 90e6)[0], streams=16)
    seen = replace(measured(Truth(), above=()), steps=(alone, many))
    found = estimates(seen, of_flows=True, tcp_waits_s=1e-3)
    assert found["rate"].value == pytest.approx(30e6, rel=0.01)
    assert found["rate"].high == pytest.approx(60e6, rel=0.02)
    assert found["cross traffic"].value is None


def of_overload_alone(truth: Truth, above: tuple[float, ...] = (1.6, 2.5)) -> dict[str, Estimate]:
    """Returns the estimates from the steps above the rate, without the step that shows how much
    cross traffic leaves.
    """
    seen = measured(truth, above)
    without_idle = replace(seen, steps=tuple(step for step in seen.steps if step.name != "idle"))
    return {each.quantity: each for each in rate(without_idle, truth.loss, False, 0.02)}


def test_what_is_lost_before_the_bottleneck_does_not_reach_it() -> None:
    """Otherwise the lost packets, which don't arrive there, would count as cross traffic."""
    without_loss = of_overload_alone(Truth(cross_bps=15e6))
    with_loss = of_overload_alone(Truth(cross_bps=15e6, loss=0.05), (1.6 / 0.95, 2.5 / 0.95))
    assert with_loss["cross traffic"].value == pytest.approx(
        without_loss["cross traffic"].value, rel=0.02
    )


def test_the_interval_reaches_from_others_who_lose_all_to_those_who_lose_their_share() -> None:
    found = of_overload_alone(Truth(cross_bps=15e6))["rate"]
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.9 * 50e6 < 50e6 < found.high
    assert found.value == pytest.approx(50e6, rel=0.1)


@pytest.mark.parametrize("cross_bps", [0.0, 15e6])
def test_more_comes_through_of_more_only_beside_others(cross_bps: float) -> None:
    overloaded = overloads(measured(Truth(cross_bps=cross_bps)), 0.0)
    assert overloaded.received_grows_with_offered == bool(cross_bps)


@pytest.mark.parametrize(("left_share", "high"), [(0.999, 1.01), (0.975, 1.03)])
def test_what_tcp_did_not_get_of_the_rate_may_be_others(left_share: float, high: float) -> None:
    """Cross traffic may lose so much under overload that all offered rates get as much through."""
    overloaded = overloads(measured(Truth()), 0.0)
    left = CrossTraffic(left_bps=left_share * 50e6, left_by="fill")
    found, cross = _rates_of_shared_queue(overloaded, left, 0.0, may_be_of_flows=False)
    assert found.value == pytest.approx(50e6, rel=0.01)
    assert found.high == pytest.approx(high * 50e6, rel=0.01)
    assert cross.high is not None
    assert cross.high >= (1 - left_share) * 50e6


def test_a_step_far_above_the_rate_tells_it_although_others_are_in_the_queue() -> None:
    """Cross traffic loses in proportion here; the idle step shows the rate that it leaves."""
    found = estimates(measured(Truth(cross_bps=10e6), above=(1.6, 2.5, 3.3)))
    assert found["rate"].value == pytest.approx(50e6, rel=0.05)


def test_flows_of_bbr_leave_others_less_than_they_would_have_beside_overload() -> None:
    """The rate that cross traffic left can't exceed the rate received under overload."""
    seen = measured(Truth(cross_bps=15e6))
    overloaded = overloads(seen, 0.0)
    first, _ = overloaded
    beside_bbr = CrossTraffic(left_bps=1.1 * first.received_bps, left_by="reach")
    found, _ = _rates_of_shared_queue(overloaded, beside_bbr, 0.0, may_be_of_flows=False)
    assert found.value == of_overload_alone(Truth(cross_bps=15e6))["rate"].value


@pytest.mark.parametrize(("rtt_s", "told"), [(0.03, True), (0.0205, False)])
def test_flows_of_tcp_tell_the_rate_only_while_their_packets_wait(rtt_s: float, told: bool) -> None:
    times = [at / 10 for at in range(101)]
    sockets = pl.DataFrame(
        {
            "time_s": times,
            "port": [1] * 101,
            "rtt_s": [rtt_s] * 101,
            "bytes_acked": [round(50e6 / 8 * at * 1448 / 1514) for at in times],
            "mss_bytes": [1448] * 101,
        }
    )
    found = estimates(
        PathRun("a run", (PathStep("test", 0.0, 10.0, 1, "cubic"),), pl.DataFrame(), sockets)
    )
    assert (found["rate"].value is not None) == told
    assert found["rate"].low == pytest.approx(50e6, rel=0.03)
    assert found["cross traffic"].unknown


def with_available(truth: Truth, *offered: float) -> PathRun:
    """Returns a run with steps that offered some parts of the rate that cross traffic leaves."""
    seen = measured(truth, above=(1.6, 4.0))
    left_bps = truth.rate_bps - truth.cross_bps
    made = [
        udp_step(truth, f"available-{n}", 60.0 + 4 * n, 3.0, part * left_bps)
        for n, part in enumerate(offered, 1)
    ]
    return replace(seen, steps=(*seen.steps, *(step for step, _ in made)))


@pytest.mark.parametrize("cross_bps", [5e6, 20e6])
def test_a_rate_of_which_a_little_is_lost_shows_what_others_leave(cross_bps: float) -> None:
    """The step that lost less counts."""
    truth = Truth(cross_bps=cross_bps)
    cross = rate(with_available(truth, 1.2, 1.05), 0.0, False, 0.02)[1]
    assert "available-2" in cross.origin
    assert cross.value == pytest.approx(cross_bps, abs=0.03 * truth.rate_bps)
    assert covers(cross, cross_bps)


def test_what_still_waits_in_a_growing_queue_counts_as_too_much() -> None:
    truth = Truth(cross_bps=20e6)
    seen = with_available(truth, 1.05)
    waits = [
        replace(
            step,
            udp=step.udp.with_columns(
                packets=pl.col("packets") - pl.col("lost_packets"), lost_packets=0
            ),
        )
        if step.kind == "available"
        else step
        for step in seen.steps
    ]
    assert rate(replace(seen, steps=tuple(waits)), 0.0, False, 0.02) == rate(seen, 0.0, False, 0.02)


def test_a_rate_of_which_nothing_is_lost_shows_nothing() -> None:
    truth = Truth(cross_bps=20e6)
    assert rate(with_available(truth, 0.8, 0.95), 0.0, False, 0.02) == rate(
        with_available(truth), 0.0, False, 0.02
    )


def test_losses_at_random_are_none_of_too_much() -> None:
    truth = Truth(cross_bps=20e6)
    seen = with_available(truth, 0.95)
    at_random = [
        replace(step, udp=step.udp.with_columns(lost_packets=pl.Series([1, 0] * 150)))
        if step.kind == "available"
        else step
        for step in seen.steps
    ]
    steps_lose = replace(seen, steps=tuple(at_random))
    assert "available-1" in rate(steps_lose, 0.0, False, 0.02)[1].origin
    assert "available-1" not in rate(steps_lose, 0.02, False, 0.02)[1].origin


def test_steps_of_which_nothing_arrived_say_nothing() -> None:
    truth = Truth(cross_bps=20e6)
    nothing = [
        replace(step, udp=step.udp.with_columns(lost_packets=pl.col("packets")))
        for step in with_available(truth, 1.05).steps
        if step.kind in ("available", "above")
    ]
    seen = measured(truth)
    assert rate(replace(seen, steps=(*seen.steps, *nothing)), 0.0, False, 0.02) == rate(
        seen, 0.0, False, 0.02
    )


def test_a_packet_or_two_that_times_cut_off_are_not_lost() -> None:
    """One packet is more than half a percent of a slow path's step."""
    truth = Truth(rate_bps=3e6, cross_bps=0.6e6)
    seen = with_available(truth, 0.85)
    cut = [
        replace(
            step,
            udp=step.udp.with_columns(
                packets=pl.col("packets") - pl.int_range(pl.len()).is_in([200, 220]).cast(int)
            ),
        )
        if step.kind == "available"
        else step
        for step in seen.steps
    ]
    assert "available" not in rate(replace(seen, steps=tuple(cut)), 0.0, False, 0.02)[1].origin


def test_what_others_send_in_bursts_while_nobody_else_does_is_in_the_interval() -> None:
    of_rate = Estimate("rate", 50e6, 49e6, 51e6)
    beside_ours = Estimate("cross traffic", 5e6, 4e6, 6e6)
    varying = widen_by_idle_bursts(beside_ours, of_rate, (0.3, 0.02))
    assert varying == replace(
        beside_ours, high=51e6, origin=varying.origin
    )  # four times 0.36 is more than always
    assert widen_by_idle_bursts(beside_ours, of_rate, (0.01, 0.01)).low == 0
    assert widen_by_idle_bursts(beside_ours, of_rate, (0.0, 0.0)) == beside_ours
    assert widen_by_idle_bursts(beside_ours, of_rate, None) == beside_ours


@pytest.mark.parametrize(("noise_s", "late"), [(0.0, True), (10e-6, False)])
def test_answers_that_a_real_host_delays_are_not_cross_traffic(noise_s: float, late: bool) -> None:
    seen = measured(Truth(base_rtt_s=0.02, noise_s=noise_s))
    delayed = (
        pl.when(pl.int_range(pl.len()) % 10 == 0).then(0.1e-3).otherwise(0.0)
    )  # a packet takes 0.24 ms
    seen = replace(seen, rtt=seen.rtt.with_columns(pl.col("rtt_s") + delayed))
    found = share_of_late_answers(seen, 0.02, overloads(seen, 0.0))
    assert found is not None
    assert found[0] == pytest.approx(0.1 if late else 0.0, abs=0.01)
