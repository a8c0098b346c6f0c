"""Calculates the rates at which receivers got UDP, TCP and trains of packets over a path."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from ccmix.analysis.measured import increase
from ccmix.analysis.step_tables import BUCKET_PACKETS
from ccmix.generators.path_steps import BURSTS, TRAINS
from ccmix.twin.observed import PathRun, PathStep

STEADY_SHARE = 0.5  # the last part of a step: by then the buffer is full
ENDS_S = 0.1  # error of the end of a step
OVERLOADED = 0.97  # maximum share that comes through an overloaded bottleneck
RISES_SHARE = 0.02  # a larger increase is not an error of measurement
HEADERS_BYTES = 66  # of TCP, IPv4 and Ethernet, with timestamps


@dataclass(frozen=True)
class Overload:
    """Describes the steady part of a UDP step that offered more than arrived. Both rates count the
    headers of Ethernet, IP and UDP.
    """

    step: PathStep
    offered_bps: float
    received_bps: float


class Overloads(tuple[Overload, ...]):
    """Holds the UDP steps of a run that offered more than the path's rate, in their order."""

    @property
    def most_bps(self) -> float:
        """Returns the highest received rate; 0 without any step."""
        return max((each.received_bps for each in self), default=0.0)

    @property
    def packet_s(self) -> float:
        """Returns the seconds that the bottleneck needs to send one packet: packet size / received
        rate, the largest value of all steps; 0 without any step.
        """
        times_s = ((each.step.packet_bytes or 0) * 8 / each.received_bps for each in self)
        return max(times_s, default=0.0)

    @property
    def last(self) -> Overload:
        """Returns the step that offered most; there must be a step."""
        return max(self, key=lambda each: each.offered_bps)

    @property
    def received_grows_with_offered(self) -> bool:
        """Returns whether clearly more arrives (2%) in the step that offers most than in the step
        that offers least. This is so if our flow competes with cross traffic in a shared queue, but
        not if each flow has its own queue.
        """
        by_offered = sorted(self, key=lambda each: each.offered_bps)
        return (
            bool(self)
            and by_offered[-1].received_bps > (1 + RISES_SHARE) * by_offered[0].received_bps
        )

    @property
    def names(self) -> str:
        """Returns the names of the steps: 'above-1 and above-2'."""
        return " and ".join(each.step.name for each in self)


def steady(step: PathStep) -> pl.DataFrame:
    """Returns the receiver's intervals (rows of PathStep.udp) from the second half of a UDP step,
    when the buffer is full. The last 0.1 s are left out, because flows may end early.
    """
    from_s = step.end_s - STEADY_SHARE * (step.end_s - step.begin_s)
    return step.udp.filter(pl.col("time_s") > from_s, pl.col("time_s") < step.end_s - ENDS_S)


def overloads(observed: PathRun, loss: float) -> Overloads:
    """Returns those UDP steps of a run that offered clearly more than arrived, with both rates.
    `loss` is the share of packets that are lost at random, which is assumed to happen before the
    bottleneck.
    """
    return Overloads(each for step in observed.above if (each := overload(step, loss)))


def overload(step: PathStep | None, loss: float) -> Overload | None:
    """Returns the offered and the received rate of a UDP step that overloaded the path; None if at
    least 97% (OVERLOADED) arrived, or if the receiver counted nothing. The random loss (the share
    `loss`) is taken off the offered rate, because it is assumed to happen before the bottleneck.
    """
    if step is None or (counted := counted_rates(step)) is None:
        return None
    sent_bps, received_bps = counted
    offered_bps = sent_bps * (1 - loss)
    overloaded = 0 < received_bps < OVERLOADED * offered_bps
    return Overload(step, offered_bps, received_bps) if overloaded else None


def counted_rates(step: PathStep) -> tuple[float, float] | None:
    """Returns two rates in the second half of a UDP step, in bit/s with all headers: the rate sent,
    which the receiver knows from the packets' numbers, and the rate received. None if the receiver
    counted nothing.
    """
    rows = steady(step)
    seconds = float(rows["seconds"].sum())
    if not seconds or not step.packet_bytes:
        return None
    packets, lost = int(rows["packets"].sum()), int(rows["lost_packets"].sum())
    bits = step.packet_bytes * 8 / seconds
    return packets * bits, (packets - lost) * bits


def best_received(observed: PathRun) -> tuple[float, str]:
    """Returns the highest rate at which a UDP or TCP step arrived, in bit/s with all headers, and
    the text that names this step. If no step overloaded the path, this rate is a lower bound of the
    path's rate.
    """
    udp_rates = ((counted_rates(step), step.name) for step in observed.above)
    rates = [(0.0, ""), *((each[1], f"step {name}") for each, name in udp_rates if each)]
    tcp_rates = (
        (tcp_rate_bps(observed, step, step.begin_s), step.name) for step in observed.tcp_steps
    )
    rates += [(best_bps, f"{name}: all flows of TCP") for best_bps, name in tcp_rates if best_bps]
    return max(rates)


