"""Runs tc(8): sends it batches of commands, and reads the counters of queue disciplines."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK, EmulatingDevice
from ccmix.conditions.qdisc import LEAF_PARENT, POLICER_HOOK, POLICER_QDISC, described, qdiscs
from ccmix.hosts import CommandError, Host
from ccmix.model import QdiscCounters, Topology

_FAILED_LINE = re.compile(r"Command failed -:(\d+)")

# Names in tc's JSON whose values have fields of their own
_OWN_FIELDS = {
    "dev",
    "kind",
    "handle",
    "root",
    "parent",
    "options",
    "bytes",
    "packets",
    "drops",
    "backlog",
    "qlen",
}


def run_tc(
    host: Host, topology: Topology, batch: Sequence[tuple[EmulatingDevice, str]], at: str = ""
) -> None:
    """Runs `tc -batch` on a host. `batch` has lines such as 'qdisc add dev east root ...', each
    together with the device that it is for.

    If tc refuses a line, raises CommandError, which names the key of the INI file that is probably
    wrong. It is `at` if given (the key of a change during the run, such as 'at.10s'); otherwise it
    is found from the line.
    """
    try:
        host.run(["tc", "-batch", "-"], stdin="\n".join(line for _, line in batch))
    except CommandError as error:
        failed = _FAILED_LINE.search(error.reason)
        if not failed:
            raise
        device, line = batch[int(failed[1]) - 1]
        section, key = f"[topology {topology.name}]", at or _key(device, line)
        raise CommandError(
            host.name, (), f"{section} {key}: tc refuses '{line}': {error.reason}"
        ) from error


def _key(device: EmulatingDevice, line: str) -> str:
    """Returns the key or keys of the INI file that are probably wrong if tc refuses this line for
    this device.
    """
    if device.what == BOTTLENECK:
        if POLICER_QDISC in line.split() or POLICER_HOOK in line.split():
            return "policer"
        return (
            "qdisc"
            if LEAF_PARENT in line.split() and "classid" not in line.split()
            else "rate, buffer, burst or shaper"
        )
    if device.what == ACK_BOTTLENECK:
        return "ack-rate or ack-buffer"
    host = device.what.partition(" ")[2]
    host_key = f"host.{host}: " if host else ""
    return host_key + (
        "rate or sender-qdisc"
        if device.what.startswith("sender-queue")
        else "delay, loss, jitter or reorder"
    )


def qdisc_counters(host: Host, device: str | None) -> tuple[QdiscCounters, ...]:
    """Reads the counters (packets, drops, backlog and others) of the qdiscs of a device. If
    `device` is None, those of all devices are read. Raises CommandError.
    """
    return tuple(_counters(qdisc, device or "") for qdisc in qdiscs(host, device))


def described_counters(device_qdiscs: Sequence[QdiscCounters]) -> str:
    """Describes the qdiscs of a device, whose counters were read earlier, with their options in a
    line: 'mq with 4 x fq_codel limit 10240'.
    """
    return described(
        [
            {"kind": qdisc.kind, "root": qdisc.parent is None, "options": json.loads(qdisc.options)}
            for qdisc in device_qdiscs
        ]
    )


def _counters(qdisc: Mapping[str, Any], device: str) -> QdiscCounters:
    """Reads the counters of one qdisc from tc's JSON. `device` is the one for which tc was asked,
    and '' if it was asked for all devices: only then, tc's JSON names the device.
    """
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
        statistics=json.dumps(
            {name: value for name, value in qdisc.items() if name not in _OWN_FIELDS}
        ),
    )
