"""Tests what losses, marks and spurious recoveries do to the model: [v2] 4.5.6; [v3]
5.5.10, 5.5.11.
"""

from typing import Any

import pytest

from support.cca_core import (
    BW,
    FULL,
    INFINITE,
    RATE_MBPS,
    Core,
    a_round,
    to_cruise,
    to_drain,
    to_refill,
    to_up,
)

SETS = ("deployed", "draft", "v3")


def lossy_round(core: Core, **members: Any) -> None:
    """Marks a packet lost, and ends the round in which that was seen."""
    core.ack(rate_mbps=RATE_MBPS, lost=1, prior_inflight=1000, **members)
    core.ack(rate_mbps=RATE_MBPS, prior_delivered=core.delivered, **members)


@pytest.mark.parametrize("which", SETS)
def test_a_round_with_losses_cuts_to_what_was_delivered(core: Core, which: str) -> None:
    """[v2] 4.5.6.3; [v3] 5.5.10.3: not below what the round delivered."""
    to_cruise(core, which)
    core.put(cwnd=100)
    lossy_round(core)
    assert (core.state["bw_lo"], core.state["inflight_lo"]) == (BW, 86)
    assert (core.state["bw"], core.state["is_loss_in_round"]) == (BW, 0)


def test_a_round_with_losses_cuts_by_beta_at_most(core: Core) -> None:
    """[v3] 5.5.10.3: to 70% of max_bw and of cwnd."""
    to_cruise(core)
    a_round(core)
    core.put(cwnd=300)
    core.ack(rate_mbps=RATE_MBPS / 10, lost=1, prior_inflight=1000, rs_delivered=8)
    core.put(bw_latest=1, inflight_latest=1, cwnd=300)
    core.ack(rate_mbps=RATE_MBPS / 10, prior_delivered=core.delivered, rs_delivered=8)
    kept = (256 - 77) / 256
    assert core.state["bw_lo"] == pytest.approx(BW * kept, abs=1)
    assert core.state["inflight_lo"] == int(300 * kept)
    assert core.state["bw"] == core.state["bw_lo"]


def test_a_round_without_losses_cuts_nothing(core: Core) -> None:
    to_cruise(core)
    a_round(core)
    a_round(core)
    assert (core.state["bw_lo"], core.state["inflight_lo"]) == (INFINITE, INFINITE)


@pytest.mark.parametrize("which", SETS)
def test_losses_while_probing_set_no_lower_bounds(core: Core, which: str) -> None:
    """[v2] 4.5.6.3 IsProbingBW(): in STARTUP, REFILL and UP."""
    core.init(which)
    lossy_round(core)
    assert (core.phase, core.state["bw_lo"]) == ("startup", INFINITE)
    to_refill(core, which)
    core.ack(rate_mbps=RATE_MBPS, lost=1, prior_inflight=1000)
    assert (core.phase, core.state["bw_lo"]) == ("refill", INFINITE)


def test_the_round_of_losses_begins_with_the_first_in_v3(core: Core) -> None:
    """[v3] 5.5.10.2 NoteLoss()."""
    for which, ended in (("v3", 0), ("deployed", 1)):
        to_cruise(core, which)
        state = core.ack(
            rate_mbps=RATE_MBPS, lost=1, prior_inflight=1000, prior_delivered=core.delivered
        )
        assert state["loss_round_start"] == ended, which


def test_without_sack_any_loss_is_too_much_in_v3(core: Core) -> None:
    """[v3] 5.5.10.2 IsInflightTooHigh()."""
    for which, phase in (("v3", "down"), ("deployed", "up")):
        to_up(core, which)
        core.ack(
            rate_mbps=RATE_MBPS,
            new_round=True,
            lost=1,
            prior_inflight=1000,
            inflight=FULL // 5,
            has_sack=0,
        )
        assert core.phase == phase, which


def test_the_volume_at_which_losses_became_too_many(core: Core) -> None:
    """[v3] 5.5.10.2 InflightAtLoss(): of a burst, the part that fits in."""
    to_up(core)
    core.put(cwnd=10)
    core.ack(rate_mbps=RATE_MBPS, new_round=True, lost=100, prior_inflight=1000, inflight=FULL)
    threshold = 5 / 256
    assert core.state["inflight_hi"] == pytest.approx(
        900 + threshold * 900 / (1 - threshold), abs=1
    )


