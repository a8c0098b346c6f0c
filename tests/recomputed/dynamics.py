"""Computes start-up, overshoot and convergence from counters at the borders of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from recomputed.bounds import Bounds, Numbers

if TYPE_CHECKING:
    from recomputed.raw import Flow, RawRun

STARTED, CONVERGED_S = 0.9, 2.0
FAIR, NEARLY = 1 / (1 + 0.2**2), 0.002  # Jain's index of two flows with shares of 0.6 and 0.4
APART = 20  # of the measured time: flows that begin or end within this part of it do so together
FINEST_S = 0.01  # of intervals: shorter ones are joined


def received_by(flows: Sequence[Flow], moments_s: Sequence[float]) -> list[Numbers]:
    """Returns the bytes that all flows had received at these moments: the likely value, the minimum
    and the maximum.
    """
    found = np.zeros((3, len(moments_s)))
    for flow in flows:
        of_sockets = [each.receiver.counter("bytes_received") for each in flow.connections]
        for counter in [flow.udp] if flow.udp else of_sockets:
            found += [counter.likely(moments_s), *counter.sides(moments_s)]
    return list(found)


def goodputs(borders: Numbers, flows: Sequence[Flow]) -> list[Numbers]:
    """Returns the possible goodputs per interval, in bits per second."""
    return [np.diff(values) * 8 / np.diff(borders) for values in received_by(flows, list(borders))]


def joins_or_changes(raw: RawRun) -> bool:
    """Returns whether flows begin or end while others go on, by more than a twentieth of the
    measured time, or whether the path changes.
    """
    starts_s = [float(source["start_s"]) for source in raw.sources]
    starts_s += [
        source["start_s"] + group["delay_s"]
        for source in raw.sources
        for group in source.get("groups", ())
    ]
    units: dict[tuple[int, int | None], list[Flow]] = {}
    for flow in raw.flows:
        units.setdefault(flow.unit, []).append(flow)
    begins_s = [min(flow.begin_s for flow in unit) for unit in units.values()]
    spans = (starts_s, begins_s, [max(flow.end_s for flow in unit) for unit in units.values()])
    apart = any(max(each) - min(each) > (raw.end_s - raw.omit_s) / APART for each in spans if each)
    return apart or any(change["at_s"] < raw.end_s for change in raw.path["changes"])


def start_up(raw: RawRun, flows: Sequence[Flow]) -> dict[str, Bounds | None]:
    if joins_or_changes(raw):
        return {"startup_s": None, "overshoot": None}
    borders = raw.borders_s(max(raw.interval_s, FINEST_S))
    packet_bps = raw.path["mtu_bytes"] * 8 * len(flows) / max(raw.interval_s, FINEST_S)
    found = [
        _start_up(values, borders, raw.omit_s, *(packets * packet_bps for packets in off))
        for values in goodputs(borders, flows)
        for off in product((-1, 0, 1), repeat=4)
    ]
    startup, overshoot = (Bounds.of(values) for values in zip(*found, strict=True))
    return {
        "startup_s": startup.wider(max(raw.interval_s, FINEST_S)) if startup else None,
        "overshoot": overshoot.wider(0.01) if overshoot else None,
    }


def _start_up(
    values: Numbers,
    borders: Numbers,
    omit_s: float,
    rise_bps: float,
    fall_bps: float,
    best_bps: float,
    steady_bps: float,
) -> tuple[float | None, float | None]:
    """Returns when the goodput rose, and the best interval while it was above the steady goodput.
    The goodput of each interval, and so their median, is known only to a packet. So each may be
    higher or lower by these rates.
    """
    carrying = np.flatnonzero(values > 0)
    if not len(carrying):
        return None, None
    began = int(carrying[0])
    measured = values[max(began, int(np.searchsorted(borders, omit_s - 1e-9))) :]
    steady = float(np.median(measured)) if len(measured) else 0.0
    if not steady:
        return None, None
    steady = max(steady + steady_bps, steady / 2)
    since = values[began:]
    up = np.flatnonzero(since >= STARTED * steady + rise_bps)
    above = np.flatnonzero(since >= steady + rise_bps)
    first = int(above[0]) if len(above) else len(since)
    below = np.flatnonzero(since[first:] < steady + fall_bps)
    excursion = since[first : first + int(below[0])] if len(below) else since[first:]
    startup_s = float(borders[began + int(up[0]) + 1] - borders[began]) if len(up) else None
    return startup_s, max(0.0, float((excursion.max(initial=steady) + best_bps) / steady - 1))


def convergence(raw: RawRun, units: Sequence[Sequence[Flow]]) -> Bounds | None:
    """Returns when all flows became fair and stayed so, counted from the start of the last flow."""
    if len(units) < 2:
        return None
    interval_s = max(raw.interval_s, FINEST_S)
    each = [goodputs(raw.borders_s(max(raw.interval_s, FINEST_S)), unit) for unit in units]
    found = Bounds.of(
        _convergence(np.array(values), interval_s, fair)
        for values in zip(*each, strict=True)
        for fair in (FAIR - NEARLY, FAIR, FAIR + NEARLY)
    )
    return found.wider(interval_s) if found else None


def _convergence(goodputs: Numbers, interval_s: float, fair: float) -> float | None:
    if not all((row > 0).any() for row in goodputs):
        return None
    begin = max(int(np.flatnonzero(row > 0)[0]) for row in goodputs)
    window = max(1, round(CONVERGED_S / interval_s))
    since_s = None
    for last in range(begin + window, goodputs.shape[1] + 1):
        means = goodputs[:, last - window : last].mean(axis=1)
        squares = (means**2).sum()
        index = means.sum() ** 2 / (len(means) * squares) if squares else 0.0
        if index < fair:
            since_s = None
        elif since_s is None:
            since_s = (last - begin) * interval_s
    return since_s