def tcp_rate_bps(observed: PathRun, step: PathStep, begin_s: float) -> float | None:
    """Returns the rate of all TCP flows together from begin_s to the end of a step, in bit/s with
    all headers. It is calculated from the bytes that the receivers acknowledged; None if the
    samples of the sockets do not have this counter.
    """
    samples = observed.sockets_in(step)
    if not {"bytes_acked", "mss_bytes"} <= set(samples.columns):
        return None
    samples = samples.filter(pl.col("time_s").is_between(begin_s, step.end_s - ENDS_S)).sort(
        "time_s"
    )
    if samples.is_empty():
        return None
    mss_bytes = float(samples["mss_bytes"].cast(pl.Float64).mean() or 0) or 1448.0  # type: ignore[arg-type]
    first = pl.col("bytes_acked").cast(pl.Int64).first()
    last = pl.col("bytes_acked").cast(pl.Int64).last()
    flows = (
        samples.group_by("port", maintain_order=True)
        .agg(bits=(last - first) * 8, seconds=increase("time_s"))
        .filter(pl.col("seconds") > 0)
    )
    return float((flows["bits"] / flows["seconds"]).sum()) * (mss_bytes + HEADERS_BYTES) / mss_bytes


LEAST_GAPS = 10
# gaps that differ by at most ALIKE are alike; minimum share and number of gaps that are alike
ALIKE, FREQUENT_SHARE, FREQUENT = 0.02, 0.1, 8
# variation of gaps: stamps in the lab are in steps of 0.256 us, and both ends are rounded
LEAST_WIDTH_S = 0.6e-6
LEAST_GAP_S = 2e-6  # stamps of real hosts are not more precise
JOINED_SHARE = 0.05  # maximum share of the gaps that are shorter
# on a slow way back, this quantile of the gaps exceeds the gap that the rate makes by this factor
SHORTEST, SLOWER = 0.05, 1.2


@dataclass(frozen=True)
class TrainsRate:
    """Holds the rate that the gaps between the packets of trains show, with its interval.

    `alike` of the `gaps` gaps have about the same length, and gave the rate.
    """

    value_bps: float
    low_bps: float
    high_bps: float
    alike: int
    gaps: int


def slow_way_back(observed: PathRun, most_bps: float) -> bool:
    """Returns whether the answers to trains (pings sent back to back) come back over a link that is
    slower than the way there, as with an asymmetric access. `most_bps` is the highest rate that the
    way there passed.

    If the way back is slower, hardly any gap between answers is as short as most_bps would make it,
    and packets of a train may also be lost on the way back.
    """
    step = observed.step(TRAINS)
    if step is None or not step.packet_bytes or not most_bps or step.udp.height < LEAST_GAPS:
        return False
    shortest_s = step.udp["seconds"].quantile(SHORTEST, "linear") or 0.0
    return shortest_s > SLOWER * step.packet_bytes * 8 / most_bps


def rate_of_trains(observed: PathRun, least_bps: float, most_bps: float) -> TrainsRate | None:
    """Returns the rate of the link that spaced the packets of trains (pings sent back to back):
    packet size / gap between two answers. Of the lengths of gaps that occur often, the shortest
    counts.

    Only gaps that belong to rates from least_bps to most_bps are used. Returns None if no length is
    frequent, if there are too few gaps, or if the receiver's network card hands over several
    packets at once.
    """
    step = observed.step(TRAINS)
    if step is None or not step.packet_bytes or step.udp.height < LEAST_GAPS:
        return None
    bits, all_gaps_s = step.packet_bytes * 8, np.sort(step.udp["seconds"].to_numpy())
    if np.count_nonzero(np.abs(all_gaps_s) < LEAST_GAP_S) > JOINED_SHARE * len(all_gaps_s):
        return None
    gaps_s = all_gaps_s[
        (all_gaps_s >= max(LEAST_GAP_S, bits / most_bps)) & (all_gaps_s <= bits / least_bps)
    ]
    widths_s = np.maximum(ALIKE * gaps_s, LEAST_WIDTH_S)
    alike = np.searchsorted(gaps_s, gaps_s + widths_s, side="right") - np.arange(len(gaps_s))
    frequent = np.flatnonzero(alike >= max(FREQUENT, FREQUENT_SHARE * len(all_gaps_s)))
    if not len(frequent):
        return None
    near = frequent[gaps_s[frequent] <= gaps_s[frequent[0]] + widths_s[frequent[0]]]
    first = int(near[alike[near].argmax()])
    alike_s = gaps_s[first : first + int(alike[first])]
    low_bps = bits / float(alike_s[-1]) * (1 - ALIKE / 2)
    high_bps = bits / float(alike_s[0]) * (1 + ALIKE / 2)
    return TrainsRate(
        bits / float(np.median(alike_s)), low_bps, high_bps, len(alike_s), len(all_gaps_s)
    )


