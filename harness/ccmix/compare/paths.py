"""What is known of the path of a condition: emulated or real, and its RTT."""

from collections.abc import Sequence
from dataclasses import dataclass

from ccmix.analysis.conditions import base_rtt_s
from ccmix.model import Topology
from ccmix.report.results import Result


@dataclass(frozen=True)
class KnownPath:
    """`rtt_s` is the base RTT; where nobody told that, the smallest RTT under load, which it is at most; else None."""

    emulated: bool
    rtt_s: float | None
    rtt_is_base: bool


def path_of(one: Result, to_same_destination: Sequence[Result]) -> KnownPath:
    """Of a run of a condition, and all runs of its campaign to the same destination."""
    if isinstance(one.run.path, Topology):
        return KnownPath(True, one.run.path.base_rtt_s, True)
    base = [base_rtt_s(result.run, result.summary) for result in to_same_destination]
    if told := [rtt_s for rtt_s in base if rtt_s is not None]:
        return KnownPath(False, min(told), True)
    medians = [result.summary["metrics"].get("rtt_median_s") for result in to_same_destination]
    return KnownPath(False, min((rtt_s for rtt_s in medians if rtt_s is not None), default=None), False)
