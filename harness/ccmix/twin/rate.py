"""Estimates the rate of a path's bottleneck, and of the cross traffic that competes there."""

import math
from dataclasses import replace

import polars as pl

from ccmix.generators.path_steps import REACH, SHARE
from ccmix.twin.estimate import CROSS, RATE, Estimate, cannot_be_told
from ccmix.twin.observed import PathRun
from ccmix.twin.others import BUSY, MOST_BUSY, CrossTraffic, observe_cross_traffic
from ccmix.twin.received import (
    Overload,
    Overloads,
    best_received,
    overload,
    overloads,
    rate_of_trains,
    tcp_rate_bps,
)

# error of a rate over some seconds, from clocks and from packets at both ends
MEASURED_SHARE = 0.005
HIDDEN_SHARE = 0.03  # of the rate: cross traffic below this may not show
LOAD_ERROR = 1.03  # maximum received rate, as a multiple of the rate by trains
# maximum rate, as a multiple of the upper end by load: load shows less if our packets come in pairs
LOAD_MISSES = 1.2
MOST_ALIKE = 0.5  # share of a train's gaps that suffices to take the rate only from trains
NARROW = 0.05  # of the rate: trains can't improve a narrower interval
# of a packet's time: the minimum wait of the probe if the link were always busy
FREE_SHARE = 0.1
SHORT_PACKETS = 8  # a shorter queue drops packets that come together
OTHERS_SHARE = 0.1  # of cross traffic, which may exceed the estimate by load by this share
ALIKE_SHARE = 0.01  # difference within which two received rates count as equal
LEAST_RATIO = 1.1  # between the two offered rates, so that two lines can be told apart
STANDS_S, STANDS_SHARE = 1e-3, 0.1  # beyond the base RTT: packets that take longer wait for sure
STANDING_SHARE = 0.02  # error of the rate of flows that always wait
HELD_PACKETS = 2  # of each flow


def rate(
    observed: PathRun,
    loss: float,
    queue_per_flow: bool | None,
    base_rtt_s: float,
    tcp_waits_s: float = 0.0,
    probe_waits_s: float | None = None,
    by_trains: bool = False,
) -> list[Estimate]:
    """Returns two estimates, in this order: the rate of the bottleneck, and the rate of the cross
    traffic that competes there. Both include all headers.

    The first of these methods that fits is used:

    Overload in a shared queue: received = rate - passed, where `passed` is the cross traffic that
    comes through. If cross traffic and our packets lose the same share, offered / received =
    (offered + cross) / rate, which is linear in the offered rate (TOPP: Melander, Björkman and
    Gunningberg 2000). Cross traffic in bursts loses more. Therefore the rate that cross traffic
    leaves is taken from a step that loses little, if there is one.

    Overload with a queue for each flow: a single flow gets the rate that other flows leave. N flows
    get at least N / (N + 1) of the rate if there is one other flow, and if the queues hold some
    packets of each flow.

    No overload: TCP flows whose packets always waited show the rate; otherwise there are only
    bounds.

    Trains (packets sent back to back) then make the estimates narrower. They are not used if the
    RTT probe hardly waits under overload, because then a policer limits the rate, and trains show
    the rate of another link.

    loss: the share lost at random before the bottleneck
    queue_per_flow: whether each flow has its own queue; None if unknown
    tcp_waits_s: the longest wait of TCP's packets in the queue
    probe_waits_s: the longest wait of the RTT probe under overload; None: use trains in any case
    by_trains: whether trains have shown the queue for each flow, so that it is the bottleneck's,
        and the rate that trains show is the bottleneck's, too
    """
    overloaded = overloads(observed, loss)
    if not overloaded:
        return _rates_by_standing_queue(observed, base_rtt_s) or _bounds_without_overload(observed)
    cross_traffic = observe_cross_traffic(observed, base_rtt_s, overloaded, loss)
    by_load = _rates_by_load(observed, overloaded, cross_traffic, loss, queue_per_flow, tcp_waits_s)
    if probe_waits_s is not None and probe_waits_s < FREE_SHARE * overloaded.packet_s:
        return by_load
    return _refine_with_trains(
        by_load, observed, overloaded, cross_traffic, queue_per_flow, tcp_waits_s, by_trains
    )


