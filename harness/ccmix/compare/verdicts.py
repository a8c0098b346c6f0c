"""Compares two campaigns, A and B: tests whether the conditions that both have run differ."""

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
from ccmix.compare.cells import Cell, RangeCell, cells, cells_with_ranges
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
    metric_values,
)
from ccmix.compare.groups import adjusted as adjusted_ranges
from ccmix.compare.matching import MatchedPair, match

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
    """Holds the test whether a metric differs between A and B, for a group or the whole run.

    Its p-values are adjusted for the number of tests (Holm).
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
        """Returns the verdict: 'same' also if a difference within the margin is significant."""
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
        """Returns the campaigns, 'A' or 'B', whose runs all have the same value.

        That happens if nothing in a run is random; the runs are then a single observation.
        """
        return tuple(name for name, alike in (("A", self.a_alike), ("B", self.b_alike)) if alike)

    @property
    def more_runs(self) -> int | None:
        """Returns how many more runs each campaign needs for a verdict.

        None if more runs don't help because all are alike, or if the number is unknown or too
        large.
        """
        if self.alike:
            return None
        if self.runs < LEAST_FOR_INTERVAL:
            return LEAST_FOR_INTERVAL - self.runs
        return (
            None if self.iterations_needed is None else max(self.iterations_needed - self.runs, 1)
        )

    def to_json(self) -> dict[str, object]:
        """Returns the test for the comparison's JSON."""
        return asdict(self) | {"verdict": self.verdict, "more_runs": self.more_runs}


@dataclass(frozen=True)
class ComparedGroup:
    """Describes a group that both campaigns have, under its name in A."""

    name: str
    distributions: Distributions | None


@dataclass(frozen=True)
class ComparedCondition:
    """Compares a condition that both campaigns have.

    The goodput of its groups decides on the verdict.
    """

    a: Cell
    b: Cell
    rule: str  # says why they are the same condition
    groups: tuple[ComparedGroup, ...]
    tested: tuple[Tested, ...]

    @property
    def goodputs(self) -> list[Tested]:
        """Returns the tests of the groups' goodput, or of the run's if no group is in both."""
        return goodputs_of(self.tested)

    @property
    def verdict(self) -> Word:
        """Returns 'different' if any group differs, and 'same' only if all groups are the same."""
        verdicts = {tested.verdict for tested in self.goodputs}
        if "different" in verdicts:
            return "different"
        return "can't tell" if "can't tell" in verdicts else "same"

    def to_json(self) -> dict[str, object]:
        """Returns the condition, its groups and its tests for the comparison's JSON."""
        return {
            "a": _cell_json(self.a),
            "b": _cell_json(self.b),
            "matched_by": self.rule,
            "verdict": self.verdict,
            "groups": [asdict(group) for group in self.groups],
            "metrics": [each.to_json() for each in self.tested],
        }


@dataclass(frozen=True)
class Compared:
    """Holds the whole comparison of A and B: everything that its text, CSV, page and JSON show."""

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
        """Returns the comparison as JSON, for other programs."""
        return {
            "margin": self.margin,
            "differences": [asdict(each) for each in self.differences],
            "conditions": [condition.to_json() for condition in self.conditions],
            "ranges": [
                {"a": _cell_json(each.a), "b": _cell_json(each.b)} | each.to_json()
                for each in self.ranges
            ],
            "unknown_of_a": list(self.unknown_of_a),
            "only_a": [_cell_json(cell) for cell in self.only_a],
            "only_b": [_cell_json(cell) for cell in self.only_b],
        }


def _cell_json(cell: Cell) -> dict[str, object]:
    """Returns a condition, its path, and how many of its runs count, for the comparison's JSON."""
    run, unsettled = cell.first.run, cell.longest_unsettled
    return {
        "entry": run.entry,
        "condition": run.condition,
        "dst": run.dst,
        "key": cell.key,
        "emulated": cell.path.emulated,
        "base_rtt_s": cell.path.base_rtt_s,
        "base_rtt_at_most_s": cell.path.rtt_s,
        "runs": len(cell.results),
        "invalid": len(cell.results) - len(cell.valid),
        "not_valid": list(map(asdict, cell.not_valid)),
        "not_settled": cell.not_settled,
        "enough_s": unsettled.enough_s if unsettled else None,
        "enough_omit_s": unsettled.enough_omit_s if unsettled else None,
    }


