"""Finds the groups that conditions of two campaigns have in common, and compares their values and
distributions. Also compares the values of A with ranges of B: does the real result lie within the
range that the unknown keys leave open?
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.comparison import MetricSample, holm, significant
from ccmix.analysis.ranges import (
    AgainstRange,
    KeyEffect,
    MetricRange,
    RangeMember,
    against,
    effects,
    range_of,
)
from ccmix.analysis.results import Result
from ccmix.analysis.statistics import Spread, value_of
from ccmix.archive import ArchiveError, parquet
from ccmix.compare.matching import Cell, RangeCell
from ccmix.model import run_files

VERDICT_METRIC = "goodput_bps"  # decides whether a condition is the same
WHOLE = "all"  # the whole run, in addition to its groups


class GroupTest(Protocol):
    """Describes the test of a metric, for a group or for the whole run."""

    @property
    def group(self) -> str: ...
    @property
    def metric(self) -> str: ...


_T = TypeVar("_T", bound=GroupTest)


def goodputs_of(tested: Iterable[_T]) -> list[_T]:
    """Returns the tests of the groups' goodput, or of the run's if there is no group in both
    campaigns.
    """
    every = [test for test in tested if test.metric == VERDICT_METRIC]
    return [test for test in every if test.group != WHOLE] or every


def families(tested: Sequence[GroupTest]) -> Iterable[list[int]]:
    """Returns the positions of the tests whose p-values are adjusted together (Holm): the tests of
    each metric, and tests of groups separately from tests of whole runs.
    """
    places: dict[tuple[str, bool], list[int]] = {}
    for place, test in enumerate(tested):
        places.setdefault((test.metric, test.group == WHOLE), []).append(place)
    return places.values()


def groups_of_both(a: Result, b: Result) -> Iterator[tuple[str, str]]:
    """Yields pairs of groups with the same name, and of other groups if each is the only one of its
    CCA.
    """
    of_a, of_b = (
        {group.group: group.cca for group in result.finished.metrics.groups} for result in (a, b)
    )
    ccas_a, ccas_b = (
        [cca for name, cca in own.items() if name not in of_a.keys() & of_b.keys()]
        for own in (of_a, of_b)
    )
    for name, cca in of_a.items():
        if name in of_b:
            yield name, name
        elif ccas_a.count(cca) == ccas_b.count(cca) == 1:
            yield (
                name,
                next(
                    other
                    for other, of_other in of_b.items()
                    if of_other == cca and other not in of_a
                ),
            )


def values(cell: Cell, group: str, metric: str) -> list[float]:
    """Returns the metric of the valid runs that have it."""
    found = []
    for result in cell.valid:
        metrics = result.finished.metrics
        own = (
            metrics
            if group == WHOLE
            else next((own for own in metrics.groups if own.group == group), None)
        )
        if own is not None and (value := value_of(own, metric)) is not None:
            found.append(value)
    return found


SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
ROWS_AT_ONCE = 100_000  # of several runs, in memory
_OF_EACH = (pl.col("group").cast(pl.String), pl.col("goodput_bps").cast(pl.Float64))


@dataclass(frozen=True)
class Distributions:
    """Holds quantiles at SHARES of a group's goodput in intervals, over all valid runs, and the
    distance of both distributions.

    `apart` is the largest distance of the distribution functions (Kolmogorov and Smirnov's D): 0
    if they are alike, 1 if they are disjoint. It is not a test, because the intervals of a run
    depend on each other. Intervals of another length have another distribution.
    """

    a_interval_s: float
    b_interval_s: float
    a_quantiles_bps: tuple[float, ...]
    b_quantiles_bps: tuple[float, ...]
    apart: float


def interval_goodputs(
    results: Sequence[Result], unread: list[str]
) -> Mapping[object, NDArray[np.float64]]:
    """Returns for each group the total goodputs (bit/s) of its flows in the measured intervals,
    sorted.

    Leaves out runs whose intervals can't be read, and adds the reasons to `unread`.
    """
    of_runs: dict[object, list[NDArray[np.float64]]] = {}
    for rows in _some_at_a_time(_measured(results, unread)):
        together = rows.group_by("run", "group", "moment").agg(pl.col("goodput_bps").sum())
        for (group,), own in together.partition_by("group", as_dict=True).items():
            of_runs.setdefault(group, []).append(own["goodput_bps"].to_numpy())
    return {group: np.sort(np.concatenate(of_group)) for group, of_group in of_runs.items()}


def _measured(results: Sequence[Result], unread: list[str]) -> Iterator[pl.DataFrame]:
    """Yields the intervals of each run that has any, without the omitted ones at its start.

    If intervals can't be read, adds the reason to `unread`.
    """
    for number, result in enumerate(results):
        if (result.folder / run_files.INTERVALS).exists():
            try:
                yield _of_run(number, result)
            except ArchiveError as error:
                unread.append(str(error))


def _of_run(number: int, result: Result) -> pl.DataFrame:
    """Returns the intervals of a run. Raises ArchiveError."""
    with parquet.scanned(result.folder / run_files.INTERVALS) as table:
        # iperf3's intervals of several flows end a little apart
        moment = (pl.col("time_s") / pl.col("seconds").median()).round()
        return (
            table.select(*_OF_EACH, "omitted", moment=moment, run=pl.lit(number))
            .filter(~pl.col("omitted"))
            .drop("omitted")
            .collect()
        )


def _some_at_a_time(tables: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yields the rows of several tables together: Polars needs the same time for a single table."""
    waiting: list[pl.DataFrame] = []
    for table in tables:
        waiting.append(table)
        if sum(each.height for each in waiting) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _interval_s(results: Sequence[Result]) -> float:
    """Returns the length of the intervals, from the first run whose intervals can be read."""
    for result in results:
        with contextlib.suppress(ArchiveError):
            seconds = parquet.read(result.folder / run_files.INTERVALS, ["seconds"])["seconds"]
            return float(seconds.median())  # type: ignore[arg-type]
    raise AssertionError("a group of runs has intervals, so those of a run can be read")


def distributions(
    a: Sequence[Result], b: Sequence[Result], groups: Iterable[tuple[str, str]], unread: list[str]
) -> dict[str, Distributions]:
    """Returns the distributions of both by the name in A; `groups` are pairs of names.

    Leaves out groups without intervals in A or B, and runs whose intervals can't be read: adds the
    reasons to `unread`.
    """
    every_a, every_b = interval_goodputs(a, unread), interval_goodputs(b, unread)
    return {
        name: _of_group(_interval_s(a), _interval_s(b), every_a[name], every_b[name_in_b])
        for name, name_in_b in groups
        if name in every_a and name_in_b in every_b
    }


def _of_group(
    a_interval_s: float, b_interval_s: float, of_a: NDArray[np.float64], of_b: NDArray[np.float64]
) -> Distributions:
    every = np.concatenate([of_a, of_b])
    shares = [np.searchsorted(own, every, side="right") / own.size for own in (of_a, of_b)]
    quantiles = [tuple(float(value) for value in np.quantile(own, SHARES)) for own in (of_a, of_b)]
    return Distributions(
        a_interval_s=a_interval_s,
        b_interval_s=b_interval_s,
        a_quantiles_bps=quantiles[0],
        b_quantiles_bps=quantiles[1],
        apart=float(np.max(np.abs(shares[0] - shares[1]))),
    )


OF_GROUP = (VERDICT_METRIC, "retransmission_rate", "rtt_median_s")

RangeWord = Literal["in the range", "outside", "can't tell"]


@dataclass(frozen=True)
class RangeTested:
    """Holds the tests of a metric of a group, or of the whole run, with p-values adjusted for all
    tests (Holm).
    """

    group: str
    metric: str
    a: Spread
    a_alike: bool  # A's runs all have the same value, and so are one observation
    b: MetricRange
    found: AgainstRange

    @property
    def outside_by(self) -> float:
        """Returns the distance of A's mean from the range, as a fraction of the nearer end:
        positive above the range, negative below, 0 within. It is infinite above an end of 0.
        """
        if self.b.low <= self.a.mean <= self.b.high:
            return 0.0
        end = self.b.high if self.a.mean > self.b.high else self.b.low
        return self.a.mean / end - 1 if end > 0 else float("inf")

    @property
    def verdict(self) -> RangeWord:
        """Returns 'in the range' within the margin, even if there is a significant
        difference below it.
        """
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
    """Holds the effect of each unknown key on the goodput of a group, the largest effect first."""

    group: str
    effects: tuple[KeyEffect, ...]


@dataclass(frozen=True)
class ComparedRange:
    """Describes a condition of A compared with a range of B; the goodput of its groups decides on
    the verdict.
    """

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
                _effect(of_group.group, effect)
                for of_group in self.effects
                for effect in of_group.effects
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
    """Compares a condition of A with a range of B; the p-values are not adjusted yet."""
    names = list(groups_of_both(a.first, b.first))
    asked = [(group, in_b, metric) for group, in_b in names for metric in OF_GROUP]
    if len(names) != 1:
        asked.append((WHOLE, WHOLE, VERDICT_METRIC))
    tested = tuple(found for each in asked if (found := _tested(a, b, *each, margin)))
    of_goodput = [each for each in tested if each.metric == VERDICT_METRIC]
    return ComparedRange(
        a,
        b,
        rule,
        tested,
        tuple(GroupEffects(each.group, tuple(effects(each.b))) for each in of_goodput),
    )


def _tested(
    a: Cell, b: RangeCell, group: str, group_in_b: str, metric: str, margin: float
) -> RangeTested | None:
    """Returns None if A or B has no value."""
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
