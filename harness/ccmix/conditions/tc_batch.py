"""Sets or changes queue disciplines of an emulated path; an error names the setting that tc refuses."""

import re
from collections.abc import Sequence

from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK, EmulatingDevice
from ccmix.conditions.qdisc import LEAF_PARENT, POLICER_HOOK, POLICER_QDISC
from ccmix.hosts import CommandError, Host
from ccmix.model import Topology

_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


def run_tc(host: Host, topology: Topology, batch: Sequence[tuple[EmulatingDevice, str]], at: str = "") -> None:
    """Runs lines of tc, each with the device that it is for; `at` is the key of a change. Raises CommandError."""
    try:
        host.run(["tc", "-batch", "-"], stdin="\n".join(line for _, line in batch))
    except CommandError as error:
        failed = _FAILED_LINE.search(error.reason)
        if not failed:
            raise
        device, line = batch[int(failed[1]) - 1]
        section, key = f"[topology {topology.name}]", at or _key(device, line)
        raise CommandError(host.name, (), f"{section} {key}: tc refuses '{line}': {error.reason}") from error


def _key(device: EmulatingDevice, line: str) -> str:
    """Returns the key of the INI file that the line comes from."""
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
    of_host = f"host.{host}: " if host else ""
    return of_host + (
        "rate or sender-qdisc" if device.what.startswith("sender-queue") else "delay, loss, jitter or reorder"
    )
