"""Tests PROBE_BW of the core: [v2] 4.3.3; [v3] 5.3.3."""

import pytest

from support.cca_core import (
    BDP,
    BW,
    BW_UNIT,
    FULL,
    INFINITE,
    RATE_MBPS,
    RTT_US,
    WAIT_US,
    Core,
    a_round,
    to_cruise,
    to_down,
    to_refill,
    to_up,
)

SETS = ("deployed", "draft", "v3")


@pytest.mark.parametrize(
    ("which", "down", "up_cwnd"), [("deployed", 192, 512), ("draft", 230, 512), ("v3", 230, 576)]
)
def test_the_gains_of_a_cycle(core: Core, which: str, down: int, up_cwnd: int) -> None:
    """[v2] 4.6.1 with Gomez et al. 2.5; [v3] 5.6.1."""
    gains = []
    for reach in (to_down, to_cruise, to_refill, to_up):
        reach(core, which)
        gains.append((core.state["pacing_gain"], core.state["cwnd_gain"]))
    assert gains == [(down, 512), (256, 512), (256, 512), (320, up_cwnd)]


def test_down_ends_with_one_bdp_in_flight(core: Core) -> None:
    """[v3] 5.3.3.9 IsTimeToCruise()."""
    to_down(core)
    core.ack(inflight=BDP + 1)
    assert core.phase == "down"
    core.ack(inflight=BDP)
    assert core.phase == "cruise"


def test_down_leaves_headroom_below_inflight_hi(core: Core) -> None:
    """[v3] 5.3.3.1: 15% of inflight_hi stay free."""
    to_down(core)
    core.put(inflight_hi=160)
    core.ack(inflight=137 + 1)
    assert core.phase == "down"
    core.ack(inflight=137)
    assert core.phase == "cruise"


def test_cruise_quanta_end_down_earlier(core: Core) -> None:
    """Ours, off by default: see cca/README.md."""
    to_down(core, cruise_quanta=3)
    quantum = core.state["send_quantum"]
    core.ack(inflight=BDP + 3 * quantum + 1)
    assert core.phase == "down"
    core.ack(inflight=BDP + 3 * quantum)
    assert core.phase == "cruise"


@pytest.mark.parametrize(("which", "before"), [("deployed", False), ("draft", False), ("v3", True)])
def test_down_ends_by_what_was_in_flight_before_or_after_the_ack(
    core: Core, which: str, before: bool
) -> None:
    """[v2] 4.3.3.6 and [v3] 5.3.3.9: after it; the reference's BBRv3: before it."""
    to_down(core, which)
    core.ack(inflight=BDP, prior_inflight=BDP + 1)
    assert core.phase == ("down" if before else "cruise")
    to_down(core, which, cruise_prior_inflight=0 if before else 1)
    core.ack(inflight=BDP, prior_inflight=BDP + 1)
    assert core.phase == ("cruise" if before else "down")


@pytest.mark.parametrize("which", SETS)
def test_a_probe_waits_two_to_three_seconds(core: Core, which: str) -> None:
    """[v2] 4.3.3.5.3; [v3] 5.3.3.8.3. The driver's random number is half of its ceiling."""
    to_cruise(core, which)
    assert core.state["bw_probe_wait_us"] == 2_500_000
    due = core.state["cycle_stamp_us"] + 2_500_000
    core.ack(after_us=due - core.now, rtt_us=RTT_US - 1)
    assert core.phase == "cruise"
    core.ack(after_us=1)
    assert core.phase == "refill"


@pytest.mark.parametrize("which", SETS)
def test_a_probe_waits_no_more_rounds_than_reno_would(core: Core, which: str) -> None:
    """[v2] 4.3.3.5.3; [v3] 5.3.3.8.3: at most 63 rounds, less one at random."""
    to_cruise(core, which)
    rounds = 0
    while core.phase == "cruise":
        a_round(core, after_us=1000)
        rounds += 1
    assert (core.phase, core.state["rounds_since_probe_up"], rounds) == ("refill", 63, 61)


def test_few_packets_in_flight_shorten_the_wait(core: Core) -> None:
    """[v3] 5.3.3.8.3: as many rounds as the BDP has packets, or cwnd."""
    to_cruise(core)
    core.put(cwnd=20, inflight_hi=20)
    while core.phase == "cruise":
        a_round(core, after_us=1000, acked=0, inflight=10, prior_inflight=10)
    assert core.state["rounds_since_probe_up"] == core.state["cwnd"] == 18, "85% of inflight_hi"


