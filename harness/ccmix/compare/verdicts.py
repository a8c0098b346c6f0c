"""Compares two campaigns: each condition that both have, with its groups and metrics."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from ccmix.analysis.comparison import (
    MARGIN,
    MetricSample,
    Unpaired,
    holm,
    iterations_to_decide,
    significant,
    unpaired,
)
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.results import Results
from ccmix.analysis.statistics import Spread
from ccmix.archive import Campaign
from ccmix.compare.differences import Difference, differences
from ccmix.compare.groups import (
    VERDICT_METRIC,
    WHOLE,
    ComparedRange,
    Distributions,
    compared_range,
    distributions,
    families,
    goodputs_of,
    groups_of_both,
    values,
)
from ccmix.compare.groups import adjusted as adjusted_ranges
from ccmix.compare.matching import Cell, MatchedPair, RangeCell, cells, joined, match

OF_GROUP = (
    VERDICT_METRIC,
    "retransmission_rate",
    "rtt_median_s",
    "queueing_delay_median_s",
    "share",
)
OF_RUN = (VERDICT_METRIC, "fairness", "retransmission_rate")

Word = Literal["same", "different", "can't tell"]


@dataclass(frozen=True)
class Tested:
    """Holds the test of a metric of a group, or of the whole run, with p-values adjusted for all
    tests (Holm).
    """

    group: str
    metric: str
    a: Spread | None
    b: Spread | None
    found: Unpaired | None
    a_alike: bool = False  # A's runs all have the same value, and so are one observation
    b_alike: bool = False
    # position of the only observation of a campaign among those of the other
    single: str | None = None
    p_different: float | None = None
    p_same: float | None = None
    iterations_needed: int | None = None  # of each campaign; None: unknown, or too many

    @property
    def verdict(self) -> Word:
        """Returns 'same' within the margin, even if there is a significant difference below it."""
        if significant(self.p_same):
            return "same"
        if significant(self.p_different):
            return "different"
        return "can't tell"

    @property
    def runs(self) -> int:
        """Returns the number of runs of the campaign that has fewer."""
        return min(self.a.runs if self.a else 0, self.b.runs if self.b else 0)

    @property
    def alike(self) -> tuple[str, ...]:
        """Returns the campaigns whose runs are all alike."""
        return tuple(name for name, alike in (("A", self.a_alike), ("B", self.b_alike)) if alike)

    @property
    def more_runs(self) -> int | None:
        """Returns the number of further runs that each campaign needs; None if it is too large or
        unknown, or if all runs are alike.
        """
        if self.alike:
            return None
        if self.runs < LEAST_FOR_INTERVAL:
            return LEAST_FOR_INTERVAL - self.runs
        return (
            None if self.iterations_needed is None else max(self.iterations_needed - self.runs, 1)
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"verdict": self.verdict, "more_runs": self.more_runs}


@dataclass(frozen=True)
class ComparedGroup:
    """Describes a group that both campaigns' runs have, under A's name."""

    name: str
    distributions: Distributions | None


@dataclass(frozen=True)
class ComparedCondition:
    """Describes a condition of both campaigns; the goodput of its groups decides on the verdict."""

    a: Cell
    b: Cell
    rule: str  # says why they are the same condition
    groups: tuple[ComparedGroup, ...]
    tested: tuple[Tested, ...]

    @property
    def goodputs(self) -> list[Tested]:
        """Returns the tests of the groups' goodput, or of the run's if both have no group."""
        return goodputs_of(self.tested)

    @property
    def verdict(self) -> Word:
        """Returns 'different' if any group is, 'same' if all are."""
        verdicts = {tested.verdict for tested in self.goodputs}
        return (
            "different"
            if "different" in verdicts
            else "can't tell"
            if "can't tell" in verdicts
            else "same"
        )

    def to_json(self) -> dict[str, object]:
        return {
            "a": _cell(self.a),
            "b": _cell(self.b),
            "matched_by": self.rule,
            "verdict": self.verdict,
            "groups": [asdict(group) for group in self.groups],
            "metrics": [each.to_json() for each in self.tested],
        }


@dataclass(frozen=True)
class Compared:
    """Holds the whole comparison of A and B."""

    margin: float
    differences: tuple[Difference, ...]
    conditions: tuple[ComparedCondition, ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]
    ranges: tuple[ComparedRange, ...] = ()  # conditions of A, each with a range of B
    unknown_of_a: tuple[str, ...] = ()  # unknown keys that A's file names: they make no ranges
    unread: tuple[
        str, ...
    ] = ()  # why the distributions lack the intervals of runs, a sentence each

    def to_json(self) -> dict[str, object]:
        return {
            "margin": self.margin,
            "differences": [asdict(each) for each in self.differences],
            "conditions": [condition.to_json() for condition in self.conditions],
            "ranges": [
                {"a": _cell(each.a), "b": _cell(each.b)} | each.to_json() for each in self.ranges
            ],
            "unknown_of_a": list(self.unknown_of_a),
            "only_a": [_cell(cell) for cell in self.only_a],
            "only_b": [_cell(cell) for cell in self.only_b],
        }


def _cell(cell: Cell) -> dict[str, object]:
    run, unsettled = cell.first.run, cell.longest_unsettled
    return {
        "entry": run.entry,
        "condition": run.condition,
        "dst": run.dst,
        "key": cell.key,
        "emulated": cell.path.emulated,
        "base_rtt_s": cell.path.rtt_s if cell.path.rtt_is_base else None,
        "base_rtt_at_most_s": cell.path.rtt_s,
        "runs": len(cell.results),
        "invalid": len(cell.results) - len(cell.valid),
        "not_valid": list(map(asdict, cell.not_valid)),
        "not_settled": cell.not_settled,
        "enough_s": unsettled.enough_s if unsettled else None,
        "enough_omit_s": unsettled.enough_omit_s if unsettled else None,
    }


def compare(
    a: Results, b: Results, margin: float = MARGIN, made_by: tuple[str, str] = ("", "")
) -> Compared:
    """Compares the valid runs and counts the others. `made_by` are the versions of ccmix."""
    matched = match(cells(a.runs), joined(b))
    unread: list[str] = []
    conditions = [
        _condition(pair, margin, unread)
        for pair in matched.pairs
        if not isinstance(pair.b, RangeCell)
    ]
    ranges = [
        compared_range(pair.a, pair.b, pair.rule, margin)
        for pair in matched.pairs
        if isinstance(pair.b, RangeCell)
    ]
    return Compared(
        margin=margin,
        differences=(
            *(
                [Difference("ccmix", *((version,) for version in made_by))]
                if made_by[0] != made_by[1]
                else []
            ),
            *differences([*matched.pairs, *matched.namesakes], a, b),
        ),
        conditions=tuple(adjusted(conditions)),
        only_a=matched.only_a,
        only_b=matched.only_b,
        ranges=tuple(adjusted_ranges(ranges)),
        unknown_of_a=tuple(
            dict.fromkeys(key for campaign in a.campaigns for key in _unknown_keys(campaign))
        ),
        unread=tuple(unread),
    )


def _unknown_keys(campaign: Campaign) -> Iterator[str]:
    for keys in campaign.plan.unknown.values():
        yield from keys


def _condition(pair: MatchedPair, margin: float, unread: list[str]) -> ComparedCondition:
    """Compares a condition; adds to `unread` why the intervals of runs can't be read."""
    a, b = pair.a, pair.b
    names = tuple(groups_of_both(a.first, b.first))
    tested = [
        _tested(a, b, name, name_in_b, metric, margin)
        for name, name_in_b in names
        for metric in OF_GROUP
    ]
    tested += [_tested(a, b, WHOLE, WHOLE, metric, margin) for metric in OF_RUN]
    spread = distributions(a.valid, b.valid, names, unread)
    groups = tuple(ComparedGroup(name, spread.get(name)) for name, _ in names)
    return ComparedCondition(a, b, pair.rule, groups, tuple(tested))


