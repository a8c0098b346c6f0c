"""Two campaigns compared: for each condition that both have, and each group and metric, what the runs say."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ccmix.analysis.comparison import MARGIN, SIGNIFICANCE, Sample, Unpaired, holm, iterations_to_tell, unpaired
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.statistics import Spread, value_of
from ccmix.compare.distributions import Distributions, distributions
from ccmix.compare.matching import Cell, Pair, cells, match
from ccmix.compare.surroundings import Difference, differences
from ccmix.report.results import Result, Results

VERDICT_METRIC = "goodput_bps"  # by which a condition is the same or not
OF_GROUP = (VERDICT_METRIC, "retransmission_rate", "rtt_median_s", "queueing_delay_median_s", "share")
OF_RUN = (VERDICT_METRIC, "fairness", "retransmission_rate")
WHOLE = "all"  # the run, beside its groups

Word = Literal["same", "different", "can't tell"]


@dataclass(frozen=True)
class Tested:
    """A metric of a group, or of the run as a whole; p-values are adjusted for all conditions and groups (Holm)."""

    group: str
    metric: str
    a: Spread | None
    b: Spread | None
    found: Unpaired | None
    a_alike: bool = False  # A's runs all have the same value, and so are one observation
    b_alike: bool = False
    single: str | None = None  # where the one observation of a campaign is among those of the other
    p_different: float | None = None
    p_same: float | None = None
    iterations_needed: int | None = None  # of each campaign; None: nothing tells, or too many

    @property
    def verdict(self) -> Word:
        """Same: within the margin, however surely there is a difference below it."""
        if self.p_same is not None and self.p_same <= SIGNIFICANCE:
            return "same"
        if self.p_different is not None and self.p_different <= SIGNIFICANCE:
            return "different"
        return "can't tell"

    @property
    def runs(self) -> int:
        """Of the campaign that has fewer."""
        return min(self.a.runs if self.a else 0, self.b.runs if self.b else 0)

    @property
    def alike(self) -> tuple[str, ...]:
        """The campaigns whose runs are all alike."""
        return tuple(name for name, alike in (("A", self.a_alike), ("B", self.b_alike)) if alike)

    @property
    def more_runs(self) -> int | None:
        """Of each campaign, until one could tell; None: too many, or nobody knows, or more would be alike, too."""
        if self.alike:
            return None
        if self.runs < LEAST_FOR_INTERVAL:
            return LEAST_FOR_INTERVAL - self.runs
        return None if self.iterations_needed is None else max(self.iterations_needed - self.runs, 1)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict, "more_runs": self.more_runs}


@dataclass(frozen=True)
class Group:
    """A group that both campaigns' runs have, under A's name."""

    name: str
    distributions: Distributions | None


@dataclass(frozen=True)
class Condition:
    """A condition of both campaigns; the verdict is by the goodput of its groups."""

    a: Cell
    b: Cell
    rule: str  # by which they are the same condition
    groups: tuple[Group, ...]
    tested: tuple[Tested, ...]

    @property
    def goodputs(self) -> list[Tested]:
        """Of the groups, or of the run where it has none that both have."""
        every = [one for one in self.tested if one.metric == VERDICT_METRIC]
        return [one for one in every if one.group != WHOLE] or every

    @property
    def verdict(self) -> Word:
        """Different if any group is, same if all are."""
        words = {one.verdict for one in self.goodputs}
        return "different" if "different" in words else "can't tell" if "can't tell" in words else "same"

    def to_json(self) -> dict[str, Any]:
        return {
            "a": _cell(self.a),
            "b": _cell(self.b),
            "matched_by": self.rule,
            "verdict": self.verdict,
            "groups": [asdict(group) for group in self.groups],
            "metrics": [one.to_json() for one in self.tested],
        }


@dataclass(frozen=True)
class Compared:
    """All of A and B."""

    margin: float
    differences: tuple[Difference, ...]
    conditions: tuple[Condition, ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "margin": self.margin,
            "differences": [asdict(one) for one in self.differences],
            "conditions": [condition.to_json() for condition in self.conditions],
            "only_a": [_cell(cell) for cell in self.only_a],
            "only_b": [_cell(cell) for cell in self.only_b],
        }


def _cell(cell: Cell) -> dict[str, Any]:
    run = cell.first.run
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
    }


def compare(a: Results, b: Results, margin: float = MARGIN, made_by: tuple[str, str] = ("", "")) -> Compared:
    """Runs that are not valid are left out, and counted. `made_by` are the versions of ccmix."""
    matched = match(cells(a.runs), cells(b.runs))
    conditions = [_condition(pair, margin) for pair in matched.pairs]
    return Compared(
        margin=margin,
        differences=(
            *([Difference("ccmix", *((version,) for version in made_by))] if made_by[0] != made_by[1] else []),
            *differences(a.runs, b.runs),
        ),
        conditions=tuple(adjusted(conditions)),
        only_a=matched.only_a,
        only_b=matched.only_b,
    )


def _condition(pair: Pair, margin: float) -> Condition:
    a, b = pair.a, pair.b
    names = tuple(_groups(a.first, b.first))
    tested = [_tested(a, b, one, other, metric, margin) for one, other in names for metric in OF_GROUP]
    tested += [_tested(a, b, WHOLE, WHOLE, metric, margin) for metric in OF_RUN]
    groups = tuple(Group(one, distributions(a.valid, b.valid, one, other)) for one, other in names)
    return Condition(a, b, pair.rule, groups, tuple(tested))


def _groups(a: Result, b: Result) -> Iterator[tuple[str, str]]:
    """Those of one name; the others where each is the only one of its CCA."""
    of_a, of_b = ({group["group"]: group["cca"] for group in result.summary["metrics"]["groups"]} for result in (a, b))
    ccas_a, ccas_b = (
        [cca for name, cca in own.items() if name not in of_a.keys() & of_b.keys()] for own in (of_a, of_b)
    )
    for name, cca in of_a.items():
        if name in of_b:
            yield name, name
        elif ccas_a.count(cca) == ccas_b.count(cca) == 1:
            yield name, next(other for other, of_other in of_b.items() if of_other == cca and other not in of_a)


def _tested(a: Cell, b: Cell, group_a: str, group_b: str, metric: str, margin: float) -> Tested:
    of_a, of_b = _values(a, group_a, metric), _values(b, group_b, metric)
    sample_a, sample_b = Sample(tuple(of_a)), Sample(tuple(of_b))
    return Tested(
        group=group_a,
        metric=metric,
        a=Spread.of(sample_a.values),
        b=Spread.of(sample_b.values),
        a_alike=sample_a.alike,
        b_alike=sample_b.alike,
        single=_single(sample_a, sample_b),
        found=unpaired(sample_a, sample_b, margin) if of_a and of_b else None,
        iterations_needed=iterations_to_tell(sample_a, sample_b, margin) if of_a and of_b else None,
    )


def _single(a: Sample, b: Sample) -> str | None:
    """'below all of A': where the one observation of a campaign is, if the other has enough that are not alike."""
    one, others, name = (b, a, "A") if b.observations == 1 else (a, b, "B")
    if one.observations != 1 or others.observations < LEAST_FOR_INTERVAL:
        return None
    where = (
        "below all"
        if one.mean < min(others.values)
        else "above all"
        if one.mean > max(others.values)
        else "among those"
    )
    return f"{where} of {name}"


def _values(cell: Cell, group: str, metric: str) -> list[float]:
    """Of the valid runs that have it."""
    found = []
    for result in cell.valid:
        metrics = result.summary["metrics"]
        own = metrics if group == WHOLE else next((one for one in metrics["groups"] if one["group"] == group), {})
        if (value := value_of(own, metric)) is not None:
            found.append(value)
    return found


def adjusted(conditions: Sequence[Condition]) -> Iterator[Condition]:
    """With the p-values of each metric, and of each of its two questions, adjusted for the number of conditions and
    groups; the run as a whole is a family of its own.
    """
    every = [one for condition in conditions for one in condition.tested]
    families: dict[tuple[str, bool], list[int]] = {}
    for at, one in enumerate(every):
        families.setdefault((one.metric, one.group == WHOLE), []).append(at)
    for family in families.values():
        found = [every[at].found for at in family]
        different = holm([one.p_different if one else None for one in found])
        same = holm([one.p_same if one else None for one in found])
        for at, p_different, p_same in zip(family, different, same, strict=True):
            every[at] = replace(every[at], p_different=p_different, p_same=p_same)
    left = iter(every)
    for condition in conditions:
        yield replace(condition, tested=tuple(next(left) for _ in condition.tested))
