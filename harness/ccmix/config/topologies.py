"""Settings of an entry on an emulated path to that path, and what they say against each other."""

from collections.abc import Mapping
from typing import Any

from ccmix.model import Topology, Traffic
from ccmix.model.traffic import streams_of_groups
from ccmix.units import format_bytes

MOST_DURATION_S, MOST_OMIT_S = 86400, 600  # iperf3's own limits (MAX_TIME and MAX_OMIT_TIME in iperf.h)
MOST_BUFFER_BYTES = 2**32 - 1  # tbf's limit is of 32 bits (struct tc_tbf_qopt)


def topology(settings: Mapping[str, Any]) -> Topology:
    return Topology(
        rate_bps=settings["rate"],
        delay_s=settings["delay"],
        loss=settings["loss"],
        buffer=settings["buffer"],
        mtu_bytes=settings["mtu"],
        offloads=settings["offloads"],
    )


def own_traffic(settings: Mapping[str, Any]) -> Traffic:
    """Of ccmix's own iperf3."""
    return Traffic(
        groups=settings["cca"],
        streams=settings["streams"],
        duration_s=settings["duration"],
        omit_s=settings["omit"],
        interval_s=settings["interval"],
        pacing_bps=settings["pacing"],
        rtt_probe=settings["rtt-probe"],
    )


def traffic_contradiction(traffic: Traffic, port: int) -> str | None:
    """What two right values of ccmix's own iperf3, whose server has the port, say against each other."""
    if traffic.rtt_probe and traffic.rtt_probe.tcp_port == port:
        return f"rtt-probe asks port {port}, where iperf3's server takes each question for a test: give another port"
    if 0 in streams_of_groups(traffic.groups, traffic.streams):
        return f"cca names {len(traffic.groups)} groups, and with streams = {traffic.streams} not each of them gets one"
    if not 0.1 <= traffic.interval_s <= min(60.0, traffic.duration_s):
        return f"interval = {traffic.interval_s:g}s: iperf3 takes 100ms to 60s, and no more than duration"
    for name, seconds, most in (
        ("duration", traffic.duration_s, MOST_DURATION_S), ("omit", traffic.omit_s, MOST_OMIT_S)
    ):  # fmt: skip
        if seconds != int(seconds) or seconds > most:
            return f"{name} = {seconds:g}s: iperf3 takes whole seconds, {most} at most"
    return None


def topology_contradiction(path: Topology) -> str | None:
    """What two right values of an emulated path say against each other."""
    if path.buffer.kind == "bdp" and path.delay_s == 0:
        return "buffer is given in BDP, and the BDP of a path without delay is 0: give bytes or packets"
    if path.buffer_bytes > MOST_BUFFER_BYTES:
        size = format_bytes(path.buffer_bytes)
        return f"buffer comes to {size}: tbf holds {format_bytes(MOST_BUFFER_BYTES)} at most"
    return None
