"""Compares the results of two campaigns, A and B, for each group: the flows of one CCA.

Also compares the results of A with ranges of B: does the real result lie within the range that the
unknown keys of an emulated path leave open?
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
from ccmix.compare.cells import Cell, RangeCell
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
    """Returns the tests that decide on a condition's verdict: those of the groups' goodput.

    If no group is in both campaigns, the only such test is that of the whole run's goodput.
    """
    of_goodput = [test for test in tested if test.metric == VERDICT_METRIC]
    return [test for test in of_goodput if test.group != WHOLE] or of_goodput


def families(tested: Sequence[GroupTest]) -> Iterable[list[int]]:
    """Returns the positions of the tests whose p-values are adjusted together (Holm).

    Tests of the same metric belong together, but those of groups and of whole runs do not.
    """
    positions: dict[tuple[str, bool], list[int]] = {}
    for position, test in enumerate(tested):
        positions.setdefault((test.metric, test.group == WHOLE), []).append(position)
    return positions.values()


def groups_of_both(a: Result, b: Result) -> Iterator[tuple[str, str]]:
    """Yields (name in A, name in B) of the groups that can be compared.

    Groups with the same name can. So can two groups of a CCA with different names, if each is the
    only group of this CCA in its campaign that has no namesake in the other.
    """
    ccas_a, ccas_b = (
        {group.group: group.cca for group in result.finished.metrics.groups} for result in (a, b)
    )
    left_a = [cca for name, cca in ccas_a.items() if name not in ccas_b]
    left_b = {name: cca for name, cca in ccas_b.items() if name not in ccas_a}
    for name, cca in ccas_a.items():
        names_in_b = [other for other, cca_in_b in left_b.items() if cca_in_b == cca]
        if name in ccas_b:
            yield name, name
        elif left_a.count(cca) == len(names_in_b) == 1:
            yield name, names_in_b[0]


def metric_values(cell: Cell, group: str, metric: str) -> list[float]:
    """Returns the values of a metric in the valid runs of a condition that have this metric.

    They are the values of a group, or of the run if `group` is WHOLE. `metric` is a name such as
    'goodput_bps'.
    """
    found = []
    for result in cell.valid:
        of_run = result.finished.metrics
        of_group = (each for each in of_run.groups if each.group == group)
        metrics = of_run if group == WHOLE else next(of_group, None)
        if metrics is not None and (value := value_of(metrics, metric)) is not None:
            found.append(value)
    return found


SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
ROWS_AT_ONCE = 100_000  # of several runs, in memory
_COLUMNS = (pl.col("group").cast(pl.String), pl.col("goodput_bps").cast(pl.Float64))


@dataclass(frozen=True)
class Distributions:
    """Compares the distributions of a group's goodput, sampled in intervals of all valid runs.

    Quantiles are at SHARES. `apart` is the largest distance of the two distribution functions
    (Kolmogorov and Smirnov's D): 0 if they are alike, 1 if they are disjoint. It is not a test,
    because the intervals of a run depend on each other. Intervals of another length have another
    distribution.
    """

    a_interval_s: float
    b_interval_s: float
    a_quantiles_bps: tuple[float, ...]
    b_quantiles_bps: tuple[float, ...]
    apart: float


def interval_goodputs(
    results: Sequence[Result], unread: list[str]
) -> Mapping[object, NDArray[np.float64]]:
    """Returns the goodputs of each group in the measured intervals of all runs, in bit/s and
    sorted.

    A goodput is the sum over the group's flows in an interval of a run. Runs whose intervals can't
    be read are left out, and the reasons are added to `unread`.
    """
    arrays: dict[object, list[NDArray[np.float64]]] = {}
    for rows in _batches(_measured_intervals(results, unread)):
        totals = rows.group_by("run", "group", "moment").agg(pl.col("goodput_bps").sum())
        for (group,), goodputs in totals.partition_by("group", as_dict=True).items():
            arrays.setdefault(group, []).append(goodputs["goodput_bps"].to_numpy())
    return {group: np.sort(np.concatenate(parts)) for group, parts in arrays.items()}


def _measured_intervals(results: Sequence[Result], unread: list[str]) -> Iterator[pl.DataFrame]:
    """Yields a table of the measured intervals of each run that has any.

    If intervals can't be read, adds the reason to `unread`.
    """
    for number, result in enumerate(results):
        if (result.folder / run_files.INTERVALS).exists():
            try:
                yield _read_intervals(number, result)
            except ArchiveError as error:
                unread.append(str(error))


def _read_intervals(number: int, result: Result) -> pl.DataFrame:
    """Reads the intervals of a run: group, goodput_bps, moment and run, which is `number`.

    Intervals omitted at the start are left out. `moment` counts intervals, and so is the same for
    all flows. Raises ArchiveError.
    """
    file = result.folder / run_files.INTERVALS
    with parquet.scanned(file) as table:
        # iperf3's intervals of several flows end a little apart
        moment = (pl.col("time_s") / pl.col("seconds").median()).round()
        measured = (
            table.select(*_COLUMNS, "omitted", moment=moment, run=pl.lit(number))
            .filter(~pl.col("omitted"))
            .drop("omitted")
        )
        return parquet.collected(measured, file)


def _batches(tables: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Joins the tables of many runs into fewer ones of about ROWS_AT_ONCE rows.

    Polars needs about the same time for a small table as for a large one.
    """
    waiting: list[pl.DataFrame] = []
    for table in tables:
        waiting.append(table)
        if sum(each.height for each in waiting) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _interval_s(results: Sequence[Result]) -> float:
    """Returns the intervals' length: the median in the first run whose intervals can be read."""
    for result in results:
        with contextlib.suppress(ArchiveError, TypeError):  # TypeError: no interval has a length
            seconds = parquet.read(result.folder / run_files.INTERVALS, ["seconds"])["seconds"]
            return float(seconds.median())  # type: ignore[arg-type]
    raise AssertionError("a group of runs has intervals, so those of a run can be read")


def distributions(
    a: Sequence[Result], b: Sequence[Result], groups: Iterable[tuple[str, str]], unread: list[str]
) -> dict[str, Distributions]:
    """Compares the goodput distributions of groups; returns them by the group's name in A.

    `groups` has pairs (name in A, name in B). Groups without intervals in A or B are left out. For
    runs whose intervals can't be read, the reasons are added to `unread`.
    """
    goodputs_a, goodputs_b = interval_goodputs(a, unread), interval_goodputs(b, unread)
    return {
        name: _compare_distributions(
            _interval_s(a), _interval_s(b), goodputs_a[name], goodputs_b[name_in_b]
        )
        for name, name_in_b in groups
        if name in goodputs_a and name_in_b in goodputs_b
    }


def _compare_distributions(
    a_interval_s: float,
    b_interval_s: float,
    goodputs_a: NDArray[np.float64],
    goodputs_b: NDArray[np.float64],
) -> Distributions:
    """Computes the quantiles and the distance of two sorted arrays of goodputs in bit/s."""
    all_goodputs = np.concatenate([goodputs_a, goodputs_b])
    shares = [
        np.searchsorted(goodputs, all_goodputs, side="right") / goodputs.size
        for goodputs in (goodputs_a, goodputs_b)
    ]
    quantiles = [
        tuple(float(value) for value in np.quantile(goodputs, SHARES))
        for goodputs in (goodputs_a, goodputs_b)
    ]
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
    """Holds the test whether a metric of A lies in a range of B, for a group or the whole run.

    The range spans the means of conditions of B that differ only in keys whose real value is
    unknown. P-values are adjusted for the number of tests (Holm).
    """

    group: str
    metric: str
    a: Spread
    a_alike: bool  # A's runs all have the same value, and so are one observation
    b: MetricRange
    found: AgainstRange

    @property
    def outside_by(self) -> float:
        """Returns the distance of A's mean from the range, as a fraction of the nearer end.

        It is 0.1 if the mean is 10% above the range, -0.1 if it is 10% below, 0 inside, and
        infinite above a range that ends at 0.
        """
        if self.b.low <= self.a.mean <= self.b.high:
            return 0.0
        end = self.b.high if self.a.mean > self.b.high else self.b.low
        return self.a.mean / end - 1 if end > 0 else float("inf")

    @property
    def verdict(self) -> RangeWord:
        """Returns the verdict; 'in the range' includes the margin around the range, even if a
        difference within the margin is significant.
        """
        if significant(self.found.p_inside):
            return "in the range"
        return "outside" if significant(self.found.p_outside) and self.outside_by else "can't tell"

    def to_json(self) -> dict[str, object]:
        """Returns the test for the comparison's JSON."""
        by = self.outside_by
        return {
            "group": self.group,
            "metric": self.metric,
            "a": asdict(self.a),
            "b": {
                "low": self.b.low,
                "high": self.b.high,
                "point": _member_json(self.b.point) if self.b.point else None,
                "conditions": [_member_json(member) for member in self.b.members],
                "without_valid_runs": [dict(unknown) for unknown in self.b.missing],
            },
            "verdict": self.verdict,
            "outside_by": by if abs(by) < float("inf") else None,
            "p_inside": self.found.p_inside,
            "p_outside": self.found.p_outside,
        }


def _member_json(member: RangeMember) -> dict[str, object]:
    """Returns a condition of a range: the values of its unknown keys, and the metric's spread."""
    return {"unknown": dict(member.unknown), **asdict(member.spread)}


@dataclass(frozen=True)
class GroupEffects:
    """Holds the effect of each unknown key on the goodput of a group, the largest effect first."""

    group: str
    effects: tuple[KeyEffect, ...]


@dataclass(frozen=True)
class ComparedRange:
    """Compares a condition of A with a range of B: conditions that differ only in unknown keys.

    The goodput of its groups decides on the verdict.
    """

    a: Cell
    b: RangeCell
    rule: str  # says why they belong together
    tested: tuple[RangeTested, ...]
    effects: tuple[GroupEffects, ...]

    @property
    def goodputs(self) -> list[RangeTested]:
        """Returns the tests of the groups' goodput, or of the run's if no group is in both."""
        return goodputs_of(self.tested)

    @property
    def verdict(self) -> RangeWord:
        """Returns 'outside' if any group is outside, and 'in the range' only if all groups are."""
        verdicts = {tested.verdict for tested in self.goodputs}
        if "outside" in verdicts:
            return "outside"
        return "in the range" if verdicts == {"in the range"} else "can't tell"

    def to_json(self) -> dict[str, object]:
        """Returns the verdict, the tests, and the effect of each unknown key for the JSON."""
        return {
            "matched_by": self.rule,
            "unknown": list(self.b.unknown),
            "verdict": self.verdict,
            "metrics": [tested.to_json() for tested in self.tested],
            "sensitivity": [
                _effect_json(of_group.group, effect)
                for of_group in self.effects
                for effect in of_group.effects
            ],
        }


def _effect_json(group: str, effect: KeyEffect) -> dict[str, object]:
    """Returns how far one unknown key moves the goodput of a group, for the comparison's JSON."""
    return {
        "group": group,
        "unknown": effect.key,
        "ratio": effect.ratio,
        "explains": effect.explains,
        "low": _member_json(effect.low),
        "high": _member_json(effect.high),
        "p": effect.p,
    }


def compared_range(a: Cell, b: RangeCell, rule: str, margin: float) -> ComparedRange:
    """Compares a condition of A with a range of B; adjusted() then adjusts the p-values.

    `rule` says why the two match. `margin` is a relative distance: with 0.05, a mean that is less
    than 5% outside still counts as in the range.
    """
    group_names = list(groups_of_both(a.first, b.first))
    group_metrics = [(group, in_b, metric) for group, in_b in group_names for metric in OF_GROUP]
    if len(group_names) != 1:
        group_metrics.append((WHOLE, WHOLE, VERDICT_METRIC))
    tested = tuple(
        found for each in group_metrics if (found := _test_against_range(a, b, *each, margin))
    )
    of_goodput = [each for each in tested if each.metric == VERDICT_METRIC]
    return ComparedRange(
        a,
        b,
        rule,
        tested,
        tuple(GroupEffects(each.group, tuple(effects(each.b))) for each in of_goodput),
    )


def _test_against_range(
    a: Cell, b: RangeCell, group: str, group_in_b: str, metric: str, margin: float
) -> RangeTested | None:
    """Tests whether a metric of A lies in a range of B; None if A or B has no value of it.

    `b` has conditions that differ only in unknown keys. All planned conditions belong to the range,
    even if some of them have no runs yet.
    """
    sample = MetricSample(tuple(metric_values(a, group, metric)))
    values_in_b = {unknown: metric_values(cell, group_in_b, metric) for unknown, cell in b.members}
    span = range_of({unknown: values_in_b.get(unknown, []) for unknown in b.planned})
    spread = Spread.of(sample.values)
    if spread is None or span is None:
        return None
    return RangeTested(group, metric, spread, sample.alike, span, against(sample, span, margin))


def adjusted(ranges: Sequence[ComparedRange]) -> Iterator[ComparedRange]:
    """Yields the ranges with p-values adjusted (Holm) for the number of conditions and groups.

    The two questions of a metric, whether it is inside and whether it is outside, are adjusted
    separately.
    """
    all_tests = [tested for compared in ranges for tested in compared.tested]
    for family in families(all_tests):
        inside = holm([all_tests[position].found.p_inside for position in family])
        outside = holm([all_tests[position].found.p_outside for position in family])
        for position, p_inside, p_outside in zip(family, inside, outside, strict=True):
            all_tests[position] = replace(
                all_tests[position], found=AgainstRange(p_inside, p_outside)
            )
    remaining = iter(all_tests)
    for compared in ranges:
        yield replace(compared, tested=tuple(next(remaining) for _ in compared.tested))
