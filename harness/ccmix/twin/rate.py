"""Estimates the rate of the bottleneck, and what of it others take."""

import math
from dataclasses import dataclass, replace

import polars as pl

from ccmix.generators.path_steps import FILL, REACH
from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.loss import binomial_interval
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.trains import rate_of_trains

RATE, CROSS = "rate", "cross traffic"
STEADY_SHARE = 0.5  # of a step, its end: by then the buffer is full
ENDS_S = 0.1  # by which the end of a step may be wrong
LITTLE_LOST, MOST_LOST = 0.005, 0.2  # of what was offered: less may be by chance, of more it matters who loses it
LOST_PACKETS = 5  # of what was offered, which is no rounding of times
OVERLOADED = 0.97  # of what arrived at the bottleneck came through, at most
MEASURED_SHARE = 0.005  # by which a rate over some seconds may be wrong: clocks, packets at both ends
HIDDEN_SHARE = 0.03  # of the rate, of others: what may not show
RISES_SHARE = 0.02  # by which more comes through for sure
LOAD_ERROR = 1.03  # times the rate by trains, that what arrives may be at most
LOAD_MISSES = 1.2  # times the upper end by load, that the rate may be where our packets come in pairs
NARROW = 0.05  # of the rate, an interval that trains make no better
FREE_SHARE = 0.1  # of a packet's time, by which the probe would have to wait if the link were always busy
SHORT_PACKETS = 8  # a queue of fewer drops packets that come together
OTHERS_SHARE = 0.1  # of others' traffic, by which it may be more than what loads show
ALIKE_SHARE = 0.01  # by which two such rates may differ
LEAST_RATIO = 1.1  # between the two rates offered, so that two lines can be told apart
STANDS_S, STANDS_SHARE = 1e-3, 0.1  # beyond the base RTT, by which packets wait for sure
STANDING_SHARE = 0.02  # by which the rate of flows that always wait may be wrong
HELD_PACKETS = 2  # of each flow
HEADERS_BYTES = 66  # of TCP, IPv4 and Ethernet, with timestamps
BUSY = 0.05  # quantile of the probe's RTT that is beyond the base RTT while the bottleneck is always busy
LEAST_LATE_S, LATE_WIDTHS, LATE_SHARE = 2e-6, 3.0, 0.03  # what is late, in widths and packets
QUIET_SHARE = 0.3  # of the answers, whose narrowest span is that width
WAITS_SHARE = 0.3  # of the time of a packet, which that must be less than
LEAST_ANSWERS = 200
ALWAYS = 0.99  # of the time, that others can be there at most
LEAST_BUSY, MOST_BUSY = 0.02, 0.65  # a token bucket lets packets pass at once, so that nothing late tells nothing


@dataclass(frozen=True)
class Overload:
    """Describes the steady part of a step that offered more than arrived. Both rates count all headers."""

    step: PathStep
    offered_bps: float
    received_bps: float


@dataclass(frozen=True)
class OthersTraffic:
    """Holds what other steps say of traffic beside ours.

    `left_bps` is what others leave: what TCP got while the bottleneck was always busy and hardly anything of others was
    lost, or what a rate that was a little too high shows, which may be wrong by `left_error_bps`; `left_by` names the
    step. `busy` is the share of the time in which the bottleneck sends though nothing of ours is there, with its
    interval; `by_tcp_bps` is the most that all flows of TCP got.
    """

    left_bps: float | None = None
    left_by: str = ""
    left_error_bps: float = 0.0
    busy: tuple[float, float, float] | None = None
    by_tcp_bps: float = 0.0


def steady(step: PathStep) -> pl.DataFrame:
    """Returns the receiver's intervals in the later half of a step of UDP, but for the last ones."""
    from_s = step.end_s - STEADY_SHARE * (step.end_s - step.begin_s)
    return step.udp.filter(pl.col("time_s") > from_s, pl.col("time_s") < step.end_s - ENDS_S)


def overloads(observed: PathRun, loss: float) -> list[Overload]:
    """Returns the steps that overloaded the path; `loss` is the share lost before the bottleneck."""
    return [each for step in observed.above if (each := _overload(step, loss))]


def more_of_more(found: list[Overload]) -> bool:
    """Returns whether more came through of more: beside others in one queue, and not in a queue of its own."""
    by_offered = sorted(found, key=lambda each: each.offered_bps)
    return bool(found) and by_offered[-1].received_bps > (1 + RISES_SHARE) * by_offered[0].received_bps


