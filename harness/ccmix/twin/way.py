"""Estimates the properties of the path that don't depend on queues: the base RTT, random loss and
its bursts, and reordering."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.intervals import beta_quantile, chi_square_tail, gamma_quantile
from ccmix.twin.estimate import (
    BASE_RTT,
    BURST,
    LOSS,
    NOISE,
    REORDERING,
    SEEN,
    Estimate,
    cannot_be_told,
)
from ccmix.twin.observed import PathRun

LEAST_ANSWERS = 20
DENSEST_SHARE = 0.1  # of the answers: their narrowest span is the base RTT
QUIET_SHARE = 0.3  # of the answers: at least these are not delayed by cross traffic
LEAST_WIDTH_S, WIDTH_SHARE = 0.1e-3, 0.005  # of the interval, to both sides
PINGS_WIDTH_SHARE = 0.02  # the same, for a few pings or the sockets' smallest RTT
NOISE_ENDS = 0.05, 0.95


def base_rtt(observed: PathRun) -> list[Estimate]:
    """Returns the base RTT and its noise.

    The base RTT is where the answers to the probe lie most densely while we send nothing else (the
    half-sample mode of Robertson and Cryer 1974, with a tenth instead of a half). Packets that wait
    for cross traffic come later, packets that overtake come earlier, and jitter goes both ways.
    """
    if len(observed.idle_rtts_s) >= LEAST_ANSWERS:
        return _of_probe(observed.idle_rtts_s)
    smallest = _smallest(observed)
    if smallest is None:
        because = "no probe was sent over the idle path, and no socket reported an RTT"
        return [cannot_be_told(BASE_RTT, because), cannot_be_told(NOISE, because)]
    value_s, origin = smallest
    width_s = max(LEAST_WIDTH_S, PINGS_WIDTH_SHARE * value_s)
    return [
        Estimate(BASE_RTT, value_s, max(0.0, value_s - width_s), value_s + width_s, origin=origin),
        cannot_be_told(NOISE, "no probe was sent over the idle path"),
    ]


def densest(rtts_s: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Returns the RTTs, sorted, of the narrowest span that holds this share of them."""
    count, in_order_s = max(2, round(share * len(rtts_s))), np.sort(rtts_s)
    at = int((in_order_s[count - 1 :] - in_order_s[: 1 - count]).argmin())
    return in_order_s[at : at + count]


def quiet_noise_s(observed: PathRun) -> float:
    """Returns the variation of the RTT without other traffic: the span of the densest answers in
    the idle step.
    """
    rtts_s = observed.idle_rtts_s
    return float(np.ptp(densest(rtts_s, QUIET_SHARE))) if len(rtts_s) >= LEAST_ANSWERS else 0.0


def _of_probe(rtts_s: NDArray[np.float64]) -> list[Estimate]:
    nearest_s = densest(rtts_s, DENSEST_SHARE)
    value_s = float(nearest_s.mean())
    width_s = max(LEAST_WIDTH_S, WIDTH_SHARE * value_s, float(np.ptp(nearest_s)))
    low_s, high_s = (float(np.quantile(rtts_s, end)) for end in NOISE_ENDS)
    origin = f"idle step: the densest tenth of {len(rtts_s)} answers"
    return [
        Estimate(BASE_RTT, value_s, max(0.0, value_s - width_s), value_s + width_s, origin=origin),
        Estimate(
            NOISE,
            high_s - low_s,
            0.0,
            high_s - low_s,
            origin="idle step: from the 5th to the 95th percentile",
        ),
    ]


def _smallest(observed: PathRun) -> tuple[float, str] | None:
    """Returns the smallest RTT of pings, questions and sockets, and its origin."""
    seen: list[tuple[float, str]] = (
        [(min(observed.pings_s), "pings before the traffic")] if observed.pings_s else []
    )
    if "min_rtt_s" in observed.sockets.columns:
        socket_s = observed.sockets["min_rtt_s"].min()
        if isinstance(socket_s, float):
            seen.append((socket_s, "the sockets' smallest RTT"))
    return min(seen) if seen else None


COVERAGE = 0.95
LEAST_FOR_BURSTS = 10  # fewer losses don't show bursts
SIGNIFICANT = 0.01
LEAST_QUIET = 0.2  # of the intervals: with fewer quiet ones, all intervals are taken
# the shortest wait with which a queue may lose packets: CoDel's target is 5 ms (RFC 8289)
MANAGED_FROM_S = 0.004

TAIL = 0.025
# error of the model, which assumes that packets are early by half of the base RTT
MODEL_SHARE = 0.25


@dataclass(frozen=True)
class QueueAtBottleneck:
    """Describes how long the probe's questions wait in the queue, in seconds beyond the base RTT.

    A wait of up to `empty_s` means an empty queue. A wait of `full_s` means a full queue; it is
    None if nothing filled the queue, or if our flows have their own queues. A managed queue loses
    packets before it is full. `others` says whether there may be cross traffic, and `bursts`
    whether it comes in bursts, as far as this can be seen.
    """

    base_rtt_s: float = 0.0
    empty_s: float = 0.0
    full_s: float | None = None
    managed: bool = False
    others: bool = False
    bursts: bool = False


