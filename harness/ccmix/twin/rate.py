"""Estimates the rate of the bottleneck, and what of it others take."""

from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import Observed, Step

RATE, CROSS = "rate", "cross traffic"
STEADY_SHARE = 0.5  # of a step, its end: by then the buffer is full
LEAST_STEADY_S = 0.5
OVERLOADED = 0.97  # of what arrived at the bottleneck came through, at most
MEASURED_SHARE = 0.005  # by which a rate over some seconds may be wrong: clocks, packets at both ends
LEAST_RATIO = 1.15  # between the two rates offered, so that two lines can be told apart
NO_CROSS_SHARE = 0.02  # of the rate: less than this can't be told from none
HEADERS_BYTES = 66  # of TCP, IPv4 and Ethernet, with timestamps


@dataclass(frozen=True)
class Overload:
    """Describes a step that offered more than came through, in its steady part, with all headers."""

    step: Step
    offered_bps: float
    received_bps: float


def steady(step: Step) -> pl.DataFrame:
    """Returns the receiver's intervals in the later part of a step of UDP."""
    from_s = step.end_s - max(LEAST_STEADY_S, STEADY_SHARE * (step.end_s - step.begin_s))
    last_s = step.udp["time_s"].max() if step.udp.height else None
    if not isinstance(last_s, float):
        return step.udp
    from_s = min(from_s, last_s - LEAST_STEADY_S)
    return step.udp.filter(pl.col("time_s") > from_s, pl.col("time_s") < last_s)


def overloads(observed: Observed, loss: float) -> list[Overload]:
    """Returns the steps that overloaded the path; `loss` is the share lost before the bottleneck."""
    found = []
    for step in observed.above:
        rows = steady(step)
        seconds = float(rows["seconds"].sum())
        if not rows.height or not seconds or not step.packet_bytes:
            continue
        lost, packets = int(rows["lost_packets"].sum()), int(rows["packets"].sum())
        offered_bps = packets * (1 - loss) * step.packet_bytes * 8 / seconds
        received_bps = (packets - lost) * step.packet_bytes * 8 / seconds
        if offered_bps and received_bps < OVERLOADED * offered_bps:
            found.append(Overload(step, offered_bps, received_bps))
    return found


def rate(observed: Observed, loss: float, queues_of_flows: bool | None) -> list[Estimate]:
    """Returns the rate of the bottleneck and that of cross traffic.

    Where a queue is shared, offered / received = (offered + cross) / rate, which is linear in what is offered: TOPP,
    Melander, Björkman and Gunningberg 2000. With a queue for each flow, the one flow gets what others leave, and N
    flows at least N / (N + 1) of the rate, if the others are one. `loss` is the share lost before the bottleneck;
    `queues_of_flows` is None where that is not known.
    """
    found = overloads(observed, loss)
    if not found:
        return _not_overloaded(observed)
    if queues_of_flows:
        return _of_queues_of_flows(found)
    first, last = found[0], found[-1]
    if last.offered_bps < LEAST_RATIO * first.offered_bps and first.offered_bps < LEAST_RATIO * last.offered_bps:
        received_bps = max(each.received_bps for each in found)
        because = "two rates above the path's are needed, and the load cap leaves one"
        origin = f"step {last.step.name}: the receiver's rate, if nobody else sends"
        margin = MEASURED_SHARE * received_bps
        return [
            Estimate(RATE, "bps", received_bps, received_bps - margin, received_bps + margin, origin=origin),
            cannot_be_told(CROSS, "bps", because),
        ]
    return _shared(first, last)


