"""Judges whether each sender's own queue is the one that was configured, by what tc reports of its device."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ccmix.analysis.qdiscs import root_qdisc
from ccmix.conditions.qdisc import LEAF_PARENT, sender_queue
from ccmix.model import Measurement, QdiscCounters, Sender, Topology

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(us|bit)?", re.ASCII)
_OF_UNIT = {"us": 1.0, "bit": 1 / 8, None: 1.0}  # tc's JSON has microseconds, and bytes per second
ROUNDING = 1.001  # at most: the kernel counts some times in nanoseconds or in ticks, and tc cuts them off
LEAST_STEP = 1.0


def sender_queues(topology: Topology, measurement: Measurement) -> Iterator[tuple[str, str]]:
    for sender in topology.senders:
        device = topology.device_name("sender-queue", sender)
        present = _of_sender(sender, measurement.after.qdiscs[device])
        kind, *words = sender_queue(sender.queue)
        if present is None or present.kind != kind:
            seen = present.kind if present else "none"
            yield "sender-queue", f"{sender.name} has {seen}, configured is {kind}"
            continue
        options = json.loads(present.options)
        for name, value in pairwise(words):
            applied, configured = options.get(name), _number(value)
            if not isinstance(applied, int | float) or configured is None:
                continue
            if abs(applied - configured) > max(LEAST_STEP, configured * (ROUNDING - 1)):
                yield "sender-queue", f"{sender.name} has {kind} {name} {applied}, configured is {configured:.10g}"


def _of_sender(sender: Sender, of_device: Sequence[QdiscCounters]) -> QdiscCounters | None:
    """Returns the sender's queue, which is below a token bucket where the device has a rate."""
    if sender.rate_bps is None:
        return root_qdisc(of_device)
    return next((qdisc for qdisc in of_device if qdisc.parent == LEAF_PARENT), None)


def _number(value: str) -> float | None:
    match = _NUMBER.fullmatch(value)
    return float(match[1]) * _OF_UNIT[match[2]] if match else None
