"""Estimates a path's base RTT, random loss and reordering, which don't depend on its queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
    """Returns two estimates: the base RTT (without queueing), and its noise.

    While ccmix sends nothing else, the base RTT is where the RTTs of the RTT probe lie most densely
    (the half-sample mode of Robertson and Cryer 1974, with a tenth instead of a half). Packets that
    wait for cross traffic have a longer RTT, packets that overtake others a shorter one, and jitter
    changes it both ways. Without a probe, the base RTT is the smallest RTT of pings or sockets, and
    the noise is unknown.
    """
    if len(observed.idle_rtts_s) >= LEAST_ANSWERS:
        return _base_rtt_of_probe(observed.idle_rtts_s)
    smallest = _smallest_rtt(observed)
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
    """Returns the RTTs in the narrowest span that holds the given share of all RTTs, in ascending
    order. With a share of 0.1 of 100 RTTs, these are the 10 RTTs that lie closest together.
    """
    count, sorted_s = max(2, round(share * len(rtts_s))), np.sort(rtts_s)
    first = int((sorted_s[count - 1 :] - sorted_s[: 1 - count]).argmin())
    return sorted_s[first : first + count]


def quiet_noise_s(observed: PathRun) -> float:
    """Returns by how many seconds the RTT varies without any other traffic: the width of the
    narrowest span that holds 30% of the RTTs in the idle step, because cross traffic delays the
    others. Returns 0 if there are too few answers.
    """
    rtts_s = observed.idle_rtts_s
    return float(np.ptp(densest(rtts_s, QUIET_SHARE))) if len(rtts_s) >= LEAST_ANSWERS else 0.0


def _base_rtt_of_probe(rtts_s: NDArray[np.float64]) -> list[Estimate]:
    """Returns the estimates of the base RTT and of its noise, from the probe's RTTs in the idle
    step.
    """
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


def _smallest_rtt(observed: PathRun) -> tuple[float, str] | None:
    """Returns the smallest RTT in seconds that pings or sockets of a run saw, with a text that says
    which of them; None if there are no RTTs.
    """
    candidates: list[tuple[float, str]] = (
        [(min(observed.pings_s), "pings before the traffic")] if observed.pings_s else []
    )
    if "min_rtt_s" in observed.sockets.columns:
        socket_s = observed.sockets["min_rtt_s"].min()
        if isinstance(socket_s, float):
            candidates.append((socket_s, "the sockets' smallest RTT"))
    return min(candidates) if candidates else None


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
    """Holds how the bottleneck's queue shows in the probe's RTTs, so that losses of a full queue
    are not taken for random loss. Waits are in seconds beyond the base RTT.

    A wait of up to `empty_s` means an empty queue. A wait of `full_s` means a full queue; it is
    None if nothing filled the queue, or if our flows have their own queues. A managed queue (AQM)
    loses packets before it is full. `others` says whether there may be cross traffic, and `bursts`
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
    """Returns three estimates from the step 'below', whose UDP flow is well below the path's rate:
    the share of packets that are lost at random, the number of losses seen, and the mean length of
    a burst of losses.

    Losses in a full queue are not random. Therefore only intervals count in which no packet of the
    RTT probe waited long; `queue` says which waits are long. If the probe can't show this, and if
    losses or cross traffic come in bursts, there is only an upper bound, because cross traffic may
    have caused the losses.

    The 95% interval is Clopper and Pearson's if the losses vary no more than a binomial
    distribution. Otherwise a Gilbert model (Gilbert 1960) is fitted, whose bursts widen the
    interval.
    """
    step = observed.below
    if step is None or step.udp.is_empty():
        return _loss_bound_of_tcp(observed)
    # of all intervals: an overtaken packet counts as lost until it arrives, perhaps in the last one
    all_rows = step.udp.sort("time_s")
    not_full = _intervals_without_full_queue(observed, all_rows, queue)
    nearly_always_full = not_full is not None and not_full.height <= LEAST_QUIET * all_rows.height
    rows = all_rows if not_full is None or nearly_always_full else not_full
    sent, lost = int(rows["packets"].sum()), int(rows["lost_packets"].sum())
    if sent <= 0:
        return _loss_bound_of_tcp(observed)
    lost = max(lost, 0)
    origin = f"step {step.name}: {lost} of {sent} packets"
    if rows.height < all_rows.height:
        origin += ", while the queue was not full"
    seen = Estimate(SEEN, float(lost), float(lost), float(lost), origin=origin)
    whole_intervals = rows.slice(
        1, max(rows.height - 2, 0)
    )  # the first and the last interval are cut
    variance = _variance_of_losses(whole_intervals, sent, lost)
    low, high = binomial_interval(lost, sent, variance.inflation)
    burst_packets = variance.burst_packets
    because = ""
    if nearly_always_full and lost:
        because = "cross traffic filled the queue nearly all the time"
    elif not_full is None and lost and queue.others and (queue.bursts or variance.inflation > 1):
        because = "cross traffic may have filled the queue"
    if because:
        bound = Estimate(
            LOSS, None, 0.0, high, origin=f"{origin}, as an upper bound", unknown=because
        )
        return [bound, seen, cannot_be_told(BURST, because)]
    burst = (
        Estimate(
            BURST,
            burst_packets,
            max(1.0, burst_packets / 1.6),
            burst_packets * 1.6,
            origin=f"{origin}: their variance",
        )
        if burst_packets > 1
        else cannot_be_told(BURST, "losses look independent of each other")
    )
    return [Estimate(LOSS, lost / sent, low, high, origin=origin), seen, burst]