def _overload(step: PathStep | None, loss: float) -> Overload | None:
    """Returns what a step offered, and what of it arrived; None if all did."""
    if step is None or (counted := _counted(step)) is None:
        return None
    offered_bps, received_bps = counted[0] * (1 - loss), counted[1]
    overloaded = 0 < received_bps < OVERLOADED * offered_bps
    return Overload(step, offered_bps, received_bps) if overloaded else None


def _counted(step: PathStep) -> tuple[float, float] | None:
    """Returns the rates of what was sent in the steady part of a step, as the receiver counts it, and of what arrived,
    with all headers; None where it counted nothing.
    """
    rows = steady(step)
    seconds = float(rows["seconds"].sum())
    if not seconds or not step.packet_bytes:
        return None
    packets, lost = int(rows["packets"].sum()), int(rows["lost_packets"].sum())
    bits = step.packet_bytes * 8 / seconds
    return packets * bits, (packets - lost) * bits


def beside(observed: PathRun, base_rtt_s: float, found: list[Overload], loss: float) -> OthersTraffic:
    """Reads what shows others' traffic.

    One is a rate of which a little was lost, the next how fast flows of TCP were that kept the queue from being empty:
    first those of CUBIC, since BBR's take more from others. The last is how many of the probe's packets had to wait in
    the idle step. That is a share of the time, since the probe's period is none of those that senders' timers have.
    """
    packet_s = _packet_s(found)
    busy = _busy(observed, base_rtt_s, packet_s)
    if more_of_more(found) and (left := _left_of_available(observed, loss, found)):
        return replace(left, busy=busy)
    for step in (*observed.of_kind(FILL), *observed.of_kind(REACH)):
        begin_s = step.begin_s + (step.end_s - step.begin_s) / 3
        rtts_s = observed.rtts(begin_s, step.end_s - ENDS_S)
        lowest_s = rtts_s.quantile(BUSY, "linear")
        if lowest_s is not None and lowest_s > base_rtt_s + packet_s:
            return OthersTraffic(_tcp_bps(observed, step, begin_s), step.name, busy=busy)
    by_tcp = [_tcp_bps(observed, step, step.begin_s) or 0.0 for step in observed.tcp_steps]
    return OthersTraffic(busy=busy, by_tcp_bps=max(by_tcp, default=0.0))


def _left_of_available(observed: PathRun, loss: float, found: list[Overload]) -> OthersTraffic | None:
    """Returns what others leave by the step that lost the least of those that offered more; None if none did.

    If all lose in proportion, lost / received = (offered - left) / rate; the most that came through is near enough to
    the rate, since little was lost. Of what was too much, ours may have lost half as much, or half as much again.
    """
    by_lost = sorted(each for step in observed.available if (each := _little_lost(step, loss)))
    if not by_lost:
        return None
    lost, offered_bps, name = by_lost[0]
    too_much_bps = max(each.received_bps for each in found) * lost / (1 - lost)
    return OthersTraffic(offered_bps - too_much_bps, name, too_much_bps / 2)


def _little_lost(step: PathStep, loss: float) -> tuple[float, float, str] | None:
    """Returns the share that did not arrive of a step's rate without random loss, that rate, and the step's name; None
    where that is hardly anything, or too much.
    """
    counted = _counted(step)
    if counted is None or not step.offered_bps or not step.packet_bytes:
        return None
    offered_bps = step.offered_bps * (1 - loss)
    lost = 1 - counted[1] / offered_bps
    packets = lost * offered_bps / 8 / step.packet_bytes * float(steady(step)["seconds"].sum())
    return (lost, offered_bps, step.name) if LITTLE_LOST < lost < MOST_LOST and packets > LOST_PACKETS else None


def _packet_s(found: list[Overload]) -> float:
    """Returns the time in which the bottleneck sends a packet."""
    if not found:
        return 0.0
    return max((each.step.packet_bytes or 0) * 8 / each.received_bps for each in found)