LEAST_TRAINS = 2
OVERFLOW_PACKETS = 2  # error of the number of packets that came through
LOST_PACKETS = 4  # of each train: a usable path loses that many only in a full queue
AT_ONCE = 1.5  # times the rate: faster packets did not leave a queue one after the other
LEAST_AT_ONCE = 4  # packets
MOSTLY_IN_FRONT = 0.8
CONTRADICTS = 1.5  # times the maximum that came through of a train
WAITING_PACKETS = 3


@dataclass(frozen=True)
class Overflow:
    """Describes how a queue, or a policer's bucket, overflowed when long trains of packets arrived.

    Of the best train, `packets` of `sent` packets arrived, and those after the second arrived at
    `apart_bps` (None if not measurable). `in_front` is the maximum number of packets that arrived
    before the first loss of a train.

    `is_best_rare` says whether fewer than half of the trains got nearly as far as the best one, as
    if cross traffic had emptied the bucket before most of them.

    `from_head` says whether all losses came in a row and packets arrived after them: fq_codel drops
    the packets that have waited longest (fq_codel_drop() in the kernel's net/sched/sch_fq_codel.c).
    A queue that drops at its tail loses the last packets, or every other packet if they come not
    much faster than they leave.
    """

    packets: int
    sent: int
    in_front: int
    packet_bytes: int
    apart_bps: float | None
    is_best_rare: bool
    from_head: bool

    @property
    def held(self) -> int:
        """Returns the number of packets in the queue when it dropped the first packet; for a queue
        that drops at its head, the number of packets that it kept.

        A packet that is being sent and one that passes the lab's token bucket at once do not count.
        Some of the other packets had already left the queue while the train arrived. Their share
        equals the share of the later packets that arrived, because a place became free for each.
        """
        if self.from_head:
            return max(self.packets - BUCKET_PACKETS, 0)
        arrived_share = max(self.packets - self.in_front, 0) / (self.sent - self.in_front)
        return round(max(self.in_front - BUCKET_PACKETS, 0) * (1 - arrived_share))

    @property
    def most_at_once_bytes(self) -> float:
        """Returns the upper bound of a policer's burst in bytes: the packets of the train that
        arrived, one packet that the full bucket dropped, and one packet that was being sent
        meanwhile.
        """
        return float((self.packets + 2) * self.packet_bytes)

    def contradicts(self, waits_s: float, rate_bps: float) -> bool:
        """Returns whether something other than the bottleneck's queue dropped packets of the train,
        so that the train shows nothing about this queue.

        waits_s: how long packets wait in the bottleneck's queue under overload
        rate_bps: the bottleneck's rate

        If the queue holds more bytes than 1.5 times the arrived part of the train, another queue or
        a limit of ICMP dropped the rest. If the train arrived faster than the rate although packets
        wait under overload, a bucket in front of the queue let it pass.
        """
        waiting_bytes = waits_s * rate_bps / 8
        return waiting_bytes > CONTRADICTS * self.most_at_once_bytes or (
            self.at_once(rate_bps) and waiting_bytes > WAITING_PACKETS * self.packet_bytes
        )

    def at_once(self, rate_bps: float) -> bool:
        """Returns whether a policer let the train pass: its first packets arrived faster than a
        queue of this rate sends (1.5 times), and hardly any packets arrived after the first loss.
        """
        hardly_any_followed = self.in_front >= MOSTLY_IN_FRONT * self.packets
        return (
            self.packets >= LEAST_AT_ONCE
            and hardly_any_followed
            and (self.apart_bps or 0.0) > AT_ONCE * rate_bps
        )


def overflow(observed: PathRun) -> Overflow | None:
    """Returns how the path dropped packets of long trains (64 pings sent back to back); None if the
    best train lost fewer than 4 packets, or if fewer than 2 trains were sent.
    """
    step = observed.step(BURSTS)
    if step is None or not step.packet_bytes or step.udp.height < LEAST_TRAINS:
        return None
    trains = step.udp.with_columns(came=pl.col("packets") - pl.col("lost_packets")).sort("came")
    best = trains.row(-1, named=True)
    if best["lost_packets"] < LOST_PACKETS or not best["came"]:
        return None
    apart_bps = None
    gaps = best["came"] - BUCKET_PACKETS
    if (
        best["seconds"] >= gaps * LEAST_GAP_S and gaps > 0
    ):  # if it took less time, the receiver's card may have joined them
        apart_bps = gaps * step.packet_bytes * 8 / best["seconds"]
    in_a_row = pl.col("before_loss") + pl.col("lost_packets") + pl.col("after_loss") == pl.col(
        "packets"
    )
    from_head = trains.filter(in_a_row, pl.col("after_loss") > 0).height > trains.height / 2
    in_front = int(trains["before_loss"].max())  # type: ignore[arg-type]
    as_good = trains.filter(pl.col("came") >= best["came"] - OVERFLOW_PACKETS).height
    return Overflow(
        packets=best["came"],
        sent=best["packets"],
        in_front=in_front,
        packet_bytes=step.packet_bytes,
        apart_bps=apart_bps,
        is_best_rare=as_good < trains.height / 2,
        from_head=from_head,
    )
