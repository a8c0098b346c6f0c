"""How CCAs fare alone and beside each other: each condition's runs of one CCA against those of another, and the shares
of groups that compete within a run.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ccmix.analysis.comparison import SIGNIFICANCE, Paired, holm, paired
from ccmix.analysis.conditions import traffic_asked
from ccmix.analysis.counting import imported
from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.ratio import Ratio, paired_ratio
from ccmix.analysis.statistics import Spread
from ccmix.model import Flows, Group, HostPath, HttpFlows, Iperf3Flows, Run, Topology, Traffic, WorkloadFlows

CCA = "cca"  # the key whose sweep varies CCAs
FIRST_BASELINE = "cubic"  # what others are compared with, where there is one

# What tells campaigns apart, a run, its run.json, and whether it counts
Finished = tuple[Hashable, Run, dict[str, Any], bool]
_Valid = tuple[Hashable, Run, dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """What runs have in common that are compared: everything but their CCAs, their entry, seed and iteration."""

    dst: str
    condition: tuple[tuple[str, str], ...]  # without CCAs
    path: Topology | HostPath
    traffic: Traffic  # its groups without their CCAs


@dataclass(frozen=True)
class Alone:
    """Runs of one CCA against runs of the baseline at the same place, paired by iteration; goodputs in bits/s."""

    place: Place
    cca: str
    baseline: str
    result: Paired
    ratio: Ratio | None  # of the mean goodputs
    p_adjusted: float | None

    @property
    def seen(self) -> bool:
        """Whether they differ, by all that was compared."""
        return self.p_adjusted is not None and self.p_adjusted <= SIGNIFICANCE

    @property
    def mean_bps(self) -> float:
        return self.result.baseline_mean + self.result.difference


@dataclass(frozen=True)
class Beside:
    """The share of a group in the goodput of its runs, against the share of their flows that are its own."""

    place: Place
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
        """Whether the share is not the fair one, by all that was compared."""
        return self.p_adjusted is not None and self.p_adjusted <= SIGNIFICANCE


@dataclass(frozen=True)
class Single:
    """The goodput of the runs of one entry at one place, in bits/s."""

    place: Place
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

    @property
    def valid(self) -> int:
        return self.runs - sum(count for _, count in self.left_out)


def sharing(finished: Iterable[Finished]) -> Sharing:
    """Runs that do not count are left out, and counted by why."""
    found = list(finished)
    valid = [(campaign, run, summary) for campaign, run, summary, counts in found if counts]
    left_out = Counter(_kind(summary) for _, _, summary, counts in found if not counts)
    alone, beside = _alone(valid), _beside(valid)
    adjusted = holm([*(one.result.p_value for one in alone), *(one.result.p_value for one in beside)])
    return Sharing(
        alone=tuple(replace(one, p_adjusted=p) for one, p in zip(alone, adjusted[: len(alone)], strict=True)),
        beside=tuple(replace(one, p_adjusted=p) for one, p in zip(beside, adjusted[len(alone) :], strict=True)),
        singles=tuple(_singles(valid)),
        runs=len(found),
        imported=sum(imported(summary) for _, _, summary in valid),
        left_out=tuple(sorted(left_out.items(), key=lambda item: (-item[1], item[0]))),
        compared=sum(p is not None for p in adjusted),
    )


def _kind(summary: dict[str, Any]) -> str:
    findings = [finding for finding in summary["validity"]["findings"] if not finding["accepted"]]
    return str(findings[0]["kind"]) if findings else str(summary["validity"]["status"])


def _place(run: Run, summary: dict[str, Any]) -> Place:
    condition = tuple(item for item in run.condition.items() if item[0] != CCA)
    path = replace(run.path, name="") if isinstance(run.path, Topology) else run.path
    asked = traffic_asked(run, summary)
    traffic = replace(asked, groups=_unnamed(asked.groups), flows=tuple(map(_without_cca, asked.flows)))
    return Place(run.dst, condition, path, traffic)


def _unnamed(groups: Sequence[Group]) -> tuple[Group, ...]:
    return tuple(replace(group, cca="") for group in groups)


def _without_cca(line: Flows) -> Flows:
    match line.what:
        case Iperf3Flows(groups=groups):
            return replace(line, what=replace(line.what, groups=_unnamed(groups)))
        case HttpFlows():
            return replace(line, what=replace(line.what, http_cca=""))
        case WorkloadFlows():
            return replace(line, what=replace(line.what, workload_cca=""))
    return line


def _only_cca(summary: dict[str, Any]) -> str | None:
    ccas = {group["cca"] for group in summary["metrics"]["groups"]}
    return ccas.pop() if len(ccas) == 1 else None


def _alone(valid: Sequence[_Valid]) -> list[Alone]:
    cells: dict[Place, dict[tuple[str, str], dict[Hashable, float]]] = {}
    for campaign, run, summary in valid:
        if cca := _only_cca(summary):
            goodputs = cells.setdefault(_place(run, summary), {}).setdefault((cca, run.entry), {})
            goodputs[campaign, run.iteration] = _goodput_bps(summary)
    found = []
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
                found.append(
                    Alone(
                        place=place,
                        cca=_side_name(side, sides),
                        baseline=_side_name(against, sides),
                        result=result,
                        ratio=paired_ratio(ours, theirs),
                        p_adjusted=None,
                    )
                )
    return found


def _side_name(side: tuple[str, str], sides: Iterable[tuple[str, str]]) -> str:
    """A CCA, with its entry where several have it."""
    cca, entry = side
    return cca if sum(other == cca for other, _ in sides) == 1 else f"{cca} ({entry})"


def _goodput_bps(summary: dict[str, Any]) -> float:
    """Of the run, which is that of its groups."""
    return sum(float(group["goodput_bps"]) for group in summary["metrics"]["groups"])


def _beside(valid: Sequence[_Valid]) -> list[Beside]:
    cells: dict[tuple[str, Place, tuple[tuple[str, int], ...]], list[list[dict[str, Any]]]] = {}
    for _, run, summary in valid:
        groups = summary["metrics"]["groups"]
        if len(groups) > 1 and all(group.get("fair_share") and group.get("share") is not None for group in groups):
            names = tuple((group["group"], group["streams"]) for group in groups)
            cells.setdefault((run.entry, _place(run, summary), names), []).append(groups)
    found = []
    for (_, place, names), runs in cells.items():
        for at, (group, streams) in enumerate(names):
            if len(names) == 2 and at != _told(names):
                continue  # the shares of two say the same
            shares, fair_share = [float(groups[at]["share"]) for groups in runs], float(runs[0][at]["fair_share"])
            result = paired(shares, [fair_share] * len(shares))
            assert result  # of at least one run
            interval = None if result.alike else confidence_interval(shares)
            found.append(
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
    return found


def _told(names: Sequence[tuple[str, int]]) -> int:
    """Which of two groups is spoken of: the one that is not the baseline."""
    return 0 if names[1][0] == FIRST_BASELINE else 1


def _singles(valid: Sequence[_Valid]) -> Iterable[Single]:
    cells: dict[tuple[str, Place, tuple[str, ...]], list[float]] = {}
    for _, run, summary in valid:
        names = tuple(group["group"] for group in summary["metrics"]["groups"])
        cells.setdefault((run.entry, _place(run, summary), names), []).append(_goodput_bps(summary))
    for (entry, place, names), values in cells.items():
        if spread := Spread.of(values):
            yield Single(place, entry, names, spread)
