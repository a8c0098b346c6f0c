"""Tests the rate by trains of packets, and when it is taken, against gaps whose truth is known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.rate import rate
from ccmix.twin.received import rate_of_trains, slow_way_back
from support.synthetic_path import PACKET_BYTES, Truth, covers, measured, udp_step

RATE_BPS = 50e6
GAP_S = PACKET_BYTES * 8 / RATE_BPS


def with_trains(seen: PathRun, gaps_s: np.ndarray) -> PathRun:
    gaps = pl.DataFrame({"time_s": 10 + gaps_s.cumsum(), "seconds": gaps_s})
    step = PathStep("trains", 10.0, 13.0, 0, None, None, PACKET_BYTES, None, gaps)
    return replace(seen, steps=(*seen.steps, step))


def estimates(seen: PathRun, *, of_flows: bool | None = False) -> dict[str, Estimate]:
    return {each.quantity: each for each in rate(seen, 0.0, of_flows, 0.02, 0.02)}


@pytest.mark.parametrize("others_between", [0.0, 0.5, 0.85])
def test_the_smallest_frequent_gap_is_taken(others_between: float) -> None:
    drawn = np.random.default_rng(1)
    gaps_s = GAP_S * (1 + (drawn.random(600) < others_between)) + drawn.normal(
        0, GAP_S * 0.005, 600
    )
    gaps_s[:100] = GAP_S * 0.1  # the first ones of a shaper with a large bucket
    found = rate_of_trains(with_trains(measured(Truth()), gaps_s), 0.6 * RATE_BPS, 2 * RATE_BPS)
    assert found is not None
    assert found.value_bps == pytest.approx(RATE_BPS, rel=0.01)
    assert found.low_bps < RATE_BPS < found.high_bps


@pytest.mark.parametrize(
    "gaps_s",
    [
        np.full(9, GAP_S),
        np.geomspace(GAP_S, 20 * GAP_S, 600),
        np.where(np.arange(600) % 3, 1e-7, GAP_S),
        np.full(600, -GAP_S),
        np.full(600, GAP_S * 3),
        np.full(600, GAP_S / 3),
    ],
    ids=["too few", "none frequent", "handed over together", "overtaken", "too slow", "too fast"],
)
def test_no_rate_is_told(gaps_s: np.ndarray) -> None:
    assert (
        rate_of_trains(with_trains(measured(Truth()), gaps_s), 0.6 * RATE_BPS, 2 * RATE_BPS) is None
    )


def test_a_run_without_trains_has_none() -> None:
    assert rate_of_trains(measured(Truth()), 0.0, 1e9) is None


def test_trains_tell_the_rate_beside_others_in_one_queue() -> None:
    """Fewer of our packets arrive, as if they came in pairs."""
    seen = measured(Truth(cross_bps=15e6))
    fewer = [
        replace(
            step,
            udp=step.udp.with_columns(
                lost_packets=pl.col("lost_packets") + pl.col("packets") // 20
            ),
        )
        if step.kind == "above"
        else step
        for step in seen.steps
    ]
    seen = replace(seen, steps=tuple(fewer))
    assert estimates(seen)["rate"].value < 0.95 * RATE_BPS  # type: ignore[operator]
    found = estimates(with_trains(seen, np.full(600, GAP_S)))
    assert found["rate"].value == pytest.approx(RATE_BPS, rel=0.001)
    assert "600 of 600 gaps" in found["rate"].origin
    cross = found["cross traffic"]
    assert covers(cross, 15e6)


def test_trains_tell_what_a_queue_for_each_flow_hides() -> None:
    """A single flow gets the same rate at any load, because cross traffic has its own queue."""
    alone = [
        udp_step(Truth(35e6), f"above-{number}", 10.0 * number, 6.0, offered)[0]
        for number, offered in ((1, 60e6), (2, 90e6))
    ]
    seen = replace(measured(Truth(), above=()), steps=tuple(alone))
    assert estimates(seen, of_flows=None)["rate"].high == pytest.approx(70e6, rel=0.02)
    found = estimates(with_trains(seen, np.full(600, GAP_S)), of_flows=None)
    assert found["rate"].value == pytest.approx(RATE_BPS, rel=0.001)
    assert found["cross traffic"].value == pytest.approx(15e6, rel=0.02)


@pytest.mark.parametrize("times", [0.8, 1.3, 3.0, 20.0])
def test_trains_that_contradict_what_came_through_count_for_nothing(times: float) -> None:
    """A shaper's bucket lets a train pass at the rate of the link."""
    seen = measured(Truth(cross_bps=10e6))
    assert estimates(with_trains(seen, np.full(600, GAP_S / times))) == estimates(seen)


