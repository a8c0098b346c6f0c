"""Makes what a run of an entry of type path would show of a path whose truth is known, without any
network.

A fluid model with steps of a millisecond: one queue, drops what does not fit, and other traffic at
    a constant rate.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep

PACKET_BYTES = 1514
TICK_S, INTERVAL_S, PROBE_S = 1e-3, 0.01, 0.01


@dataclass(frozen=True)
class Truth:
    """Describes a path with one queue; losses are in bursts of this mean length."""

    rate_bps: float = 50e6
    base_rtt_s: float = 0.02
    buffer_bytes: float = 125e3
    loss: float = 0.0
    burst_packets: float = 1.0
    cross_bps: float = 0.0
    noise_s: float = 0.0


def udp_step(
    truth: Truth, name: str, begin_s: float, seconds: float, offered_bps: float, seed: int = 1
) -> tuple[PathStep, pl.DataFrame]:
    """Returns a step of UDP, and the probe's RTTs during it."""
    drawn = np.random.default_rng(seed)
    ticks = round(seconds / TICK_S)
    queued, waits, passed = 0.0, np.zeros(ticks), np.zeros(ticks)
    for tick in range(ticks):
        ours = offered_bps * (1 - truth.loss) * TICK_S / 8
        all_of_us = ours + truth.cross_bps * TICK_S / 8
        room = truth.buffer_bytes - queued + truth.rate_bps * TICK_S / 8
        admitted = min(1.0, room / all_of_us)
        queued = max(0.0, queued + all_of_us * admitted - truth.rate_bps * TICK_S / 8)
        waits[tick], passed[tick] = queued * 8 / truth.rate_bps, admitted * ours
    per = round(INTERVAL_S / TICK_S)
    sent = np.full(ticks // per, offered_bps * INTERVAL_S / 8 / PACKET_BYTES)
    arrived = passed[: len(sent) * per].reshape(-1, per).sum(axis=1) / PACKET_BYTES
    sent_packets = np.diff(np.floor(np.concatenate([[0], sent.cumsum()]))).astype(int)
    through = np.minimum(
        np.diff(np.floor(np.concatenate([[0], arrived.cumsum()]))).astype(int), sent_packets
    )
    at_random = lost_of(truth, sent_packets, drawn)
    lost = at_random if offered_bps + truth.cross_bps < truth.rate_bps else sent_packets - through
    udp = pl.DataFrame(
        {
            "time_s": begin_s + (np.arange(len(sent)) + 1) * INTERVAL_S,
            "seconds": np.full(len(sent), INTERVAL_S),
            "received_bytes": (sent_packets - lost) * (PACKET_BYTES - 42),
            "packets": sent_packets,
            "lost_packets": lost,
        }
    )
    times = np.arange(0, seconds, PROBE_S)
    at = np.minimum((times / TICK_S).astype(int), ticks - 1)
    rtts = truth.base_rtt_s + waits[at] + truth.noise_s * drawn.random(len(times))
    step = PathStep(name, begin_s, begin_s + seconds, 1, None, offered_bps, PACKET_BYTES, 0, udp)
    return step, pl.DataFrame({"time_s": begin_s + times, "rtt_s": rtts})


def lost_of(truth: Truth, sent: np.ndarray, drawn: np.random.Generator) -> np.ndarray:
    """Returns how many packets of each interval are lost at random."""
    total = int(sent.sum())
    if truth.burst_packets <= 1:
        lost = drawn.random(total) < truth.loss
    else:
        lost = np.zeros(total, bool)
        leave = 1 / truth.burst_packets
        enter = truth.loss * leave / (1 - truth.loss)
        at = int(drawn.geometric(enter)) if enter else total
        while at < total:
            length = int(drawn.geometric(leave))
            lost[at : at + length] = True
            at += length + int(drawn.geometric(enter))
    ends = sent.cumsum()
    counted = np.concatenate([[0], lost.cumsum()])
    of_packets: np.ndarray = counted[ends] - counted[ends - sent]
    return of_packets


def measured(
    truth: Truth, above: tuple[float, ...] = (1.6, 2.5), below_s: float = 40.0, seed: int = 1
) -> PathRun:
    """Returns the measurements of the steps; `above` are the offered rates, relative to the
    path's."""
    drawn = np.random.default_rng(seed)
    times = np.arange(0, 9, PROBE_S)
    idle = PathStep("idle", 0.0, 9.0, 0, None)
    busy = drawn.random(len(times)) < truth.cross_bps / truth.rate_bps
    waits = busy * drawn.random(len(times)) * PACKET_BYTES * 8 / truth.rate_bps
    rtts = [
        pl.DataFrame(
            {
                "time_s": times,
                "rtt_s": truth.base_rtt_s + waits + truth.noise_s * drawn.random(len(times)),
            }
        )
    ]
    steps, at_s = [idle, PathStep("reach", 9.0, 10.0, 4, "bbr")], 20.0
    for number, times_rate in enumerate(above, start=1):
        step, own = udp_step(truth, f"above-{number}", at_s, 6.0, times_rate * truth.rate_bps, seed)
        steps.append(step)
        rtts.append(own)
        at_s += 8
    step, own = udp_step(truth, "below", at_s, below_s, truth.rate_bps / 4, seed)
    return PathRun("synthetic", (*steps, step), pl.concat([*rtts, own]), pl.DataFrame())


def covers(estimate: Estimate, truth: float) -> bool:
    """Returns whether the truth is within the estimate's interval."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high
