"""Tests the share of packets that overtake others, against what a receiver would count."""

from dataclasses import replace

import pytest

from ccmix.twin.observed import PathRun
from ccmix.twin.way import reordering
from support.synthetic_path import Truth, measured

BASE_S = 0.02


def counted(out_of_order: int) -> PathRun:
    """Returns a run whose last step has so many packets out of order; it sends 1032 a second."""
    seen = measured(Truth(base_rtt_s=BASE_S))
    return replace(
        seen,
        steps=tuple(
            replace(step, out_of_order=out_of_order) if step.kind == "below" else step
            for step in seen.steps
        ),
    )


def test_each_early_packet_overtakes_all_that_were_sent_within_half_of_the_base_rtt() -> None:
    seen = counted(out_of_order=800)
    assert seen.below
    packets = int(seen.below.udp["packets"].sum())
    overtaken = int(packets / seen.below.udp["seconds"].sum() * BASE_S / 2)
    estimate = reordering(seen, BASE_S)
    assert overtaken > 5
    assert estimate.value == pytest.approx(800 / packets / overtaken, rel=0.05)


def test_packets_that_are_too_far_apart_tell_nothing() -> None:
    estimate = reordering(counted(out_of_order=0), 0.001)
    assert estimate.value is None
    assert estimate.high is None
    assert "further apart" in str(estimate.unknown)