def _busy(observed: PathRun, base_rtt_s: float, packet_s: float) -> tuple[float, float, float] | None:
    """Returns the share of the idle step's answers that came late, with its interval; None where noise hides it, or
    where hardly any did.
    """
    idle = observed.idle
    rtts_s = observed.rtts(idle.begin_s, idle.end_s).sort().to_numpy() if idle else None
    if rtts_s is None or len(rtts_s) < LEAST_ANSWERS:
        return None
    count = round(QUIET_SHARE * len(rtts_s))
    width_s = float((rtts_s[count:] - rtts_s[:-count]).min())
    late_s = max(LATE_WIDTHS * width_s, LATE_SHARE * packet_s) + LEAST_LATE_S
    if late_s > WAITS_SHARE * packet_s:
        return None
    late = int((rtts_s > base_rtt_s + late_s).sum())
    share = late / len(rtts_s)
    low, high = binomial_interval(late, len(rtts_s))
    if low < LEAST_BUSY or share > MOST_BUSY:
        return None
    missed = 1 / (1 - late_s / packet_s)  # the last of a packet's time is as short as what counts as none
    return min(share * missed, ALWAYS), low, min(high * missed, ALWAYS)


def rate(
    observed: PathRun, loss: float, queues_of_flows: bool | None, base_rtt_s: float, tcp_waits_s: float = 0.0,
    probe_waits_s: float | None = None,
) -> list[Estimate]:  # fmt: skip
    """Returns the rate of the bottleneck and that of cross traffic.

    In a shared queue that is full, received = rate - passed, where others' packets pass as ours do: offered / received
    = (offered + cross) / rate, linear in what is offered (TOPP: Melander, Björkman and Gunningberg 2000). Traffic in
    bursts passes less than that. So what is left beside it is taken from a step that loses little, if there is one.

    With a queue for each flow, one flow gets what others leave, and N flows at least N / (N + 1) of the rate, if the
    others are one, if the queues hold some packets of each: TCP's packets wait for `tcp_waits_s` there. `loss` is the
    share lost before the bottleneck; `queues_of_flows` is None where that is not known.

    Where the probe waits for less than the packet that a link is sending, though more is offered than arrives
    (`probe_waits_s`), a policer limits the rate, and trains show another link's.
    """
    found = overloads(observed, loss)
    if not found:
        return _by_standing_queue(observed, base_rtt_s) or _not_overloaded(observed)
    others = beside(observed, base_rtt_s, found, loss)
    by_load = _by_load(observed, found, others, loss, queues_of_flows, tcp_waits_s)
    if probe_waits_s is not None and probe_waits_s < FREE_SHARE * _packet_s(found):
        return by_load
    return _with_trains(by_load, observed, found, others, queues_of_flows, tcp_waits_s)


def _by_load(
    observed: PathRun, found: list[Overload], others: OthersTraffic, loss: float, queues_of_flows: bool | None,
    tcp_waits_s: float,
) -> list[Estimate]:  # fmt: skip
    """Returns both estimates by what came through of too much."""
    if queues_of_flows:
        many = _overload(observed.share, loss)
        single_bps = max(each.received_bps for each in found)
        gains = many is not None and many.received_bps > (1 + 3 * MEASURED_SHARE) * single_bps
        if many and not gains and tcp_waits_s < HELD_PACKETS * many.step.streams * _packet_s(found):
            many = None  # the queues may hold too little for so many flows at once
        return _of_queues_of_flows(found, many, others)
    return _shared(found, others, loss, may_be_of_flows=queues_of_flows is None)


def _with_trains(
    by_load: list[Estimate], observed: PathRun, found: list[Overload], others: OthersTraffic,
    queues_of_flows: bool | None, tcp_waits_s: float,
) -> list[Estimate]:  # fmt: skip
    """Returns both estimates with the rate that trains show, where what came through leaves it open.

    Trains show the rate of a link, not that of a policer or of a shaper whose bucket holds them. So only a rate counts
    that is not less than what came through, and not more than others can have taken from it.
    """
    of_rate = by_load[0]
    assert of_rate.low is not None
    if of_rate.value and of_rate.high and of_rate.high - of_rate.low < NARROW * of_rate.value:
        return by_load
    most_bps = max(each.received_bps for each in found)
    highest_bps = LOAD_MISSES * (of_rate.high or most_bps / (1 - MOST_BUSY))
    if others.busy:
        highest_bps = min(highest_bps, LOAD_ERROR * most_bps / (1 - others.busy[2]))
    trains = rate_of_trains(observed, most_bps / LOAD_ERROR, highest_bps)
    if trains is None or trains.high_bps < of_rate.low:
        return by_load
    value_bps, low_bps = max(trains.value_bps, of_rate.low), max(trains.low_bps, of_rate.low)
    origin = f"step trains: {trains.alike} of {trains.gaps} gaps between their packets are alike"
    rate_now = Estimate(RATE, "bps", value_bps, low_bps, trains.high_bps, origin=origin)
    short = tcp_waits_s < SHORT_PACKETS * _packet_s(found)
    return [rate_now, _cross_of(rate_now, found, others, apart=queues_of_flows is not False, short=short)]


