"""Finds signs of cross traffic (other users' flows at the bottleneck) in a path measurement."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ccmix.generators.path_steps import AVAILABLE, FILL, REACH
from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.received import (
    ENDS_S,
    Overloads,
    counted_rates,
    slow_way_back,
    steady,
    tcp_rate_bps,
)
from ccmix.twin.way import binomial_interval, quiet_noise_s

# shares lost of the offered traffic: a smaller one may be chance, and a larger one depends on whose
# packets are lost
LITTLE_LOST, MOST_LOST = 0.005, 0.2
LOST_PACKETS = 5  # more than the rounding of times explains
# quantile of the probe's RTT that is beyond the base RTT while the bottleneck is always busy
BUSY = 0.05
# an answer is late beyond this many seconds, widths of the noise, and packets
LEAST_LATE_S, LATE_WIDTHS, LATE_SHARE = 2e-6, 3.0, 0.03
WAITS_SHARE = 0.3  # of the time of a packet: maximum of that wait
LEAST_ANSWERS = 200
# parts of the idle step; standard errors; busy time over the share of late answers, at most
BATCHES, LATE_ERRORS, HIDDEN_TIMES = 12, 3, 4
VIRTUAL_S = 1e-6  # more noise is from real hosts, which delay some answers by much more
BY_OTHERS_S, BY_OTHERS_PACKETS = 1e-3, 3  # an answer that is this late is not late by hosts' noise
ALWAYS = 0.99  # of the time: maximum share with cross traffic
# a token bucket lets packets pass at once, so the lack of late answers shows nothing
LEAST_BUSY, MOST_BUSY = 0.02, 0.65


@dataclass(frozen=True)
class CrossTraffic:
    """Holds what steps without overload show of cross traffic.

    `left_bps` is the rate that cross traffic leaves to us, and `left_by` names the step that shows
    it. It is TCP's rate while the bottleneck was always busy and hardly any cross traffic was lost,
    or it follows from an offered rate that was a little too high, with an error of
    `left_error_bps`. `busy` is the share of the time in which the bottleneck sends although we send
    nothing, with the ends of its interval. `by_tcp_bps` is the maximum rate of all TCP flows
    together.
    """

    left_bps: float | None = None
    left_by: str = ""
    left_error_bps: float = 0.0
    busy: tuple[float, float, float] | None = None
    by_tcp_bps: float = 0.0


def observe_cross_traffic(
    observed: PathRun, base_rtt_s: float, overloaded: Overloads, loss: float
) -> CrossTraffic:
    """Returns the signs of cross traffic in the steps of a run. The first of these signs that is
    present gives the rate that cross traffic leaves:

    1. An 'available' step of which a little was lost: the rate left is a little less than the rate
    that this step offered.
    2. TCP flows that kept the queue from being empty: the rate left is their rate. CUBIC flows are
    preferred, because BBR flows take more from cross traffic.

    The share of the RTT probe's packets that had to wait in the idle step is always added as
    `busy`. It equals the share of the time in which the bottleneck was busy, because the probe's
    period differs from the periods of senders' timers.

    overloaded: the UDP steps that offered more than the path's rate
    loss: the share of packets that are lost at random
    """
    packet_s = overloaded.packet_s
    busy = _busy_share_when_idle(observed, base_rtt_s, packet_s)
    if overloaded.received_grows_with_offered and (
        left := _rate_left_by_cross_traffic(observed, loss, overloaded)
    ):
        return replace(left, busy=busy)
    filling = (
        ()
        if slow_way_back(observed, overloaded.most_bps)
        else (*observed.steps_of_kind(FILL), *observed.steps_of_kind(REACH))
    )
    for step in filling:  # unless its packets may have waited as ACKs, on the way back
        begin_s = step.begin_s + (step.end_s - step.begin_s) / 3
        rtts_s = observed.rtts(begin_s, step.end_s - ENDS_S)
        lowest_s = rtts_s.quantile(BUSY, "linear")
        if lowest_s is not None and lowest_s > base_rtt_s + packet_s:
            return CrossTraffic(tcp_rate_bps(observed, step, begin_s), step.name, busy=busy)
    by_tcp = [tcp_rate_bps(observed, step, step.begin_s) or 0.0 for step in observed.tcp_steps]
    return CrossTraffic(busy=busy, by_tcp_bps=max(by_tcp, default=0.0))


def _rate_left_by_cross_traffic(
    observed: PathRun, loss: float, overloaded: Overloads
) -> CrossTraffic | None:
    """Returns the rate that cross traffic leaves to our flows; None if no 'available' step (which
    offers UDP near this rate) lost a little of its packets.

    The step with the smallest loss is used. If our packets and cross traffic lose the same share,

    too much = rate x lost / (1 - lost), and the rate left = offered - too much.

    Example: 2% of 52 Mbit/s are lost, and the rate is 100 Mbit/s: the rate left is about 50
    Mbit/s. The highest received rate of the `overloaded` steps stands for the rate. The error is
    half of the rate that was too much. `loss` is the share of random loss.
    """
    steps_by_loss = sorted(
        each
        for step in observed.steps_of_kind(AVAILABLE)
        if (each := _small_loss_of_step(step, loss))
    )
    if not steps_by_loss:
        return None
    lost, offered_bps, name = steps_by_loss[0]
    too_much_bps = overloaded.most_bps * lost / (1 - lost)
    return CrossTraffic(offered_bps - too_much_bps, name, too_much_bps / 2)


def _small_loss_of_step(step: PathStep, loss: float) -> tuple[float, float, str] | None:
    """Returns a triple for a step that lost a little of its packets in the queue: the lost share,
    the rate in bit/s that reached the queue, and the step's name. `loss` is the share of random
    loss before the queue, which does not count.

    Returns None if the share is at most 0.5% or at most 5 packets, because chance may explain that,
    or at least 20%, because it then depends on whose packets are lost.
    """
    counted = counted_rates(step)
    if counted is None or not step.offered_bps or not step.packet_bytes:
        return None
    _, received_bps = counted
    offered_bps = step.offered_bps * (1 - loss)
    lost = 1 - received_bps / offered_bps
    seconds = float(steady(step)["seconds"].sum())
    lost_packets = lost * offered_bps / 8 / step.packet_bytes * seconds
    return (
        (lost, offered_bps, step.name)
        if LITTLE_LOST < lost < MOST_LOST and lost_packets > LOST_PACKETS
        else None
    )


def _busy_share_when_idle(
    observed: PathRun, base_rtt_s: float, packet_s: float
) -> tuple[float, float, float] | None:
    """Returns the share of the time in which cross traffic kept the bottleneck busy while ccmix
    sent nothing (in the idle step), and both ends of its 95% interval. The share is that of the RTT
    probe's answers that came late, corrected for waits that are too short to count.

    Returns None if noise hides late answers, or if there are fewer than 200 answers. Also returns
    None if hardly any answer was late (below 2%), because a token bucket lets packets pass at once,
    so this proves nothing; or if more than 65% were late. `packet_s` is the time in which the
    bottleneck sends a packet.
    """
    rtts_s, late_s = _idle_rtts_and_late_wait(observed, packet_s)
    if len(rtts_s) < LEAST_ANSWERS or late_s > WAITS_SHARE * packet_s:
        return None
    late = rtts_s > base_rtt_s + late_s
    share = float(late.mean())
    low, high = binomial_interval(int(late.sum()), len(late))
    if low < LEAST_BUSY or share > MOST_BUSY:
        return None
    correction = 1 / (
        1 - late_s / packet_s
    )  # a wait for only the end of a packet is too short to count as late
    return min(share * correction, ALWAYS), low, min(high * correction, ALWAYS)


def share_of_late_answers(
    observed: PathRun, base_rtt_s: float, overloaded: Overloads
) -> tuple[float, float] | None:
    """Returns the share of the RTT probe's answers in the idle step that cross traffic delayed, and
    the standard error of this share; None if there are too few answers.

    The error is calculated from the shares in 12 parts of the step (BATCHES), because a burst of
    cross traffic delays several packets in a row. On real hosts, or if noise hides the time of a
    packet, an answer counts as late only if it is later than hosts without cross traffic would
    make it: by 1 ms and by 3 packets.
    """
    packet_s = overloaded.packet_s
    rtts_s, late_s = _idle_rtts_and_late_wait(observed, packet_s)
    if len(rtts_s) < LEAST_ANSWERS:
        return None
    if late_s > WAITS_SHARE * packet_s or quiet_noise_s(observed) > VIRTUAL_S:
        late_s = max(BY_OTHERS_S, BY_OTHERS_PACKETS * packet_s)
    late = rtts_s > base_rtt_s + late_s
    means = [float(batch.mean()) for batch in np.array_split(late, BATCHES)]
    return float(late.mean()), float(np.std(means, ddof=1)) / BATCHES**0.5


def widen_by_idle_bursts(
    cross_traffic: Estimate, bottleneck_rate: Estimate, late_share: tuple[float, float] | None
) -> Estimate:
    """Returns the estimate of the cross traffic with an interval that also covers its rate while
    ccmix sends nothing.

    `cross_traffic` is estimated while it competes with ccmix's steps. In the idle step it may be
    faster, because TCP gives way to other traffic, or slower, between bursts. Its rate there is
    between

    (share - 3 errors) x bottleneck rate and 4 x (share + 3 errors) x bottleneck rate,

    where `late_share` is the pair (share, error) from share_of_late_answers(). The factor 4 is
    needed because a token bucket hides up to three quarters of the bursts.
    """
    if (
        cross_traffic.value is None
        or late_share is None
        or not late_share[0]
        or not bottleneck_rate.value
    ):
        return cross_traffic
    share, error = late_share
    least_bps = max(share - LATE_ERRORS * error, 0.0) * (
        bottleneck_rate.low or bottleneck_rate.value
    )
    most_bps = min(HIDDEN_TIMES * (share + LATE_ERRORS * error), 1.0) * (
        bottleneck_rate.high or bottleneck_rate.value
    )
    low_bps = min(cross_traffic.low or 0.0, least_bps)
    high_bps = None if cross_traffic.high is None else max(cross_traffic.high, most_bps)
    return replace(
        cross_traffic,
        low=low_bps,
        high=high_bps,
        origin=f"{cross_traffic.origin}; bursts in the idle step",
    )


def _idle_rtts_and_late_wait(
    observed: PathRun, packet_s: float
) -> tuple[NDArray[np.float64], float]:
    """Returns the RTT probe's RTTs in the idle step, and the wait in seconds beyond the base RTT
    from which an answer counts as late: 3 times the noise of the RTT, or 3% of the time of a packet
    (`packet_s`) if that is longer, plus 2 us.
    """
    return observed.idle_rtts_s, max(
        LATE_WIDTHS * quiet_noise_s(observed), LATE_SHARE * packet_s
    ) + LEAST_LATE_S
