"""Finds what is known of the path of a condition: emulated or real, and its RTT."""

from collections.abc import Sequence
from dataclasses import dataclass

from ccmix.analysis.conditions import base_rtt_s
from ccmix.analysis.results import Result
from ccmix.model import Topology


@dataclass(frozen=True)
class KnownPath:
    """Describes a path; `rtt_s` is the base RTT or, if that is unknown, the smallest RTT under load; else None."""

    emulated: bool
    rtt_s: float | None
    rtt_is_base: bool


def path_of(result_of_condition: Result, to_same_destination: Sequence[Result]) -> KnownPath:
    """Returns the path of a run of a condition, from all runs of its campaign to the same destination."""
    if isinstance(result_of_condition.run.path, Topology):
        return KnownPath(True, result_of_condition.run.path.base_rtt_s, True)
    base = [base_rtt_s(result.finished) for result in to_same_destination]
    if known := [rtt_s for rtt_s in base if rtt_s is not None]:
        return KnownPath(False, min(known), True)
    medians = [result.finished.metrics.rtt_median_s for result in to_same_destination]
    return KnownPath(False, min((rtt_s for rtt_s in medians if rtt_s is not None), default=None), False)
