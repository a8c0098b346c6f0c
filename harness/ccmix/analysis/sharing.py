"""Compares CCAs in separate runs and in the same run: the goodputs of each condition's runs of one
CCA with those of another, and the shares of groups that compete within a run.
"""

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from ccmix.analysis.comparison import MetricSample, Paired, corrected, paired, significant
from ccmix.analysis.counting import (
    counts,
    goodput_bps,
    imported,
    not_settled,
    requested_traffic,
    studied_groups,
)
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, confidence_interval, t_quantile
from ccmix.analysis.statistics import Spread
from ccmix.model import (
    Group,
    GroupedSource,
    HostPath,
    HttpSource,
    Topology,
    Traffic,
    TrafficSource,
    WorkloadSource,
)
from ccmix.model.results import FinishedRun, GroupMetrics, Settling
from ccmix.terms import BESIDE

CCA = "cca"  # the key whose sweep varies CCAs
FIRST_BASELINE = "cubic"  # the CCA that others are compared with, if it is among them
CLOSE = 0.05  # of the baseline or of the fair share: closer results are said to be about the same
_LEAST_SHARE = 1e-9  # so that a factor between shares of 0 and 1 is a number
Standing = Literal[
    "more", "less", "about", "undecided", "no significant difference", "not tested"
]  # undecided: significant alone, and not after the correction for all comparisons
_Valid = tuple[Hashable, FinishedRun]  # a run, with a value that distinguishes its campaign


@dataclass(frozen=True)
class Ratio:
    """Describes the ratio of the mean of some values to the baseline's mean.

    `interval` is None if there are few blocks, if all have the same values, or if the baseline does
    not differ significantly from 0.
    """

    value: float
    interval: tuple[float, float] | None  # 95%


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Ratio | None:
    """Returns the ratio of values to the baseline's values in the same blocks, in the same order;
    None unless the baseline's mean is above 0.

    The interval is Fieller's for paired values (Fieller 1954, with the covariance): all ratios r
    for which Student's paired test of values - r x baseline, with n-1 degrees of freedom, is not
    significant at 5%.
    """
    if not values or statistics.fmean(baseline) <= 0:
        return None
    of_values, of_baseline = statistics.fmean(values), statistics.fmean(baseline)
    ratio = of_values / of_baseline
    alike = MetricSample(tuple(values)).alike and MetricSample(tuple(baseline)).alike
    if alike or len(values) < LEAST_FOR_INTERVAL:
        return Ratio(ratio, None)
    reach = t_quantile(0.975, len(values) - 1) ** 2 / len(values)
    square = of_baseline**2 - reach * statistics.variance(baseline)
    if square <= 0:
        return Ratio(ratio, None)
    cross = of_values * of_baseline - reach * statistics.covariance(values, baseline)
    rest = of_values**2 - reach * statistics.variance(values)
    root = math.sqrt(max(0.0, cross**2 - square * rest))
    return Ratio(ratio, (max(0.0, (cross - root) / square), (cross + root) / square))


@dataclass(frozen=True)
class SharedPlace:
    """Identifies the properties that compared runs share: all but their CCAs, entry, seed and
    iteration.
    """

    dst: str
    condition: tuple[tuple[str, str], ...]  # without CCAs
    path: Topology | HostPath
    traffic: Traffic  # its groups without their CCAs
    name: str = field(
        default="", compare=False
    )  # of the emulated path; two paths that are alike may have different names


@dataclass(frozen=True)
class ComparedValue:
    """A value at one place, which would be `equal` if neither side had more."""

    place: SharedPlace
    result: Paired
    value: float
    equal: float
    interval: tuple[float, float] | None  # 95%, of the value
    p_adjusted: float | None = field(default=None, kw_only=True)
    iterations_needed: int | None = field(default=None, kw_only=True)  # if not significant

    @property
    def side(self) -> int:
        """Returns 1 for significantly more, -1 for less, 0 for neither or a value close to it."""
        apart = self.value - self.equal
        if not significant(self.p_adjusted) or abs(apart) < CLOSE * self.equal:
            return 0
        return 1 if apart > 0 else -1

    @property
    def standing(self) -> Standing:
        if self.p_adjusted is None:
            return "not tested"
        if significant(self.p_adjusted):
            return ("about", "more", "less")[self.side]
        return "undecided" if significant(self.result.p_value) else "no significant difference"

    def judged(self, p_adjusted: float | None, iterations_needed: int | None) -> Self:
        return replace(self, p_adjusted=p_adjusted, iterations_needed=iterations_needed)

    @property
    def strength(self) -> tuple[float, float]:
        """Returns how far the interval and the value are from equality, as logarithms of the
        factor between flows; an interval that is CLOSE to it or includes it, or none, is 0 from it.
        """
        low, high = self.interval or (0.0, math.inf)
        apart = low > self.equal or high < self.equal
        nearer = apart * min(self._apart(low), self._apart(high))
        return max(0.0, nearer - CLOSE), self._apart(self.value)

    def _apart(self, value: float) -> float:
        return abs(math.log(max(value, _LEAST_SHARE)))


