"""Tests STARTUP and DRAIN of the core: [v2] 4.3.1, 4.3.2; [v3] 5.3.1, 5.3.2."""

from typing import Any

import pytest

from support.cca_core import BDP, BW, FULL, RATE_MBPS, UNIT, Core, a_round, to_down, to_drain

GAINS = {"deployed": (739, 739, 88), "draft": (709, 512, 128), "v3": (709, 512, 128)}


@pytest.mark.parametrize("which", GAINS)
def test_a_connection_begins_in_startup_with_its_gains(core: Core, which: str) -> None:
    """[v2] 4.3.1.1 with Gomez et al. 2.5 for what is deployed; [v3] 5.3.1.1."""
    pacing, cwnd, drain = GAINS[which]
    state = core.init(which, srtt_us=20_000)
    assert (core.phase, state["pacing_gain"], state["cwnd_gain"]) == ("startup", pacing, cwnd)
    state = to_drain(core, which)
    assert (state["pacing_gain"], state["cwnd_gain"]) == (drain, cwnd)


def test_the_first_pacing_rate_follows_from_cwnd_and_rtt(core: Core) -> None:
    """[v3] 5.6.2: 10 packets in 20 ms, or in 1 ms without an RTT, times the gain, less 1%."""
    rate = 10 / 0.02 * 1448 * 709 / UNIT * 0.99
    assert core.init("v3", cwnd=10, srtt_us=20_000)["pacing_rate"] == pytest.approx(rate, rel=1e-3)
    assert core.init("v3", cwnd=10)["pacing_rate"] == pytest.approx(20 * rate, rel=1e-3)
    assert core.ack(rate_mbps=1, srtt_us=20_000)["pacing_rate"] == pytest.approx(rate, rel=1e-3), (
        "the first RTT sample counts"
    )


@pytest.mark.parametrize("which", GAINS)
def test_three_rounds_without_a_quarter_more_end_startup(core: Core, which: str) -> None:
    """[v2] 4.3.1.2; [v3] 5.3.1.2."""
    core.init(which)
    for rate in (100, 125, 157, 157 * 1.24, 157):
        core.ack(rate_mbps=rate, new_round=True, rtt_us=20_000, inflight=FULL)
        assert (core.phase, core.state["full_bw_reached"]) == ("startup", 0), rate
    core.ack(rate_mbps=120, new_round=True, inflight=FULL)
    assert (core.phase, core.state["full_bw_reached"]) == ("drain", 1)


def test_only_whole_rounds_that_the_application_did_not_limit_count(core: Core) -> None:
    """[v3] 5.3.1.2, A.7."""
    core.init("v3")
    for _ in range(10):
        core.ack(
            rate_mbps=RATE_MBPS, new_round=True, is_app_limited=1, rtt_us=20_000, inflight=FULL
        )
        core.ack(rate_mbps=RATE_MBPS, inflight=FULL)
    assert (core.phase, core.state["full_bw_count"]) == ("startup", 0)


def lossy_round(core: Core, losses: int, lost: int, **members: Any) -> None:
    """Marks packets lost by a number of ACKs of a round in fast recovery, and ends the round. The
    bandwidth keeps growing.
    """
    a_round(core, recovery=1, inflight=FULL, **members)
    core.ack(rate_mbps=RATE_MBPS, lost=lost, inflight=FULL, **members)
    begin = core.delivered
    for _ in range(losses - 1):
        core.ack(rate_mbps=RATE_MBPS, lost=lost, inflight=FULL, **members)
    core.ack(rate_mbps=2 * RATE_MBPS, prior_delivered=begin, inflight=FULL, **members)