def _rates_by_load(
    observed: PathRun,
    overloaded: Overloads,
    cross_traffic: CrossTraffic,
    loss: float,
    queue_per_flow: bool | None,
    tcp_waits_s: float,
) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic, from the rates received while UDP
    steps (`overloaded`) offered more than the path's rate.

    cross_traffic: what other steps show of cross traffic
    loss: the share of packets that are lost at random
    queue_per_flow: whether each flow has its own queue; None if unknown
    tcp_waits_s: how long TCP's packets waited in the queue. If this is less than the time of 2
        packets of each flow, the step with many flows counts only if its flows got clearly more
        than one flow.
    """
    if queue_per_flow:
        many_flows = overload(observed.step(SHARE), loss)
        single_bps = overloaded.most_bps
        many_flows_get_more = (
            many_flows is not None
            and many_flows.received_bps > (1 + 3 * MEASURED_SHARE) * single_bps
        )
        if (
            many_flows
            and not many_flows_get_more
            and tcp_waits_s < HELD_PACKETS * many_flows.step.streams * overloaded.packet_s
        ):
            many_flows = None  # the queues may be too short for that many flows at once
        return _rates_of_queue_per_flow(overloaded, many_flows, cross_traffic)
    return _rates_of_shared_queue(
        overloaded, cross_traffic, loss, may_be_of_flows=queue_per_flow is None
    )


def _refine_with_trains(
    by_load: list[Estimate],
    observed: PathRun,
    overloaded: Overloads,
    cross_traffic: CrossTraffic,
    queue_per_flow: bool | None,
    tcp_waits_s: float,
    by_trains: bool,
) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic with the rate that trains (packets
    sent back to back) show. Returns `by_load`, the two estimates without trains, if these are
    narrow already, or if the trains contradict them.

    Trains show the rate of a link. They do not show the rate of a policer, nor that of a shaper
    whose bucket holds a whole train. Therefore a rate by trains counts only if it is at least the
    received rate, and if cross traffic can explain the difference.

    overloaded: the UDP steps that offered more than the path's rate
    cross_traffic: what other steps show of cross traffic
    queue_per_flow: whether each flow has its own queue; None if unknown
    tcp_waits_s: how long TCP's packets waited in the queue
    by_trains: whether trains have overflowed the bottleneck's queue, so that their rate is its rate
    """
    rate_by_load = by_load[0]
    assert rate_by_load.low is not None
    most_bps = overloaded.most_bps
    trains = rate_of_trains(observed, most_bps / LOAD_ERROR, math.inf) if by_trains else None
    if trains is not None and trains.alike >= MOST_ALIKE * trains.gaps:
        value_bps, low_bps = trains.value_bps, trains.low_bps
    elif (
        rate_by_load.value
        and rate_by_load.high
        and rate_by_load.high - rate_by_load.low < NARROW * rate_by_load.value
    ):
        return by_load
    else:
        highest_bps = LOAD_MISSES * (rate_by_load.high or most_bps / (1 - MOST_BUSY))
        if cross_traffic.busy:
            highest_bps = min(highest_bps, LOAD_ERROR * most_bps / (1 - cross_traffic.busy[2]))
        trains = rate_of_trains(observed, most_bps / LOAD_ERROR, highest_bps)
        if trains is None or trains.high_bps < rate_by_load.low:
            return by_load
        value_bps, low_bps = (
            max(trains.value_bps, rate_by_load.low),
            max(trains.low_bps, rate_by_load.low),
        )
    origin = f"step trains: {trains.alike} of {trains.gaps} gaps between their packets are alike"
    rate_by_trains = Estimate(RATE, value_bps, low_bps, trains.high_bps, origin=origin)
    short_queue = tcp_waits_s < SHORT_PACKETS * overloaded.packet_s
    return [
        rate_by_trains,
        _cross_traffic_at_rate(
            rate_by_trains,
            overloaded,
            cross_traffic,
            apart=queue_per_flow is not False,
            short=short_queue,
        ),
    ]


