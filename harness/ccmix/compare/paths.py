"""Finds what is known of the path of a condition: emulated or real, and its RTT."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ccmix.analysis.conditions import base_rtt_s
from ccmix.analysis.results import Result
from ccmix.model import Topology

RTT_FRACTION, RTT_LEAST_S = 0.02, 1e-3  # by which RTTs of a path may be apart: others' are in whole ms
ROUNDING_S = 1e-9


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
    if known := [rtt_s for each in to_same_destination if (rtt_s := base_rtt_s(each.finished)) is not None]:
        return KnownPath(False, _smallest(known), True)
    medians = (each.finished.metrics.rtt_median_s for each in to_same_destination)
    return KnownPath(False, _smallest([rtt_s for rtt_s in medians if rtt_s is not None]), False)


def same_rtt(rtt_s: float, other_s: float) -> bool:
    """Returns whether two RTTs may be those of one path."""
    return abs(rtt_s - other_s) <= max(RTT_LEAST_S, RTT_FRACTION * rtt_s) + ROUNDING_S


def _smallest(rtts_s: Sequence[float]) -> float | None:
    """Returns the smallest RTT that two runs agree on, so that no outlier decides; without such, the smallest."""
    in_order = sorted(rtts_s)
    agreed = (first for first, second in pairwise(in_order) if same_rtt(second, first))
    return next(agreed, in_order[0] if in_order else None)