def _intervals_without_full_queue(
    observed: PathRun, rows: pl.DataFrame, queue: QueueAtBottleneck
) -> pl.DataFrame | None:
    """Returns those intervals of a UDP step (`rows` of PathStep.udp) in which the bottleneck's
    queue was not full; None if the RTT probe sent too few packets to show it.

    A full queue makes the probe's packets wait for queue.full_s. An interval is kept if they waited
    for at most half of that; with a managed queue (AQM), which drops packets earlier, also for at
    most 4 ms. All packets of the probe count that may have met the interval's packets: those sent
    from the base RTT plus queue.full_s before the interval until its end.
    """
    if queue.full_s is None:
        return None
    longest_wait_s = min(queue.full_s / 2, queue.full_s - observed.probe_interval_s)
    if queue.managed:
        longest_wait_s = min(longest_wait_s, MANAGED_FROM_S)
    earlier_s = queue.base_rtt_s + queue.full_s
    ends_s, lengths_s = rows["time_s"].to_numpy(), rows["seconds"].to_numpy()
    probes = observed.answered_probes(
        float(ends_s[0]) - 2 * earlier_s - 1, float(ends_s[-1]) + 1
    ).sort("time_s")
    if longest_wait_s < queue.empty_s or probes.is_empty():
        return None
    times_s, waits_s = probes["time_s"].to_numpy(), probes["rtt_s"].to_numpy() - queue.base_rtt_s
    first_probes = np.maximum(np.searchsorted(times_s, ends_s - lengths_s - earlier_s) - 1, 0)
    end_probes = np.searchsorted(times_s, ends_s) + 1
    waited_s = np.array(
        [waits_s[first:after].max() for first, after in zip(first_probes, end_probes, strict=True)]
    )
    return rows.filter(pl.Series(waited_s <= longest_wait_s))


@dataclass(frozen=True)
class _LossVariance:
    """Holds by how much losses in bursts vary more than independent ones: `inflation` is the ratio
    of the variances of their numbers, and `burst_packets` the mean burst that explains it.
    """

    inflation: float = 1.0
    burst_packets: float = 1.0


def _variance_of_losses(rows: pl.DataFrame, sent: int, lost: int) -> _LossVariance:
    """Compares how the number of losses varies from interval to interval with independent losses (a
    binomial distribution). If it varies significantly more, the losses come in bursts.

    rows: intervals with the columns packets and lost_packets
    sent, lost: the packets that were sent and lost in the whole step
    """
    if lost < LEAST_FOR_BURSTS:
        return _LossVariance()
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
        return _LossVariance()
    dispersion = chi_square / freedom
    correlation = _gilbert_correlation(dispersion, float(packets[used].mean()))
    inflation = max(1.0, (1 + correlation) / (1 - correlation))
    inflation *= (
        1 + 2 * (2 * inflation / lost) ** 0.5
    )  # two standard errors of the variance of that many bursts
    return _LossVariance(inflation, 1 / ((1 - correlation) * (1 - share)))