@pytest.mark.parametrize(("which", "needed"), [("deployed", 8), ("draft", 3), ("v3", 6)])
def test_a_round_of_fast_recovery_with_many_losses_ends_startup(
    core: Core, which: str, needed: int
) -> None:
    """[v2] 4.3.1.3; [v3] 5.3.1.3. Gomez et al.: 8 in the deployed BBRv2."""
    core.init(which)
    a_round(core)
    lossy_round(core, needed - 1, 30)
    assert core.phase == "startup"
    core.init(which)
    a_round(core)
    lossy_round(core, needed, 30)
    assert (core.phase, core.state["undo_state"]) == ("drain", 0)


def test_few_losses_of_many_packets_do_not_end_startup(core: Core) -> None:
    """[v3] 5.3.1.3: the loss rate must exceed 2%, whatever the number of losses."""
    core.init("v3")
    a_round(core, prior_inflight=100_000)
    lossy_round(core, 20, 1, prior_inflight=100_000)
    assert core.phase == "startup"


def test_without_fast_recovery_losses_do_not_end_startup(core: Core) -> None:
    core.init("v3")
    a_round(core)
    for _ in range(12):
        core.ack(rate_mbps=RATE_MBPS, lost=30, recovery=0, inflight=FULL)
    core.ack(rate_mbps=2 * RATE_MBPS, prior_delivered=4, inflight=FULL)
    assert core.phase == "startup"


def test_losses_that_end_startup_bound_what_is_in_flight(core: Core) -> None:
    """[v3] 5.3.1.3: the BDP, or what the last round delivered if more; Gomez et al. 2.5: BBRv2
    takes the BDP.
    """
    bounds = {}
    for which in ("deployed", "v3"):
        core.init(which)
        a_round(core, rtt_us=1000)
        lossy_round(core, 8, 30)
        assert core.phase == "drain"
        bounds[which] = core.state["inflight_hi"]
    assert bounds["deployed"] == 18, "1 ms of twice 100 Mbit/s"
    assert bounds["v3"] == 173, "what 10 ms delivered"


@pytest.mark.parametrize("which", GAINS)
def test_drain_ends_at_one_bdp_in_flight(core: Core, which: str) -> None:
    """[v2] 4.3.2; [v3] 5.3.2, A.3."""
    to_drain(core, which)
    core.ack(inflight=BDP + 1)
    assert core.phase == "drain"
    core.ack(inflight=BDP)
    assert (core.phase, core.state["cycle_count"]) == ("cruise", 1)


def test_what_the_pacing_holds_back_is_not_in_flight(core: Core) -> None:
    """Ours: Linux also counts packets in the queueing discipline as in flight."""
    to_drain(core)
    core.ack(inflight=BDP + 86, pacing_queue_us=9_900)
    assert core.phase == "drain"
    core.ack(inflight=BDP + 86, pacing_queue_us=10_001)
    assert core.phase == "cruise"


@pytest.mark.parametrize("which", GAINS)
def test_what_the_pacing_holds_back_is_in_flight_if_so_set(core: Core, which: str) -> None:
    """[v2] 4.3.2, 4.3.3.6; [v3] 5.3.2, 5.3.3.9: C.inflight, as Linux counts it."""
    to_drain(core, which, pacing_in_flight=1)
    core.ack(inflight=BDP + 1, pacing_queue_us=10_001)
    assert core.phase == "drain"
    to_down(core, which, pacing_in_flight=1)
    core.ack(inflight=BDP + 1, pacing_queue_us=10_001)
    assert core.phase == "down"
    core.ack(inflight=BDP)
    assert core.phase == "cruise"


def test_drain_ends_after_three_rounds_in_v3(core: Core) -> None:
    """[v3] 5.3.2, A.4; [v2] 4.3.2 has no such end."""
    for which, end in (("v3", "down"), ("deployed", "drain")):
        to_drain(core, which)
        for _ in range(3):
            a_round(core, inflight=FULL)
            assert core.phase == "drain"
        a_round(core, inflight=FULL)
        assert core.phase == end


def test_the_estimate_is_the_rate_sample(core: Core) -> None:
    to_drain(core)
    assert core.state["max_bw"] == core.state["bw"] == BW
