"""Joins conditions that differ only in what is not known of their path: together they are one range.

docs/reference/comparison.md defines the ends of a range, and the tests of a real result against it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.comparison import MARGIN, MetricSample
from ccmix.analysis.distributions import t_cdf
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.statistics import Spread
from ccmix.archive import Campaign
from ccmix.model import condition_name

UnknownValues = tuple[tuple[str, str], ...]
"""Each unknown key with its value as written, in the order of the condition."""


def split(condition: Mapping[str, str], unknown: Sequence[str]) -> tuple[dict[str, str], UnknownValues]:
    """Returns what a range has in common, and the values by which its conditions differ."""
    known = {key: value for key, value in condition.items() if key not in unknown}
    return known, tuple((key, value) for key, value in condition.items() if key in unknown)


def best_estimates(every: Iterable[UnknownValues]) -> UnknownValues:
    """Returns the first value of each key, which is its best estimate."""
    best: dict[str, str] = {}
    for point in every:
        for key, value in point:
            best.setdefault(key, value)
    return tuple(best.items())


def planned_ranges(campaign: Campaign) -> dict[tuple[str, str, str], list[UnknownValues]]:
    """Returns the unknown values of all planned conditions of each range, finished or not, in the order of the file.

    A range's key is its entry, the name of the condition without unknown keys, and the destination.
    """
    planned: dict[tuple[str, str, str], dict[UnknownValues, None]] = {}
    for run in campaign.runs_in_file_order:
        known, values = split(run.condition, campaign.plan.unknown.get(run.entry, ()))
        if values:
            planned.setdefault((run.entry, condition_name(known), run.dst), {})[values] = None
    return {place: list(own) for place, own in planned.items()}


@dataclass(frozen=True)
class RangeMember:
    """Holds a metric over the valid runs of one condition of a range, at least one."""

    unknown: UnknownValues
    sample: MetricSample

    @property
    def name(self) -> str:
        return condition_name(dict(self.unknown))

    @property
    def spread(self) -> Spread:
        spread = Spread.of(self.sample.values)
        assert spread
        return spread

    @property
    def ends(self) -> tuple[float, float]:
        """Returns the 95% interval of the mean; where there is none, the mean as both ends."""
        return self.spread.ci95 or (self.sample.mean, self.sample.mean)

    @property
    def testable(self) -> bool:
        return self.sample.observations >= LEAST_FOR_INTERVAL


@dataclass(frozen=True)
class MetricRange:
    """Holds a metric of the conditions of a range, in the order of the file; `missing` have no valid run with it."""

    members: tuple[RangeMember, ...]
    best: UnknownValues
    missing: tuple[UnknownValues, ...] = ()

    @property
    def low(self) -> float:
        """Returns the lowest lower end of the 95% intervals; of a condition without an interval, its mean counts."""
        return min(member.ends[0] for member in self.members)

    @property
    def high(self) -> float:
        """Returns the highest upper end."""
        return max(member.ends[1] for member in self.members)

    @property
    def lowest(self) -> RangeMember:
        return min(self.members, key=lambda member: member.sample.mean)

    @property
    def highest(self) -> RangeMember:
        return max(self.members, key=lambda member: member.sample.mean)

    @property
    def point(self) -> RangeMember | None:
        """Returns the condition of the best estimate; None where it has no valid run."""
        return next((member for member in self.members if member.unknown == self.best), None)

    @property
    def runs(self) -> int:
        return sum(member.sample.count for member in self.members)


def range_of(values: Mapping[UnknownValues, Sequence[float]]) -> MetricRange | None:
    """Returns the range of a metric of these conditions; None if none of them has a value."""
    members = tuple(RangeMember(unknown, MetricSample(tuple(own))) for unknown, own in values.items() if own)
    missing = tuple(unknown for unknown, own in values.items() if not own)
    return MetricRange(members, best_estimates(values), missing) if members else None


@dataclass(frozen=True)
class AgainstRange:
    """Holds p-values of a real result against a range; None of a test that could not be made."""

    p_inside: float | None
    p_outside: float | None


def against(real: MetricSample, span: MetricRange, margin: float = MARGIN) -> AgainstRange:
    """Tests whether a real mean lies within a range, whose ends are taken as they are (Student's one-sided tests).

    Inside: above low / (1 + margin) and below high / (1 - margin), so that the ends are within the margin of the mean;
    the larger p counts. Outside: above the high end, or below the low one; the smaller p counts, twice for the two
    sides. That can't be tested where an end may be further out: if a condition has no interval, or no run.
    """
    if real.observations < LEAST_FOR_INTERVAL:
        return AgainstRange(None, None)
    p_inside = max(_p_above(real, span.low / (1 + margin)), _p_below(real, span.high / (1 - margin)))
    if span.missing or not all(member.testable for member in span.members):
        return AgainstRange(p_inside, None)
    return AgainstRange(p_inside, min(1.0, 2 * min(_p_above(real, span.high), _p_below(real, span.low))))


def _p_above(sample: MetricSample, limit: float) -> float:
    """Returns the p-value of the test that a mean is above a limit."""
    return t_cdf((limit - sample.mean) / math.sqrt(sample.variance / sample.count), sample.count - 1)


def _p_below(sample: MetricSample, limit: float) -> float:
    return t_cdf((sample.mean - limit) / math.sqrt(sample.variance / sample.count), sample.count - 1)
