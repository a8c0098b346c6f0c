"""Tests PROBE_RTT, idle restarts, pacing, quantum and cwnd: [v2] 4.3.4, 4.4, 4.6; [v3]
5.3.4, 5.4, 5.6.
"""

from collections.abc import Callable

import pytest

from support.cca_core import (
    BDP,
    BW,
    FULL,
    INFINITE,
    MSS,
    RATE_MBPS,
    RTT_US,
    Core,
    State,
    a_round,
    to_cruise,
    to_down,
    to_drain,
    to_refill,
    to_up,
)

SETS = ("deployed", "draft", "v3")


def to_probe_rtt(core: Core, which: str = "v3") -> None:
    to_cruise(core, which)
    core.ack(after_us=core.state["probe_rtt_min_stamp_us"] + 5_000_000 - core.now)
    if core.phase == "refill":  # 5 s are more than the wait for a probe
        core.put(state=3)
    core.put(cwnd=300)
    core.ack(after_us=1, inflight=FULL)
    assert core.phase == "probe_rtt"


@pytest.mark.parametrize("which", SETS)
def test_probe_rtt_begins_after_five_seconds_without_a_lower_rtt(core: Core, which: str) -> None:
    """[v2] 4.3.4.4; [v3] 5.3.4.3, A.10."""
    to_probe_rtt(core, which)
    assert (core.state["pacing_gain"], core.state["cwnd_gain"], core.state["mark_app_limited"]) == (
        256,
        128,
        1,
    )
    assert core.state["cwnd"] == BDP // 2


