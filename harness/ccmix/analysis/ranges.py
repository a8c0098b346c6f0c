"""Computes the range of a metric over values that are not known, and the effect of each such
key.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.comparison import MARGIN, SIGNIFICANCE, MetricSample, p_above
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, t_cdf
from ccmix.analysis.statistics import Spread
from ccmix.archive import Campaign
from ccmix.model import condition_name

UnknownValues = tuple[tuple[str, str], ...]
"""Each unknown key with its value as written, in the order of the condition."""


def split(
    condition: Mapping[str, str], unknown: Sequence[str]
) -> tuple[dict[str, str], UnknownValues]:
    """Returns the values that all conditions of a range share, and those of the unknown keys."""
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
    """Returns the unknown values of all planned conditions of each range, finished or not, in the
    order of the file.

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
        """Returns the 95% interval of the mean; if there is none, the mean as both ends."""
        return self.spread.ci95 or (self.sample.mean, self.sample.mean)

    @property
    def testable(self) -> bool:
        return self.sample.observations >= LEAST_FOR_INTERVAL


@dataclass(frozen=True)
class MetricRange:
    """Holds a metric of the conditions of a range, in the order of the file; the conditions in
    `missing` have no valid run with the metric.
    """

    members: tuple[RangeMember, ...]
    best: UnknownValues
    missing: tuple[UnknownValues, ...] = ()

    @property
    def low(self) -> float:
        """Returns the lowest lower end of the 95% intervals. The mean counts for a condition
        without an interval.
        """
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
        """Returns the condition of the best estimate; None if it has no valid run."""
        return next((member for member in self.members if member.unknown == self.best), None)

    @property
    def runs(self) -> int:
        return sum(member.sample.count for member in self.members)


def range_of(values: Mapping[UnknownValues, Sequence[float]]) -> MetricRange | None:
    """Returns the range of a metric of these conditions; None if none of them has a value."""
    members = tuple(
        RangeMember(unknown, MetricSample(tuple(own))) for unknown, own in values.items() if own
    )
    missing = tuple(unknown for unknown, own in values.items() if not own)
    return MetricRange(members, best_estimates(values), missing) if members else None


@dataclass(frozen=True)
class AgainstRange:
    """Holds p-values of a real result against a range; None for a test that could not be made."""

    p_inside: float | None
    p_outside: float | None


def against(real: MetricSample, span: MetricRange, margin: float = MARGIN) -> AgainstRange:
    """Tests whether a real mean lies within a range, by Student's one-sided tests; the ends of the
    range count as exact.

    "Inside" means above low / (1 + margin) and below high / (1 - margin), so that the ends are
    within the margin of the mean. The larger p counts. "Outside" means above the high end, or below
    the low one. The smaller p counts, doubled for the two sides. It can't be tested if an end may
    be further out, because a condition has no interval or no run.
    """
    if real.observations < LEAST_FOR_INTERVAL:
        return AgainstRange(None, None)
    p_inside = max(
        _p_above(real, span.low / (1 + margin)), _p_below(real, span.high / (1 - margin))
    )
    if span.missing or not all(member.testable for member in span.members):
        return AgainstRange(p_inside, None)
    return AgainstRange(
        p_inside, min(1.0, 2 * min(_p_above(real, span.high), _p_below(real, span.low)))
    )


def _p_above(sample: MetricSample, limit: float) -> float:
    """Returns the p-value of the test that a mean is above a limit."""
    return t_cdf(
        (limit - sample.mean) / math.sqrt(sample.variance / sample.count), sample.count - 1
    )


def _p_below(sample: MetricSample, limit: float) -> float:
    return t_cdf(
        (sample.mean - limit) / math.sqrt(sample.variance / sample.count), sample.count - 1
    )


@dataclass(frozen=True)
class KeyEffect:
    """Says how far the values of an unknown key move a metric, at the conditions where the effect
    is largest.

    `low` and `high` are two conditions that differ only in this key; `low` has the smaller mean.
    """

    key: str
    low: RangeMember
    high: RangeMember
    ratio: float | None  # of the two means; None if the smaller one is not above 0
    explains: (
        float | None
    )  # of the range: the logarithm of this ratio over that of all means; None without a ratio
    p: float | None  # of the test, times the number of pairs (Bonferroni); None: too few runs

    @property
    def others(self) -> UnknownValues:
        """Returns the values of the other unknown keys at both conditions."""
        return tuple(item for item in self.low.unknown if item[0] != self.key)

    @property
    def low_value(self) -> str:
        return dict(self.low.unknown)[self.key]

    @property
    def high_value(self) -> str:
        return dict(self.high.unknown)[self.key]

    @property
    def seen(self) -> bool:
        """Returns whether the two conditions differ significantly."""
        return self.p is not None and self.p <= SIGNIFICANCE

    @property
    def rank(self) -> float:
        """Returns the factor by which the metric changes; infinity if the smaller mean is not above
        0.
        """
        return math.inf if self.ratio is None else self.ratio

    @property
    def order(self) -> tuple[bool, float]:
        """Returns the sort key of effects: significant ones come before those that may be
        chance.
        """
        return self.seen, self.rank


def effects(span: MetricRange) -> list[KeyEffect]:
    """Returns the effects of the unknown keys that have several values, the largest effect
    first.
    """
    keys = dict.fromkeys(key for member in span.members for key, _ in member.unknown)
    found = [effect for key in keys if (effect := _effect(span, key))]
    return sorted(found, key=lambda effect: effect.order, reverse=True)


def _effect(span: MetricRange, key: str) -> KeyEffect | None:
    """Returns the largest significant effect of a key, otherwise its largest effect; None if the
    key has only one value.
    """
    lines: dict[UnknownValues, list[RangeMember]] = {}
    for member in span.members:
        lines.setdefault(tuple(item for item in member.unknown if item[0] != key), []).append(
            member
        )
    pairs = [_in_order(pair) for line in lines.values() for pair in itertools.combinations(line, 2)]
    of_all = _ratio(span.lowest, span.highest)
    found = [_of_pair(key, low, high, of_all, len(pairs)) for low, high in pairs]
    return max(found, key=lambda effect: effect.order, default=None)


def _of_pair(
    key: str, low: RangeMember, high: RangeMember, of_all: float | None, pairs: int
) -> KeyEffect:
    ratio = _ratio(low, high)
    explains = (
        None
        if ratio is None or of_all is None
        else math.log(ratio) / math.log(of_all)
        if of_all > 1
        else 0.0
    )
    testable = low.testable and high.testable
    p = min(1.0, 2 * pairs * p_above(low.sample, high.sample)) if testable else None
    return KeyEffect(key, low, high, ratio, explains, p)


def _in_order(pair: Iterable[RangeMember]) -> tuple[RangeMember, RangeMember]:
    low, high = sorted(pair, key=lambda member: member.sample.mean)
    return low, high


def _ratio(low: RangeMember, high: RangeMember) -> float | None:
    return (
        high.sample.mean / low.sample.mean
        if low.sample.mean > 0
        else 1.0
        if high.sample.mean == 0
        else None
    )
