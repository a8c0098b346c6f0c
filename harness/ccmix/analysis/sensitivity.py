"""Finds which of the unknown keys of a range matters most: how far its values move a metric, the other keys fixed."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ccmix.analysis.comparison import SIGNIFICANCE, p_above
from ccmix.analysis.ranges import MetricRange, RangeMember, UnknownValues


@dataclass(frozen=True)
class KeyEffect:
    """Says how far the values of an unknown key move a metric, where it moves it most.

    `low` and `high` are the conditions with the smallest and the largest mean that differ in this key alone.
    """

    key: str
    low: RangeMember
    high: RangeMember
    ratio: float | None  # of the two means; None if the smaller one is not above 0
    explains: float | None  # of the range: the logarithm of this ratio over that of all means; None without a ratio
    p: float | None  # that it is chance, times the number of pairs (Bonferroni); None: too few runs

    @property
    def others(self) -> UnknownValues:
        """Returns the values of the other unknown keys there."""
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
        """Returns by how many times the metric changes: infinity where the smaller mean is not above 0."""
        return math.inf if self.ratio is None else self.ratio

    @property
    def order(self) -> tuple[bool, float]:
        """Returns what effects are sorted by: significant ones before those that may be chance."""
        return self.seen, self.rank


def effects(span: MetricRange) -> list[KeyEffect]:
    """Returns the unknown keys that have several values, the one that moves the metric most first."""
    keys = dict.fromkeys(key for member in span.members for key, _ in member.unknown)
    found = [effect for key in keys if (effect := _effect(span, key))]
    return sorted(found, key=lambda effect: effect.order, reverse=True)


def _effect(span: MetricRange, key: str) -> KeyEffect | None:
    """Returns the largest significant effect of a key, or else its largest; None if it has one value alone."""
    lines: dict[UnknownValues, list[RangeMember]] = {}
    for member in span.members:
        lines.setdefault(tuple(item for item in member.unknown if item[0] != key), []).append(member)
    pairs = [_in_order(pair) for line in lines.values() for pair in itertools.combinations(line, 2)]
    of_all = _ratio(span.lowest, span.highest)
    found = [_of_pair(key, low, high, of_all, len(pairs)) for low, high in pairs]
    return max(found, key=lambda effect: effect.order, default=None)


def _of_pair(key: str, low: RangeMember, high: RangeMember, of_all: float | None, pairs: int) -> KeyEffect:
    ratio = _ratio(low, high)
    explains = None if ratio is None or of_all is None else math.log(ratio) / math.log(of_all) if of_all > 1 else 0.0
    testable = low.testable and high.testable
    p = min(1.0, 2 * pairs * p_above(low.sample, high.sample)) if testable else None
    return KeyEffect(key, low, high, ratio, explains, p)


def _in_order(pair: Iterable[RangeMember]) -> tuple[RangeMember, RangeMember]:
    low, high = sorted(pair, key=lambda member: member.sample.mean)
    return low, high


def _ratio(low: RangeMember, high: RangeMember) -> float | None:
    return high.sample.mean / low.sample.mean if low.sample.mean > 0 else 1.0 if high.sample.mean == 0 else None
