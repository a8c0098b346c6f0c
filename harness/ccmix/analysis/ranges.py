"""Computes the range of a metric over unknown properties of a path, and the effect of each of them.

The emulated twin of a measured path sweeps the settings that could not be measured: unknown keys,
such as the buffer. A range is the metric over all of their values.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.comparison import MARGIN, SIGNIFICANCE, MetricSample, one_sided, p_above
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.statistics import Spread
from ccmix.archive import Campaign
from ccmix.model import condition_name

UnknownValues = tuple[tuple[str, str], ...]
"""Each unknown key with its value as written, in the order of the condition."""


def split(
    condition: Mapping[str, str], unknown: Sequence[str]
) -> tuple[dict[str, str], UnknownValues]:
    """Splits a condition (swept keys and their values) into the values of the known keys and those
    of the unknown keys. An unknown key stands for a property of the real path that was not
    measured; the conditions that differ only in unknown keys form one range.
    """
    known = {key: value for key, value in condition.items() if key not in unknown}
    return known, tuple((key, value) for key, value in condition.items() if key in unknown)


def best_estimates(conditions: Iterable[UnknownValues]) -> UnknownValues:
    """Returns the best estimate of each unknown key: its first value, because the configuration
    names it first. `conditions` are those of one range, in the order of the file.
    """
    best: dict[str, str] = {}
    for values in conditions:
        for key, value in values:
            best.setdefault(key, value)
    return tuple(best.items())


def planned_ranges(campaign: Campaign) -> dict[tuple[str, str, str], list[UnknownValues]]:
    """Returns the values of the unknown keys in all planned conditions of each range, finished or
    not, in the order of the file.

    The key of a range is: entry, name of the condition without the unknown keys, destination.
    """
    planned: dict[tuple[str, str, str], dict[UnknownValues, None]] = {}
    for run in campaign.runs_in_file_order:
        known, values = split(run.condition, campaign.plan.unknown.get(run.entry, ()))
        if values:
            planned.setdefault((run.entry, condition_name(known), run.dst), {})[values] = None
    return {key: list(conditions) for key, conditions in planned.items()}


@dataclass(frozen=True)
class RangeMember:
    """Holds the values of a metric in the valid runs (at least one) of one condition of a range."""

    unknown: UnknownValues
    sample: MetricSample

    @property
    def name(self) -> str:
        return condition_name(dict(self.unknown))

    @property
    def spread(self) -> Spread:
        """Returns the mean of the values, its confidence interval, and other statistics."""
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
    """Holds a metric over all conditions of a range (which differ only in unknown keys), in the
    order of the configuration file.
    """

    members: tuple[RangeMember, ...]
    best: UnknownValues  # the best estimate of each unknown key
    missing: tuple[UnknownValues, ...] = ()  # conditions without a valid run with the metric

    @property
    def low(self) -> float:
        """Returns the lower end of the range: the smallest lower end of the conditions' 95%
        intervals. For a condition without an interval, its mean is used.
        """
        return min(member.ends[0] for member in self.members)

    @property
    def high(self) -> float:
        """Returns the upper end of the range: the largest upper end of the conditions' 95%
        intervals. For a condition without an interval, its mean is used.
        """
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
    """Returns the range of a metric; None if no condition has a value. `values` has the metric's
    values in the valid runs of each condition; a condition may have no values.
    """
    members = tuple(
        RangeMember(unknown, MetricSample(tuple(sample)))
        for unknown, sample in values.items()
        if sample
    )
    missing = tuple(unknown for unknown, sample in values.items() if not sample)
    return MetricRange(members, best_estimates(values), missing) if members else None


@dataclass(frozen=True)
class AgainstRange:
    """Holds the p-values of two tests: is the result of a real path inside the range of its
    emulated twin, or outside? None stands for a test that could not be made.
    """

    p_inside: float | None  # small: the result is inside the range, within the margin
    p_outside: float | None  # small: the result is outside the range


def against(real: MetricSample, span: MetricRange, margin: float = MARGIN) -> AgainstRange:
    """Tests whether the mean of a real path's runs lies inside the range of its emulated twin, or
    outside, by Student's one-sided tests. The two ends of the range, low and high, count as exact.

    - Inside, within the margin: the mean is above low / (1 + margin) and below high / (1 - margin).
      p is the larger of the two tests' p-values.
    - Outside: the mean is above high or below low. p is twice the smaller of the two tests'
      p-values. This is not tested (None) if a condition of the range has no valid run, or too few
      for an interval, because an end of the range may then be further out.
    """
    if real.observations < LEAST_FOR_INTERVAL:
        return AgainstRange(None, None)
    error, degrees = math.sqrt(real.variance / real.count), real.count - 1
    p_inside = max(
        one_sided(real.mean - span.low / (1 + margin), error, degrees),
        one_sided(span.high / (1 - margin) - real.mean, error, degrees),
    )
    if span.missing or not all(member.testable for member in span.members):
        return AgainstRange(p_inside, None)
    p_higher = one_sided(real.mean - span.high, error, degrees)
    p_lower = one_sided(span.low - real.mean, error, degrees)
    return AgainstRange(p_inside, min(1.0, 2 * min(p_higher, p_lower)))


@dataclass(frozen=True)
class KeyEffect:
    """Says how much an unknown key, such as the buffer, changes a metric. It compares two
    conditions that differ only in this key: the pair with the largest effect. `low` is the one with
    the smaller mean.
    """

    key: str
    low: RangeMember
    high: RangeMember
    ratio: float | None  # of the two means; None if the smaller one is not above 0
    # share of the range: log(ratio) / log(largest mean of all conditions / smallest); None without
    # a ratio
    explains: float | None
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
    """Returns the effect on the metric of each unknown key that has several values: significant
    effects first, and the largest of them first.
    """
    keys = dict.fromkeys(key for member in span.members for key, _ in member.unknown)
    found = [effect for key in keys if (effect := _effect(span, key))]
    return sorted(found, key=lambda effect: effect.order, reverse=True)


def _effect(span: MetricRange, key: str) -> KeyEffect | None:
    """Returns the effect of a key: of all pairs of conditions that differ only in this key, the one
    with the largest significant effect, or if none is significant, with the largest effect. Returns
    None if there is no such pair.
    """
    by_other_keys: dict[UnknownValues, list[RangeMember]] = {}
    for member in span.members:
        other_keys = tuple(item for item in member.unknown if item[0] != key)
        by_other_keys.setdefault(other_keys, []).append(member)
    pairs = [
        _in_order(pair)
        for members in by_other_keys.values()
        for pair in itertools.combinations(members, 2)
    ]
    range_ratio = _ratio(span.lowest, span.highest)
    found = [_effect_of_pair(key, low, high, range_ratio, len(pairs)) for low, high in pairs]
    return max(found, key=lambda effect: effect.order, default=None)


def _effect_of_pair(
    key: str, low: RangeMember, high: RangeMember, range_ratio: float | None, pairs: int
) -> KeyEffect:
    """Returns the effect of a key as seen in two conditions that differ only in it.

    range_ratio: the highest mean of the whole range over the lowest
    pairs: the number of such pairs that are tested, for which the p-value is corrected
    """
    ratio = _ratio(low, high)
    explains: float | None = None
    if ratio is not None and range_ratio is not None:
        explains = math.log(ratio) / math.log(range_ratio) if range_ratio > 1 else 0.0
    testable = low.testable and high.testable
    p = min(1.0, 2 * pairs * p_above(low.sample, high.sample)) if testable else None
    return KeyEffect(key, low, high, ratio, explains, p)


def _in_order(pair: Iterable[RangeMember]) -> tuple[RangeMember, RangeMember]:
    """Returns the condition with the smaller mean first."""
    low, high = sorted(pair, key=lambda member: member.sample.mean)
    return low, high


def _ratio(low: RangeMember, high: RangeMember) -> float | None:
    """Returns the mean of `high` divided by the mean of `low`. If the mean of `low` is not above 0,
    there is no ratio (None), unless the mean of `high` is 0: then it is 1.
    """
    if low.sample.mean > 0:
        return high.sample.mean / low.sample.mean
    return 1.0 if high.sample.mean == 0 else None
