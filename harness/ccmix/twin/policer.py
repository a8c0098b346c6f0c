"""Estimates whether what limits the rate drops without queueing, and how much passes at once: a policer's burst."""

import polars as pl

from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.rate import Overload, steady

POLICER = "policer's burst"
LEAST_PACKETS = 16  # beyond the rate: a shaper's bucket, a queue and others let some through, too
BURST_SHARE, BURST_PACKETS = 0.1, 3.0  # by which the burst may be wrong
LEAST_INTERVALS = 10


def policer(observed: PathRun, of_flows: bool | None, found: list[Overload]) -> Estimate:
    """Returns what came through at the start of a step beyond its later rate, if nothing was queued beside it.

    A queue passes no more than its rate, and what is too much waits there before it is lost. A token bucket without a
    queue passes its burst at once, and loses what is too much without any delay. `of_flows` says whether each flow has
    a queue of its own, where a probe does not wait either; None where nothing waits long enough to show a queue.
    """
    excess = [each for step in observed.above for each in [_excess_bytes(step)] if each is not None]
    if not found or not excess:
        return cannot_be_told(POLICER, "bytes", "no step of UDP was faster than the path")
    first = found[0]
    packet_bytes = first.step.packet_bytes or 0
    burst_bytes, origin = max(excess), f"steps {' and '.join(each.step.name for each in found)}: the first intervals"
    if burst_bytes < LEAST_PACKETS * packet_bytes:
        because = "no more came through at first than later: a queue, or a burst of some packets"
        return cannot_be_told(POLICER, "bytes", because, origin=origin)
    if of_flows is False:
        because = "what was too much waited in a queue"
        return cannot_be_told(POLICER, "bytes", because, origin=origin)
    margin = BURST_SHARE * burst_bytes + BURST_PACKETS * packet_bytes
    return Estimate(POLICER, "bytes", burst_bytes, max(burst_bytes - margin, 0.0), burst_bytes + margin, origin=origin)


def _excess_bytes(step: PathStep) -> float | None:
    """Returns the most that was received of a step, at any moment, beyond its steady rate since its first packet."""
    rows = step.udp.filter(pl.col("received_bytes") > 0).sort("time_s")
    later = steady(step)
    if rows.height < LEAST_INTERVALS or later.height < LEAST_INTERVALS or not step.packet_bytes:
        return None
    rate = float((later["packets"] - later["lost_packets"]).sum()) / float(later["seconds"].sum())
    received = (rows["packets"] - rows["lost_packets"]).cum_sum()
    since_s = rows["time_s"] - (float(rows["time_s"][0]) - _first_s(step, rows))
    most = (received - rate * since_s).max()
    return float(most) * step.packet_bytes if isinstance(most, float) else None


def _first_s(step: PathStep, rows: pl.DataFrame) -> float:
    """Returns for how long packets came in the first interval that has any, which came as they were sent."""
    offered = (step.offered_bps or 0.0) / 8 / (step.packet_bytes or 1)  # packets a second
    seconds, packets = float(rows["seconds"][0]), float(rows["packets"][0])
    return min(seconds, packets / offered) if offered else seconds
