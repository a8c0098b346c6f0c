"""Counters of queue disciplines, from tc's JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ccmix.conditions.qdisc import described, qdiscs
from ccmix.hosts import Host
from ccmix.model import QdiscCounters

# Names in tc's JSON whose values have fields of their own
_OWN_FIELDS = {"dev", "kind", "handle", "root", "parent", "options", "bytes", "packets", "drops", "backlog", "qlen"}


def qdisc_counters(host: Host, device: str | None) -> tuple[QdiscCounters, ...]:
    """Returns the counters of the device's queue disciplines, or those of all devices. Raises CommandError."""
    return tuple(_counters(qdisc, device or "") for qdisc in qdiscs(host, device))


def described_counters(of_device: Sequence[QdiscCounters]) -> str:
    """Returns a device's queues with their options, as described() does."""
    return described(
        [
            {"kind": qdisc.kind, "root": qdisc.parent is None, "options": json.loads(qdisc.options)}
            for qdisc in of_device
        ]
    )


def _counters(qdisc: Mapping[str, Any], device: str) -> QdiscCounters:
    options = qdisc.get("options", {})
    return QdiscCounters(
        device=qdisc.get("dev", device),  # tc does not repeat the device that it was asked for
        kind=qdisc["kind"],
        handle=qdisc["handle"],
        parent=None if qdisc.get("root") else qdisc.get("parent", ""),
        bytes=qdisc["bytes"],
        packets=qdisc["packets"],
        drops=qdisc["drops"],
        backlog_bytes=qdisc["backlog"],
        backlog_packets=qdisc["qlen"],
        limit=options.get("limit"),
        memory_limit_bytes=options.get("memlimit"),
        rate_bytes_per_s=options.get("rate") if isinstance(options.get("rate"), int) else None,
        burst_bytes=options.get("burst"),
        latency_us=options.get("lat"),
        options=json.dumps(options),
        statistics=json.dumps({name: value for name, value in qdisc.items() if name not in _OWN_FIELDS}),
    )
