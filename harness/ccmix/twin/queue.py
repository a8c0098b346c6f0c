"""Estimates how the bottleneck queues, in one queue or one for each flow, managed or not, and how much it holds."""

from dataclasses import dataclass

import polars as pl

from ccmix.generators.path_steps import BURSTS, FILL, REACH
from ccmix.twin.bursts import Overflow
from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import ORDINARY, PathRun, PathStep
from ccmix.twin.rate import STEADY_SHARE, Overload

QUEUE, BUFFER = "queue", "buffer"
FIFO, OF_FLOWS, MANAGED = "fifo", "one for each flow", "managed (AQM)"
MOST = 0.9  # percentile of TCP's smoothed RTTs, of which some wait for delayed ACKs
MOSTLY = 0.25  # which are less than such waits in most samples
FULL = 0.95  # percentile of the probe's RTT while the buffer is full
SHOWS_PACKETS = 3  # of waiting, below which nothing shows that the probe waits
SHOWS_S = 0.1e-3
NOT_FILLED = 0.6  # of the largest delay: flows that lose packets at less than that don't fill a FIFO
FILLED = 0.85
GROWS, FALLS = 1.05, 0.985  # from one half of the steady part to the next
PEAK = 0.99  # percentile of the probe's RTT in a whole step
STANDS_S = 1e-3  # a queue that is managed is not empty
LEAST_MANAGED_S = 0.01  # a queue as short as CoDel's own target tells nothing
FULL_SHARE, FULL_PACKETS = 0.03, 2.0  # by which a full buffer may be wrong
PROBES_LOST = 0.1  # of the probe's packets beside overload, above which they wait where ours do
FROM_HEAD = 4 / 3  # times what was left: fq_codel drops up to half of a full queue at once
OVERFLOW_PACKETS = 2  # by which the packets that a queue held of a train may be wrong
LEAST_ANSWERS = 10


@dataclass(frozen=True)
class Waits:
    """Holds how long packets waited: the probe's beside overload, when the queue is full, in the halves of that time,
    and at the peak; and TCP's own.

    All in seconds beyond the base RTT; None where it is not known.
    """

    probe_s: float | None
    first_half_s: float | None
    second_half_s: float | None
    peak_s: float | None
    probe_in_fill_s: float | None
    tcp_s: float | None
    tcp_most_s: float | None
    probes_lost: float = 0.0  # share beside overload, beyond that of the idle step

    @property
    def falls(self) -> bool:
        """Returns whether the queue got shorter while it was overloaded, as only a managed one does."""
        return bool(self.first_half_s and self.second_half_s and self.second_half_s < FALLS * self.first_half_s)


def delays(observed: PathRun, base_rtt_s: float, found: list[Overload]) -> Waits:
    """Reads the delays of a run."""
    steps = [each.step for each in found]
    fill = next((step for kind in (FILL, ORDINARY, REACH) for step in observed.of_kind(kind)), None)
    of_tcp = [_tcp_rtts(observed, step) for step in observed.tcp_steps]
    full = [_quantile(_steady_rtts(observed, step), FULL) for step in steps]
    halves = [_halves(observed, step) for step in steps]
    idle = observed.idle
    lost_when_idle = observed.unanswered(idle.begin_s, idle.end_s) if idle else 0.0
    return Waits(
        probe_s=_beyond(_most(full), base_rtt_s),
        first_half_s=_beyond(_most([first for first, _ in halves]), base_rtt_s),
        second_half_s=_beyond(_most([second for _, second in halves]), base_rtt_s),
        peak_s=_beyond(_most([_quantile(observed.rtts(s.begin_s, s.end_s), PEAK) for s in steps]), base_rtt_s),
        probe_in_fill_s=_beyond(_quantile(_steady_rtts(observed, fill), FULL), base_rtt_s) if fill else None,
        tcp_s=_beyond(_most([_quantile(rtts_s, MOSTLY) for rtts_s in of_tcp]), base_rtt_s),
        tcp_most_s=_beyond(_most([_quantile(rtts_s, MOST) for rtts_s in of_tcp]), base_rtt_s),
        probes_lost=max((observed.unanswered(*_steady_time(step)) for step in steps), default=0.0) - lost_when_idle,
    )


def waits(seen: Waits, packet_s: float, noise_s: float) -> bool:
    """Returns whether the probe waits beside overload, as it does in one queue for all."""
    return seen.probe_s is not None and seen.probe_s > _shows_s(packet_s, noise_s)


def queues_of_flows(seen: Waits, packet_s: float, noise_s: float, overflow: Overflow | None = None) -> bool | None:
    """Returns whether each flow waits in a queue of its own: the probe does not wait where TCP's own packets do, or
    trains lose what has waited longest. It does not where the probe waits or is lost with ours, or where trains lose
    their end.

    None where nothing waits long enough to show.
    """
    if seen.probe_s is None:
        return None
    if waits(seen, packet_s, noise_s) or seen.probes_lost > PROBES_LOST:
        return False
    if overflow is not None:
        return overflow.from_head
    tcp_waits = seen.tcp_s is not None and seen.tcp_s > _shows_s(packet_s, noise_s) + seen.probe_s
    return True if tcp_waits else None


def _shows_s(packet_s: float, noise_s: float) -> float:
    return SHOWS_PACKETS * packet_s + noise_s + SHOWS_S


