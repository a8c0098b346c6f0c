"""Compares conditions of A with ranges of B: does the real result lie among what the unknown keys leave open?"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from ccmix.analysis.comparison import MetricSample, holm, significant
from ccmix.analysis.ranges import AgainstRange, MetricRange, RangeMember, against, range_of
from ccmix.analysis.sensitivity import KeyEffect, effects
from ccmix.analysis.statistics import Spread
from ccmix.compare.groups import VERDICT_METRIC, WHOLE, families, goodputs_of, groups_of_both, values
from ccmix.compare.matching import Cell, RangeCell

OF_GROUP = (VERDICT_METRIC, "retransmission_rate", "rtt_median_s")

RangeWord = Literal["in the range", "outside", "can't tell"]


@dataclass(frozen=True)
class RangeTested:
    """Holds the tests of a metric of a group, or of the whole run, with p-values adjusted for all tests (Holm)."""

    group: str
    metric: str
    a: Spread
    a_alike: bool  # A's runs all have the same value, and so are one observation
    b: MetricRange
    found: AgainstRange

    @property
    def outside_by(self) -> float:
        """Returns how far A's mean is outside of the range, as a fraction of the nearer end: above it more than 0,
        below it less than 0, within it 0. Infinity above an end of 0.
        """
        if self.b.low <= self.a.mean <= self.b.high:
            return 0.0
        end = self.b.high if self.a.mean > self.b.high else self.b.low
        return self.a.mean / end - 1 if end > 0 else float("inf")

    @property
    def verdict(self) -> RangeWord:
        """Returns 'in the range' within the margin, even if there is a significant difference below it."""
        if significant(self.found.p_inside):
            return "in the range"
        return "outside" if significant(self.found.p_outside) and self.outside_by else "can't tell"

    def to_json(self) -> dict[str, object]:
        by = self.outside_by
        return {
            "group": self.group,
            "metric": self.metric,
            "a": asdict(self.a),
            "b": {
                "low": self.b.low,
                "high": self.b.high,
                "point": _member(self.b.point) if self.b.point else None,
                "conditions": [_member(member) for member in self.b.members],
                "without_valid_runs": [dict(unknown) for unknown in self.b.missing],
            },
            "verdict": self.verdict,
            "outside_by": by if abs(by) < float("inf") else None,
            "p_inside": self.found.p_inside,
            "p_outside": self.found.p_outside,
        }


def _member(member: RangeMember) -> dict[str, object]:
    return {"unknown": dict(member.unknown), **asdict(member.spread)}


@dataclass(frozen=True)
class GroupEffects:
    """Says how much each unknown key matters for the goodput of a group, the most important one first."""

    group: str
    effects: tuple[KeyEffect, ...]


@dataclass(frozen=True)
class ComparedRange:
    """Describes a condition of A beside a range of B; the goodput of its groups decides on the verdict."""

    a: Cell
    b: RangeCell
    rule: str  # says why they belong together
    tested: tuple[RangeTested, ...]
    effects: tuple[GroupEffects, ...]

    @property
    def goodputs(self) -> list[RangeTested]:
        """Returns the tests of the groups' goodput, or of the run's if both have no group."""
        return goodputs_of(self.tested)

    @property
    def verdict(self) -> RangeWord:
        """Returns 'outside' if any group is, 'in the range' if all are."""
        verdicts = {tested.verdict for tested in self.goodputs}
        if "outside" in verdicts:
            return "outside"
        return "in the range" if verdicts == {"in the range"} else "can't tell"

    def to_json(self) -> dict[str, object]:
        return {
            "matched_by": self.rule,
            "unknown": list(self.b.unknown),
            "verdict": self.verdict,
            "metrics": [tested.to_json() for tested in self.tested],
            "sensitivity": [
                _effect(of_group.group, effect) for of_group in self.effects for effect in of_group.effects
            ],
        }


def _effect(group: str, effect: KeyEffect) -> dict[str, object]:
    return {
        "group": group,
        "unknown": effect.key,
        "ratio": effect.ratio,
        "explains": effect.explains,
        "low": _member(effect.low),
        "high": _member(effect.high),
        "p": effect.p,
    }


def compared_range(a: Cell, b: RangeCell, rule: str, margin: float) -> ComparedRange:
    """Returns a condition of A beside a range of B, with p-values that are not adjusted yet."""
    names = list(groups_of_both(a.first, b.first))
    asked = [(group, in_b, metric) for group, in_b in names for metric in OF_GROUP]
    if len(names) != 1:
        asked.append((WHOLE, WHOLE, VERDICT_METRIC))
    tested = tuple(found for each in asked if (found := _tested(a, b, *each, margin)))
    of_goodput = [each for each in tested if each.metric == VERDICT_METRIC]
    return ComparedRange(
        a, b, rule, tested, tuple(GroupEffects(each.group, tuple(effects(each.b))) for each in of_goodput)
    )


def _tested(a: Cell, b: RangeCell, group: str, group_in_b: str, metric: str, margin: float) -> RangeTested | None:
    """Returns None where one of them has no value."""
    sample = MetricSample(tuple(values(a, group, metric)))
    finished = {unknown: values(cell, group_in_b, metric) for unknown, cell in b.members}
    span = range_of({unknown: finished.get(unknown, []) for unknown in b.planned})
    spread = Spread.of(sample.values)
    if spread is None or span is None:
        return None
    return RangeTested(group, metric, spread, sample.alike, span, against(sample, span, margin))


def adjusted(ranges: Sequence[ComparedRange]) -> Iterator[ComparedRange]:
    """Yields the ranges with p-values adjusted for the number of conditions and groups (Holm).

    Each metric and each of its two questions is a family; so is the run as a whole.
    """
    every = [tested for compared in ranges for tested in compared.tested]
    for family in families(every):
        inside = holm([every[at].found.p_inside for at in family])
        outside = holm([every[at].found.p_outside for at in family])
        for at, p_inside, p_outside in zip(family, inside, outside, strict=True):
            every[at] = replace(every[at], found=AgainstRange(p_inside, p_outside))
    left = iter(every)
    for compared in ranges:
        yield replace(compared, tested=tuple(next(left) for _ in compared.tested))