@pytest.mark.parametrize("which", SETS)
def test_probe_rtt_lasts_200_ms_and_a_round_with_half_a_bdp_in_flight(
    core: Core, which: str
) -> None:
    to_probe_rtt(core, which)
    a_round(core, after_us=500_000, inflight=BDP // 2 + 1)
    core.ack(after_us=0, inflight=BDP // 2)
    begin = core.now
    a_round(core, after_us=200_000, inflight=BDP // 2)
    assert core.phase == "probe_rtt"
    core.put(prior_cwnd=321)
    core.ack(after_us=1, inflight=BDP // 2)
    assert core.phase == "cruise", "it ends in PROBE_BW cruise"
    assert core.state["probe_rtt_min_stamp_us"] == begin + 200_001
    assert core.state["cwnd"] == 321 + 2, "the cwnd from before, and what is acknowledged"


def test_probe_rtt_needs_a_whole_round(core: Core) -> None:
    to_probe_rtt(core)
    core.ack(inflight=1)
    core.ack(rate_mbps=RATE_MBPS, after_us=1_000_000, inflight=1)
    assert core.phase == "probe_rtt"
    a_round(core)
    assert core.phase == "cruise"


def test_probe_rtt_before_the_pipe_was_full_returns_to_startup(core: Core) -> None:
    """[v3] 5.3.4.4, A.20."""
    core.init("v3")
    a_round(core)
    core.ack(after_us=5_000_001)
    core.ack(inflight=1)
    assert core.phase == "probe_rtt"
    a_round(core, after_us=200_001, inflight=1)
    assert core.phase == "startup"


def test_probe_rtt_can_be_switched_off(core: Core) -> None:
    to_cruise(core, probe_rtt_mode_ms=0)
    core.ack(after_us=6_000_000)
    assert core.phase != "probe_rtt"


def test_a_lower_rtt_postpones_probe_rtt(core: Core) -> None:
    to_cruise(core)
    for _ in range(4):
        core.ack(after_us=2_000_000, rtt_us=core.state["min_rtt_us"] - 1)
        assert core.phase != "probe_rtt"
    core.ack(rtt_us=RTT_US)
    assert core.state["min_rtt_us"] == RTT_US - 4


@pytest.mark.parametrize(
    ("which", "postponed"), [("deployed", True), ("draft", False), ("v3", False)]
)
def test_the_least_rtt_again_in_down_postpones_probe_rtt_in_the_deployed_v2(
    core: Core, which: str, postponed: bool
) -> None:
    """Ours, by the reference: see cca/README.md."""
    to_down(core, which)
    core.ack(rtt_us=RTT_US, inflight=FULL)
    core.ack(rtt_us=core.state["probe_rtt_min_delay_us"], inflight=FULL)
    assert core.phase == "down"
    assert (core.state["probe_rtt_min_stamp_us"] == core.now) == postponed


@pytest.mark.parametrize("reach", [to_cruise, to_refill, to_up])
def test_the_least_rtt_again_in_other_phases_counts_for_a_flow_that_losses_bound(
    core: Core, reach: Callable[..., State]
) -> None:
    """The queue during another flow's PROBE_RTT is not evidence of this flow's minimum, unless
    losses bound this flow.
    """
    reach(core, "deployed")
    before = core.state["probe_rtt_min_stamp_us"]
    core.ack(rtt_us=core.state["probe_rtt_min_delay_us"])
    assert core.state["probe_rtt_min_stamp_us"] == before
    core.put(inflight_lo=100)
    core.ack(rtt_us=core.state["probe_rtt_min_delay_us"])
    assert core.state["probe_rtt_min_stamp_us"] == core.now


def test_min_rtt_is_that_of_ten_seconds(core: Core) -> None:
    """[v3] 5.3.4.3: two windows of PROBE_RTT."""
    to_cruise(core, probe_rtt_mode_ms=0)
    begin = core.state["min_rtt_stamp_us"]
    core.ack(rtt_us=RTT_US + 500, after_us=begin + 9_999_000 - core.now)
    assert core.state["min_rtt_us"] == RTT_US
    core.ack(rtt_us=RTT_US + 500, after_us=1001)
    assert core.state["min_rtt_us"] == RTT_US + 500


def test_an_expired_rtt_is_not_replaced_by_one_of_a_delayed_ack(core: Core) -> None:
    to_cruise(core, probe_rtt_mode_ms=0)
    core.ack(rtt_us=RTT_US + 40_000, after_us=6_000_000, is_ack_delayed=1)
    assert core.state["probe_rtt_min_delay_us"] == RTT_US


def test_a_restart_from_idle_paces_at_the_bandwidth(core: Core) -> None:
    """[v3] 5.4.1: and the idle time postpones PROBE_RTT (10.11)."""
    to_up(core)
    fast = core.state["pacing_rate"]
    state = core.idle(now_us=core.now + 20_000_000)
    assert state["pacing_rate"] == pytest.approx(fast * 256 / 320, rel=1e-3)
    assert state["idle_restart"] == 1
    core.ack(rate_mbps=RATE_MBPS, is_app_limited=1)
    assert (core.phase != "probe_rtt", core.state["idle_restart"]) == (True, 0)


def test_an_idle_flow_leaves_probe_rtt_when_it_restarts(core: Core) -> None:
    to_probe_rtt(core)
    core.ack(inflight=1)
    core.idle(now_us=core.now + 200_001)
    assert core.phase == "cruise"


def test_the_pacing_rate_is_one_percent_below(core: Core) -> None:
    """[v2] 4.6.2; [v3] 5.6.2."""
    state = to_cruise(core)
    assert state["pacing_rate"] == pytest.approx(BW / (1 << 24) * 1e6 * MSS * 0.99, rel=1e-4)
    to_cruise(core, pacing_margin_percent=5)
    assert core.state["pacing_rate"] == pytest.approx(BW / (1 << 24) * 1e6 * MSS * 0.95, rel=1e-4)


def test_the_pacing_rate_only_grows_until_the_pipe_was_full(core: Core) -> None:
    core.init("v3", srtt_us=1000)
    before = core.state["pacing_rate"]
    core.ack(rate_mbps=1, new_round=True, is_app_limited=1)
    assert core.state["pacing_rate"] == before
    core.ack(rate_mbps=1000, new_round=True)
    assert core.state["pacing_rate"] > before


@pytest.mark.parametrize(
    ("which", "mbps", "quantum"),
    [("deployed", 1, 1), ("v3", 1, 2), ("v3", 10, 2), ("v3", 100, 8), ("v3", 10_000, 45)],
)
def test_a_quantum_is_a_millisecond_of_the_pacing_rate(
    core: Core, which: str, mbps: int, quantum: int
) -> None:
    """[v2] 4.6.3, with one packet below 1.2 Mbit/s; [v3] 5.6.3."""
    core.init(which, settings={"startup_pacing_gain": 256}, cwnd=4, srtt_us=1_000_000)
    core.ack(rs_delivered=round(mbps * 1e6 / 8 / MSS), interval_us=1_000_000, new_round=True)
    assert core.state["send_quantum"] == quantum


@pytest.mark.parametrize(("which", "gain"), [("deployed", 2), ("draft", 2), ("v3", 2.25)])
def test_max_inflight_is_a_multiple_of_the_bdp(core: Core, which: str, gain: float) -> None:
    """[v2] 4.6.4.2; [v3] 5.6.4.2: and two packets in PROBE_BW up."""
    state = to_up(core, which, extra_acked_gain=0)
    bdp = BW * (RTT_US - 1000) / (1 << 24)
    assert state["max_inflight"] == pytest.approx(bdp * gain + 2, abs=1)


def test_max_inflight_has_room_for_three_quanta_and_four_packets(core: Core) -> None:
    """[v3] 5.5.8.1, 5.6.4.3."""
    core.init("v3", srtt_us=1_000_000)
    core.ack(rs_delivered=1, interval_us=1_000_000, new_round=True, rtt_us=1)
    assert core.state["max_inflight"] == 6
    core.init(
        "deployed", settings={"startup_pacing_gain": 256, "extra_acked_gain": 0}, srtt_us=1_000_000
    )
    core.ack(rs_delivered=1, interval_us=1_000_000, new_round=True, rtt_us=1)
    assert core.state["max_inflight"] == 4


def test_extra_acked_is_what_came_beyond_the_expected(core: Core) -> None:
    """[v3] 5.5.9: the window is two halves of five rounds."""
    to_cruise(core)
    core.put(cwnd=1000)
    for _ in range(11):
        a_round(core, acked=2, after_us=1000)
    assert core.state["extra_acked"] == 2
    a_round(core, acked=200, after_us=1000)
    assert core.state["extra_acked"] == pytest.approx(200, abs=10)
    for _ in range(11):
        a_round(core, acked=2, after_us=20_000)
    assert core.state["extra_acked"] == 2


@pytest.mark.parametrize(
    ("phase", "share"),
    [("drain", None), ("down", 1.0), ("cruise", 0.85), ("up", 1.0), ("probe_rtt", 0.85)],
)
def test_inflight_hi_bounds_cwnd(core: Core, phase: str, share: float | None) -> None:
    """[v2] 4.6.4.7; [v3] 5.6.4.7."""
    reaches: dict[str, Callable[[Core], object]] = {
        "drain": to_drain,
        "down": to_down,
        "cruise": to_cruise,
        "up": to_up,
        "probe_rtt": to_probe_rtt,
    }
    reaches[phase](core)
    core.put(inflight_hi=60, cwnd=200)
    core.ack(inflight=FULL)
    assert core.phase == phase
    assert core.state["cwnd"] == (202 if share is None else pytest.approx(60 * share, abs=1))


def test_inflight_lo_bounds_cwnd(core: Core) -> None:
    to_cruise(core)
    core.put(inflight_lo=33, cwnd=200)
    core.ack()
    assert core.state["cwnd"] == 33
    core.put(inflight_lo=1)
    core.ack()
    assert core.state["cwnd"] == 4, "MinPipeCwnd"


def test_cwnd_grows_by_what_is_acknowledged(core: Core) -> None:
    """[v3] 5.6.4.6."""
    to_cruise(core)
    core.put(cwnd=100)
    core.ack(acked=3)
    assert core.state["cwnd"] == 103
    core.put(cwnd=10_000)
    core.ack()
    assert core.state["cwnd"] == core.state["max_inflight"]


@pytest.mark.parametrize("which", SETS)
def test_the_end_of_a_recovery_restores_cwnd(core: Core, which: str) -> None:
    """[v2] 4.6.4.4; [v3] 5.6.4.4."""
    to_cruise(core, which)
    core.put(cwnd=300)
    core.event("recovery")
    core.put(cwnd=1)
    core.ack(recovery=2)
    assert core.state["cwnd"] == 4
    core.ack(recovery=0)
    assert core.state["cwnd"] == 300 + 2


@pytest.mark.parametrize("which", SETS)
def test_the_losses_of_a_timeout_do_not_save_the_cwnd_of_the_timeout(
    core: Core, which: str
) -> None:
    """[v3] 5.6.4.4 SaveCwnd(). The first ACK after the timeout is the first that tells of
    its losses.
    """
    to_cruise(core, which)
    core.put(cwnd=300)
    core.event("recovery")
    core.put(cwnd=1)
    core.ack(recovery=2, lost=10)
    core.put(cwnd=4, inflight_lo=INFINITE)
    core.ack(recovery=0)
    assert core.state["cwnd"] == 300 + 2


@pytest.mark.parametrize(("which", "conserved"), [("deployed", 0), ("draft", 10), ("v3", 0)])
def test_a_timeout_that_one_ack_repairs_restores_cwnd(
    core: Core, which: str, conserved: int
) -> None:
    """[v2] 4.6.4.4, whose draft takes the losses off; [v3] 5.6.4.4. No ACK shows the recovery."""
    to_cruise(core, which)
    core.put(cwnd=300)
    core.event("recovery")
    core.put(cwnd=1)
    core.ack(recovery=0, lost=10)
    assert core.state["cwnd"] == 300 + 2 - conserved


def test_the_draft_of_v2_conserves_packets_in_the_first_round(core: Core) -> None:
    """[v2] 4.6.4.4. The deployed one and [v3] keep cwnd."""
    for which, cwnd in (("draft", 52), ("deployed", 302), ("v3", 302)):
        to_cruise(core, which)
        core.put(cwnd=300)
        core.ack(rate_mbps=RATE_MBPS, recovery=1, inflight=50, prior_inflight=1000)
        assert core.state["cwnd"] == cwnd, which


def test_without_an_rtt_sample_the_initial_cwnd_counts(core: Core) -> None:
    core.init("v3", cwnd=10)
    core.ack(rate_mbps=RATE_MBPS, new_round=True)
    assert core.state["min_rtt_us"] == INFINITE
    assert core.state["max_inflight"] >= 10
