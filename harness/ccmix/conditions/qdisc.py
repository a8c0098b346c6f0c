"""Queue disciplines as tc(8) takes them, and their replacement on a device with an undo."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ccmix.hosts import CommandError, Host
from ccmix.model import Netem

# Packets: netem and fq here hold what is on the way, and must never be the ones to drop. fq's own flow_limit of 100
# packets would drop a fast flow's packets at its sender.
NEVER_FULL_PACKETS = 10_000_000
FQ_UNLIMITED_BIT = 8 * (2**32 - 1)  # fq's default for maxrate, ~0U bytes per second (net/sched/sch_fq.c)
RESTORABLE = ("pfifo", "bfifo", "fq", "fq_codel")  # root qdiscs that tc describes in words that it reads as well
_COUNT_OR_SIZE = re.compile(r"^(\d+)[pb]$")  # '1000p' packets, '1514b' bytes
TBF_BURST_PACKETS = 2  # the least that keeps the rate exact: one in transmission, one whose tokens gather


def netem(delay_s: float, loss: float) -> list[str]:
    """Delay in nanosecond steps, and independent loss of each packet (tc-netem(8))."""
    return [
        "netem", "delay", f"{round(delay_s * 1e6)}us", "loss", "random", f"{loss * 100:.10g}%",
        "limit", str(NEVER_FULL_PACKETS),
    ]  # fmt: skip


def bottleneck(rate_bps: float, buffer_bytes: int, packet_bytes: int) -> list[str]:
    """A token bucket with a FIFO of `buffer_bytes` behind it (tc-tbf(8)); bytes count the Ethernet header."""
    return [
        "tbf", "rate", f"{rate_bps:.0f}bit", "burst", str(TBF_BURST_PACKETS * packet_bytes), "limit", str(buffer_bytes),
    ]  # fmt: skip


def fair_queue() -> list[str]:
    """fq, which paces what the CCA or the socket asks it to pace, and drops nothing itself (tc-fq(8))."""
    return ["fq", "limit", str(NEVER_FULL_PACKETS), "flow_limit", str(NEVER_FULL_PACKETS)]


def netem_between_hosts(setting: Netem) -> list[str]:
    """All that a device is asked to do to the packets that leave it (tc-netem(8))."""
    arguments = ["netem", "delay", f"{round(setting.delay_s * 1e6)}us"]
    if setting.loss:
        shares = [f"{share * 100:.10g}%" for share in setting.loss.parameters]
        arguments += ["loss", setting.loss.model, *shares]
    if setting.rate_bps is not None:
        arguments += ["rate", f"{setting.rate_bps:.0f}bit"]
    limit = NEVER_FULL_PACKETS if setting.limit_packets is None else setting.limit_packets
    return [*arguments, "limit", str(limit)]


@contextmanager
def paced(host: Host, device: str, pacing_bps: float | None) -> Iterator[None]:
    """Each flow through the device's root fq held to `pacing_bps` at most; with None, nothing is changed."""
    if pacing_bps is None:
        yield
        return
    change = ["tc", "qdisc", "change", "dev", device, "root", "fq", "maxrate"]
    do, undo = [*change, f"{pacing_bps:.0f}bit"], [*change, f"{FQ_UNLIMITED_BIT}bit"]
    with host.changed(f"pacing of {device}", do, undo):
        yield


def statistics_command(device: str) -> list[str]:
    """Says the device's queue disciplines with their statistics, as JSON."""
    return ["tc", "-s", "-j", "qdisc", "show", "dev", device]


def qdiscs(host: Host, device: str) -> list[dict[str, Any]]:
    """What statistics_command() says. Raises CommandError where that is not the JSON of qdiscs."""
    argv = statistics_command(device)
    said = host.run(argv)
    try:
        found: list[dict[str, Any]] = json.loads(said or "[]")
        _ = [qdisc["kind"] + qdisc["handle"] for qdisc in found]
    except (ValueError, TypeError, KeyError) as error:
        raise CommandError(host.name, argv, f"says what is not understood: {error!r}") from error
    return found


def root_of(found: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The root among a device's qdiscs; None for one that the kernel gave by itself, which has no handle to name."""
    return next((qdisc for qdisc in found if qdisc.get("root") and qdisc["handle"] != "0:"), None)


def leaves_of(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those below the root, one for each queue of an mq; what only looks at packets (clsact, ingress) is none."""
    return [qdisc for qdisc in found if not qdisc.get("root") and qdisc["kind"] not in ("clsact", "ingress")]


@contextmanager
def replaced_qdisc(host: Host, device: str, qdisc: Sequence[str]) -> Iterator[None]:
    """The device's root qdisc replaced, and the former one back afterwards: the kernel's own, or a simple one.

    Raises CommandError where somebody configured the device in a way that tc can't say as a command.
    """
    undo = ["tc", "qdisc", "del", "dev", device, "root"]
    found = qdiscs(host, device)
    if existing := root_of(found):
        plain_mq = existing["kind"] == "mq" and all(leaf["handle"] == "0:" for leaf in leaves_of(found))
        if existing["kind"] not in RESTORABLE and not plain_mq:
            raise CommandError(
                host.name, ["tc", "qdisc", "replace", "dev", device],
                f"{device} has a qdisc {existing['kind']} {existing['handle']} that ccmix did not make and could not "
                f"put back: remove it (tc qdisc del dev {device} root), or run 'ccmix restore' if a dead run left it",
            )  # fmt: skip
        undo = ["tc", "qdisc", "replace", "dev", device, "root", *_as_arguments(host, device)]
    do = ["tc", "qdisc", "replace", "dev", device, "root", *qdisc]
    with host.changed(f"qdisc {qdisc[0]} of {device}", do, undo):
        yield


def _as_arguments(host: Host, device: str) -> list[str]:
    """What makes the device's root qdisc again: tc's own words for it, without those that it doesn't read.

    'qdisc pfifo 8001: root refcnt 2 limit 100p' to 'handle 8001: pfifo limit 100'.
    """
    argv = ["tc", "qdisc", "show", "dev", device, "root"]
    said = host.run(argv)
    words = said.split("\n")[0].split()
    if len(words) < 4 or "root" not in words:
        raise CommandError(host.name, argv, f"says what is not understood: {said[:80]!r}")
    kind, handle = words[1], words[2]
    options = words[words.index("root") + 1 :]
    if options[:1] == ["refcnt"]:
        options = options[2:]
    return ["handle", handle, kind, *(_COUNT_OR_SIZE.sub(r"\1", word) for word in options)]
