"""Describes the settings of a path as they are written on a chart."""

from collections.abc import Sequence

from ccmix.analysis import path_text
from ccmix.analysis.results import Result
from ccmix.model import HostPath, Queue
from ccmix.units import format_bytes, format_rate, format_time


def describe(result: Result) -> str:
    """Describes the path of a run in one line."""
    return ", ".join(_parts(result))


def in_common(results: Sequence[Result]) -> str:
    """Describes in one line what the paths of all runs share, without what was swept or differs between entries."""
    parts = [
        _parts(result) for result in {(each.run.entry, each.run.condition_name): each for each in results}.values()
    ]
    return ", ".join(part for part in parts[0] if all(part in other for other in parts))


def _parts(result: Result) -> list[str]:
    kernel = f"Linux {result.finished.facts.kernel}"
    if isinstance(result.run.path, HostPath):
        return [*_between_hosts(result.run.path, result.run.traffic.pacing_bps), kernel]
    topology = result.run.path
    buffer = f"{topology.buffer.amount:g} BDP = " if topology.buffer.kind == "bdp" else ""
    queue = "FIFO" if topology.queue == Queue() else str(topology.queue)
    queues = dict.fromkeys(path_text.sender_queue(sender) for sender in topology.senders)
    more = [] if list(queues) == ["fq"] else [f"sender's queue {' or '.join(queues)}"]
    more += [f"{len(topology.senders)} senders"] if len(topology.senders) > 1 else []
    windows = dict.fromkeys(filter(None, map(path_text.receiver_window, topology.senders)))
    more += [f"receiver's window {' or '.join(windows)}"] if windows else []
    more += [f"{len(topology.changes)} changes"] if topology.changes else []
    return [
        format_rate(topology.rate_bps),
        f"base RTT {path_text.base_rtts(topology)}",
        f"loss {path_text.losses(topology)} per {'packet' if not topology.offloads else 'super-packet'}",
        f"buffer {buffer}{format_bytes(topology.buffer_bytes)} {queue}",
        f"MTU {topology.mtu_bytes}",
        f"offloads {'on' if topology.offloads else 'off'}",
        *(["ECN"] if topology.ecn else []),
        *([path_text.policer(topology.policer)] if topology.policer else []),
        *([f"ACKs {path_text.ack_bottleneck(topology)}"] if topology.ack_bottleneck else []),
        *more,
        kernel,
    ]


def _between_hosts(path: HostPath, pacing_bps: float | None) -> list[str]:
    """Describes the ends of a path between hosts, and what was set on it."""
    parts = [f"{path.src} to {path.dst.name}"]
    if path.netem:
        parts.append(f"netem delay {format_time(path.netem.delay_s)} each way")
        if path.netem.loss:
            parts.append(f"netem loss {path.netem.loss}")
        if path.netem.limit_packets is not None:
            parts.append(f"netem limit {path.netem.limit_packets} packets")
    if pacing_bps is not None:
        parts.append(f"paced to {format_rate(pacing_bps)} a flow")
    return parts
