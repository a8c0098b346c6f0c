"""Makes fields of what a run of type path found out about its path."""

from ccmix.analysis.results import Result
from ccmix.index.json_types import Document

PREFIX = "ccmix.path.estimate"
NAMES = {
    "base RTT": ("base_rtt", "_s"), "RTT noise": ("rtt_noise", "_s"), "rate": ("rate", "_bps"),
    "cross traffic": ("cross_traffic", "_bps"), "buffer": ("buffer", "_bytes"), "random loss": ("loss", ""),
    "burst of losses": ("loss_burst", "_packets"), "reordering": ("reordering", ""),
    "policer's burst": ("policer_burst", "_bytes"),
    "receiver's window": ("receiver_window", "_bytes"), "MTU": ("mtu", "_bytes"),
}  # fmt: skip
"""Gives the field of each quantity that is a number, and its unit; the ends of its interval are _low and _high."""
WORDS = {"queue": "queue", "ECN": "ecn", "send buffer": "send_buffer"}


def estimates(result: Result) -> Document:
    """Returns value and interval of each quantity of a run of type path, and which are unknown; nothing for others.

    A quantity of which only a bound is known has one end of the interval. Raises ArchiveError if a series of the run
    can't be read.
    """
    if not result.run.traffic.steps:
        return {}
    from ccmix.twin.twin import twins_of_runs  # noqa: PLC0415  # its libraries are slow to import

    [twin] = twins_of_runs([(result.finished, result.folder)])
    document: Document = {f"{PREFIX}.unknown": [each.quantity for each in twin.estimates if each.unknown] or None}
    for each in twin.estimates:
        if each.quantity in WORDS:
            document[f"{PREFIX}.{WORDS[each.quantity]}"] = each.word
        elif each.quantity in NAMES:
            name, unit = NAMES[each.quantity]
            ends = {"": each.value, "_low": each.low, "_high": each.high}
            document |= {f"{PREFIX}.{name}{end}{unit}": value for end, value in ends.items()}
    return document