def compare(a: Results, b: Results, margin: float = MARGIN) -> Compared:
    """Compares the conditions that both campaigns have, by their valid runs.

    `margin` is the relative difference, such as 0.05, within which values count as the same.
    """
    matched = match(cells(a.runs), cells_with_ranges(b))
    unread: list[str] = []
    conditions = [
        _compare_condition(pair, margin, unread)
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
        differences=tuple(differences([*matched.pairs, *matched.namesakes], a, b)),
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
    """Yields the keys that the campaign's INI file declares as unknown."""
    for keys in campaign.plan.unknown.values():
        yield from keys


def _compare_condition(pair: MatchedPair, margin: float, unread: list[str]) -> ComparedCondition:
    """Tests the metrics of a matched condition, for each group and for the whole run.

    Adds to `unread` why the intervals of a run can't be read.
    """
    a, b = pair.a, pair.b
    names = tuple(groups_of_both(a.first, b.first))
    tested = [
        _test_metric(a, b, name, name_in_b, metric, margin)
        for name, name_in_b in names
        for metric in OF_GROUP
    ]
    tested += [_test_metric(a, b, WHOLE, WHOLE, metric, margin) for metric in OF_RUN]
    spread = distributions(a.valid, b.valid, names, unread)
    groups = tuple(ComparedGroup(name, spread.get(name)) for name, _ in names)
    return ComparedCondition(a, b, pair.rule, groups, tuple(tested))


def _test_metric(
    a: Cell, b: Cell, group_a: str, group_b: str, metric: str, margin: float
) -> Tested:
    """Tests whether a metric differs between A and B, with p-values that are not adjusted yet.

    `a` and `b` have the runs of the condition in each campaign. `group_a` and `group_b` are the
    group's names there, or WHOLE.
    """
    values_a, values_b = metric_values(a, group_a, metric), metric_values(b, group_b, metric)
    sample_a, sample_b = MetricSample(tuple(values_a)), MetricSample(tuple(values_b))
    return Tested(
        group=group_a,
        metric=metric,
        a=Spread.of(sample_a.values),
        b=Spread.of(sample_b.values),
        a_alike=sample_a.alike,
        b_alike=sample_b.alike,
        single=_position_of_single(sample_a, sample_b),
        found=unpaired(sample_a, sample_b, margin) if values_a and values_b else None,
        iterations_needed=iterations_to_decide(sample_a, sample_b, margin)
        if values_a and values_b
        else None,
    )


def _position_of_single(a: MetricSample, b: MetricSample) -> str | None:
    """Says where the only observation of a campaign lies among those of the other.

    Example: 'below all of A'. None if both have several, or the other has fewer than
    LEAST_FOR_INTERVAL.
    """
    single, several, name = (b, a, "A") if b.observations == 1 else (a, b, "B")
    if single.observations != 1 or several.observations < LEAST_FOR_INTERVAL:
        return None
    if single.mean < min(several.values):
        return f"below all of {name}"
    return f"{'above all' if single.mean > max(several.values) else 'among those'} of {name}"


def adjusted(conditions: Sequence[ComparedCondition]) -> Iterator[ComparedCondition]:
    """Yields the conditions with p-values adjusted (Holm) for the number of conditions and groups.

    The two questions of a metric, whether it is different and whether it is the same, are adjusted
    separately.
    """
    all_tests = [tested for condition in conditions for tested in condition.tested]
    for family in families(all_tests):
        tests = [all_tests[position].found for position in family]
        different = holm([test.p_different if test else None for test in tests])
        same = holm([test.p_same if test else None for test in tests])
        for position, p_different, p_same in zip(family, different, same, strict=True):
            all_tests[position] = replace(
                all_tests[position], p_different=p_different, p_same=p_same
            )
    remaining = iter(all_tests)
    for condition in conditions:
        yield replace(condition, tested=tuple(next(remaining) for _ in condition.tested))