def _shared(found: list[Overload], others: OthersTraffic, loss: float, *, may_be_of_flows: bool) -> list[Estimate]:
    """Returns both estimates where all wait in one queue, or do not wait long enough to show that they do."""
    first, last = min(found, key=lambda each: each.offered_bps), max(found, key=lambda each: each.offered_bps)
    two = last.offered_bps >= LEAST_RATIO * first.offered_bps
    most_bps = max(each.received_bps for each in found)
    low_bps, margin = (1 - MEASURED_SHARE) * most_bps, (MEASURED_SHARE + loss) * most_bps  # it may be lost behind
    origin = f"step{'s' if len(found) > 1 else ''} {' and '.join(dict.fromkeys(e.step.name for e in found))}: "
    left_bps = others.left_bps or (most_bps * (1 - others.busy[0]) if others.busy else None)
    if not two or abs(last.received_bps - first.received_bps) < ALIKE_SHARE * most_bps:
        missing_bps = HIDDEN_SHARE * most_bps if left_bps is None else max(most_bps - left_bps, 0.0)
        margin += min(missing_bps, HIDDEN_SHARE * most_bps)
        if left_bps is None or left_bps > (1 - HIDDEN_SHARE) * most_bps:
            high_bps = max(most_bps + margin - (left_bps or others.by_tcp_bps), margin)
            cross = Estimate(CROSS, "bps", 0.0, 0.0, high_bps, origin=origin + "as much arrives, whatever is offered")
            if not two and left_bps is None:
                because = "only one step offered more than the path's rate, and two are needed"
                cross = cannot_be_told(CROSS, "bps", because)
            by, high_bps = origin + "receiver's rate", most_bps + margin
            if may_be_of_flows:
                by += "; if each flow has a queue of its own, another may have got as much"
                high_bps = 2 * most_bps + margin
                cross = replace(cross, high=max(cross.high or 0.0, most_bps)) if cross.value is not None else cross
            return [Estimate(RATE, "bps", most_bps, low_bps, high_bps, origin=by), cross]
    if left_bps is None or left_bps > first.received_bps:  # of which flows of BBR may have taken a part from others
        return _without_left(first, last, most_bps, margin + (most_bps if may_be_of_flows else 0.0), origin)
    fair_bps, next_bps = (max(most_bps, each(last, left_bps)) for each in (_in_proportion, _by_who_comes_next))
    rate_bps = (fair_bps + next_bps) / 2
    high_bps = fair_bps + (fair_bps - most_bps) / 2 + margin  # managed queues let more of others pass
    left_in = f"step {others.left_by}" if others.left_by else "the idle step"
    by = f"{origin}what arrived, and what others left in {left_in}"
    if others.left_by or not others.busy:
        crosses = [
            rate_bps - left_bps,
            low_bps - left_bps * (1 + MEASURED_SHARE) - others.left_error_bps,
            high_bps - left_bps * (1 - MEASURED_SHARE) + others.left_error_bps,
        ]
    else:
        crosses = [share * of for share, of in zip(others.busy, (rate_bps, low_bps, high_bps), strict=True)]
    value, low, high = (max(each, 0.0) for each in crosses)
    return [
        Estimate(RATE, "bps", rate_bps, low_bps, high_bps, origin=by),
        Estimate(CROSS, "bps", value, low, high, origin=by),
    ]


