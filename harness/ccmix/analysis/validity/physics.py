"""Judges metrics by what is possible on the path, so that a wrong number is not taken for a result."""

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from ccmix.analysis.measured import JITTER_S
from ccmix.analysis.validity.comparison import Limits, Observed
from ccmix.analysis.validity.path import TIMESTAMP_US, base_rtts_s
from ccmix.model import CommandSource, PathSource, Topology, UdpSource
from ccmix.model.results import Metrics

SHARES = ("share", "_rate", "fairness", "fairness_of_groups", "netem_loss", "unanswered", "window_limited")
HEADERS_BYTES = {"UDP": 28, "TCP": 52}  # with that of IP, and with TCP's timestamps
ROUNDED_S, ROUNDED = 1e-6, 1e-9  # the kernel's RTTs are whole microseconds; shares are sums of floats
Values = Mapping[str, Any]


def impossible(observed: Observed, metrics: Metrics) -> Limits:
    """Reports metrics that are negative, shares and rates of loss beyond 1, and on an emulated path RTTs below the
    propagation delay, and more goodput than the path carries.
    """
    parts = (metrics, metrics.bottleneck, metrics.policer, metrics.rtt_probe)
    for part in (*filter(None, parts), *metrics.groups, *metrics.flows, *metrics.completions):
        values, carried, rtt_s = vars(part), {}, 0.0
        if isinstance(observed.run.path, Topology):
            carried, rtt_s = _carried(observed, values), _least_rtt_s(observed.run.topology, values)
        for name, value in values.items():
            of_answers = "questions" in values and name.endswith("_s")
            least = rtt_s if of_answers or name.startswith("rtt_") else 0.0
            most = 1 + ROUNDED if name.endswith(SHARES) else carried.get(name, math.inf)
            if isinstance(value, int | float) and not least <= value <= most:
                whose = " ".join(str(values[key]) for key in ("group", "host", "port") if key in values)
                of_what = f"{type(part).__name__} {whose}".strip()
                yield "physics", f"{name} of {of_what} is {value:.6g}, possible is {least:.6g} to {most:.6g}"


def _least_rtt_s(topology: Topology, values: Values) -> float:
    """Returns the least RTT of packets of the host that the values are of, or of any.

    Jitter takes some of each delay, and reordering all that of data. TCP measures the RTT of what is sent again in
    whole milliseconds, rounded down.
    """
    least_s = (
        base_rtts_s(topology, sender)[0] + sender.drawn_delay_s - 2 * sender.jitter_s
        - (sender.delay_of_data_s if sender.reorder else 0.0)
        for sender in topology.senders
        if values.get("host") in (None, sender.name)
    )  # fmt: skip
    rounded_s = TIMESTAMP_US / 1e6 if values.get("retransmission_rate") else ROUNDED_S
    return min(least_s, default=0.0) - rounded_s


def _carried(observed: Observed, values: Values) -> dict[str, float]:
    """Returns the most goodput, in bits per second, and the most utilisation that are possible.

    In a time, a token bucket passes its rate and itself, and headers are no goodput. TCP hands on what has no gap
    before it: what had come before the measured time counts when its gap is filled. That is what had been acknowledged
    out of order, and what the path held besides, with a full buffer. A command's data may go the other way.
    """
    traffic, topology, sockets = observed.run.traffic, observed.run.topology, observed.tables.sockets
    kinds = {type(source) for source in traffic.sources}
    payload_bytes = topology.mtu_bytes - HEADERS_BYTES["UDP" if kinds & {UdpSource, PathSource} else "TCP"]
    rates_bps = [phase.rate_bps for _, phase in topology.phases]
    more_bits = 8.0 * (max(phase.bottleneck_bucket_bytes for _, phase in topology.phases) + topology.packet_bytes)
    if traffic.omit_s and "sacked" in sockets.columns:
        at_begin = sockets.filter((pl.col("time_s") - traffic.omit_s).abs() < JITTER_S)
        more_bits += max(rates_bps) * topology.longest_rtt_s + 8 * payload_bytes * float(at_begin["sacked"].sum())
    most_bps = max(rates_bps) * payload_bytes / topology.packet_bytes
    if CommandSource in kinds:
        return {}
    seconds = values.get("active_s") or traffic.measured_s
    return {
        "utilisation": 1 + more_bits / (min(rates_bps) * traffic.measured_s),
        "goodput_bps": most_bps + more_bits / seconds,
    }
