"""Estimates the burst of a policer: a token bucket that drops packets and delays none."""

import polars as pl

from ccmix.generators.path_steps import BURSTS
from ccmix.twin.estimate import POLICER, Estimate, cannot_be_told
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.received import Overflow, Overloads, steady

LEAST_PACKETS = 16  # beyond the rate: a shaper's bucket, a queue and others let some through, too
BURST_SHARE, MORE_PACKETS = 0.1, 3.0  # error of the burst
NOT_FULL = 1.5  # times the burst: the bucket may not have been full after the step before
# of the largest excess: a smaller one in another step shows that cross traffic emptied the bucket,
# which may then hold much more
EMPTIED = 0.2
LOSES, MORE_INTERVALS = 0.5, 3  # share of the later losses; intervals from then on
LEAST_INTERVALS = 10
# coefficient of variation of what arrives; at policers at most 0.011, in queues from 0.041
WINDOW_S, VARIES = 0.2, 0.02


def policer(
    observed: PathRun,
    overloaded: Overloads,
    train_overflow: Overflow | None = None,
    *,
    queued: bool,
) -> Estimate:
    """Estimates the burst of a policer (a token bucket without a queue) at the bottleneck, in
    bytes.

    At the begin of an overload, a policer passes its burst at once, and drops all later excess
    without delaying it. A queue never passes more than its rate, and its excess waits. Therefore
    the burst is the number of bytes that arrive beyond the later rate at the begin of a UDP step in
    `overloaded`, provided that no excess waited (`queued` is False). TCP flows that compete with
    the overload get nearly nothing at a policer, so the arriving rate hardly varies. If it varies,
    each flow has its own queue, and there is no policer.

    A policer passes a burst of a long train, too (`train_overflow`; None without one). The train's
    number counts unless a step shows a larger burst: then the queue of the link behind the policer
    dropped the rest of the train.
    """
    burst_of_train = None
    if train_overflow is not None and overloaded and train_overflow.at_once(overloaded.most_bps):
        burst_of_train = _burst_of_train(train_overflow)
    excesses = [excess for step in observed.above if (excess := _excess_at_begin(step)) is not None]
    if not overloaded or not excesses:
        return burst_of_train or cannot_be_told(
            POLICER, "no UDP step offered more than the path's rate"
        )
    first = overloaded[0]
    packet_bytes = first.step.packet_bytes or 0
    burst_bytes, least_burst_bytes = max(excesses)
    origin = f"steps {overloaded.names}: the first intervals"
    if burst_of_train and not queued:
        most_bytes = burst_of_train.high or burst_of_train.value
        if most_bytes is not None and burst_bytes < most_bytes:
            return burst_of_train
    if not burst_of_train and least_burst_bytes < LEAST_PACKETS * packet_bytes:
        because = "the rate was not higher at first, as with a queue or a burst of a few packets"
        return cannot_be_told(POLICER, because, origin=origin)
    if not burst_of_train and any(
        _variation_of_received(each.step) > VARIES for each in overloaded
    ):
        because = "the arriving rate varied, as if other flows had their own queues"
        return cannot_be_told(POLICER, because, origin=origin)
    if queued:
        because = "the excess waited in a queue"
        return cannot_be_told(POLICER, because, origin=origin)
    margin = BURST_SHARE * burst_bytes + MORE_PACKETS * packet_bytes
    emptied = min(excesses)[0] < EMPTIED * burst_bytes
    high_bytes = None if emptied else NOT_FULL * burst_bytes + margin
    return Estimate(POLICER, burst_bytes, max(burst_bytes - margin, 0.0), high_bytes, origin=origin)


def _burst_of_train(overflow: Overflow) -> Estimate:
    """Returns the policer's burst that a long train shows: the packets that arrived at once, plus
    half a packet, because the policer may have let a part of the next packet pass. There is no
    upper bound if cross traffic had used up the burst before most of the trains.
    """
    size = overflow.packet_bytes
    origin = (
        f"step {BURSTS}: {overflow.packets} packets of a train came at once, the others were lost"
    )
    low, value = ((overflow.packets + more) * size for more in (-1.0, 0.5))
    high = None if overflow.is_best_rare else overflow.most_at_once_bytes
    return Estimate(POLICER, value, low, high, origin=origin)


def _variation_of_received(step: PathStep) -> float:
    """Returns how much the arriving rate varies in the second half of a step: the coefficient of
    variation of the bytes received in each 0.2 s. Behind a policer it is at most 0.011, and behind
    a queue at least 0.041.
    """
    rows = steady(step)
    windows = rows.group_by((pl.col("time_s") / WINDOW_S).floor()).agg(
        pl.col("received_bytes").sum(), pl.len()
    )
    full_windows = windows.filter(pl.col("len") == windows["len"].max())["received_bytes"]
    mean, deviation = float(full_windows.mean() or 0.0), float(full_windows.std() or 0.0)  # type: ignore[arg-type]
    return deviation / mean if mean else 0.0


def _excess_at_begin(step: PathStep) -> tuple[float, float] | None:
    """Returns by how many bytes the receiver was ahead of the step's later rate, at most, under two
    assumptions; None if too few intervals were reported.

    excess = bytes received so far - later rate x time since the step's first packet

    The receiver reports intervals, so the time of the first packet is not known exactly. The first
    result assumes that the packets of the first interval arrived as fast as they were sent, the
    second, smaller one that they arrived at the later rate, out of a queue. Intervals count until
    the step loses as much as it does later. After that, the share of cross traffic may vary.
    """
    rows = step.udp.filter(pl.col("received_bytes") > 0).sort("time_s")
    later = steady(step)
    if rows.height < LEAST_INTERVALS or later.height < LEAST_INTERVALS or not step.packet_bytes:
        return None
    sent, lost = int(later["packets"].sum()), int(later["lost_packets"].sum())
    rate = (sent - lost) / float(later["seconds"].sum())
    first_lossy = (
        (rows["lost_packets"] > LOSES * rows["packets"] * (lost / sent)).arg_max()
        if lost > 0
        else None
    )
    rows = rows.head(MORE_INTERVALS + (first_lossy or 0))
    received = (rows["packets"] - rows["lost_packets"]).cum_sum()
    seconds, offered = float(rows["seconds"][0]), (step.offered_bps or 0.0) / 8 / step.packet_bytes
    sent_s = min(seconds, float(rows["packets"][0]) / offered) if offered else seconds
    queued_s = min(seconds, float(received[0]) / rate) if rate else seconds
    since_s = rows["time_s"] - float(rows["time_s"][0])
    excess_packets, least_excess_packets = (
        float((received - rate * (since_s + begin_s)).max() or 0.0)  # type: ignore[arg-type]
        for begin_s in (sent_s, queued_s)
    )
    return excess_packets * step.packet_bytes, least_excess_packets * step.packet_bytes