def _cross_of(rate: Estimate, found: list[Overload], others: OthersTraffic, *, apart: bool, short: bool) -> Estimate:
    """Returns the cross traffic beside ours at a known rate: what other steps left of it, or else what it is at least,
    and by the two assumptions of rate() at the highest rate offered. With a queue for each flow, others are `apart`,
    and what one flow leaves is theirs. A `short` queue drops what comes in bursts though the link has room for it.
    """
    assert rate.value is not None
    assert rate.low is not None
    assert rate.high is not None
    last = max(found, key=lambda each: each.offered_bps)
    if not apart and others.left_by not in ("", REACH) and others.left_bps and others.left_bps < rate.value:
        origin = f"{rate.origin}, and what others left in step {others.left_by}"
        value_bps = rate.value - others.left_bps
        margin = max(OTHERS_SHARE * value_bps, others.left_error_bps) + MEASURED_SHARE * others.left_bps
        low_bps, high_bps = value_bps - margin - (rate.value - rate.low), value_bps + margin + rate.high - rate.value
        return Estimate(CROSS, "bps", value_bps, max(low_bps, 0.0), high_bps, origin=origin)
    if others.busy:
        origin = f"{rate.origin}, and the share of late answers in the idle step"
        value_bps, low_bps, high_bps = (
            share * of for share, of in zip(others.busy, (rate.value, rate.low, rate.high), strict=True)
        )
        return Estimate(CROSS, "bps", value_bps, low_bps, high_bps, origin=origin)
    origin = f"{rate.origin}, and what arrived in step {last.step.name}"
    lost_bps = max(rate.value - last.received_bps, 0.0)
    least_bps = min([each.received_bps for each in found] + [others.left_bps or math.inf])
    others_bps = [max(rate.value - least_bps, 0.0)]
    if not apart:
        others_bps += [2 * last.offered_bps * lost_bps / rate.value, last.offered_bps * lost_bps / last.received_bps]
    low_bps = 0.0 if short else max(min(others_bps) - (rate.value - rate.low), 0.0)
    high_bps = (1 + OTHERS_SHARE) * max(others_bps) + rate.high - rate.value
    return Estimate(CROSS, "bps", sum(others_bps) / len(others_bps), low_bps, high_bps, origin=origin)


def _without_left(first: Overload, last: Overload, most_bps: float, margin: float, origin: str) -> list[Estimate]:
    """Returns both estimates where only the two rates above the path's tell them."""
    low_bps, rate_bps = (1 - MEASURED_SHARE) * most_bps, _topp(first, last)
    if rate_bps is None or rate_bps < low_bps:
        because = "less arrived of a higher rate, so not only a full queue loses packets"
        return [
            Estimate(RATE, "bps", most_bps, low_bps, None, origin=origin + "the highest rate received"),
            cannot_be_told(CROSS, "bps", because),
        ]
    by = origin + "the highest rate received, and the ratio of offered to received (TOPP)"
    fair_bps, margin = max(rate_bps, most_bps), margin + HIDDEN_SHARE * most_bps
    rate_bps = (fair_bps + most_bps) / 2  # at the most received, all that others sent is lost
    cross_bps = max(0.0, first.offered_bps / first.received_bps * rate_bps - first.offered_bps)
    return [
        Estimate(RATE, "bps", rate_bps, low_bps, most_bps + 2 * (fair_bps - most_bps) + margin, origin=by),
        Estimate(CROSS, "bps", cross_bps, 0.0, None, origin=by),
    ]


def _topp(first: Overload, last: Overload) -> float | None:
    """Returns the rate by TOPP; None where the line does not rise."""
    y1, y2 = first.offered_bps / first.received_bps, last.offered_bps / last.received_bps
    return (last.offered_bps - first.offered_bps) / (y2 - y1) if y2 > y1 else None


def _in_proportion(last: Overload, left_bps: float) -> float:
    """Returns the rate, if others lose packets in proportion to ours, and would take all that is not left."""
    return last.received_bps * (last.offered_bps - left_bps) / (last.offered_bps - last.received_bps)


def _by_who_comes_next(last: Overload, left_bps: float) -> float:
    """Returns the rate, if whoever comes next takes each place that gets free in a full queue.

    Ours come evenly, so the next of them comes after half of their spacing in the mean. Another's packet, which may
    come at any time, is first with a probability of that over the time in which the bottleneck sends a packet: rate /
    (2 offered). So received = rate - (rate - left) rate / (2 offered), whose smaller root it is.
    """
    double_bps = 2 * last.offered_bps
    b_bps = left_bps + double_bps
    root = max(b_bps**2 - 4 * last.received_bps * double_bps, 0.0) ** 0.5
    return float(b_bps - root) / 2


