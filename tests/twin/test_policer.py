"""Tests whether a policer is told from a queue, and its burst, against series whose
truth is known.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.policer import policer
from ccmix.twin.received import overloads
from support.synthetic_path import PACKET_BYTES, Truth, covers, measured


def policed(rate_bps: float, burst_bytes: float) -> PathRun:
    """Returns steps through a token bucket without a queue."""
    seen, steps = measured(Truth(rate_bps=rate_bps)), []
    for step in seen.above:
        packets = step.udp["packets"].to_numpy()
        offered = packets.cumsum() * PACKET_BYTES
        allowed = burst_bytes + rate_bps / 8 * (step.udp["time_s"].to_numpy() - step.begin_s)
        passed = np.floor(np.minimum(offered, allowed) / PACKET_BYTES)
        through = np.diff(np.concatenate([[0], passed])).astype(int)
        lost = pl.Series("lost_packets", packets - through)
        received = pl.Series("received_bytes", through * (PACKET_BYTES - 42))
        steps.append(replace(step, udp=step.udp.with_columns(lost, received)))
    return replace(seen, steps=(*steps, *(step for step in seen.steps if step not in seen.above)))


@pytest.mark.parametrize("burst_bytes", [30e3, 250e3])
def test_what_passes_at_first_is_the_burst(burst_bytes: float) -> None:
    seen = policed(50e6, burst_bytes)
    estimate = policer(seen, overloads(seen, 0.0), queued=False)
    assert covers(estimate, burst_bytes)


def test_a_burst_of_some_packets_is_no_policer() -> None:
    seen = policed(50e6, 2 * PACKET_BYTES)
    estimate = policer(seen, overloads(seen, 0.0), queued=False)
    assert estimate.value is None
    assert estimate.unknown


def test_a_bucket_before_a_queue_is_no_policer() -> None:
    seen = policed(50e6, 250e3)
    assert policer(seen, overloads(seen, 0.0), queued=True).value is None


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_rate_that_others_change_is_not_a_policer(share: float) -> None:
    """Cross traffic comes and goes each second and has its own queue: 2% of the rate don't show,
    20% do.
    """
    seen = policed(50e6, 250e3)
    others = (pl.col("time_s").floor().cast(int) % 2 == 0) & (
        pl.col("time_s") > pl.col("time_s").min() + 1
    )
    received = (
        pl.when(others)
        .then(pl.col("received_bytes") * (1 - share))
        .otherwise(pl.col("received_bytes"))
    )
    varied = [replace(step, udp=step.udp.with_columns(received.cast(int))) for step in seen.above]
    seen = replace(seen, steps=(*varied, *(step for step in seen.steps if step not in seen.above)))
    estimate = policer(seen, overloads(seen, 0.0), queued=False)
    assert (estimate.value is None) is (share > 0.1)


def test_a_bucket_that_others_emptied_may_hold_much_more() -> None:
    full, empty = policed(50e6, 250e3), policed(50e6, 3e3)
    seen = replace(
        full,
        steps=(
            empty.above[0],
            *full.above[1:],
            *(step for step in full.steps if step not in full.above),
        ),
    )
    estimate = policer(seen, overloads(seen, 0.0), queued=False)
    assert estimate.high is None
    assert estimate.low is not None
    assert estimate.low <= 250e3


def test_nothing_is_said_where_nothing_was_too_much() -> None:
    seen = measured(Truth(), above=(0.5,))
    assert (
        policer(seen, overloads(seen, 0.0), queued=False).unknown
        == "no UDP step offered more than the path's rate"
    )


RATE, OFFERED = 800.0, 1600.0  # packets a second
ENDS_S = (np.arange(400) + 1) * 0.01


def late(sent: np.ndarray, received: np.ndarray, offered: float = OFFERED) -> PathRun:
    """Returns a step above the rate, by the packets that were sent and received until the end of
    each interval.
    """
    packets, through = (
        np.diff(np.floor(np.concatenate([[0], each]))).astype(int) for each in (sent, received)
    )
    udp = pl.DataFrame(
        {
            "time_s": ENDS_S,
            "seconds": np.full(400, 0.01),
            "received_bytes": through * (PACKET_BYTES - 42),
            "packets": packets,
            "lost_packets": packets - through,
        }
    )
    step = PathStep("above-1", 0.0, 4.0, 1, None, offered * PACKET_BYTES * 8, PACKET_BYTES, 0, udp)
    return PathRun("a run", (step,), pl.DataFrame(), pl.DataFrame())


def test_a_burst_counts_from_the_first_packet_on_although_that_came_late_in_an_interval() -> None:
    """The receiver's intervals begin before: at 10 Mbit/s one of 10 ms has as many packets as a
    small burst.
    """
    since_s, burst = np.maximum(ENDS_S - 0.008, 0.0), 40.0
    seen = late(OFFERED * since_s, np.minimum(OFFERED * since_s, burst + RATE * since_s))
    assert policer(seen, overloads(seen, 0.0), queued=False).value == pytest.approx(
        burst * PACKET_BYTES, rel=0.1
    )


def test_a_queue_of_flows_whose_first_packets_came_late_in_an_interval_is_no_policer() -> None:
    """The packets come at the queue's rate, which is lower than the rate at which they are sent."""
    since_s, rate, offered = np.maximum(ENDS_S - 0.002, 0.0), 25 * RATE, 25 * OFFERED
    waiting = rate * since_s.clip(
        max=0.008
    )  # the receiver has not seen yet that those behind them were lost
    seen = late(np.maximum(offered * since_s - waiting, rate * since_s), rate * since_s, offered)
    assert policer(seen, overloads(seen, 0.0), queued=False).value is None


def test_what_others_leave_more_of_later_is_no_burst() -> None:
    more = 0.2 * RATE * (ENDS_S - 0.5).clip(0, 1)  # for a second, long after the first losses
    seen = late(OFFERED * ENDS_S, RATE * ENDS_S + more)
    assert policer(seen, overloads(seen, 0.0), queued=False).value is None