@dataclass(frozen=True)
class Alone(ComparedValue):
    """The goodput of one CCA over that of the baseline at the same place, paired by iteration, in
    bits/s; infinite if only the baseline has none.
    """

    cca: str
    baseline: str

    @property
    def mean_bps(self) -> float:
        return self.result.baseline_mean + self.result.difference


@dataclass(frozen=True)
class Beside(ComparedValue):
    """The share of a group in the goodput of its runs, against the share of their flows that
    are its own.
    """

    group: str
    streams: int
    others: tuple[tuple[str, int], ...]  # groups and their streams

    def _apart(self, value: float) -> float:
        share = min(max(value, _LEAST_SHARE), 1 - _LEAST_SHARE)
        return abs(math.log(share / (1 - share) * (1 - self.equal) / self.equal))


@dataclass(frozen=True)
class Single:
    """Describes the goodput of the runs of one entry at one place, in bits/s."""

    place: SharedPlace
    entry: str
    names: tuple[str, ...]  # of the groups
    goodput_bps: Spread


@dataclass(frozen=True)
class Sharing:
    """Holds all comparisons of some campaigns; p-values are adjusted for the number of all of them
    together (Holm).
    """

    alone: tuple[Alone, ...]
    beside: tuple[Beside, ...]
    singles: tuple[Single, ...]
    runs: int
    imported: int  # of the runs that count
    left_out: tuple[
        tuple[str, int], ...
    ]  # kinds of limits, and how many runs each has; a run counts once, by its first kind
    compared: int
    not_settled: tuple[Settling, ...] = ()  # of each run that counts and has not settled
    unsettled_places: tuple[SharedPlace, ...] = ()  # of these runs

    @property
    def valid(self) -> int:
        return self.runs - sum(count for _, count in self.left_out)


def sharing(runs: Iterable[_Valid]) -> Sharing:
    """Compares the runs that count. The other runs are left out, and counted by their first reason.

    The groups of a run that measures its path are steps, one after the other, and so are not
    compared.
    """
    every = list(runs)
    valid = [(campaign, finished) for campaign, finished in every if counts(finished)]
    left_out = Counter(_kind(finished) for _, finished in every if not counts(finished))
    tests = [(campaign, finished) for campaign, finished in valid if not finished.run.traffic.steps]
    alone, beside = _alone(tests), _beside(tests)
    found = corrected([comparison.result for comparison in (*alone, *beside)])
    judged = iter(found)
    return Sharing(
        alone=tuple(each.judged(*next(judged)) for each in alone),
        beside=tuple(each.judged(*next(judged)) for each in beside),
        singles=tuple(_singles(tests)),
        runs=len(every),
        imported=sum(imported(finished) for _, finished in valid),
        left_out=tuple(sorted(left_out.items(), key=lambda item: (-item[1], item[0]))),
        compared=sum(p is not None for p, _ in found),
        not_settled=tuple(
            settling
            for _, finished in valid
            if not_settled(finished) and (settling := finished.metrics.settling)
        ),
        unsettled_places=tuple(
            dict.fromkeys(place_of(finished) for _, finished in valid if not_settled(finished))
        ),
    )


def _kind(finished: FinishedRun) -> str:
    reasons = finished.verdict.reasons
    return reasons[0].kind if reasons else finished.verdict.status


def place_of(finished: FinishedRun) -> SharedPlace:
    """Returns the place of a run, which does not depend on the CCAs of the studied traffic. Cross
    traffic is a part of the path.
    """
    run = finished.run
    condition = tuple(item for item in run.condition.items() if item[0] != CCA)
    path = replace(run.path, name="") if isinstance(run.path, Topology) else run.path
    asked = requested_traffic(finished)
    sources = (
        each if each in asked.cross_traffic else _without_cca(each) for each in asked.sources
    )
    traffic = replace(asked, sources=tuple(sources))
    name = run.path.name if isinstance(run.path, Topology) else ""
    return SharedPlace(run.dst, condition, path, traffic, name)