def _of_queues_of_flows(found: list[Overload], many: Overload | None, others: OthersTraffic) -> list[Estimate]:
    single_bps = max(each.received_bps for each in found)
    margin = MEASURED_SHARE * single_bps
    if others.busy:
        share, low, high = others.busy
        origin = f"step {found[-1].step.name}: what arrived, and the share of late answers in the idle step"
        rates = [single_bps / (1 - each) for each in (share, low, high)]
        return [
            Estimate(RATE, "bps", rates[0], rates[1] - margin, rates[2] + margin, origin=origin),
            Estimate(CROSS, "bps", share * rates[0], low * rates[1], high * rates[2], origin=origin),
        ]
    if many is None or many.received_bps < single_bps - margin:
        because = "each flow has a queue of its own, so other traffic does not show"
        origin = "steps above: what one flow gets; another may get as much"
        return [
            Estimate(RATE, "bps", single_bps, single_bps - margin, 2 * single_bps + margin, origin=origin),
            cannot_be_told(CROSS, "bps", because),
        ]
    streams, most_bps = many.step.streams, max(single_bps, many.received_bps)
    origin = f"step {many.step.name}: what {streams} flows get, each with a queue of its own"
    gained_bps = many.received_bps - single_bps
    high_bps = most_bps * (streams + 1) / streams + margin
    if gained_bps > 2 * margin:  # others got less of many: they had their share, or as two flows the double
        high_bps = most_bps * (streams + 2) / streams + margin
        rate_bps = many.received_bps * (streams + 1) / streams
        cross_bps = rate_bps - single_bps
        return [
            Estimate(RATE, "bps", rate_bps, most_bps - margin, high_bps, origin=origin),
            Estimate(CROSS, "bps", cross_bps, gained_bps - margin, high_bps - single_bps + margin, origin=origin),
        ]
    return [
        Estimate(RATE, "bps", most_bps, most_bps - margin, high_bps, origin=origin),
        Estimate(CROSS, "bps", 0.0, 0.0, high_bps - most_bps + margin, origin=origin),
    ]


def _by_standing_queue(observed: PathRun, base_rtt_s: float) -> list[Estimate]:
    """Returns what flows of TCP got while their packets always waited; nothing where they did not."""
    for step in observed.tcp_steps:
        begin_s = step.begin_s + (step.end_s - step.begin_s) / 3
        samples = observed.sockets_in(step)
        if "rtt_s" not in samples.columns:
            continue
        lowest_s = samples.filter(pl.col("time_s") > begin_s)["rtt_s"].quantile(BUSY, "linear")
        if lowest_s is None or lowest_s < base_rtt_s + max(STANDS_S, STANDS_SHARE * base_rtt_s):
            continue
        if rate_bps := _tcp_bps(observed, step, begin_s):
            margin, because = STANDING_SHARE * rate_bps, "flows of TCP show only the rate without it"
            origin = f"{step.name}: all flows of TCP, whose packets always waited; others' traffic is not counted"
            return [
                Estimate(RATE, "bps", rate_bps, rate_bps - margin, rate_bps + margin, origin=origin),
                cannot_be_told(CROSS, "bps", because),
            ]
    return []


def _not_overloaded(observed: PathRun) -> list[Estimate]:
    best_bps, what = best_received(observed)
    because = "nothing shows that the path was full"
    if observed.has_steps:
        because = "no step offered more than the path's rate"
    return [
        cannot_be_told(RATE, "bps", because, low=best_bps or None, origin=what),
        cannot_be_told(CROSS, "bps", because),
    ]


def best_received(observed: PathRun) -> tuple[float, str]:
    """Returns the most that came through in a step of UDP or TCP, with all headers, and where."""
    counted = ((_counted(step), step.name) for step in observed.above)
    found = [(0.0, ""), *((each[1], f"step {name}") for each, name in counted if each)]
    of_tcp = ((_tcp_bps(observed, step, step.begin_s), step.name) for step in observed.tcp_steps)
    found += [(best_bps, f"{name}: all flows of TCP") for best_bps, name in of_tcp if best_bps]
    return max(found)


def _tcp_bps(observed: PathRun, step: PathStep, begin_s: float) -> float | None:
    """Returns what receivers acknowledged of all flows from some moment of a step on, with all headers."""
    samples = observed.sockets_in(step)
    if not {"bytes_acked", "mss_bytes"} <= set(samples.columns):
        return None
    samples = samples.filter(pl.col("time_s").is_between(begin_s, step.end_s - ENDS_S)).sort("time_s")
    if samples.is_empty():
        return None
    mss_bytes = float(samples["mss_bytes"].cast(pl.Float64).mean() or 0) or 1448.0  # type: ignore[arg-type]
    first, last = pl.col("bytes_acked").cast(pl.Int64).first(), pl.col("bytes_acked").cast(pl.Int64).last()
    seconds = pl.col("time_s").last() - pl.col("time_s").first()
    flows = (
        samples.group_by("port", maintain_order=True)
        .agg(bits=(last - first) * 8, seconds=seconds)
        .filter(pl.col("seconds") > 0)
    )
    return float((flows["bits"] / flows["seconds"]).sum()) * (mss_bytes + HEADERS_BYTES) / mss_bytes