def _rates_of_shared_queue(
    overloaded: Overloads, cross_traffic: CrossTraffic, loss: float, *, may_be_of_flows: bool
) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic if all flows share a queue. With
    `may_be_of_flows`, each flow may have its own queue instead, because packets wait too briefly to
    tell; then the intervals are wider.

    If the step that offered more got no more packets through, there is (nearly) no cross traffic,
    and the received rate is the bottleneck's. Otherwise both rates follow from what arrived in the
    `overloaded` steps, and from the rate that cross traffic left in another step (`cross_traffic`).
    """
    first, last = min(overloaded, key=lambda each: each.offered_bps), overloaded.last
    two_offered_rates = last.offered_bps >= LEAST_RATIO * first.offered_bps
    most_bps = overloaded.most_bps
    low_bps, margin = (
        (1 - MEASURED_SHARE) * most_bps,
        (MEASURED_SHARE + loss) * most_bps,
    )  # it may be lost behind
    origin = (
        f"step{'s' if len(overloaded) > 1 else ''} "
        f"{' and '.join(dict.fromkeys(e.step.name for e in overloaded))}: "
    )
    left_bps = cross_traffic.left_bps or (
        most_bps * (1 - cross_traffic.busy[0]) if cross_traffic.busy else None
    )
    if (
        not two_offered_rates
        or abs(last.received_bps - first.received_bps) < ALIKE_SHARE * most_bps
    ):
        missing_bps = HIDDEN_SHARE * most_bps if left_bps is None else max(most_bps - left_bps, 0.0)
        margin += min(missing_bps, HIDDEN_SHARE * most_bps)
        if left_bps is None or left_bps > (1 - HIDDEN_SHARE) * most_bps:
            high_bps = max(most_bps + margin - (left_bps or cross_traffic.by_tcp_bps), margin)
            cross = Estimate(
                CROSS,
                0.0,
                0.0,
                high_bps,
                origin=origin + "the same rate arrives, whatever is offered",
            )
            if not two_offered_rates and left_bps is None:
                because = "only one step offered more than the path's rate, and two are needed"
                cross = cannot_be_told(CROSS, because)
            by, high_bps = origin + "receiver's rate", most_bps + margin
            if may_be_of_flows:
                by += "; if each flow has its own queue, another flow may have got as much"
                high_bps = 2 * most_bps + margin
                cross = (
                    replace(cross, high=max(cross.high or 0.0, most_bps))
                    if cross.value is not None
                    else cross
                )
            return [Estimate(RATE, most_bps, low_bps, high_bps, origin=by), cross]
    if (
        left_bps is None or left_bps > first.received_bps
    ):  # BBR flows may have taken a part of it from cross traffic
        return _rates_by_topp(
            first, last, most_bps, margin + (most_bps if may_be_of_flows else 0.0), origin
        )
    proportional_bps, next_packet_bps = (
        max(most_bps, each(last, left_bps))
        for each in (_rate_if_losses_are_equal, _rate_if_next_packet_gets_room)
    )
    rate_bps = (proportional_bps + next_packet_bps) / 2
    high_bps = (
        proportional_bps + (proportional_bps - most_bps) / 2 + margin
    )  # managed queues let more cross traffic pass
    left_in = f"step {cross_traffic.left_by}" if cross_traffic.left_by else "the idle step"
    by = f"{origin}what arrived, and what others left in {left_in}"
    if cross_traffic.left_by or not cross_traffic.busy:
        crosses = [
            rate_bps - left_bps,
            low_bps - left_bps * (1 + MEASURED_SHARE) - cross_traffic.left_error_bps,
            high_bps - left_bps * (1 - MEASURED_SHARE) + cross_traffic.left_error_bps,
        ]
    else:
        crosses = [
            share * full_bps
            for share, full_bps in zip(
                cross_traffic.busy, (rate_bps, low_bps, high_bps), strict=True
            )
        ]
    value, low, high = (max(each, 0.0) for each in crosses)
    return [
        Estimate(RATE, rate_bps, low_bps, high_bps, origin=by),
        Estimate(CROSS, value, low, high, origin=by),
    ]


def _cross_traffic_at_rate(
    rate: Estimate,
    overloaded: Overloads,
    cross_traffic: CrossTraffic,
    *,
    apart: bool,
    short: bool,
) -> Estimate:
    """Returns the estimate of the cross traffic during the UDP steps (`overloaded`), if the
    bottleneck's rate is already estimated (`rate`).

    Cross traffic = rate - rate that it left in another step, if there was such a step. If the RTT
    probe's late answers show the busy share of the time, cross traffic = rate x that share.
    Otherwise the result is the mean of a lower bound and of two assumptions at the highest offered
    rate: that all packets lose the same share, and that the next packet gets each free place.

    apart: whether each flow may have its own queue. Then cross traffic is the rate that a single
        flow leaves.
    short: whether the queue is so short that it drops bursts although the link has room for them.
        Then the lower end is 0.
    """
    assert rate.value is not None
    assert rate.low is not None
    assert rate.high is not None
    last = overloaded.last
    if (
        not apart
        and cross_traffic.left_by not in ("", REACH)
        and cross_traffic.left_bps
        and cross_traffic.left_bps < rate.value
    ):
        origin = f"{rate.origin}, and what others left in step {cross_traffic.left_by}"
        value_bps = rate.value - cross_traffic.left_bps
        margin = (
            max(OTHERS_SHARE * value_bps, cross_traffic.left_error_bps)
            + MEASURED_SHARE * cross_traffic.left_bps
        )
        low_bps = value_bps - margin - (rate.value - rate.low)
        high_bps = value_bps + margin + rate.high - rate.value
        return Estimate(CROSS, value_bps, max(low_bps, 0.0), high_bps, origin=origin)
    if cross_traffic.busy:
        origin = f"{rate.origin}, and the share of late answers in the idle step"
        value_bps, low_bps, high_bps = (
            share * rate_bps
            for share, rate_bps in zip(
                cross_traffic.busy, (rate.value, rate.low, rate.high), strict=True
            )
        )
        return Estimate(CROSS, value_bps, low_bps, high_bps, origin=origin)
    origin = f"{rate.origin}, and what arrived in step {last.step.name}"
    lost_bps = max(rate.value - last.received_bps, 0.0)
    least_bps = min(
        [each.received_bps for each in overloaded] + [cross_traffic.left_bps or math.inf]
    )
    others_bps = [max(rate.value - least_bps, 0.0)]
    if not apart:
        others_bps += [
            2 * last.offered_bps * lost_bps / rate.value,
            last.offered_bps * lost_bps / last.received_bps,
        ]
    low_bps = 0.0 if short else max(min(others_bps) - (rate.value - rate.low), 0.0)
    high_bps = (1 + OTHERS_SHARE) * max(others_bps) + rate.high - rate.value
    return Estimate(CROSS, sum(others_bps) / len(others_bps), low_bps, high_bps, origin=origin)


def _rates_by_topp(
    first: Overload, last: Overload, most_bps: float, margin: float, origin: str
) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic from only two steps above the
    path's rate, because no other step shows cross traffic. The method is TOPP: offered / received
    rises linearly with the offered rate.

    first, last: the steps with the lowest and the highest offered rate
    most_bps: the highest received rate
    margin: what to add to the upper end of the rate, in bit/s
    origin: the beginning of the text that says where the estimates come from
    """
    low_bps, rate_bps = (1 - MEASURED_SHARE) * most_bps, _topp_rate_bps(first, last)
    if rate_bps is None or rate_bps < low_bps:
        because = "at a higher rate less arrived, so packets are lost not only in a full queue"
        return [
            Estimate(RATE, most_bps, low_bps, None, origin=origin + "the highest rate received"),
            cannot_be_told(CROSS, because),
        ]
    by = origin + "the highest rate received, and the ratio of offered to received (TOPP)"
    topp_bps, margin = max(rate_bps, most_bps), margin + HIDDEN_SHARE * most_bps
    rate_bps = (topp_bps + most_bps) / 2  # most_bps would mean that all cross traffic is lost
    cross_bps = max(0.0, first.offered_bps / first.received_bps * rate_bps - first.offered_bps)
    return [
        Estimate(RATE, rate_bps, low_bps, most_bps + 2 * (topp_bps - most_bps) + margin, origin=by),
        Estimate(CROSS, cross_bps, 0.0, None, origin=by),
    ]


