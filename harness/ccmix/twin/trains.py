"""Estimates the rate of the bottleneck from trains of packets, which leave it one after the other.

Packets that arrive together at a bottleneck leave it in the time that it takes to send each: size / gap is its rate,
whatever others send meanwhile, unless their packets come in between (packet pairs: Keshav, SIGCOMM 1991; and trains:
Dovrolis, Ramanathan and Moore, INFOCOM 2001, who show that the smallest frequent gap is the one to take).
"""

from dataclasses import dataclass

import numpy as np

from ccmix.twin.observed import PathRun

LEAST_GAPS = 10
ALIKE, FREQUENT_SHARE, FREQUENT = 0.02, 0.1, 8  # gaps that are alike, as many of all at least
LEAST_WIDTH_S = 0.6e-6  # that gaps vary by: stamps in the lab are in steps of 0.256 us, and both ends are rounded
LEAST_GAP_S = 2e-6  # stamps of real hosts are no better
JOINED_SHARE = 0.05  # of the gaps, that may be shorter


@dataclass(frozen=True)
class TrainsRate:
    """Holds the rate that trains show, with the ends of its interval, and how many of how many gaps are alike."""

    value_bps: float
    low_bps: float
    high_bps: float
    alike: int
    gaps: int


def rate_of_trains(observed: PathRun, least_bps: float, most_bps: float) -> TrainsRate | None:
    """Returns the rate by the smallest gap that is frequent, where gaps are densest around it, of gaps that a rate
    between the two bounds makes.

    Returns None where no gap is frequent, where none was measured, or where the receiver's card handed packets over
    together, so that all gaps are those of the card.
    """
    step = observed.trains
    if step is None or not step.packet_bytes or step.udp.height < LEAST_GAPS:
        return None
    bits, every_s = step.packet_bytes * 8, np.sort(step.udp["seconds"].to_numpy())
    if np.count_nonzero(np.abs(every_s) < LEAST_GAP_S) > JOINED_SHARE * len(every_s):
        return None
    gaps_s = every_s[(every_s >= max(LEAST_GAP_S, bits / most_bps)) & (every_s <= bits / least_bps)]
    widths_s = np.maximum(ALIKE * gaps_s, LEAST_WIDTH_S)
    alike = np.searchsorted(gaps_s, gaps_s + widths_s, side="right") - np.arange(len(gaps_s))
    frequent = np.flatnonzero(alike >= max(FREQUENT, FREQUENT_SHARE * len(every_s)))
    if not len(frequent):
        return None
    near = frequent[gaps_s[frequent] <= gaps_s[frequent[0]] + widths_s[frequent[0]]]
    first = int(near[alike[near].argmax()])
    own_s = gaps_s[first : first + int(alike[first])]
    low_bps, high_bps = bits / float(own_s[-1]) * (1 - ALIKE / 2), bits / float(own_s[0]) * (1 + ALIKE / 2)
    return TrainsRate(bits / float(np.median(own_s)), low_bps, high_bps, len(own_s), len(every_s))