def test_a_spurious_recovery_restores_the_bounds(core: Core) -> None:
    """[v3] 5.5.11."""
    to_cruise(core)
    core.put(cwnd=300, inflight_hi=400)
    core.event("recovery")
    core.put(cwnd=5, bw_lo=1, inflight_lo=2, inflight_hi=3, full_bw_count=2)
    state = core.event("spurious")
    assert (state["cwnd"], state["bw_lo"], state["inflight_lo"], state["inflight_hi"]) == (
        300,
        INFINITE,
        INFINITE,
        400,
    )
    assert (state["is_loss_in_round"], state["full_bw_count"], core.phase) == (0, 0, "cruise")


def test_a_spurious_recovery_returns_to_the_probe(core: Core) -> None:
    """[v3] 5.5.11.2, A.18: to STARTUP as it was, to PROBE_BW up by way of refill; not out of
    PROBE_RTT.
    """
    to_up(core)
    core.event("recovery")
    core.ack(rate_mbps=RATE_MBPS, new_round=True, lost=50, prior_inflight=60, inflight=FULL)
    assert core.phase == "down"
    core.event("spurious")
    assert core.phase == "refill"

    to_drain(core)
    core.put(undo_state=0)
    core.event("spurious")
    assert (core.phase, core.state["full_bw_reached"]) == ("startup", 0)

    to_cruise(core)
    core.put(state=6, undo_state=5)
    core.event("spurious")
    assert core.phase == "probe_rtt"


def test_marks_count_for_nothing_by_default(core: Core) -> None:
    for which in SETS:
        to_up(core, which)
        core.ack(rate_mbps=RATE_MBPS, new_round=True, ce=80, prior_inflight=100)
        assert (core.phase, core.state["inflight_hi"]) == ("up", INFINITE)


def test_a_mark_is_a_loss_in_v3(core: Core) -> None:
    """Ours, since the draft leaves ECN open: 6 marks of 300 packets are more than 2%."""
    to_up(core, "v3", ecn_enable=1)
    core.ack(rate_mbps=RATE_MBPS, new_round=True, ce=5, prior_inflight=300, inflight=FULL)
    assert core.phase == "up"
    core.ack(rate_mbps=RATE_MBPS, new_round=True, ce=6, prior_inflight=300, inflight=FULL)
    assert core.phase == "down"


def test_marks_from_before_are_no_losses_in_v3(core: Core) -> None:
    """Marks from before the connection took bbr3, and from before ecn_enable was set. A loss that
    was counted once is not taken back.
    """
    core.init("v3", settings={"ecn_enable": 1}, delivered_ce=1000, delivered=5000)
    core.delivered_ce = 1000
    state = core.ack(rate_mbps=RATE_MBPS, acked=100, ce=3, prior_inflight=300, inflight=FULL)
    assert (state["newly_lost"], state["rs_lost"]) == (3, 3)
    assert not core.settings("v3", ecn_enable=0)["wrong"]
    state = core.ack(
        rate_mbps=RATE_MBPS, acked=100, ce=4, prior_inflight=300, inflight=FULL, new_round=True
    )
    assert (state["newly_lost"], state["rs_lost"]) == (0, 0)
    assert not core.settings("v3", ecn_enable=1)["wrong"]
    state = core.ack(
        rate_mbps=RATE_MBPS,
        acked=100,
        ce=5,
        lost=1,
        prior_inflight=300,
        inflight=FULL,
        new_round=True,
    )
    assert (state["newly_lost"], state["rs_lost"]) == (6, 6)


def test_marks_cut_inflight_lo_by_their_share_in_v2(core: Core) -> None:
    """The share is averaged: a round in which all are marked adds a sixteenth, of which a
    third is cut.
    """
    to_cruise(core, "deployed", ecn_enable=1)
    a_round(core)
    core.put(cwnd=3000)
    core.ack(rate_mbps=RATE_MBPS, new_round=True, acked=100, ce=100)
    assert core.state["ecn_alpha"] == 16
    cut = 16 * 85 // 256
    assert (core.state["inflight_lo"], core.state["bw_lo"]) == (3000 * (256 - cut) // 256, INFINITE)


def test_a_probe_that_is_marked_by_half_ends_in_v2(core: Core) -> None:
    to_up(core, "deployed", ecn_enable=1)
    core.ack(rate_mbps=RATE_MBPS, acked=100, ce=50, prior_inflight=200)
    assert core.phase == "up"
    core.ack(rate_mbps=RATE_MBPS, acked=100, ce=60, inflight=FULL // 5, prior_inflight=200)
    assert core.phase == "down"
