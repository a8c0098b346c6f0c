"""Lists what a place is set to, so that places which differ in one setting alone are seen, whatever their entries."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ccmix.analysis import path_text
from ccmix.model import Buffer, GroupedSource, HostPath, Topology, Traffic
from ccmix.units import format_bytes, format_percent, format_rate, format_time

BASE_RTT, STREAMS = "base RTT", "streams"
OF_KEYS = {
    "rate": "rate", "delay": BASE_RTT, "rtt": BASE_RTT, "loss": "loss", "buffer": "buffer", "qdisc": "qdisc",
    "policer": "policer", "receiver-window": "receiver-window",
    "jitter": "jitter", "reorder": "reorder", "mtu": "mtu", "ecn": "ecn", "sender-qdisc": "sender-qdisc",
    "sender-rate": "sender-qdisc", "offloads": "offloads", "kernel": "kernel", STREAMS: STREAMS,
}  # fmt: skip
"""Swept keys of an emulated path, and the settings that they change."""
HOST_DELAYS = ("lat-sweep", "netem-lat")


@dataclass(frozen=True)
class PlaceSettings:
    """Holds the settings of a place as text, by name. Places of different `rest` are never one line."""

    settings: tuple[tuple[str, str], ...]
    rest: tuple[object, ...]


def place_settings(
    path: Topology | HostPath, traffic: Traffic, condition: tuple[tuple[str, str], ...], dst: str, entry: str
) -> PlaceSettings:
    """Returns the settings of an emulated path, swept or not, if all that is swept is among them.

    Otherwise returns what is swept, as written; then only places of one entry can be compared.
    """
    if isinstance(path, Topology) and all(key in OF_KEYS for key, _ in condition):
        own = path_settings(path) | {STREAMS: str(traffic.streams)}
        return PlaceSettings(tuple(own.items()), ("emulated", _without_streams(traffic), _rest(path)))
    swept = tuple((key, swept_text(path, key, value)) for key, value in condition)
    return PlaceSettings(swept, ("swept", entry, dst, tuple(key for key, _ in condition)))


def swept_text(path: Topology | HostPath, key: str, value: str) -> str:
    """Returns a swept value as people write it, if the path has it, else as it is in the file."""
    if isinstance(path, Topology):
        return path_settings(path).get(OF_KEYS.get(key, ""), value)
    if key in HOST_DELAYS and path.netem:
        return format_time(path.netem.delay_s)
    return value


def path_settings(path: Topology) -> dict[str, str]:
    """Returns the settings of an emulated path."""
    senders = path.senders
    return {
        "rate": format_rate(path.rate_bps),
        BASE_RTT: path_text.base_rtts(path),
        "loss": path_text.losses(path),
        "buffer": buffer_text(path.buffer, path),
        "policer": path_text.policer(path.policer),
        "qdisc": str(path.queue),
        "jitter": _each(format_time(sender.jitter_s) for sender in senders),
        "reorder": _each(format_percent(sender.reorder) for sender in senders),
        "mtu": str(path.mtu_bytes),
        "ecn": _switch(path.ecn),
        "sender-qdisc": _each(path_text.sender_queue(sender) for sender in senders),
        "receiver-window": _each(path_text.receiver_window(sender) or "unset" for sender in senders),
        "offloads": _switch(path.offloads),
        "kernel": path.kernel,
        "host-root": _switch(path.host_root),
    }


def buffer_text(buffer: Buffer, path: Topology) -> str:
    """Returns '0.5 BDP', '100 packets' or '233 kB'."""
    match buffer.kind:
        case "bdp":
            return f"{buffer.amount:g} BDP"
        case "packet":
            return f"{buffer.amount:g} packet{'' if buffer.amount == 1 else 's'}"
        case "byte":
            return format_bytes(path.buffer_bytes)


def _each(texts: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(texts))


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _without_streams(traffic: Traffic) -> Traffic:
    sources = tuple(
        replace(source, streams=0) if isinstance(source, GroupedSource) else source for source in traffic.sources
    )
    return replace(traffic, sources=sources)


def _rest(path: Topology) -> tuple[object, ...]:
    """Returns what no text of path_settings() says."""
    senders = tuple(sender.name for sender in path.senders)
    return senders, path.receivers, path.shaper, path.burst_bytes, path.ack_bottleneck, path.control, path.changes
