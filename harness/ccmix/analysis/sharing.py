"""Compares CCAs: their goodputs in separate runs, and their shares when they compete in a run."""

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from ccmix.analysis.comparison import Paired, all_alike, corrected, paired, significant
from ccmix.analysis.counting import (
    counts,
    goodput_bps,
    imported,
    not_settled,
    studied_groups,
)
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, confidence_interval, t_quantile
from ccmix.analysis.places import SharedPlace, only_cca, place_of
from ccmix.analysis.statistics import Spread
from ccmix.model.results import FinishedRun, GroupMetrics, Settling

FIRST_BASELINE = "cubic"  # the CCA that others are compared with, if it is among them
CLOSE = 0.05  # of the baseline or of the fair share: closer results are said to be about the same
_LEAST_SHARE = 1e-9  # so that a factor between shares of 0 and 1 is a number
Standing = Literal[
    "more", "less", "about", "undecided", "no significant difference", "not tested"
]  # undecided: significant only without the correction for the number of comparisons
_Valid = tuple[Hashable, FinishedRun]  # a run, with a value that distinguishes its campaign
_Competitors = tuple[tuple[str, int], ...]  # the groups that compete, each with its streams
_GroupsOfRuns = dict[Hashable, tuple[GroupMetrics, ...]]  # by block: an iteration of a campaign


@dataclass(frozen=True)
class Ratio:
    """The ratio of a mean to the baseline's mean, with its 95% confidence interval.

    `interval` is None if there are few blocks (pairs of runs), if all have the same values, or if
    the baseline does not differ significantly from 0.
    """

    value: float
    interval: tuple[float, float] | None  # 95%


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Ratio | None:
    """Returns the ratio of the mean of `values` to the mean of `baseline`; None unless the
    baseline's mean is above 0. Values at the same position belong to the same block (iteration).

    The interval is Fieller's for paired values (Fieller 1954, with the covariance). It contains
    each ratio r for which Student's paired test of values - r x baseline, with n-1 degrees of
    freedom, is not significant at 5%.
    """
    if not values or statistics.fmean(baseline) <= 0:
        return None
    values_mean, baseline_mean = statistics.fmean(values), statistics.fmean(baseline)
    ratio = values_mean / baseline_mean
    if all_alike(values, baseline) or len(values) < LEAST_FOR_INTERVAL:
        return Ratio(ratio, None)
    t_squared_over_n = t_quantile(0.975, len(values) - 1) ** 2 / len(values)
    quadratic = baseline_mean**2 - t_squared_over_n * statistics.variance(baseline)
    if quadratic <= 0:
        return Ratio(ratio, None)
    linear = values_mean * baseline_mean - t_squared_over_n * statistics.covariance(
        values, baseline
    )
    constant = values_mean**2 - t_squared_over_n * statistics.variance(values)
    root = math.sqrt(max(0.0, linear**2 - quadratic * constant))
    return Ratio(ratio, (max(0.0, (linear - root) / quadratic), (linear + root) / quadratic))


@dataclass(frozen=True)
class ComparedValue:
    """A goodput ratio or a share of the goodput, measured at one place (SharedPlace), with a
    significance test.

    `equal` is the value if both sides get the same: 1 for a ratio, the fair share for a share.
    """

    place: SharedPlace
    result: Paired
    value: float
    equal: float
    interval: tuple[float, float] | None  # 95%, of the value
    p_adjusted: float | None = field(default=None, kw_only=True)
    iterations_needed: int | None = field(default=None, kw_only=True)  # if not significant

    @property
    def side(self) -> int:
        """Returns 1 if the value is significantly above `equal`, and -1 if it is significantly
        below. Returns 0 if it does not differ significantly, or by less than CLOSE (5%).
        """
        difference = self.value - self.equal
        if not significant(self.p_adjusted) or abs(difference) < CLOSE * self.equal:
            return 0
        return 1 if difference > 0 else -1

    @property
    def standing(self) -> Standing:
        """Returns the result of the comparison as a word for the report: 'more', 'less', 'about',
        ...
        """
        if self.p_adjusted is None:
            return "not tested"
        if significant(self.p_adjusted):
            return ("about", "more", "less")[self.side]
        return "undecided" if significant(self.result.p_value) else "no significant difference"

    def judged(self, p_adjusted: float | None, iterations_needed: int | None) -> Self:
        """Returns the comparison with its p-value, adjusted for the number of comparisons (None:
        not tested).
        """
        return replace(self, p_adjusted=p_adjusted, iterations_needed=iterations_needed)

    @property
    def strength(self) -> tuple[float, float]:
        """Returns a sort key: stronger results have larger keys. The first part is the distance of
        the confidence interval from `equal`, the second part that of the value.

        A distance is the logarithm of the factor between the goodputs of two flows. The distance of
        an interval is that of its nearer end, minus CLOSE; it is 0 if the interval includes
        `equal`.
        """
        low, high = self.interval or (0.0, math.inf)
        excludes_equal = low > self.equal or high < self.equal
        nearer_end = excludes_equal * min(self._apart(low), self._apart(high))
        return max(0.0, nearer_end - CLOSE), self._apart(self.value)

    def _apart(self, value: float) -> float:
        """Returns how far a goodput ratio is from 1, as the absolute value of its logarithm."""
        return abs(math.log(max(value, _LEAST_SHARE)))


