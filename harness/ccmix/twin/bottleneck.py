"""Estimates a bottleneck's kind of queue, and its buffer's size.

A queue is shared by all flows or there is one per flow; it is a FIFO or managed (AQM).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from ccmix.generators.path_steps import BURSTS, FILL, REACH
from ccmix.twin.estimate import BUFFER, QUEUE, Estimate, cannot_be_told
from ccmix.twin.observed import ORDINARY, PathRun, PathStep
from ccmix.twin.received import OVERFLOW_PACKETS, STEADY_SHARE, Overflow, Overloads

FIFO, PER_FLOW, MANAGED = "fifo", "one for each flow", "managed (AQM)"
MOST = 0.9  # percentile of TCP's smoothed RTTs; some of them include the wait for a delayed ACK
MOSTLY = 0.25  # percentile of TCP's smoothed RTTs that mostly excludes these waits
FULL = 0.95  # percentile of the probe's RTT while the buffer is full
SHOWS_PACKETS = 3  # a shorter wait does not show that the probe waits
SHOWS_S = 0.1e-3
# of the largest delay: flows that lose packets at a smaller delay don't fill a FIFO
NOT_FILLED = 0.6
FILLED = 0.85
GROWS, FALLS = 1.05, 0.985  # from one half of the steady part to the next
PEAK = 0.99  # percentile of the probe's RTT in a whole step
STANDS_S = 1e-3  # minimum delay of a managed queue under load: it is not empty
LEAST_MANAGED_S = 0.01  # a queue as short as CoDel's target does not show whether it is managed
FULL_SHARE, FULL_PACKETS = 0.03, 2.0  # error of the size of a full buffer
PROBES_LOST = 0.1  # share of lost probe packets under overload, above which they share our queue
FROM_HEAD = 4 / 3  # times the packets left: fq_codel drops up to half of a full queue at once
LEAST_ANSWERS = 10


@dataclass(frozen=True)
class Waits:
    """Holds how long packets waited at the bottleneck, in seconds beyond the base RTT; None if
    unknown.

    `probe_s`, the wait in both halves, and the peak are waits of the RTT probe under overload, when
    the queue is full. `probe_in_fill_s` is the probe's wait while TCP flows fill the buffer.
    `tcp_s` and `tcp_most_s` are the usual and the longest wait of these flows' own packets.
    """

    probe_s: float | None
    first_half_s: float | None
    second_half_s: float | None
    peak_s: float | None
    probe_in_fill_s: float | None
    tcp_s: float | None
    tcp_most_s: float | None
    probes_lost: float = 0.0  # share under overload, beyond that of the idle step

    @property
    def falls(self) -> bool:
        """Returns whether the queue got shorter under constant overload, by more than noise. Only a
        queue with active management (AQM) drains so.
        """
        return bool(
            self.first_half_s
            and self.second_half_s
            and self.second_half_s < FALLS * self.first_half_s
        )


def read_waits(observed: PathRun, base_rtt_s: float, overloaded: Overloads) -> Waits:
    """Returns how long packets waited at the bottleneck during one run (`observed`): those of the
    RTT probe, which pings throughout the run, and those of TCP flows.

    `base_rtt_s` is the RTT without any queue. `overloaded` are the UDP steps that offered more than
    the path's rate, so that its queue was full.
    """
    steps = [each.step for each in overloaded]
    fill_step = next(
        (step for kind in (FILL, ORDINARY, REACH) for step in observed.steps_of_kind(kind)), None
    )
    tcp_rtts = [_rtts_of_sockets(observed, step) for step in observed.tcp_steps]
    rtts_when_full = [observed.rtts(*_steady_span(step)) for step in steps]
    halves = [_median_rtts_of_halves(observed, step) for step in steps]
    idle = observed.idle
    lost_when_idle = observed.unanswered_share(idle.begin_s, idle.end_s) if idle else 0.0
    lost = (observed.unanswered_share(*_steady_span(step)) for step in steps)

    def longest_wait_s(rtts_s: Iterable[float | None]) -> float | None:
        """Returns the part of the longest RTT that is beyond the base RTT: the wait in the queue.
        None if no RTT is known.
        """
        known_s = [rtt_s for rtt_s in rtts_s if rtt_s is not None]
        return max(0.0, max(known_s) - base_rtt_s) if known_s else None

    return Waits(
        probe_s=longest_wait_s(_quantile(rtts_s, FULL) for rtts_s in rtts_when_full),
        first_half_s=longest_wait_s(first for first, _ in halves),
        second_half_s=longest_wait_s(second for _, second in halves),
        peak_s=longest_wait_s(
            _quantile(observed.rtts(step.begin_s, step.end_s), PEAK) for step in steps
        ),
        probe_in_fill_s=longest_wait_s(
            [_quantile(observed.rtts(*_steady_span(fill_step)), FULL)] if fill_step else []
        ),
        tcp_s=longest_wait_s(_quantile(rtts_s, MOSTLY) for rtts_s in tcp_rtts),
        tcp_most_s=longest_wait_s(_quantile(rtts_s, MOST) for rtts_s in tcp_rtts),
        probes_lost=max(lost, default=0.0) - lost_when_idle,
    )


def probe_waits(measured: Waits, packet_s: float, noise_s: float) -> bool:
    """Returns whether the RTT probe's packets wait under overload, which shows that they share a
    queue with the overloading flows.

    The wait must be longer than least_visible_wait_s() for `packet_s`, the time in which the
    bottleneck sends a packet, and `noise_s`, the variation of the RTT of the idle path.
    """
    return measured.probe_s is not None and measured.probe_s > least_visible_wait_s(
        packet_s, noise_s
    )


def has_queue_per_flow(
    measured: Waits, packet_s: float, noise_s: float, train_overflow: Overflow | None = None
) -> bool | None:
    """Returns whether the bottleneck has a separate queue for each flow, as fq_codel has; None if
    the waits are too short to tell.

    The queue is shared if the RTT probe's packets wait or are lost under overload, or if a long
    train of packets loses its last packets. The queues are separate if TCP's packets wait but the
    probe's don't, or if a long train loses its first packets, which have waited longest.

    packet_s: the time in which the bottleneck sends a packet
    noise_s: the variation of the idle path's RTT
    train_overflow: which packets of long trains were lost; None if none were lost or no trains were
        sent
    """
    if measured.probe_s is None:
        return None
    if probe_waits(measured, packet_s, noise_s) or measured.probes_lost > PROBES_LOST:
        return False
    if train_overflow is not None:
        return train_overflow.from_head
    tcp_waits = (
        measured.tcp_s is not None
        and measured.tcp_s > least_visible_wait_s(packet_s, noise_s) + measured.probe_s
    )
    return True if tcp_waits else None


def least_visible_wait_s(packet_s: float, noise_s: float) -> float:
    """Returns the shortest wait, beyond the base RTT, that proves that other packets are in the
    queue: the time of 3 packets, plus the noise of the RTT, plus 0.1 ms. `packet_s` is the time in
    which the bottleneck sends a packet, and `noise_s` is the variation of the idle path's RTT.
    """
    return SHOWS_PACKETS * packet_s + noise_s + SHOWS_S


def queue(
    measured: Waits,
    queue_per_flow: bool | None,
    retransmitted: float | None,
    random_loss_high: float | None,
) -> Estimate:
    """Returns the estimated kind of the bottleneck's queue: PER_FLOW, FIFO or MANAGED (with AQM).

    The queue is managed if it gets shorter under constant overload. It is also managed if CUBIC
    flows make it drop packets although they fill it to less than 60% (NOT_FILLED), and if random
    loss does not explain these drops. It is a FIFO if CUBIC flows fill it to at least 85% (FILLED).
    The full length is the RTT probe's wait under overload.

    queue_per_flow: whether each flow has its own queue; None if unknown
    retransmitted: share of segments that the CUBIC flows retransmitted; None if unknown
    random_loss_high: upper end of the estimated share of random loss; None if unknown
    """
    if queue_per_flow:
        origin = "the probe does not wait under overload, as in its own queue"
        return Estimate(QUEUE, word=PER_FLOW, origin=origin)
    if queue_per_flow is None or not measured.probe_s:
        return cannot_be_told(QUEUE, "packets wait too briefly to show how they are queued")
    origin = "steps above and fill: delays of the probe"
    if measured.probe_in_fill_s is None or measured.probe_s < LEAST_MANAGED_S:
        return cannot_be_told(
            QUEUE, "the shared queue is too short to show whether it is managed", origin=origin
        )
    queue_drops = (
        retransmitted is not None
        and random_loss_high is not None
        and retransmitted > 2 * random_loss_high
    )
    never_full_nor_empty = STANDS_S < measured.probe_in_fill_s < NOT_FILLED * measured.probe_s
    if measured.falls or (never_full_nor_empty and queue_drops):
        return Estimate(QUEUE, word=MANAGED, origin=origin)
    if measured.probe_in_fill_s >= FILLED * measured.probe_s:
        return Estimate(QUEUE, word=FIFO, origin=origin)
    return cannot_be_told(QUEUE, "the TCP flows did not fill the shared queue", origin=origin)


def buffer(
    observed: PathRun,
    measured: Waits,
    rate: Estimate,
    packet_bytes: int,
    queue_per_flow: bool | None,
    overloaded: Overloads,
) -> Estimate:
    """Returns the estimated size of the bottleneck's buffer in bytes, with headers: the RTT probe's
    wait while the buffer is full, times the rate.

    The result is only a lower bound if nothing filled the buffer, or if the queue still grew when
    the overload ended. If each flow has its own queue (`queue_per_flow`), the probe does not show
    the size. `overloaded` are the UDP steps that offered more than the path's rate.
    """
    rate_bps = rate.value or rate.low
    if not rate_bps:
        return cannot_be_told(BUFFER, "the rate is not known")
    if not overloaded:
        longest_wait_s = max(measured.tcp_most_s or 0.0, measured.probe_in_fill_s or 0.0)
        because = "nothing shows that it was full"
        return cannot_be_told(
            BUFFER, because, low=longest_wait_s * rate_bps / 8, origin="the longest RTTs"
        )
    origin = f"steps {overloaded.names}: delay of the probe x rate"
    if queue_per_flow:
        because = "each flow has its own queue, and the probe sees only its own"
        return cannot_be_told(BUFFER, because)
    if measured.probe_s is None:
        return cannot_be_told(BUFFER, "the probe got no answer during overload")
    packet_s = packet_bytes * 8 / rate_bps
    if (
        measured.first_half_s
        and measured.second_half_s
        and measured.second_half_s > GROWS * measured.first_half_s + packet_s
    ):
        low = measured.second_half_s * rate_bps / 8
        return cannot_be_told(
            BUFFER, "the queue still grew when the step ended", low=low, origin=origin
        )
    longest_wait_s = (
        max(measured.probe_s, measured.peak_s or 0.0) if measured.falls else measured.probe_s
    )
    value = (
        longest_wait_s * rate_bps / 8 + packet_bytes / 2
    )  # half a packet, in the mean, is free when the next packet has no room
    margin = FULL_SHARE * value + FULL_PACKETS * packet_bytes
    unseen_bytes = (
        (longest_wait_s - measured.probe_s) * rate_bps / 8
    )  # a managed queue may have dropped before it was full
    slower, faster = ((end or rate_bps) / rate_bps for end in (rate.low, rate.high))
    return Estimate(
        BUFFER,
        value,
        max(0.0, value * slower - margin),
        value * faster + margin + unseen_bytes,
        origin=origin,
    )


def buffer_from_train(overflow: Overflow) -> Estimate:
    """Returns the size of the queue in bytes, from a long train of packets that overflowed it.

    A queue that drops new packets has held overflow.held packets, and had room for half a packet
    more in the mean. A queue that drops its first packets (fq_codel) drops up to half of them at
    once, so that it has held about 4/3 (FROM_HEAD) of the packets that are left, and at most twice
    as many.
    """
    held, size = overflow.held, overflow.packet_bytes
    came_through = f"step {BURSTS}: {overflow.packets} packets of a longer train came through"
    if overflow.from_head:
        value, low, high = (
            float(packets * size) for packets in (int(FROM_HEAD * held), held - 1, 2 * held + 1)
        )
        return Estimate(
            BUFFER, value, max(low, 0.0), high, origin=f"{came_through}; the first ones were lost"
        )
    low = max(held - OVERFLOW_PACKETS, 0) * size
    high = max(held + OVERFLOW_PACKETS, overflow.packets)  # the first loss may have been at random
    return Estimate(
        BUFFER, (held + 0.5) * size, float(low), float(high * size), origin=came_through
    )


def _steady_span(step: PathStep) -> tuple[float, float]:
    """Returns the begin and the end in seconds of the second half of a step, when the buffer is
    full.
    """
    return step.end_s - STEADY_SHARE * (step.end_s - step.begin_s), step.end_s


def _median_rtts_of_halves(observed: PathRun, step: PathStep) -> tuple[float | None, float | None]:
    """Returns two medians of the RTT probe's RTTs: in the first and in the second half of the time
    in which a step has filled the buffer.
    """
    begin_s, end_s = _steady_span(step)
    middle_s = (begin_s + end_s) / 2
    return _quantile(observed.rtts(begin_s, middle_s), 0.5), _quantile(
        observed.rtts(middle_s, end_s), 0.5
    )


def _rtts_of_sockets(observed: PathRun, step: PathStep) -> pl.Series:
    """Returns TCP's smoothed RTTs in a step, as the sender's sockets report them. The first quarter
    of the step is left out, because the flows are in slow start then.
    """
    samples = observed.sockets_in(step)
    if "rtt_s" not in samples.columns:
        return pl.Series([], dtype=pl.Float64)
    begin_s = step.begin_s + (step.end_s - step.begin_s) / 4
    return samples.filter(pl.col("time_s") > begin_s)["rtt_s"].drop_nulls()


def _quantile(values: pl.Series, share: float) -> float | None:
    """Returns the quantile of RTTs at this share, such as 0.95; None for fewer than 10
    (LEAST_ANSWERS) values.
    """
    if values.len() < LEAST_ANSWERS:
        return None
    return values.quantile(share, "linear")
