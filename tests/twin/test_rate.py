"""Tests the rate and cross traffic, against series whose truth is known."""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.rate import rate
from synthetic_path import Truth, measured, udp_step


def estimates(seen: PathRun, *, of_flows: bool = False, tcp_waits_s: float = 0.02) -> dict[str, Estimate]:
    return {each.quantity: each for each in rate(seen, 0.0, of_flows, 0.02, tcp_waits_s)}


@pytest.mark.parametrize("cross", [0.0, 0.1, 0.3, 0.5])
def test_rate_and_cross_traffic_of_a_shared_queue(cross: float) -> None:
    truth = Truth(cross_bps=cross * 50e6)
    found = estimates(measured(truth))
    for quantity, true in (("rate", truth.rate_bps), ("cross traffic", truth.cross_bps)):
        estimate = found[quantity]
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= true <= estimate.high
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


def test_what_is_lost_before_the_bottleneck_does_not_reach_it() -> None:
    """Else it would count as cross traffic: of what was offered, so much less arrives there."""
    truth = Truth(loss=0.05, cross_bps=15e6)
    seen = measured(truth)
    without_idle = replace(seen, steps=tuple(step for step in seen.steps if step.name != "idle"))
    found = {each.quantity: each for each in rate(without_idle, truth.loss, False, 0.02)}
    assert found["cross traffic"].value == pytest.approx(truth.cross_bps, rel=0.01)


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
    found = estimates(PathRun("a run", (PathStep("test", 0.0, 10.0, 1, "cubic"),), pl.DataFrame(), sockets))
    assert (found["rate"].value is not None) == told
    assert found["rate"].low == pytest.approx(50e6, rel=0.03)
    assert found["cross traffic"].unknown