def _shared(first: Overload, last: Overload) -> list[Estimate]:
    (o1, r1), (o2, r2) = sorted((each.offered_bps, each.received_bps) for each in (first, last))
    y1, y2 = o1 / r1, o2 / r2
    slope = (y2 - y1) / (o2 - o1)
    alone_bps = (r1 + r2) / 2
    origin = f"steps {first.step.name} and {last.step.name}: "
    error = MEASURED_SHARE * (y1**2 + y2**2) ** 0.5 / (y2 - y1) if y2 > y1 else 1.0
    rate_bps = 1 / slope if slope > 0 else alone_bps
    cross_bps = y1 * rate_bps - o1
    uncertain_bps = error * rate_bps
    if abs(cross_bps) <= max(NO_CROSS_SHARE * rate_bps, uncertain_bps) and abs(r2 - r1) < 2 * MEASURED_SHARE * r1:
        margin = MEASURED_SHARE * alone_bps
        return [
            Estimate(RATE, "bps", alone_bps, alone_bps - margin, alone_bps + margin, origin=origin + "receiver's rate"),
            Estimate(CROSS, "bps", 0.0, 0.0, NO_CROSS_SHARE * alone_bps, origin=origin + "both come through alike"),
        ]
    least_bps = max(r1, r2) * (1 - MEASURED_SHARE)
    return [
        Estimate(
            RATE, "bps", max(rate_bps, least_bps), max(rate_bps - uncertain_bps, least_bps), rate_bps + uncertain_bps,
            origin=origin + "offered over received (TOPP)",
        ),
        Estimate(
            CROSS, "bps", max(cross_bps, 0.0), max(cross_bps - y1 * uncertain_bps, 0.0), cross_bps + y1 * uncertain_bps,
            origin=origin + "offered over received (TOPP)",
        ),
    ]  # fmt: skip


def _of_queues_of_flows(found: list[Overload]) -> list[Estimate]:
    one = [each for each in found if each.step.streams == 1]
    many = max(found, key=lambda each: each.step.streams)
    streams, most_bps = many.step.streams, max(each.received_bps for each in found)
    single_bps = one[0].received_bps if one else most_bps
    margin = MEASURED_SHARE * most_bps
    origin = f"step {many.step.name}: what {streams} flows get of a queue for each flow"
    gained_bps = many.received_bps - single_bps
    if gained_bps > 2 * margin:  # others got less of many: they had their share
        rate_bps = many.received_bps * (streams + 1) / streams
        return [
            Estimate(RATE, "bps", rate_bps, most_bps - margin, rate_bps + 2 * margin, origin=origin),
            Estimate(
                CROSS,
                "bps",
                rate_bps - single_bps,
                gained_bps - margin,
                rate_bps - single_bps + 3 * margin,
                origin=origin,
            ),
        ]
    high_bps = most_bps * (streams + 1) / streams + margin
    return [
        Estimate(RATE, "bps", most_bps, most_bps - margin, high_bps, origin=origin),
        Estimate(CROSS, "bps", 0.0, 0.0, high_bps - most_bps + margin, origin=origin),
    ]


def _not_overloaded(observed: Observed) -> list[Estimate]:
    best_bps, what = best_received(observed)
    because = "no step was faster than the path" if observed.has_steps else "nothing shows that the path was full"
    if not best_bps:
        return [cannot_be_told(RATE, "bps", because), cannot_be_told(CROSS, "bps", because)]
    return [
        cannot_be_told(RATE, "bps", because, low=best_bps, origin=what),
        cannot_be_told(CROSS, "bps", because),
    ]


def best_received(observed: Observed) -> tuple[float, str]:
    """Returns the most that came through in a second of TCP or a step of UDP, with all headers, and where."""
    found = [(0.0, "")]
    for step in observed.above:
        rows = steady(step)
        if rows.height and step.packet_bytes:
            received = int(rows["packets"].sum()) - int(rows["lost_packets"].sum())
            found.append((received * step.packet_bytes * 8 / float(rows["seconds"].sum()), f"step {step.name}"))
    for step in observed.tcp_steps:
        if (tcp_bps := tcp_received_bps(observed, step)) is not None:
            found.append((tcp_bps, f"step {step.name}: the best second of TCP"))
    return max(found)


def tcp_received_bps(observed: Observed, step: Step) -> float | None:
    """Returns the best second of a TCP step by what its sockets' receivers acknowledged, with all headers."""
    samples = observed.sockets_in(step)
    if not {"bytes_acked", "mss_bytes"} <= set(samples.columns) or samples.is_empty():
        return None
    mss_bytes = float(samples["mss_bytes"].median() or 0) or 1448.0  # type: ignore[arg-type]
    acked = samples.sort("port", "time_s").with_columns(pl.col("bytes_acked").cast(pl.Int64).diff().over("port"))
    seconds = acked.group_by(second=pl.col("time_s").floor()).agg(pl.col("bytes_acked").sum()).sort("second")
    whole = seconds["bytes_acked"].to_list()[1:-1]
    most = max((min(pair) for pair in pairwise(whole)), default=None)
    return None if most is None else most * 8 * (mss_bytes + HEADERS_BYTES) / mss_bytes
