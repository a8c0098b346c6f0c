"""Estimates whether what limits the rate drops without queueing, and how much passes at once: a policer's burst."""

import polars as pl

from ccmix.generators.path_steps import BURSTS
from ccmix.twin.bursts import Overflow
from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.rate import Overload, steady

POLICER = "policer's burst"
LEAST_PACKETS = 16  # beyond the rate: a shaper's bucket, a queue and others let some through, too
BURST_SHARE, MORE_PACKETS = 0.1, 3.0  # by which the burst may be wrong
NOT_FULL = 1.5  # times that: the bucket may not have been full after the step before
LOSES, MORE_INTERVALS = 0.5, 3  # of the later share of losses; intervals from then on
LEAST_INTERVALS = 10


def policer(observed: PathRun, found: list[Overload], overflow: Overflow | None = None, *, queued: bool) -> Estimate:
    """Returns how much more than at the later rate arrived at the start of a step, if nothing was queued meanwhile.

    A queue passes no more than its rate, and what is too much waits there before it is lost. A token bucket without a
    queue passes its burst at once, and loses what is too much without any delay: `queued` says whether there was one.

    Of a long train it passes its burst at once, too, which no queue does. Where more passes at first of too much, the
    queue of the link behind it dropped the train.
    """
    of_train = None
    if overflow is not None and found and overflow.at_once(max(each.received_bps for each in found)):
        of_train = _of_train(overflow)
    seen = [each for step in observed.above for each in [_excess(step)] if each is not None]
    if not found or not seen:
        return of_train or cannot_be_told(POLICER, "bytes", "no step of UDP offered more than the path's rate")
    first = found[0]
    packet_bytes = first.step.packet_bytes or 0
    burst_bytes, for_sure_bytes = max(seen)
    origin = f"steps {' and '.join(each.step.name for each in found)}: the first intervals"
    if of_train and not queued and burst_bytes < (of_train.high or 0.0):
        return of_train
    if not of_train and for_sure_bytes < LEAST_PACKETS * packet_bytes:
        because = "no more arrived at first than later, as from a queue or with a burst of a few packets"
        return cannot_be_told(POLICER, "bytes", because, origin=origin)
    if queued:
        because = "the excess waited in a queue"
        return cannot_be_told(POLICER, "bytes", because, origin=origin)
    margin = BURST_SHARE * burst_bytes + MORE_PACKETS * packet_bytes
    high_bytes = NOT_FULL * burst_bytes + margin
    return Estimate(POLICER, "bytes", burst_bytes, max(burst_bytes - margin, 0.0), high_bytes, origin=origin)


def _of_train(overflow: Overflow) -> Estimate:
    """Returns the burst that a train shows: as many packets as came at once, and a part of one more."""
    size = overflow.packet_bytes
    origin = f"step {BURSTS}: {overflow.packets} packets of a train came at once, the others were lost"
    low, value = ((overflow.packets + more) * size for more in (-1.0, 0.5))
    return Estimate(POLICER, "bytes", value, low, overflow.most_at_once_bytes, origin=origin)


def _excess(step: PathStep) -> tuple[float, float] | None:
    """Returns by how many bytes the receiver was at most ahead of a step's steady rate since its first packet.

    There are two values, since an interval does not say when its packets came. The first assumes that those of the
    first interval came as they were sent, the second that they came at the steady rate, out of a queue. Intervals count
    until the step loses as much as later, because what others get may vary after that.
    """
    rows = step.udp.filter(pl.col("received_bytes") > 0).sort("time_s")
    later = steady(step)
    if rows.height < LEAST_INTERVALS or later.height < LEAST_INTERVALS or not step.packet_bytes:
        return None
    sent, lost = int(later["packets"].sum()), int(later["lost_packets"].sum())
    rate = (sent - lost) / float(later["seconds"].sum())
    loses = (rows["lost_packets"] > LOSES * rows["packets"] * (lost / sent)).arg_max() if lost > 0 else None
    rows = rows.head(MORE_INTERVALS + (loses or 0))
    received = (rows["packets"] - rows["lost_packets"]).cum_sum()
    seconds, offered = float(rows["seconds"][0]), (step.offered_bps or 0.0) / 8 / step.packet_bytes
    sent_s = min(seconds, float(rows["packets"][0]) / offered) if offered else seconds
    queued_s = min(seconds, float(received[0]) / rate) if rate else seconds
    most, for_sure = (
        float((received - rate * (rows["time_s"] - float(rows["time_s"][0]) + begin_s)).max() or 0.0)  # type: ignore[arg-type]
        for begin_s in (sent_s, queued_s)
    )
    return most * step.packet_bytes, for_sure * step.packet_bytes