@dataclass(frozen=True)
class Alone(ComparedValue):
    """The goodput of one CCA divided by that of the baseline (another CCA). Each CCA runs without
    the other, at the same place; runs are paired by iteration. The value is infinite if only the
    baseline has no goodput.
    """

    cca: str
    baseline: str

    @property
    def mean_bps(self) -> float:
        """Returns the mean goodput of the CCA (not of the baseline), in bits/s."""
        return self.result.baseline_mean + self.result.difference


@dataclass(frozen=True)
class Beside(ComparedValue):
    """The share of the goodput that a group of flows gets in runs in which it competes with other
    groups, compared with its fair share: its share of the number of flows.
    """

    group: str
    streams: int
    others: _Competitors  # without this group
    entry: str = field(default="", compare=False, kw_only=True)
    # the share in each block: an iteration of a campaign
    shares: Mapping[Hashable, float] = field(default_factory=dict, compare=False, kw_only=True)

    def _apart(self, value: float) -> float:
        """Returns how far a share is from the fair one: the absolute logarithm of how many times
        the goodput of another flow the group's flows have.
        """
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
    """Compares all CCAs of some campaigns: their goodputs in separate runs, and their shares in the
    runs in which they compete. Adjusts the p-values for the number of comparisons (Holm).

    `runs`: each run with a value that distinguishes its campaign. Only runs that count are compared
    (counting.counts()). Each other run is counted by the first reason why it does not count. Runs
    that measure their path are left out, because their groups are steps, which send one after the
    other.
    """
    all_runs = list(runs)
    valid = [(campaign, finished) for campaign, finished in all_runs if counts(finished)]
    left_out = Counter(_first_reason(finished) for _, finished in all_runs if not counts(finished))
    tests_only = [
        (campaign, finished) for campaign, finished in valid if not finished.run.traffic.steps
    ]
    alone, beside = _compare_separate_runs(tests_only), _compare_within_runs(tests_only)
    adjusted = corrected([comparison.result for comparison in (*alone, *beside)])
    remaining = iter(adjusted)
    return Sharing(
        alone=tuple(each.judged(*next(remaining)) for each in alone),
        beside=tuple(each.judged(*next(remaining)) for each in beside),
        singles=tuple(_goodputs_of_entries(tests_only)),
        runs=len(all_runs),
        imported=sum(imported(finished) for _, finished in valid),
        left_out=tuple(sorted(left_out.items(), key=lambda item: (-item[1], item[0]))),
        compared=sum(p_value is not None for p_value, _ in adjusted),
        not_settled=tuple(
            settling
            for _, finished in valid
            if not_settled(finished) and (settling := finished.metrics.settling)
        ),
        unsettled_places=tuple(
            dict.fromkeys(place_of(finished) for _, finished in valid if not_settled(finished))
        ),
    )


def _first_reason(finished: FinishedRun) -> str:
    """Returns why a run does not count: the kind of its first finding that the entry does not
    accept, such as 'cpu'. Returns the run's status if there is no such finding.
    """
    reasons = finished.verdict.reasons
    return reasons[0].kind if reasons else finished.verdict.status