def _unnamed(groups: Sequence[Group]) -> tuple[Group, ...]:
    return tuple(replace(group, cca="") for group in groups)


def _without_cca(source: TrafficSource) -> TrafficSource:
    if isinstance(source, GroupedSource):
        return replace(source, groups=_unnamed(source.groups))
    if isinstance(source, HttpSource | WorkloadSource):
        return replace(source, cca="")
    return source


def only_cca(finished: FinishedRun) -> str | None:
    """Returns the CCA of all flows; None if there are several, or if other tests ran at the same
    time as an imported run.
    """
    if BESIDE in finished.run.condition:
        return None
    ccas = {group.cca for group in studied_groups(finished)}
    return ccas.pop() if len(ccas) == 1 else None


def _alone(valid: Sequence[_Valid]) -> list[Alone]:
    cells: dict[SharedPlace, dict[tuple[str, str], dict[Hashable, float]]] = {}
    for campaign, finished in valid:
        if cca := only_cca(finished):
            goodputs = cells.setdefault(place_of(finished), {}).setdefault(
                (cca, finished.run.entry), {}
            )
            goodputs[campaign, finished.run.iteration] = goodput_bps(finished)
    comparisons = []
    for place, sides in cells.items():
        if len({cca for cca, _ in sides}) < 2:
            continue
        against = next((side for side in sides if side[0] == FIRST_BASELINE), next(iter(sides)))
        baseline = sides[against]
        for side, values in sides.items():
            if side[0] == against[0]:
                continue
            blocks = [block for block in values if block in baseline]
            ours, theirs = (
                [values[block] for block in blocks],
                [baseline[block] for block in blocks],
            )
            if result := paired(ours, theirs):
                ratio = paired_ratio(ours, theirs)
                comparisons.append(
                    Alone(
                        place,
                        result,
                        value=ratio.value if ratio else math.inf if any(ours) else 1.0,
                        equal=1.0,
                        interval=ratio.interval if ratio else None,
                        cca=_side_name(side, sides),
                        baseline=_side_name(against, sides),
                    )
                )
    return comparisons


def _side_name(side: tuple[str, str], sides: Iterable[tuple[str, str]]) -> str:
    """Returns a CCA, with its entry if several have it."""
    cca, entry = side
    return cca if sum(other == cca for other, _ in sides) == 1 else f"{cca} ({entry})"


def _beside(valid: Sequence[_Valid]) -> list[Beside]:
    cells: dict[
        tuple[str, SharedPlace, tuple[tuple[str, int], ...]], list[tuple[GroupMetrics, ...]]
    ] = {}
    for _, finished in valid:
        groups = studied_groups(finished)
        if len(groups) > 1 and all(
            group.fair_share and group.share is not None for group in groups
        ):
            names = tuple((group.group, group.streams) for group in groups)
            cells.setdefault((finished.run.entry, place_of(finished), names), []).append(groups)
    comparisons = []
    for (_, place, names), runs in cells.items():
        for at, (group, streams) in enumerate(names):
            if len(names) == 2 and at != _group_described(names):
                continue  # the shares of two say the same
            shares, fair_share = (
                [groups[at].share or 0.0 for groups in runs],
                runs[0][at].fair_share or 0.0,
            )
            result = paired(shares, [fair_share] * len(shares))
            assert result  # of at least one run
            interval = None if result.alike else confidence_interval(shares)
            comparisons.append(
                Beside(
                    place,
                    result,
                    value=fair_share + result.difference,
                    equal=fair_share,
                    interval=interval and (max(0.0, interval[0]), min(1.0, interval[1])),
                    group=group,
                    streams=streams,
                    others=tuple(other for other in names if other[0] != group),
                )
            )
    return comparisons


def _group_described(names: Sequence[tuple[str, int]]) -> int:
    """Returns the number of the group of two that is not the baseline; only that is described."""
    return 0 if names[1][0] == FIRST_BASELINE else 1


def _singles(valid: Sequence[_Valid]) -> Iterable[Single]:
    cells: dict[tuple[str, SharedPlace, tuple[str, ...]], list[float]] = {}
    for _, finished in valid:
        names = tuple(group.group for group in studied_groups(finished))
        cells.setdefault((finished.run.entry, place_of(finished), names), []).append(
            goodput_bps(finished)
        )
    for (entry, place, names), values in cells.items():
        if spread := Spread.of(values):
            yield Single(place, entry, names, spread)