def _topp_rate_bps(first: Overload, last: Overload) -> float | None:
    """Returns the bottleneck's rate from two overloaded steps by TOPP; None if the ratio does not
    rise.

    The ratio offered / received rises linearly with the offered rate, with the slope 1 / rate.
    """
    y1, y2 = first.offered_bps / first.received_bps, last.offered_bps / last.received_bps
    return (last.offered_bps - first.offered_bps) / (y2 - y1) if y2 > y1 else None


def _rate_if_losses_are_equal(last: Overload, left_bps: float) -> float:
    """Returns the bottleneck's rate, assuming that cross traffic and our packets lose the same
    share.

    `last` is the step that offered most, and `left_bps` is the rate that cross traffic leaves to
    us: cross traffic = rate - left_bps. The rate follows from received / offered = rate / (offered
    + cross traffic).
    """
    return (
        last.received_bps * (last.offered_bps - left_bps) / (last.offered_bps - last.received_bps)
    )


def _rate_if_next_packet_gets_room(last: Overload, left_bps: float) -> float:
    """Returns the bottleneck's rate, assuming that each free place in the full queue goes to the
    packet that arrives next.

    Our packets come evenly, so in the mean the next one comes after half of their spacing. A packet
    of cross traffic, which may come at any time, is first with the probability rate / (2 offered):
    half of our spacing over the time in which the bottleneck sends a packet. So received = rate -
    (rate - left) rate / (2 offered), and the rate is the smaller root. `last` is the step that
    offered most, and `left_bps` is the rate that cross traffic leaves to us.
    """
    double_bps = 2 * last.offered_bps
    b_bps = left_bps + double_bps
    root = max(b_bps**2 - 4 * last.received_bps * double_bps, 0.0) ** 0.5
    return float(b_bps - root) / 2


