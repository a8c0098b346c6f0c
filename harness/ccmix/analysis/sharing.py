"""How CCAs fare alone and beside each other: each condition's runs of one CCA against those of another, and the shares
of groups that compete within a run.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ccmix.analysis.comparison import Paired, holm, paired, significant
from ccmix.analysis.conditions import goodput_bps, studied_groups, traffic_asked
from ccmix.analysis.counting import counts, imported
from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.ratio import Ratio, paired_ratio
from ccmix.analysis.settling_text import not_settled
from ccmix.analysis.statistics import Spread
from ccmix.model import Group, GroupedSource, HostPath, HttpSource, Topology, Traffic, TrafficSource, WorkloadSource
from ccmix.model.results import FinishedRun, GroupMetrics, Settling
from ccmix.terms import BESIDE

CCA = "cca"  # the key whose sweep varies CCAs
FIRST_BASELINE = "cubic"  # what others are compared with, where there is one

_Valid = tuple[Hashable, FinishedRun]  # with what distinguishes its campaign


@dataclass(frozen=True)
class SharedPlace:
    """Identifies what compared runs have in common: everything but their CCAs, their entry, seed and iteration."""

    dst: str
    condition: tuple[tuple[str, str], ...]  # without CCAs
    path: Topology | HostPath
    traffic: Traffic  # its groups without their CCAs
    name: str = field(default="", compare=False)  # of the emulated path; those of two names may be alike


@dataclass(frozen=True)
class Alone:
    """Runs of one CCA against runs of the baseline at the same place, paired by iteration; goodputs in bits/s."""

    place: SharedPlace
    cca: str
    baseline: str
    result: Paired
    ratio: Ratio | None  # of the mean goodputs
    p_adjusted: float | None

    @property
    def seen(self) -> bool:
        """Returns whether they differ significantly, corrected for all comparisons."""
        return significant(self.p_adjusted)

    @property
    def mean_bps(self) -> float:
        return self.result.baseline_mean + self.result.difference


@dataclass(frozen=True)
class Beside:
    """The share of a group in the goodput of its runs, against the share of their flows that are its own."""

    place: SharedPlace
    group: str
    streams: int
    others: tuple[tuple[str, int], ...]  # groups and their streams
    share: float
    interval: tuple[float, float] | None  # 95%, within 0 and 1
    fair_share: float
    result: Paired  # of the share against the fair share
    p_adjusted: float | None

    @property
    def seen(self) -> bool:
        """Returns whether the share differs significantly from the fair one, corrected for all comparisons."""
        return significant(self.p_adjusted)


@dataclass(frozen=True)
class Single:
    """The goodput of the runs of one entry at one place, in bits/s."""

    place: SharedPlace
    entry: str
    names: tuple[str, ...]  # of the groups
    goodput_bps: Spread


@dataclass(frozen=True)
class Sharing:
    """All comparisons of some campaigns; p-values are adjusted for the number of all of them together (Holm)."""

    alone: tuple[Alone, ...]
    beside: tuple[Beside, ...]
    singles: tuple[Single, ...]
    runs: int
    imported: int  # of those that count
    left_out: tuple[tuple[str, int], ...]  # kinds of limits, and how many runs each; a run counts once, by its first
    compared: int
    not_settled: tuple[Settling, ...] = ()  # of each run that counts and has not settled
    unsettled_places: tuple[SharedPlace, ...] = ()  # of these runs

    @property
    def valid(self) -> int:
        return self.runs - sum(count for _, count in self.left_out)


def sharing(runs: Iterable[_Valid]) -> Sharing:
    """Compares the runs that count. Those that do not are left out, and counted by their first reason.

    Groups of a run that measures its path are steps, one after the other: they are not compared.
    """
    every = list(runs)
    valid = [(campaign, finished) for campaign, finished in every if counts(finished)]
    left_out = Counter(_kind(finished) for _, finished in every if not counts(finished))
    tests = [(campaign, finished) for campaign, finished in valid if not finished.run.traffic.steps]
    alone, beside = _alone(tests), _beside(tests)
    adjusted = holm(
        [*(comparison.result.p_value for comparison in alone), *(comparison.result.p_value for comparison in beside)]
    )
    return Sharing(
        alone=tuple(
            replace(comparison, p_adjusted=p) for comparison, p in zip(alone, adjusted[: len(alone)], strict=True)
        ),
        beside=tuple(
            replace(comparison, p_adjusted=p) for comparison, p in zip(beside, adjusted[len(alone) :], strict=True)
        ),
        singles=tuple(_singles(tests)),
        runs=len(every),
        imported=sum(imported(finished) for _, finished in valid),
        left_out=tuple(sorted(left_out.items(), key=lambda item: (-item[1], item[0]))),
        compared=sum(p is not None for p in adjusted),
        not_settled=tuple(
            settling for _, finished in valid if not_settled(finished) and (settling := finished.metrics.settling)
        ),
        unsettled_places=tuple(dict.fromkeys(place_of(finished) for _, finished in valid if not_settled(finished))),
    )


def _kind(finished: FinishedRun) -> str:
    reasons = finished.verdict.reasons
    return reasons[0].kind if reasons else finished.verdict.status


def place_of(finished: FinishedRun) -> SharedPlace:
    """Returns where a run was made, whatever the CCAs of what is studied: cross traffic is a part of the path."""
    run = finished.run
    condition = tuple(item for item in run.condition.items() if item[0] != CCA)
    path = replace(run.path, name="") if isinstance(run.path, Topology) else run.path
    asked = traffic_asked(finished)
    sources = (each if each in asked.cross_traffic else _without_cca(each) for each in asked.sources)
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
    """Returns the CCA of all flows; None where there are several, or an imported run had tests of others beside it."""
    if BESIDE in finished.run.condition:
        return None
    ccas = {group.cca for group in studied_groups(finished)}
    return ccas.pop() if len(ccas) == 1 else None


def _alone(valid: Sequence[_Valid]) -> list[Alone]:
    cells: dict[SharedPlace, dict[tuple[str, str], dict[Hashable, float]]] = {}
    for campaign, finished in valid:
        if cca := only_cca(finished):
            goodputs = cells.setdefault(place_of(finished), {}).setdefault((cca, finished.run.entry), {})
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
            ours, theirs = [values[block] for block in blocks], [baseline[block] for block in blocks]
            if result := paired(ours, theirs):
                comparisons.append(
                    Alone(
                        place=place,
                        cca=_side_name(side, sides),
                        baseline=_side_name(against, sides),
                        result=result,
                        ratio=paired_ratio(ours, theirs),
                        p_adjusted=None,
                    )
                )
    return comparisons


def _side_name(side: tuple[str, str], sides: Iterable[tuple[str, str]]) -> str:
    """Returns a CCA, with its entry if several have it."""
    cca, entry = side
    return cca if sum(other == cca for other, _ in sides) == 1 else f"{cca} ({entry})"


def _beside(valid: Sequence[_Valid]) -> list[Beside]:
    cells: dict[tuple[str, SharedPlace, tuple[tuple[str, int], ...]], list[tuple[GroupMetrics, ...]]] = {}
    for _, finished in valid:
        groups = studied_groups(finished)
        if len(groups) > 1 and all(group.fair_share and group.share is not None for group in groups):
            names = tuple((group.group, group.streams) for group in groups)
            cells.setdefault((finished.run.entry, place_of(finished), names), []).append(groups)
    comparisons = []
    for (_, place, names), runs in cells.items():
        for at, (group, streams) in enumerate(names):
            if len(names) == 2 and at != _group_described(names):
                continue  # the shares of two say the same
            shares, fair_share = [groups[at].share or 0.0 for groups in runs], runs[0][at].fair_share or 0.0
            result = paired(shares, [fair_share] * len(shares))
            assert result  # of at least one run
            interval = None if result.alike else confidence_interval(shares)
            comparisons.append(
                Beside(
                    place=place,
                    group=group,
                    streams=streams,
                    others=tuple(other for other in names if other[0] != group),
                    share=fair_share + result.difference,
                    interval=interval and (max(0.0, interval[0]), min(1.0, interval[1])),
                    fair_share=fair_share,
                    result=result,
                    p_adjusted=None,
                )
            )
    return comparisons


def _group_described(names: Sequence[tuple[str, int]]) -> int:
    """Returns which of two groups is described: the one that is not the baseline."""
    return 0 if names[1][0] == FIRST_BASELINE else 1


def _singles(valid: Sequence[_Valid]) -> Iterable[Single]:
    cells: dict[tuple[str, SharedPlace, tuple[str, ...]], list[float]] = {}
    for _, finished in valid:
        names = tuple(group.group for group in studied_groups(finished))
        cells.setdefault((finished.run.entry, place_of(finished), names), []).append(goodput_bps(finished))
    for (entry, place, names), values in cells.items():
        if spread := Spread.of(values):
            yield Single(place, entry, names, spread)
