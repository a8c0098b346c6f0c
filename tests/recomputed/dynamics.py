"""Computes start-up, overshoot and convergence from counters at the borders of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recomputed.bounds import Bounds, Counter, Numbers

if TYPE_CHECKING:
    from recomputed.raw import Flow, RawRun

STARTED, DELTA, CONVERGED_S = 0.9, 0.2, 2.0


def received_by(flows: Sequence[Flow], moments_s: Sequence[float], side: str = "likely") -> Numbers:
    """Returns how much all flows had received at these moments; `side`: the lower or upper bound of it."""
    found = np.zeros(len(moments_s))
    for flow in flows:
        counters = [flow.udp] if flow.udp else [each.receiver.counter("bytes_received") for each in flow.connections]
        for counter in counters:
            found += _values(counter, moments_s, side)
    return found


def _values(counter: Counter, moments_s: Sequence[float], side: str) -> Numbers:
    if side == "likely":
        return counter.likely(moments_s)
    return np.array([getattr(counter.at(moment), side) for moment in moments_s])


def series(raw: RawRun, flows: Sequence[Flow]) -> list[Numbers]:
    """Returns the goodput per whole interval since time 0, in bits per second, as it may be."""
    borders = [moment for moment in raw.moments_s(0.0, raw.end_s) if _on_grid(raw, moment)]
    return [np.diff(received_by(flows, borders, side)) * 8 / raw.interval_s for side in ("likely", "low", "high")]


def _on_grid(raw: RawRun, moment_s: float) -> bool:
    number = (moment_s - raw.omit_s) / raw.interval_s
    return abs(number - round(number)) < 1e-6


def joins_or_changes(raw: RawRun, flows: Sequence[Flow]) -> bool:
    """Tells whether in the measured time a flow of these joins, or the path changes."""
    joins = any(flow.begin_s > raw.omit_s for flow in flows)
    return joins or any(raw.omit_s < change["at_s"] < raw.end_s for change in raw.path["changes"])


def start_up(raw: RawRun, flows: Sequence[Flow]) -> dict[str, Bounds | None]:
    if joins_or_changes(raw, flows):
        return {"startup_s": None, "overshoot": None}
    omitted = round((raw.omit_s - raw.omit_s % raw.interval_s) / raw.interval_s)
    found = [_start_up(values, omitted, raw.interval_s) for values in series(raw, flows)]
    startup, overshoot = (Bounds.of(values) for values in zip(*found, strict=True))
    return {
        "startup_s": startup.wider(raw.interval_s) if startup else None,
        "overshoot": overshoot.wider(0.01) if overshoot else None,
    }


def _start_up(values: Numbers, omitted: int, interval_s: float) -> tuple[float | None, float | None]:
    carrying = np.flatnonzero(values > 0)
    if not len(carrying):
        return None, None
    began = int(carrying[0])
    steady = float(np.median(values[max(began, omitted) :])) if len(values) > max(began, omitted) else 0.0
    if not steady:
        return None, None
    since = values[began:]
    up = int(np.flatnonzero(since >= STARTED * steady)[0])
    above = np.flatnonzero(since >= steady)
    first = int(above[0])
    below = np.flatnonzero(since[first:] < steady)
    excursion = since[first : first + int(below[0])] if len(below) else since[first:]
    return (up + 1) * interval_s, float(excursion.max() / steady - 1)


def convergence(raw: RawRun, flows: Sequence[Flow]) -> Bounds | None:
    """Returns when all flows became fair for good, counted from the start of the last."""
    if len(flows) < 2:
        return None
    each = [series(raw, [flow]) for flow in flows]
    found = Bounds.of(_convergence(np.array(values), raw.interval_s) for values in zip(*each, strict=True))
    return found.wider(raw.interval_s) if found else None


def _convergence(goodputs: Numbers, interval_s: float) -> float | None:
    if not all((row > 0).any() for row in goodputs):
        return None
    begin = max(int(np.flatnonzero(row > 0)[0]) for row in goodputs)
    window = max(1, round(CONVERGED_S / interval_s))
    since_s = None
    for last in range(begin + window, goodputs.shape[1] + 1):
        means = goodputs[:, last - window : last].mean(axis=1)
        squares = (means**2).sum()
        index = means.sum() ** 2 / (len(means) * squares) if squares else 0.0
        if index < 1 / (1 + DELTA**2):
            since_s = None
        elif since_s is None:
            since_s = (last - begin) * interval_s
    return since_s