EMPTY = QueueAtBottleneck()


def loss(observed: PathRun, queue: QueueAtBottleneck = EMPTY) -> list[Estimate]:
    """Returns the share of packets lost well below the rate, the losses seen, and the mean length
    of their bursts.

    Losses while cross traffic fills the queue are not random. Therefore only intervals count in
    which no question waited long. If questions can't show this, and losses or cross traffic come in
    bursts, cross traffic may have caused the losses: then there is only an upper bound.

    If the losses of intervals vary no more than a binomial distribution, the 95% interval is
    Clopper and Pearson's. Otherwise a Gilbert model (Gilbert 1960) is fitted. Its bursts widen the
    95% interval by as much as they widen the variance of the count, and by the uncertainty of that
    variance.
    """
    step = observed.below
    if step is None or step.udp.is_empty():
        return _of_tcp(observed)
    # of all intervals: an overtaken packet counts as lost until it arrives, perhaps in the last one
    every = step.udp.sort("time_s")
    quiet = _quiet(observed, every, queue)
    filled = quiet is not None and quiet.height <= LEAST_QUIET * every.height
    rows = every if quiet is None or filled else quiet
    sent, lost = int(rows["packets"].sum()), int(rows["lost_packets"].sum())
    if sent <= 0:
        return _of_tcp(observed)
    lost = max(lost, 0)
    origin = f"step {step.name}: {lost} of {sent} packets"
    if rows.height < every.height:
        origin += ", while the queue was not full"
    seen = Estimate(SEEN, float(lost), float(lost), float(lost), origin=origin)
    whole = rows.slice(1, max(rows.height - 2, 0))  # the first and the last interval are cut
    spread = _spread(whole, sent, lost)
    low, high = binomial_interval(lost, sent, spread.inflation)
    length = spread.burst_packets
    because = ""
    if filled and lost:
        because = "cross traffic filled the queue nearly all the time"
    elif quiet is None and lost and queue.others and (queue.bursts or spread.inflation > 1):
        because = "cross traffic may have filled the queue"
    if because:
        bound = Estimate(
            LOSS, None, 0.0, high, origin=f"{origin}, as an upper bound", unknown=because
        )
        return [bound, seen, cannot_be_told(BURST, because)]
    burst = (
        Estimate(
            BURST, length, max(1.0, length / 1.6), length * 1.6, origin=f"{origin}: their variance"
        )
        if length > 1
        else cannot_be_told(BURST, "losses look independent of each other")
    )
    return [Estimate(LOSS, lost / sent, low, high, origin=origin), seen, burst]


def _quiet(observed: PathRun, rows: pl.DataFrame, queue: QueueAtBottleneck) -> pl.DataFrame | None:
    """Returns the intervals in which the queue was not full; None if there are too few questions to
    show it.

    A question passes the bottleneck up to an RTT before the packets that it meets there are
    counted. A full queue is still long when the next question comes.
    """
    if queue.full_s is None:
        return None
    longest_s = min(queue.full_s / 2, queue.full_s - observed.asked_each_s)
    if queue.managed:
        longest_s = min(longest_s, MANAGED_FROM_S)
    earlier_s = queue.base_rtt_s + queue.full_s
    ends_s, lengths_s = rows["time_s"].to_numpy(), rows["seconds"].to_numpy()
    asked = observed.answered(float(ends_s[0]) - 2 * earlier_s - 1, float(ends_s[-1]) + 1).sort(
        "time_s"
    )
    if longest_s < queue.empty_s or asked.is_empty():
        return None
    times_s, waits_s = asked["time_s"].to_numpy(), asked["rtt_s"].to_numpy() - queue.base_rtt_s
    firsts = np.maximum(np.searchsorted(times_s, ends_s - lengths_s - earlier_s) - 1, 0)
    afters = np.searchsorted(times_s, ends_s) + 1
    waited_s = np.array(
        [waits_s[first:after].max() for first, after in zip(firsts, afters, strict=True)]
    )
    return rows.filter(pl.Series(waited_s <= longest_s))


@dataclass(frozen=True)
class _Spread:
    """Holds the variance of the number of losses over that of independent losses, and the mean
    burst that explains it.
    """

    inflation: float = 1.0
    burst_packets: float = 1.0


def _spread(rows: pl.DataFrame, sent: int, lost: int) -> _Spread:
    """Compares the variance of losses in intervals with the binomial's."""
    if lost < LEAST_FOR_BURSTS:
        return _Spread()
    packets = rows["packets"].to_numpy().astype(float)
    counts = rows["lost_packets"].to_numpy().astype(float)
    share = lost / sent
    expected = packets * share
    used = expected > 0
    chi_square = float(
        ((counts[used] - expected[used]) ** 2 / (expected[used] * (1 - share))).sum()
    )
    freedom = int(used.sum()) - 1
    if freedom < 1 or chi_square_tail(chi_square, freedom) > SIGNIFICANT:
        return _Spread()
    dispersion = chi_square / freedom
    correlation = _correlation(dispersion, float(packets[used].mean()), share)
    inflation = max(1.0, (1 + correlation) / (1 - correlation))
    inflation *= (
        1 + 2 * (2 * inflation / lost) ** 0.5
    )  # two standard errors of the variance of that many bursts
    return _Spread(inflation, 1 / ((1 - correlation) * (1 - share)))