def queue(seen: Waits, of_flows: bool | None, retransmitted: float | None, loss_high: float | None) -> Estimate:
    """Returns the kind of the queue.

    Flows of CUBIC fill a FIFO before it drops. A queue that drops while it holds much less than it can is managed,
    unless random loss explains what was sent again. So is one that gets shorter beside constant overload.
    """
    if of_flows:
        return Estimate(
            QUEUE, word=OF_FLOWS, origin="the probe does not wait beside overload, as in a queue of its own"
        )
    if of_flows is None or not seen.probe_s:
        return cannot_be_told(QUEUE, "", "packets wait too short a time to show how they are queued")
    origin = "steps above and fill: delays of the probe"
    if seen.probe_in_fill_s is None or seen.probe_s < LEAST_MANAGED_S:
        return cannot_be_told(QUEUE, "", "one queue for all, too short to show whether it is managed", origin=origin)
    own_doing = retransmitted is not None and loss_high is not None and retransmitted > 2 * loss_high
    stands = STANDS_S < seen.probe_in_fill_s < NOT_FILLED * seen.probe_s
    if seen.falls or (stands and own_doing):
        return Estimate(QUEUE, word=MANAGED, origin=origin)
    if seen.probe_in_fill_s >= FILLED * seen.probe_s:
        return Estimate(QUEUE, word=FIFO, origin=origin)
    return cannot_be_told(QUEUE, "", "one queue for all, which TCP's flows did not fill", origin=origin)


def buffer(
    observed: PathRun, seen: Waits, rate: Estimate, packet_bytes: int, of_flows: bool | None,
    found: list[Overload],
) -> Estimate:  # fmt: skip
    """Returns how many bytes, with headers, wait at most: the longest delay times the rate."""
    rate_bps = rate.value or rate.low
    if not rate_bps:
        return cannot_be_told(BUFFER, "bytes", "the rate is not known")
    if not found:
        most_s = max(seen.tcp_most_s or 0.0, seen.probe_in_fill_s or 0.0)
        because = "nothing shows that it was full"
        return cannot_be_told(BUFFER, "bytes", because, low=most_s * rate_bps / 8, origin="the longest RTTs")
    origin = f"steps {' and '.join(each.step.name for each in found)}: delay of the probe x rate"
    if of_flows:
        because = "each flow has a queue of its own, and the probe sees only its own"
        return cannot_be_told(BUFFER, "bytes", because)
    if seen.probe_s is None:
        return cannot_be_told(BUFFER, "bytes", "the probe got no answer during overload")
    packet_s = packet_bytes * 8 / rate_bps
    if seen.first_half_s and seen.second_half_s and seen.second_half_s > GROWS * seen.first_half_s + packet_s:
        low = seen.second_half_s * rate_bps / 8
        return cannot_be_told(BUFFER, "bytes", "the queue still grew when the step ended", low=low, origin=origin)
    most_s = max(seen.probe_s, seen.peak_s or 0.0) if seen.falls else seen.probe_s
    value = most_s * rate_bps / 8 + packet_bytes / 2  # half a packet is free where the next one has no room
    margin = FULL_SHARE * value + FULL_PACKETS * packet_bytes
    unseen = (most_s - seen.probe_s) * rate_bps / 8  # a managed queue may have dropped before it was full
    slower, faster = ((end or rate_bps) / rate_bps for end in (rate.low, rate.high))
    return Estimate(
        BUFFER, "bytes", value, max(0.0, value * slower - margin), value * faster + margin + unseen, origin=origin
    )


def buffer_of_train(overflow: Overflow) -> Estimate:
    """Returns what a queue held of a train: whole packets, where there may have been room for a part of one more."""
    held, size = overflow.held, overflow.packet_bytes
    of = f"step {BURSTS}: {overflow.packets} packets of a train came through, of more"
    if overflow.from_head:
        value, least, most = (float(packets * size) for packets in (int(FROM_HEAD * held), held - 1, 2 * held + 1))
        return Estimate(BUFFER, "bytes", value, max(least, 0.0), most, origin=f"{of}; the first ones were lost")
    least = max(held - OVERFLOW_PACKETS, 0) * size
    most = max(held + OVERFLOW_PACKETS, overflow.packets)  # the first loss may have been at random
    return Estimate(BUFFER, "bytes", (held + 0.5) * size, float(least), float(most * size), origin=of)


def _steady_time(step: PathStep) -> tuple[float, float]:
    return step.end_s - STEADY_SHARE * (step.end_s - step.begin_s), step.end_s


def _steady_rtts(observed: PathRun, step: PathStep) -> pl.Series:
    return observed.rtts(*_steady_time(step))


def _halves(observed: PathRun, step: PathStep) -> tuple[float | None, float | None]:
    begin_s, end_s = _steady_time(step)
    middle_s = (begin_s + end_s) / 2
    return _quantile(observed.rtts(begin_s, middle_s), 0.5), _quantile(observed.rtts(middle_s, end_s), 0.5)


def _tcp_rtts(observed: PathRun, step: PathStep) -> pl.Series:
    samples = observed.sockets_in(step)
    if "rtt_s" not in samples.columns:
        return pl.Series([], dtype=pl.Float64)
    begin_s = step.begin_s + (step.end_s - step.begin_s) / 4
    return samples.filter(pl.col("time_s") > begin_s)["rtt_s"].drop_nulls()


def _quantile(values: pl.Series, share: float) -> float | None:
    if values.len() < LEAST_ANSWERS:
        return None
    return values.quantile(share, "linear")


def _most(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _beyond(rtt_s: float | None, base_rtt_s: float) -> float | None:
    return None if rtt_s is None else max(0.0, rtt_s - base_rtt_s)
