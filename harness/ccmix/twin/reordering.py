"""Estimates how many packets overtake others."""

import math

from scipy import stats

from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.observed import PathRun

REORDERING = "reordering"
TAIL = 0.025
MODEL_SHARE = 0.25  # by which the model may be wrong: how early they are is taken for half of the base RTT


def reordering(observed: PathRun, base_rtt_s: float | None) -> Estimate:
    """Returns the share of packets that take no delay on their way, as netem's `reorder` makes them.

    iperf3's receiver counts what comes after a packet with a higher number. A packet that is early by half of the base
    RTT overtakes all that were sent within that time, so each event counts many times. An event is no packet: with q of
    the packets early, and n sent in that time, 1 - (1 - q)^n of the packets are overtaken.
    """
    step = observed.below
    if step is None or step.out_of_order is None or step.udp.is_empty():
        return cannot_be_told(REORDERING, "share", "no step of UDP sent well below the rate")
    received = int(step.udp["packets"].sum()) - int(step.udp["lost_packets"].sum())
    seconds = float(step.udp["seconds"].sum())
    if received <= 0 or not seconds or not base_rtt_s:
        return cannot_be_told(REORDERING, "share", "nothing arrived, or the base RTT is not known")
    origin = f"step {step.name}: {step.out_of_order} of {received} packets out of order"
    overtaken = math.floor(received / seconds * base_rtt_s / 2)
    if overtaken < 1:
        return cannot_be_told(
            REORDERING, "share", "packets were further apart than half of the base RTT", origin=origin
        )
    events = step.out_of_order / overtaken
    high_events = float(stats.gamma.ppf(1 - TAIL, events + 1))
    if step.out_of_order == 0:
        return Estimate(REORDERING, "share", 0.0, 0.0, high_events / received, origin=origin)
    share = min(step.out_of_order / received, 0.999)
    value = 1 - (1 - share) ** (1 / overtaken)
    low_events = float(stats.gamma.ppf(TAIL, max(events, 1e-9)))
    low, high = low_events / max(events, 1e-9), high_events / max(events, 1e-9)
    return Estimate(
        REORDERING, "share", value, value * low * (1 - MODEL_SHARE), min(1.0, value * high * (1 + MODEL_SHARE)),
        origin=origin,
    )  # fmt: skip
