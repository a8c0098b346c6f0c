"""Estimates what the path loses although no queue is full, singly or in bursts."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from scipy import stats

from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import PathRun

LOSS, SEEN, BURST = "random loss", "losses seen", "burst of losses"
COVERAGE = 0.95
LEAST_FOR_BURSTS = 10  # losses, of which fewer show no bursts
SIGNIFICANT = 0.01
BATCHES = 40


def loss(observed: PathRun) -> list[Estimate]:
    """Returns the share of packets lost well below the rate, the losses seen, and the mean length of their bursts.

    Where the losses of intervals vary no more than a binomial distribution's, the interval is Clopper and Pearson's.
    Else they are taken for a Gilbert model (Gilbert 1960), whose bursts widen the interval as much as they widen the
    variance of the count, and by what is not known of that variance.
    """
    step = observed.below
    if step is None or step.udp.is_empty():
        return _of_tcp(observed)
    # of all intervals: a packet that others overtook counts as lost until it arrives, perhaps in the last one
    sent, lost = int(step.udp["packets"].sum()), int(step.udp["lost_packets"].sum())
    if sent <= 0:
        return _of_tcp(observed)
    lost = max(lost, 0)
    origin = f"step {step.name}: {lost} of {sent} packets"
    seen = Estimate(SEEN, "", float(lost), float(lost), float(lost), origin=origin)
    whole = step.udp.sort("time_s").slice(1, max(step.udp.height - 2, 0))  # the first and the last interval are cut
    spread = _spread(whole, sent, lost)
    low, high = binomial_interval(lost, sent, spread.inflation)
    length = spread.burst_packets
    burst = (
        Estimate(BURST, "packets", length, max(1.0, length / 1.6), length * 1.6, origin=f"{origin}: their variance")
        if length > 1
        else cannot_be_told(BURST, "packets", "losses look independent of each other")
    )
    return [Estimate(LOSS, "share", lost / sent, low, high, origin=origin), seen, burst]


@dataclass(frozen=True)
class _Spread:
    """Says how much more the number of losses varies than independent ones, and the mean burst that does so."""

    inflation: float = 1.0
    burst_packets: float = 1.0


def _spread(rows: pl.DataFrame, sent: int, lost: int) -> _Spread:
    """Compares the variance of losses in intervals with the binomial's."""
    if lost < LEAST_FOR_BURSTS:
        return _Spread()
    packets, counts = rows["packets"].to_numpy().astype(float), rows["lost_packets"].to_numpy().astype(float)
    share = lost / sent
    expected = packets * share
    used = expected > 0
    chi_square = float(((counts[used] - expected[used]) ** 2 / (expected[used] * (1 - share))).sum())
    freedom = int(used.sum()) - 1
    if freedom < 1 or stats.chi2.sf(chi_square, freedom) > SIGNIFICANT:
        return _Spread()
    dispersion = chi_square / freedom
    correlation = _correlation(dispersion, float(packets[used].mean()), share)
    inflation = max(1.0, (1 + correlation) / (1 - correlation))
    inflation *= 1 + 2 * (2 * inflation / lost) ** 0.5  # two standard errors of a variance that so many bursts show
    return _Spread(inflation, 1 / ((1 - correlation) * (1 - share)))


def _correlation(dispersion: float, packets: float, share: float) -> float:
    """Returns the correlation of neighbouring packets of a Gilbert model whose count in so many packets has this
    variance, over that of independent losses.
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
    """Returns the variance of the sum of so many values of a two-state Markov chain, over that of independent ones."""
    n = max(packets, 1.0)
    ends = float(correlation**n)
    return (1 + correlation) / (1 - correlation) - 2 * correlation * (1 - ends) / (n * (1 - correlation) ** 2)


def binomial_interval(lost: int, sent: int, inflation: float = 1.0) -> tuple[float, float]:
    """Returns Clopper and Pearson's interval, of as many independent losses as have the same variance."""
    k, n = lost / inflation, sent / inflation
    tail = (1 - COVERAGE) / 2
    low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
    return low, high


def _of_tcp(observed: PathRun) -> list[Estimate]:
    """Returns an upper bound of the loss: the share that TCP sent again, whatever the cause."""
    rates = []
    for step in observed.tcp_steps:
        grown = observed.grown(step, "data_segs_out", "retransmits")
        sent, again = int(grown["data_segs_out"].sum()), int(grown["retransmits"].sum())
        if sent > 0:
            rates.append((again / sent, again, sent, step.name))
    because = "no step sent well below the rate, and the flows may have caused the retransmissions themselves"
    if not rates:
        return [cannot_be_told(LOSS, "share", because), _none_seen(), cannot_be_told(BURST, "packets", because)]
    _, again, sent, name = min(rates)
    _, high = binomial_interval(again, sent)
    origin = f"{name}: {again} retransmissions of {sent} segments, as an upper bound"
    return [
        Estimate(LOSS, "share", None, 0.0, high, origin=origin, unknown=because),
        _none_seen(),
        cannot_be_told(BURST, "packets", because),
    ]


def _none_seen() -> Estimate:
    return cannot_be_told(SEEN, "", "no step sent well below the rate")


def gilbert(share: float, burst_packets: float) -> tuple[float, float]:
    """Returns P and R of netem's gemodel that lose this share in bursts of this mean length."""
    r = 1 / burst_packets
    return share * r / (1 - share), r