def _rates_of_queue_per_flow(
    overloaded: Overloads, many: Overload | None, cross_traffic: CrossTraffic
) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic if each flow has its own queue, so
    that a single flow gets only its share.

    If the RTT probe shows for which share of the time cross traffic keeps the bottleneck busy, rate
    = single flow's rate / (1 - share). Otherwise the step with many flows (`many`) is used, because
    many flows leave little to others: N flows leave at most 1 / (N + 1) of the rate to one other
    flow. Without such a step (None), the rate is known only up to a factor of 2.
    """
    single_bps = overloaded.most_bps
    margin = MEASURED_SHARE * single_bps
    if cross_traffic.busy:
        share, low, high = cross_traffic.busy
        origin = (
            f"step {overloaded[-1].step.name}: what arrived, and the share of late answers in "
            "the idle step"
        )
        rates = [single_bps / (1 - each) for each in (share, low, high)]
        return [
            Estimate(RATE, rates[0], rates[1] - margin, rates[2] + margin, origin=origin),
            Estimate(CROSS, share * rates[0], low * rates[1], high * rates[2], origin=origin),
        ]
    if many is None or many.received_bps < single_bps - margin:
        because = "each flow has its own queue, so cross traffic does not show"
        origin = "steps above: the rate of a single flow; another flow may get as much"
        return [
            Estimate(RATE, single_bps, single_bps - margin, 2 * single_bps + margin, origin=origin),
            cannot_be_told(CROSS, because),
        ]
    streams, most_bps = many.step.streams, max(single_bps, many.received_bps)
    origin = f"step {many.step.name}: the rate of {streams} flows, each with its own queue"
    gained_bps = many.received_bps - single_bps
    high_bps = most_bps * (streams + 1) / streams + margin
    if (
        gained_bps > 2 * margin
    ):  # cross traffic got less from many flows: the share of one flow, or of two
        high_bps = most_bps * (streams + 2) / streams + margin
        rate_bps = many.received_bps * (streams + 1) / streams
        cross_bps = rate_bps - single_bps
        return [
            Estimate(RATE, rate_bps, most_bps - margin, high_bps, origin=origin),
            Estimate(
                CROSS, cross_bps, gained_bps - margin, high_bps - single_bps + margin, origin=origin
            ),
        ]
    return [
        Estimate(RATE, most_bps, most_bps - margin, high_bps, origin=origin),
        Estimate(CROSS, 0.0, 0.0, high_bps - most_bps + margin, origin=origin),
    ]


def _rates_by_standing_queue(observed: PathRun, base_rtt_s: float) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic from TCP flows, if no UDP step
    overloaded the path. If nearly all of their packets waited in a queue, the flows filled the
    bottleneck, and their common rate is the path's rate. Otherwise the result is an empty list.
    """
    for step in observed.tcp_steps:
        begin_s = step.begin_s + (step.end_s - step.begin_s) / 3
        samples = observed.sockets_in(step)
        if "rtt_s" not in samples.columns:
            continue
        lowest_s = samples.filter(pl.col("time_s") > begin_s)["rtt_s"].quantile(BUSY, "linear")
        if lowest_s is None or lowest_s < base_rtt_s + max(STANDS_S, STANDS_SHARE * base_rtt_s):
            continue
        if rate_bps := tcp_rate_bps(observed, step, begin_s):
            margin = STANDING_SHARE * rate_bps
            because = "TCP flows show only the rate without it"
            origin = (
                f"{step.name}: all TCP flows, whose packets always waited; cross traffic is not "
                "counted"
            )
            return [
                Estimate(RATE, rate_bps, rate_bps - margin, rate_bps + margin, origin=origin),
                cannot_be_told(CROSS, because),
            ]
    return []


def _bounds_without_overload(observed: PathRun) -> list[Estimate]:
    """Returns the estimates of the rate and of the cross traffic if nothing filled the path: the
    highest received rate as a lower bound of the rate, and an unknown cross traffic.
    """
    best_bps, origin = best_received(observed)
    because = "nothing shows that the path was full"
    if observed.has_steps:
        because = "no step offered more than the path's rate"
    return [
        cannot_be_told(RATE, because, low=best_bps or None, origin=origin),
        cannot_be_told(CROSS, because),
    ]