def _gilbert_correlation(dispersion: float, packets: float) -> float:
    """Returns the correlation between the losses of neighbouring packets in a Gilbert model (0:
    losses are independent). Bisection finds the correlation for which _variance_ratio(), the
    dispersion in the model, equals `dispersion`.

    dispersion: the variance of the number of losses in an interval, divided by the variance that
        this number would have if losses were independent
    packets: mean number of packets in an interval
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
    """Returns the ratio of two variances of the number of losses among `packets` packets: that in a
    Gilbert model (a two-state Markov chain), in which the losses of neighbouring packets have this
    correlation, divided by that of independent losses.
    """
    n = max(packets, 1.0)
    ends = float(correlation**n)
    return (1 + correlation) / (1 - correlation) - 2 * correlation * (1 - ends) / (
        n * (1 - correlation) ** 2
    )


def binomial_interval(lost: int, sent: int, inflation: float = 1.0) -> tuple[float, float]:
    """Returns the 95% interval of the share of packets that are lost, if `lost` of `sent` packets
    were lost (Clopper and Pearson).

    If losses come in bursts, `inflation` is the ratio of the variance of their number to that of
    independent losses. The interval is then that of a smaller sample, with lost / inflation of sent
    / inflation packets, so that it becomes wider.
    """
    k, n = lost / inflation, sent / inflation
    tail = (1 - COVERAGE) / 2
    low = beta_quantile(tail, k, n - k + 1) if k > 0 else 0.0
    high = beta_quantile(1 - tail, k + 1, n - k) if k < n else 1.0
    return low, high


def _loss_bound_of_tcp(observed: PathRun) -> list[Estimate]:
    """Returns the same three estimates as loss() for a run without a step well below the path's
    rate. The loss has only an upper bound: the smallest share of segments that TCP retransmitted in
    a step, whatever the cause. The other two are unknown.
    """
    rates = []
    for step in observed.tcp_steps:
        grown = observed.counter_growth(step, "data_segs_out", "retransmits")
        sent, again = int(grown["data_segs_out"].sum()), int(grown["retransmits"].sum())
        if sent > 0:
            rates.append((again / sent, again, sent, step.name))
    because = (
        "no step sent well below the rate, and the flows may have caused the "
        "retransmissions themselves"
    )
    bound = cannot_be_told(LOSS, because)
    if rates:
        _, again, sent, name = min(rates)
        _, high = binomial_interval(again, sent)
        origin = f"{name}: {again} retransmissions of {sent} segments, as an upper bound"
        bound = replace(bound, low=0.0, high=high, origin=origin)
    seen = cannot_be_told(SEEN, "no step sent well below the rate")
    return [bound, seen, cannot_be_told(BURST, because)]


def gilbert(share: float, burst_packets: float) -> tuple[float, float]:
    """Returns the probabilities P and R of netem's `loss gemodel P R` with which this share of
    packets is lost, in bursts of this mean length: R = 1 / burst_packets, and P = share x R / (1 -
    share).
    """
    leave_burst = 1 / burst_packets
    return share * leave_burst / (1 - share), leave_burst


def reordering(observed: PathRun, base_rtt_s: float | None) -> Estimate:
    """Returns the estimated share of packets that skip the path's delay, as with netem's `reorder`,
    from the step well below the path's rate.

    iperf3's receiver counts packets that come after a packet with a higher number. A packet that is
    early by half of the base RTT overtakes all n packets that were sent within that time, so each
    early packet makes many packets count. If a share q of the packets is early, then

    share that counts = 1 - (1 - q)^n, so q = 1 - (1 - share that counts)^(1 / n).
    """
    step = observed.below
    if step is None or step.out_of_order is None or step.udp.is_empty():
        return cannot_be_told(REORDERING, "no UDP step sent well below the rate")
    received = int(step.udp["packets"].sum()) - int(step.udp["lost_packets"].sum())
    seconds = float(step.udp["seconds"].sum())
    if received <= 0 or not seconds or not base_rtt_s:
        return cannot_be_told(REORDERING, "nothing arrived, or the base RTT is not known")
    origin = f"step {step.name}: {step.out_of_order} of {received} packets out of order"
    packets_overtaken = math.floor(received / seconds * base_rtt_s / 2)
    if packets_overtaken < 1:
        return cannot_be_told(
            REORDERING, "packets were further apart than half of the base RTT", origin=origin
        )
    events = step.out_of_order / packets_overtaken
    high_events = gamma_quantile(1 - TAIL, events + 1)
    if step.out_of_order == 0:
        return Estimate(REORDERING, 0.0, 0.0, high_events / received, origin=origin)
    share = min(step.out_of_order / received, 0.999)
    value = 1 - (1 - share) ** (1 / packets_overtaken)
    low_events = gamma_quantile(TAIL, max(events, 1e-9))
    low, high = low_events / max(events, 1e-9), high_events / max(events, 1e-9)
    return Estimate(
        REORDERING,
        value,
        value * low * (1 - MODEL_SHARE),
        min(1.0, value * high * (1 + MODEL_SHARE)),
        origin=origin,
    )
