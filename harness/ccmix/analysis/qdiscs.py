"""Reads counters of queue disciplines."""

from collections.abc import Sequence
from typing import Literal

from ccmix.model import Measurement, QdiscCounters


def grown_by(measurement: Measurement, device: str, counter: Literal["drops", "packets"]) -> int:
    """Returns how much a counter of a device's root qdisc grew during the test."""
    before, after = (root_qdisc(counters.qdiscs[device]) for counters in (measurement.before, measurement.after))
    return int(getattr(after, counter) - getattr(before, counter))


def root_qdisc(qdiscs: Sequence[QdiscCounters]) -> QdiscCounters:
    """Returns the root among a device's qdiscs. Raises ValueError if there is none."""
    for qdisc in qdiscs:
        if qdisc.parent is None:
            return qdisc
    raise ValueError(f"a device had no root qdisc: {qdiscs!r}")