def _compare_separate_runs(valid: Sequence[_Valid]) -> list[Alone]:
    """Compares the goodput of every CCA with that of the baseline, at each place (path, traffic and
    swept values). The baseline is cubic if it is among the CCAs, otherwise the first CCA. Only runs
    with a single CCA are compared; they are paired by campaign and iteration.
    """
    places: dict[SharedPlace, dict[tuple[str, str], dict[Hashable, float]]] = {}
    for campaign, finished in valid:
        if cca := only_cca(finished):
            goodputs = places.setdefault(place_of(finished), {}).setdefault(
                (cca, finished.run.entry), {}
            )
            goodputs[campaign, finished.run.iteration] = goodput_bps(finished)
    comparisons = []
    for place, sides in places.items():
        if len({cca for cca, _ in sides}) < 2:
            continue
        baseline_side = next(
            (side for side in sides if side[0] == FIRST_BASELINE), next(iter(sides))
        )
        baseline = sides[baseline_side]
        for side, values in sides.items():
            if side[0] == baseline_side[0]:
                continue
            blocks = [block for block in values if block in baseline]
            cca_bps = [values[block] for block in blocks]
            baseline_bps = [baseline[block] for block in blocks]
            if result := paired(cca_bps, baseline_bps):
                ratio = paired_ratio(cca_bps, baseline_bps)
                comparisons.append(
                    Alone(
                        place,
                        result,
                        value=ratio.value if ratio else math.inf if any(cca_bps) else 1.0,
                        equal=1.0,
                        interval=ratio.interval if ratio else None,
                        cca=_cca_name(side, sides),
                        baseline=_cca_name(baseline_side, sides),
                    )
                )
    return comparisons


def _cca_name(side: tuple[str, str], sides: Iterable[tuple[str, str]]) -> str:
    """Returns a name for one side of a comparison, a pair (CCA, entry): the CCA, followed by the
    entry in brackets if several of the `sides` have this CCA.
    """
    cca, entry = side
    return cca if sum(other == cca for other, _ in sides) == 1 else f"{cca} ({entry})"


def _compare_within_runs(valid: Sequence[_Valid]) -> list[Beside]:
    """Compares, in runs whose groups compete, the mean share of each group with its fair share: its
    number of flows divided by that of all groups. Of two groups, only one is reported, because its
    share determines the other's.
    """
    return [
        _compare_share(entry, place, competitors, index, runs)
        for (entry, place, competitors), runs in _runs_with_competition(valid).items()
        for index in range(len(competitors))
        if len(competitors) != 2 or index == _index_to_report(competitors)
    ]


def _runs_with_competition(
    valid: Iterable[_Valid],
) -> dict[tuple[str, SharedPlace, _Competitors], _GroupsOfRuns]:
    """Pools the runs whose groups compete, and returns the groups of each run. Runs are pooled if
    they have the same key: entry, place (path, traffic, swept values) and competing groups.
    """
    pooled: dict[tuple[str, SharedPlace, _Competitors], _GroupsOfRuns] = {}
    for campaign, finished in valid:
        groups = studied_groups(finished)
        all_have_shares = all(group.fair_share and group.share is not None for group in groups)
        if len(groups) > 1 and all_have_shares:
            competitors = tuple((group.group, group.streams) for group in groups)
            key = finished.run.entry, place_of(finished), competitors
            pooled.setdefault(key, {})[campaign, finished.run.iteration] = groups
    return pooled


def _compare_share(
    entry: str, place: SharedPlace, competitors: _Competitors, index: int, runs: _GroupsOfRuns
) -> Beside:
    """Compares the share of one group, that at `index` in `competitors`, with its fair share.
    `runs` has the groups of each run, in the order of `competitors`.
    """
    group, streams = competitors[index]
    shares_by_block = {block: groups[index].share or 0.0 for block, groups in runs.items()}
    shares = list(shares_by_block.values())
    fair_share = next(iter(runs.values()))[index].fair_share or 0.0
    result = paired(shares, [fair_share] * len(shares))
    assert result  # of at least one run
    interval = None if result.alike else confidence_interval(shares)
    return Beside(
        place,
        result,
        value=fair_share + result.difference,  # the mean share
        equal=fair_share,
        interval=interval and (max(0.0, interval[0]), min(1.0, interval[1])),
        group=group,
        streams=streams,
        others=tuple(other for other in competitors if other[0] != group),
        entry=entry,
        shares=shares_by_block,
    )


def _index_to_report(names: Sequence[tuple[str, int]]) -> int:
    """Returns the index (0 or 1) of the group to report, of two competing groups given as pairs
    (name, streams): the group that is not cubic (FIRST_BASELINE).
    """
    return 0 if names[1][0] == FIRST_BASELINE else 1


def _goodputs_of_entries(valid: Sequence[_Valid]) -> Iterable[Single]:
    """Yields a summary (mean, deviation, confidence interval) of the goodputs of each entry's runs,
    one for each place (path, traffic and swept values).
    """
    goodputs_bps: dict[tuple[str, SharedPlace, tuple[str, ...]], list[float]] = {}
    for _, finished in valid:
        names = tuple(group.group for group in studied_groups(finished))
        goodputs_bps.setdefault((finished.run.entry, place_of(finished), names), []).append(
            goodput_bps(finished)
        )
    for (entry, place, names), values in goodputs_bps.items():
        if spread := Spread.of(values):
            yield Single(place, entry, names, spread)