def _tested(a: Cell, b: Cell, group_a: str, group_b: str, metric: str, margin: float) -> Tested:
    of_a, of_b = values(a, group_a, metric), values(b, group_b, metric)
    sample_a, sample_b = MetricSample(tuple(of_a)), MetricSample(tuple(of_b))
    return Tested(
        group=group_a,
        metric=metric,
        a=Spread.of(sample_a.values),
        b=Spread.of(sample_b.values),
        a_alike=sample_a.alike,
        b_alike=sample_b.alike,
        single=_single(sample_a, sample_b),
        found=unpaired(sample_a, sample_b, margin) if of_a and of_b else None,
        iterations_needed=iterations_to_decide(sample_a, sample_b, margin)
        if of_a and of_b
        else None,
    )


def _single(a: MetricSample, b: MetricSample) -> str | None:
    """Returns the position of a campaign's only observation among the other's, as in 'below all of
    A', if the other has enough of them.
    """
    single, several, name = (b, a, "A") if b.observations == 1 else (a, b, "B")
    if single.observations != 1 or several.observations < LEAST_FOR_INTERVAL:
        return None
    where = (
        "below all"
        if single.mean < min(several.values)
        else "above all"
        if single.mean > max(several.values)
        else "among those"
    )
    return f"{where} of {name}"


def adjusted(conditions: Sequence[ComparedCondition]) -> Iterator[ComparedCondition]:
    """Yields the conditions with p-values adjusted for the number of conditions and groups.

    Each metric and each of its two questions is a family; so is the run as a whole.
    """
    every = [tested for condition in conditions for tested in condition.tested]
    for family in families(every):
        tests = [every[at].found for at in family]
        different = holm([test.p_different if test else None for test in tests])
        same = holm([test.p_same if test else None for test in tests])
        for at, p_different, p_same in zip(family, different, same, strict=True):
            every[at] = replace(every[at], p_different=p_different, p_same=p_same)
    left = iter(every)
    for condition in conditions:
        yield replace(condition, tested=tuple(next(left) for _ in condition.tested))
