"""Judges metrics by what is possible on the path, so that a wrong number is not taken for a result."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S
from ccmix.analysis.path_metrics import mean_rate_bps
from ccmix.analysis.validity.comparison import Limits, Observed
from ccmix.analysis.validity.path import TIMESTAMP_US, own_phases
from ccmix.model import CommandSource, Topology, UdpSource
from ccmix.model.results import Metrics

SHARES = (
    "share", "fair_share", "fairness", "fairness_of_groups", "retransmission_rate", "netem_loss",
    "bottleneck.drop_rate", "policer.drop_rate", "rtt_probe.unanswered", "receiver_window_limited",
)  # fmt: skip
UDP_HEADERS_BYTES, TCP_HEADERS_BYTES = 28, 52  # with that of IP, and with TCP's timestamps
ROUNDED_S, ROUNDED = 1e-6, 1e-9  # the kernel's RTTs are whole microseconds; shares are sums of floats
Values = Mapping[str, Any]


def impossible(observed: Observed, metrics: Metrics) -> Limits:
    """Reports metrics that are negative, shares and rates of loss beyond 1, and on an emulated path RTTs below the
    propagation delay, and more goodput than the path carries.
    """
    for of_what, values in _parts(metrics):
        most = dict.fromkeys(SHARES, 1 + ROUNDED)
        rtt_s = 0.0
        if isinstance(observed.run.path, Topology):
            most |= _carried(observed, values)
            rtt_s = _least_rtt_s(observed.run.topology, values)
        for name, value in values.items():
            if not isinstance(value, int | float):
                continue
            least = rtt_s if name.startswith("rtt_") and name.endswith("_s") else 0.0
            if not value >= least:
                yield "physics", f"{name}{of_what} is {value:.6g}, at least {least:.6g} is possible"
            elif not value <= most.get(name, math.inf):
                yield "physics", f"{name}{of_what} is {value:.6g}, at most {most[name]:.6g} is possible"


def _parts(metrics: Metrics) -> Iterator[tuple[str, Values]]:
    """Yields metrics by their names, and what they are of, as it follows a name in a sentence."""
    yield "", vars(metrics)
    for part in ("bottleneck", "policer", "rtt_probe"):
        if values := getattr(metrics, part):
            yield "", {f"{part}.{name}": value for name, value in vars(values).items()}
    for group in (*metrics.groups, *metrics.completions):
        yield f" of {group.group}", vars(group)
    for flow in metrics.flows:
        yield f" of port {flow.port} of {flow.host}", vars(flow)


def _least_rtt_s(topology: Topology, values: Values) -> float:
    """Returns the least RTT of packets of the host that the values are of, or of any.

    Jitter takes some of each delay, and reordering all that of data. TCP measures the RTT of what is sent again in whole
    milliseconds, rounded down.
    """
    host = values.get("host")
    delays_s = (
        then.delay_of_acks_s - then.jitter_s + (0.0 if then.reorder else then.delay_of_data_s - then.jitter_s)
        for sender in topology.senders
        if host in (None, sender.name)
        for then in own_phases(topology, sender)
    )
    return min(delays_s, default=0.0) - ROUNDED_S - (TIMESTAMP_US / 1e6 if values.get("retransmission_rate") else 0.0)


def _carried(observed: Observed, values: Values) -> dict[str, float]:
    """Returns the most goodput, in bits per second, and the most utilisation that are possible.

    In a time, a token bucket passes its rate and itself, and headers are no goodput. TCP hands on what has no gap
    before it: what had come before the measured time counts when its gap is filled. That is what had been acknowledged
    out of order, and what the path held besides, with a full buffer. A command's data may go the other way.
    """
    run, topology, tables = observed.run, observed.run.topology, observed.tables
    begin_s, measured_s = run.traffic.omit_s, run.traffic.measured_s
    of_udp = any(isinstance(source, UdpSource) for source in run.traffic.sources)
    payload_bytes = topology.mtu_bytes - (UDP_HEADERS_BYTES if of_udp else TCP_HEADERS_BYTES)
    phases = [phase for _, phase in topology.phases]
    bucket_bits = 8 * max(phase.bottleneck_bucket_bytes + phase.packet_bytes for phase in phases)
    mean_bps, most_bps = mean_rate_bps(run, begin_s, run.traffic.total_s), max(phase.rate_bps for phase in phases)
    before_bits = 0.0
    if begin_s and "sacked" in tables.sockets.columns:
        known = tables.sockets.filter(pl.col("time_s") <= begin_s + JITTER_S).sort("time_s")
        sacked = known.group_by(FLOW).agg(pl.col("sacked").last())["sacked"].sum()
        before_bits = most_bps * topology.longest_rtt_s + 8 * sacked * payload_bytes
    seconds = values.get("active_s") or measured_s
    passed_bits = min(mean_bps * measured_s, most_bps * seconds) + bucket_bits
    goodput_bits = passed_bits * payload_bytes / topology.packet_bytes + before_bits
    full_bits = mean_bps * measured_s
    most = {"bottleneck.utilisation": passed_bits / full_bits}
    if any(isinstance(source, CommandSource) for source in run.traffic.sources):
        return most
    return most | {"goodput_bps": goodput_bits / seconds, "utilisation": goodput_bits / full_bits}
