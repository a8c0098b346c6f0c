"""Estimates the RTT over empty queues, and how much it varies there."""

import polars as pl

from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import PathRun

BASE_RTT, NOISE = "base RTT", "RTT noise"
LEAST_ANSWERS = 20
DENSEST_SHARE = 0.1  # of the answers, whose narrowest span is where the RTT mostly is
LEAST_WIDTH_S, WIDTH_SHARE = 0.1e-3, 0.005  # of the interval, to both sides
PINGS_WIDTH_SHARE = 0.02  # some pings, or sockets' smallest RTT
NOISE_ENDS = 0.05, 0.95


def base_rtt(observed: PathRun) -> list[Estimate]:
    """Returns the base RTT and its noise.

    The first is where the answers to the probe lie most densely while nothing else is sent (the half-sample mode of
    Robertson and Cryer 1974, with a tenth instead of a half): what waits for other traffic is later, what overtakes is
    earlier, and jitter spreads to both sides.
    """
    if (idle := observed.idle) is not None:
        rtts_s = observed.rtts(idle.begin_s, idle.end_s).sort()
        if rtts_s.len() >= LEAST_ANSWERS:
            return _of_probe(rtts_s)
    smallest = _smallest(observed)
    if smallest is None:
        because = "no probe was sent over the idle path, and no socket reported an RTT"
        return [cannot_be_told(BASE_RTT, "s", because), cannot_be_told(NOISE, "s", because)]
    value_s, origin = smallest
    width_s = max(LEAST_WIDTH_S, PINGS_WIDTH_SHARE * value_s)
    return [
        Estimate(BASE_RTT, "s", value_s, max(0.0, value_s - width_s), value_s + width_s, origin=origin),
        cannot_be_told(NOISE, "s", "no probe was sent over the idle path"),
    ]


def _of_probe(rtts_s: pl.Series) -> list[Estimate]:
    count = max(2, round(DENSEST_SHARE * rtts_s.len()))
    sorted_s = rtts_s.to_numpy()
    spans_s = sorted_s[count - 1 :] - sorted_s[: 1 - count]
    at = int(spans_s.argmin())
    value_s = float(sorted_s[at : at + count].mean())
    width_s = max(LEAST_WIDTH_S, WIDTH_SHARE * value_s, float(spans_s[at]))
    low_s, high_s = (float(rtts_s.quantile(end, "linear") or 0.0) for end in NOISE_ENDS)
    origin = f"idle step: the densest tenth of {rtts_s.len()} answers"
    return [
        Estimate(BASE_RTT, "s", value_s, max(0.0, value_s - width_s), value_s + width_s, origin=origin),
        Estimate(
            NOISE, "s", high_s - low_s, 0.0, high_s - low_s, origin="idle step: from the 5th to the 95th percentile"
        ),
    ]


def _smallest(observed: PathRun) -> tuple[float, str] | None:
    """Returns the smallest RTT that anything saw, and who."""
    seen: list[tuple[float, str]] = [(min(observed.pings_s), "pings before the traffic")] if observed.pings_s else []
    if "min_rtt_s" in observed.sockets.columns:
        socket_s = observed.sockets["min_rtt_s"].min()
        if isinstance(socket_s, float):
            seen.append((socket_s, "the sockets' smallest RTT"))
    return min(seen) if seen else None