def test_refill_forgets_the_lower_bounds_and_lasts_a_round(core: Core) -> None:
    """[v3] 5.3.3.3."""
    to_cruise(core)
    core.put(bw_lo=BW // 2, inflight_lo=50)
    core.ack(after_us=WAIT_US)
    assert (core.phase, core.state["bw_lo"], core.state["inflight_lo"]) == (
        "refill",
        INFINITE,
        INFINITE,
    )
    core.ack(rate_mbps=RATE_MBPS)
    assert (core.phase, core.state["is_bw_probe_sample"]) == ("refill", 0)
    a_round(core)
    assert (core.phase, core.state["is_bw_probe_sample"]) == ("up", 1)


@pytest.mark.parametrize("which", ["deployed", "draft"])
def test_up_of_v2_lasts_min_rtt_and_until_there_is_a_queue(core: Core, which: str) -> None:
    """[v2] 4.3.3.6: more than 1.25 BDP in flight after the ACK, and two packets for PROBE_BW up."""
    to_up(core, which)
    target = round(1.25 * (RTT_US - 1000) / RTT_US * BDP) + 2
    core.ack(inflight=FULL, after_us=RTT_US - 2000)
    assert core.phase == "up", "too early"
    core.ack(inflight=target - 1, prior_inflight=FULL, after_us=2000)
    assert core.phase == "up", "no queue"
    core.ack(inflight=target + 2)
    assert core.phase == "down"


def test_up_of_v3_lasts_until_bandwidth_grows_no_more(core: Core) -> None:
    """[v3] 5.3.3.9, A.5: three rounds without a quarter more, whatever is in flight."""
    to_up(core)
    a_round(core, inflight=FULL)
    a_round(core, inflight=FULL)
    assert core.phase == "up"
    core.ack(rate_mbps=1.3 * RATE_MBPS, new_round=True, inflight=FULL)
    for _ in range(3):
        assert core.phase == "up"
        core.ack(rate_mbps=1.3 * RATE_MBPS, new_round=True, inflight=FULL)
    assert core.phase == "down"


def test_up_of_v3_goes_on_while_inflight_hi_limits_it(core: Core) -> None:
    """[v3] 5.3.3.7."""
    to_up(core)
    core.put(inflight_hi=100)
    for _ in range(10):
        core.put(cwnd=core.state["inflight_hi"] + 50)
        a_round(core, is_cwnd_limited=1)
        assert core.phase == "up"
    core.put(inflight_hi=INFINITE)
    for _ in range(3):
        a_round(core)
    assert core.phase == "down"


def test_inflight_hi_grows_by_1_2_4_8_packets_a_round(core: Core) -> None:
    """[v3] 5.3.3.5 and 5.3.3.9 ProbeInflightLongtermUpward()."""
    to_up(core)
    a_round(core, inflight=90)
    a_round(core, inflight=90)
    core.put(inflight_hi=128, cwnd=128, probe_up_acked_per_inc=128, bw_probe_up_rounds=1)
    grown = []
    for _ in range(4):
        before = core.state["inflight_hi"]
        for _ in range(63):
            core.put(cwnd=core.state["inflight_hi"])
            core.ack(rate_mbps=RATE_MBPS, is_cwnd_limited=1, prior_inflight=100)
        core.put(cwnd=core.state["inflight_hi"])
        a_round(core, is_cwnd_limited=1, prior_inflight=100)
        grown.append(core.state["inflight_hi"] - before)
    assert grown == pytest.approx([1, 2, 4, 8], abs=1)


def test_inflight_hi_does_not_grow_unless_it_limits(core: Core) -> None:
    to_up(core)
    a_round(core, inflight=90)
    a_round(core, inflight=90)
    core.put(inflight_hi=128, cwnd=128, probe_up_acked_per_inc=1)
    core.ack(rate_mbps=RATE_MBPS, acked=50, is_cwnd_limited=0, prior_inflight=100)
    core.put(cwnd=100)
    core.ack(rate_mbps=RATE_MBPS, acked=50, is_cwnd_limited=1, prior_inflight=100)
    assert core.state["inflight_hi"] == 128


def test_a_safe_volume_raises_inflight_hi_at_once(core: Core) -> None:
    """[v3] 5.3.3.9 AdaptLongTermModel()."""
    to_cruise(core)
    a_round(core, inflight=90)
    core.put(inflight_hi=100)
    core.ack(rate_mbps=RATE_MBPS, new_round=True, inflight=150)
    assert core.state["inflight_hi"] == 150


@pytest.mark.parametrize("which", SETS)
def test_a_lossy_probe_ends_and_bounds_what_is_in_flight(core: Core, which: str) -> None:
    """[v2] 4.5.6.2; [v3] 5.5.10.2: more than 2% lost of what was in flight."""
    to_up(core, which)
    a_round(core, prior_inflight=300)
    core.ack(rate_mbps=RATE_MBPS, new_round=True, lost=5, prior_inflight=300)
    assert (core.phase, core.state["inflight_hi"]) == ("up", INFINITE), "5 of 300 are not too many"
    core.ack(rate_mbps=RATE_MBPS, new_round=True, lost=6, prior_inflight=300, inflight=FULL)
    assert (core.phase, core.state["is_bw_probe_sample"], core.state["prev_probe_too_high"]) == (
        "down",
        0,
        1,
    )
    assert 293 <= core.state["inflight_hi"] <= 300


def test_a_probe_that_the_application_limited_bounds_nothing(core: Core) -> None:
    """[v3] 5.5.10.2, A.6: it ends all the same."""
    to_up(core)
    a_round(core, inflight=FULL, lost=50, is_app_limited=1)
    assert (core.phase, core.state["inflight_hi"]) == ("down", INFINITE)


def test_a_lossy_probe_is_cut_no_lower_than_beta(core: Core) -> None:
    """[v3] 5.5.10.2: 0.7 of the target at least."""
    to_up(core)
    core.put(cwnd=1000)
    core.ack(rate_mbps=RATE_MBPS, new_round=True, lost=50, prior_inflight=60)
    bdp = (RTT_US - 1000) / RTT_US * BDP
    assert core.state["inflight_hi"] == pytest.approx(bdp * 0.7, abs=1)


@pytest.mark.parametrize(
    ("which", "phase"), [("deployed", "down"), ("draft", "up"), ("v3", "down")]
)
def test_after_a_lossy_probe_the_next_is_precautionary(core: Core, which: str, phase: str) -> None:
    """[v3] 5.3.3.6: it stops at inflight_hi, and the flow probes again after a round
    without losses.
    """
    to_up(core, which)
    core.put(prev_probe_too_high=1, inflight_hi=150)
    core.ack(inflight=149, prior_inflight=140)
    assert core.phase == "up"
    core.ack(inflight=150, prior_inflight=140)
    assert core.phase == phase
    if phase == "down":
        assert core.state["prev_probe_precautionary"] == 1
        a_round(core, inflight=150)
        assert (core.phase, core.state["prev_probe_precautionary"]) == ("refill", 0)


def test_the_bandwidth_of_two_cycles_counts(core: Core) -> None:
    """[v3] 5.5.3, 5.5.6: a faster sample is forgotten at the end of the second probe after it."""
    to_cruise(core, probe_rtt_mode_ms=0)
    core.ack(rate_mbps=2 * RATE_MBPS)
    fast = core.state["max_bw"]
    assert fast == pytest.approx(2 * BW, rel=0.01)
    kept = []
    for _ in range(2):
        core.ack(after_us=WAIT_US)
        a_round(core)
        for _ in range(4):
            a_round(core)
        kept.append(core.state["max_bw"])
    assert kept == [fast, BW]


def test_an_application_limited_sample_counts_only_if_it_is_faster(core: Core) -> None:
    """[v3] 5.5.4."""
    to_cruise(core)
    core.ack(rate_mbps=RATE_MBPS / 2, is_app_limited=1)
    assert core.state["max_bw"] == BW
    core.ack(rate_mbps=RATE_MBPS * 2, is_app_limited=1)
    assert core.state["max_bw"] == pytest.approx(2 * BW, rel=0.01)


def test_bandwidth_never_becomes_zero(core: Core) -> None:
    core.init("v3")
    core.ack(rs_delivered=1, interval_us=2**31 - 1, new_round=True)
    assert core.state["max_bw"] == 1
    assert core.state["pacing_rate"] >= 1448
    core.ack(rs_delivered=2**31 - 1, interval_us=1, new_round=True)
    assert core.state["max_bw"] <= BW_UNIT * 256