@pytest.mark.parametrize("times", [0.975, 0.99, 1.0, 1.01, 1.2, 1.5])
@pytest.mark.parametrize("cross_bps", [0.0, 2e6, 15e6, 25e6])
@pytest.mark.parametrize("of_flows", [False, None, True])
def test_every_interval_holds_its_value(
    times: float, cross_bps: float, of_flows: bool | None
) -> None:
    """Also where trains and what came through contradict each other by a little."""
    seen = measured(Truth(cross_bps=cross_bps))
    found = estimates(with_trains(seen, np.full(600, GAP_S / times)), of_flows=of_flows)
    assert found["rate"].value
    for estimate in (each for each in found.values() if each.value is not None):
        assert 0 <= (estimate.low or 0.0) <= estimate.value
        assert estimate.high is None or estimate.high >= estimate.value
        if estimate.quantity == "rate":
            assert estimate.low != estimate.high


def test_a_link_that_is_hardly_ever_free_for_others_bounds_the_rate() -> None:
    """Others have the link for a tenth of the time, so the rate can't be twice what
    came through.
    """
    seen = measured(Truth(cross_bps=5e6))
    fast = with_trains(seen, np.full(600, GAP_S / 1.8))
    assert (
        estimates(fast, of_flows=None)["rate"].origin
        == estimates(seen, of_flows=None)["rate"].origin
    )


def test_trains_of_another_link_than_a_policer_s_count_for_nothing() -> None:
    """The probe does not wait in an overload, so the link is not always busy."""
    seen = with_trains(measured(Truth(cross_bps=15e6)), np.full(600, GAP_S / 1.1))
    packet_s = PACKET_BYTES * 8 / RATE_BPS
    waiting, free = (
        {each.quantity: each for each in rate(seen, 0.0, False, 0.02, 0.02, waits_s)}
        for waits_s in (packet_s, 0.01 * packet_s)
    )
    assert "step trains" in waiting["rate"].origin
    assert "step trains" not in free["rate"].origin


def test_a_short_queue_tells_no_least_cross_traffic() -> None:
    seen = replace(
        measured(Truth(cross_bps=15e6)),
        steps=tuple(s for s in measured(Truth(cross_bps=15e6)).steps if s.kind != "idle"),
    )
    long, short = (
        {
            each.quantity: each
            for each in rate(with_trains(seen, np.full(600, GAP_S)), 0.0, False, 0.02, waits_s)
        }
        for waits_s in (0.02, 0.0001)
    )
    assert long["cross traffic"].low > 5e6  # type: ignore[operator]
    assert short["cross traffic"].low == 0
    assert long["cross traffic"].high > 15e6  # type: ignore[operator]


def test_trains_do_not_replace_a_rate_that_is_sharp_already() -> None:
    seen = measured(Truth())
    assert (
        estimates(with_trains(seen, np.full(600, GAP_S * 0.98)))["rate"] == estimates(seen)["rate"]
    )


def test_what_others_leave_tells_their_traffic_beside_the_rate_of_trains() -> None:
    """Half of the excess is the error of either end."""
    truth = Truth(cross_bps=15e6)
    step, _ = udp_step(truth, "available-1", 60.0, 3.0, 36.5e6)
    seen = with_trains(measured(truth), np.full(600, GAP_S))
    cross = estimates(replace(seen, steps=(*seen.steps, step)))["cross traffic"]
    assert "available-1" in cross.origin
    assert cross.value == pytest.approx(15e6, rel=0.02)
    far, _ = udp_step(truth, "available-1", 60.0, 3.0, 42e6)
    wide = estimates(replace(seen, steps=(*seen.steps, far)))["cross traffic"]
    assert cross.low is not None
    assert wide.low is not None
    assert wide.low < cross.low - 1e6


@pytest.mark.parametrize(
    ("times", "slow"),
    [(1.0, False), (0.3, False), (2.0, True)],
    ids=["as fast", "a policer", "slow"],
)
def test_a_slow_way_back_shows_in_all_gaps(times: float, slow: bool) -> None:
    """The gaps behind a policer are those of its link."""
    seen = with_trains(measured(Truth()), np.full(200, GAP_S * times))
    assert slow_way_back(seen, RATE_BPS) is slow


def test_where_trains_show_a_queue_for_each_flow_they_tell_its_rate() -> None:
    """Cross traffic takes half of it, so steps above the rate show less."""
    seen = with_trains(measured(Truth(rate_bps=RATE_BPS / 2)), np.full(200, GAP_S))
    found = {each.quantity: each for each in rate(seen, 0.0, True, 0.02, 0.02, by_trains=True)}
    assert found["rate"].value == pytest.approx(RATE_BPS, rel=0.01)
    assert found["cross traffic"].value == pytest.approx(RATE_BPS / 2, rel=0.1)