def _correlation(dispersion: float, packets: float, share: float) -> float:
    """Returns the correlation of neighbouring packets in a Gilbert model. `dispersion` is the
    variance of its losses in that many packets, over that of independent losses.
    """
    low, high = 0.0, 0.999
    for _ in range(60):
        middle = (low + high) / 2
        if _variance_ratio(middle, packets) < dispersion:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _variance_ratio(correlation: float, packets: float) -> float:
    """Returns the variance of the sum of that many values of a two-state Markov chain, over that of
    independent values.
    """
    n = max(packets, 1.0)
    ends = float(correlation**n)
    return (1 + correlation) / (1 - correlation) - 2 * correlation * (1 - ends) / (
        n * (1 - correlation) ** 2
    )


def binomial_interval(lost: int, sent: int, inflation: float = 1.0) -> tuple[float, float]:
    """Returns Clopper and Pearson's interval for the number of independent losses that has the same
    variance.
    """
    k, n = lost / inflation, sent / inflation
    tail = (1 - COVERAGE) / 2
    low = beta_quantile(tail, k, n - k + 1) if k > 0 else 0.0
    high = beta_quantile(1 - tail, k + 1, n - k) if k < n else 1.0
    return low, high


def _of_tcp(observed: PathRun) -> list[Estimate]:
    """Returns an upper bound of the loss: the share that TCP retransmitted, whatever the cause."""
    rates = []
    for step in observed.tcp_steps:
        grown = observed.grown(step, "data_segs_out", "retransmits")
        sent, again = int(grown["data_segs_out"].sum()), int(grown["retransmits"].sum())
        if sent > 0:
            rates.append((again / sent, again, sent, step.name))
    because = (
        "no step sent well below the rate, and the flows may have caused the "
        "retransmissions themselves"
    )
    if not rates:
        return [cannot_be_told(LOSS, because), _none_seen(), cannot_be_told(BURST, because)]
    _, again, sent, name = min(rates)
    _, high = binomial_interval(again, sent)
    origin = f"{name}: {again} retransmissions of {sent} segments, as an upper bound"
    return [
        Estimate(LOSS, None, 0.0, high, origin=origin, unknown=because),
        _none_seen(),
        cannot_be_told(BURST, because),
    ]


def _none_seen() -> Estimate:
    return cannot_be_told(SEEN, "no step sent well below the rate")


def gilbert(share: float, burst_packets: float) -> tuple[float, float]:
    """Returns P and R of netem's gemodel that lose this share in bursts of this mean length."""
    r = 1 / burst_packets
    return share * r / (1 - share), r


def reordering(observed: PathRun, base_rtt_s: float | None) -> Estimate:
    """Returns the share of packets that skip the delay of the path, as netem's `reorder` makes
    them.

    iperf3's receiver counts packets that come after a packet with a higher number. A packet that is
    early by half of the base RTT overtakes all packets that were sent within that time, so each
    early packet is counted many times. If a share q of the packets is early, and n packets are sent
    in that time, a share of 1 - (1 - q)^n of the packets is overtaken.
    """
    step = observed.below
    if step is None or step.out_of_order is None or step.udp.is_empty():
        return cannot_be_told(REORDERING, "no UDP step sent well below the rate")
    received = int(step.udp["packets"].sum()) - int(step.udp["lost_packets"].sum())
    seconds = float(step.udp["seconds"].sum())
    if received <= 0 or not seconds or not base_rtt_s:
        return cannot_be_told(REORDERING, "nothing arrived, or the base RTT is not known")
    origin = f"step {step.name}: {step.out_of_order} of {received} packets out of order"
    overtaken = math.floor(received / seconds * base_rtt_s / 2)
    if overtaken < 1:
        return cannot_be_told(
            REORDERING, "packets were further apart than half of the base RTT", origin=origin
        )
    events = step.out_of_order / overtaken
    high_events = gamma_quantile(1 - TAIL, events + 1)
    if step.out_of_order == 0:
        return Estimate(REORDERING, 0.0, 0.0, high_events / received, origin=origin)
    share = min(step.out_of_order / received, 0.999)
    value = 1 - (1 - share) ** (1 / overtaken)
    low_events = gamma_quantile(TAIL, max(events, 1e-9))
    low, high = low_events / max(events, 1e-9), high_events / max(events, 1e-9)
    return Estimate(
        REORDERING,
        value,
        value * low * (1 - MODEL_SHARE),
        min(1.0, value * high * (1 + MODEL_SHARE)),
        origin=origin,
    )
