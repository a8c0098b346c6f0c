"""Groups the runs of a campaign by condition, and joins conditions that form a range."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from ccmix.analysis.counting import (
    NotValid,
    base_rtt_s,
    condition_key,
    goodput_bps,
    longest_settling,
    not_settled,
    not_valid,
    studied_groups,
)
from ccmix.analysis.ranges import UnknownValues, planned_ranges, split
from ccmix.analysis.results import Result, Results
from ccmix.compare.declared import path_settings
from ccmix.model import Topology, UdpSource, condition_name
from ccmix.model.results import Settling

# difference of RTTs of the same path: third-party RTTs are in whole ms
RTT_FRACTION, RTT_LEAST_S = 0.02, 1e-3
ROUNDING_S = 1e-9


@dataclass(frozen=True)
class KnownPath:
    """Describes a path, as far as its runs show it.

    `rtt_s` is the base RTT or, if it is unknown, the smallest RTT under load; None if neither is
    known.
    """

    emulated: bool
    rtt_s: float | None
    rtt_is_base: bool

    @property
    def base_rtt_s(self) -> float | None:
        """Returns the base RTT; None if it is unknown."""
        return self.rtt_s if self.rtt_is_base else None


def path_of(result_of_condition: Result, to_same_destination: Sequence[Result]) -> KnownPath:
    """Returns the path of a condition's run.

    The base RTT of a real path comes from `to_same_destination`: all runs of the campaign to the
    same host, because not every run measures it.
    """
    if isinstance(result_of_condition.run.path, Topology):
        return KnownPath(True, result_of_condition.run.path.base_rtt_s, True)
    if known := [
        rtt_s for each in to_same_destination if (rtt_s := base_rtt_s(each.finished)) is not None
    ]:
        return KnownPath(False, _smallest_agreed(known), True)
    medians = (each.finished.metrics.rtt_median_s for each in to_same_destination)
    return KnownPath(
        False, _smallest_agreed([rtt_s for rtt_s in medians if rtt_s is not None]), False
    )


def same_rtt(rtt_s: float, other_s: float) -> bool:
    """Returns whether two RTTs may be from the same path: they differ by at most 1 ms or 2%."""
    return abs(rtt_s - other_s) <= max(RTT_LEAST_S, RTT_FRACTION * rtt_s) + ROUNDING_S


def _smallest_agreed(rtts_s: Sequence[float]) -> float | None:
    """Returns the smallest RTT that two runs agree on, so that an outlier doesn't decide.

    If no two agree, it is the smallest; None without RTTs.
    """
    in_order = sorted(rtts_s)
    agreed = (first for first, second in pairwise(in_order) if same_rtt(second, first))
    return next(agreed, in_order[0] if in_order else None)


@dataclass(frozen=True)
class Cell:
    """Holds all runs of a condition to one destination, and their path.

    A condition is one combination of the values that an entry of the INI file sweeps.
    """

    results: tuple[Result, ...]
    path: KnownPath
    one_of_several: bool = False  # destinations of its entry

    @property
    def first(self) -> Result:
        return self.results[0]

    @cached_property
    def path_settings(self) -> Mapping[str, str]:
        """Returns the path's settings by name, including 'path': 'real' or 'emulated'."""
        return path_settings(self.first)

    @property
    def valid(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.valid)

    @property
    def not_valid(self) -> tuple[NotValid, ...]:
        return not_valid((result.finished, goodput_bps(result.finished)) for result in self.results)

    @property
    def not_settled(self) -> int:
        """Returns the number of valid runs whose goodput still changed at the end."""
        return sum(not_settled(result.finished) for result in self.valid)

    @property
    def longest_unsettled(self) -> Settling | None:
        """Returns the judgement of the valid run that would need the longest time to settle; None
        if all runs have settled.
        """
        return longest_settling(result.finished for result in self.valid)

    @property
    def name(self) -> str:
        """Returns the condition's name for people: the entry, the swept values and the destination.

        The destination is left out if the entry is named after it.
        """
        run = self.first.run
        is_in_entry = run.dst == "receiver" or (run.dst in run.entry and not self.one_of_several)
        return " ".join([run.entry, run.condition_name, *([] if is_in_entry else [run.dst])])

    @property
    def key(self) -> str:
        """Returns the entry, the swept values, the CCAs and the number of streams as one text."""
        return condition_key(self.first.finished)

    @property
    def pacing(self) -> tuple[float, ...]:
        """Returns the pacing rate in bit/s as a tuple, which is empty without pacing or if
        unknown.
        """
        return tuple(filter(None, [self.first.run.traffic.pacing_bps]))

    @property
    def streams(self) -> Mapping[str, int]:
        """Returns the number of streams of each CCA, without cross traffic and UDP sources.

        UDP sources on an emulated path stand for the cross traffic that the real path has anyway.
        """
        run = self.first.run
        cross = {
            run.group_name(source)
            for source in run.traffic.sources
            if isinstance(source, UdpSource)
        }
        counted: Counter[str] = Counter()
        for group in studied_groups(self.first.finished):
            if group.group not in cross:
                counted[group.cca] += group.streams
        return counted


@dataclass(frozen=True)
class RangeCell(Cell):
    """Holds a range: conditions that differ only in keys whose real value is unknown.

    It is compared like a single condition, with the name that its members have in common. Its path
    is that of the first member with runs, which is the best estimate if that has any.
    """

    members: tuple[
        tuple[UnknownValues, Cell], ...
    ] = ()  # those with finished runs, in the order of the file
    planned: tuple[UnknownValues, ...] = ()  # of all of its conditions

    @cached_property
    def path_settings(self) -> Mapping[str, str]:
        """Returns the settings of the path that all members have in common."""
        first, *others = (cell.path_settings for _, cell in self.members)
        return {
            name: value
            for name, value in first.items()
            if all(other.get(name) == value for other in others)
        }

    @property
    def unknown(self) -> tuple[str, ...]:
        """Returns the keys whose real value is unknown, in which the members differ."""
        return tuple(key for key, _ in self.members[0][0])


def cells(results: Sequence[Result]) -> list[Cell]:
    """Groups runs by entry, condition (swept values) and destination, in the order of the plan.

    The path of a group is known from all runs to the same destination.
    """
    by_condition: dict[tuple[str, str, str], list[Result]] = {}
    by_destination: dict[str, list[Result]] = {}
    for result in results:
        by_condition.setdefault(result.run.repeated_key, []).append(result)
        by_destination.setdefault(result.run.dst, []).append(result)
    destinations = Counter(
        entry for entry, _ in {(result.run.entry, result.run.dst) for result in results}
    )
    return [
        Cell(tuple(runs), path_of(runs[0], by_destination[dst]), destinations[entry] > 1)
        for (entry, _, dst), runs in by_condition.items()
    ]


def cells_with_ranges(results: Results) -> list[Cell]:
    """Groups runs by condition, as cells() does, and joins some of the conditions to ranges.

    A range has the conditions of an entry that differ only in unknown keys: swept keys whose value
    on the real path is not known.
    """
    planned = {
        known_condition: values
        for campaign in results.campaigns
        for known_condition, values in planned_ranges(campaign).items()
    }
    by_known: dict[tuple[str, str, str], list[tuple[UnknownValues, Cell]]] = {}
    for cell in cells(results.runs):
        run = cell.first.run
        known, values = split(run.condition, results.unknown_of(cell.first))
        by_known.setdefault((run.entry, condition_name(known), run.dst), []).append((values, cell))
    return [
        _range_cell(members, planned[known_condition])
        if known_condition in planned
        else members[0][1]
        for known_condition, members in by_known.items()
    ]


def _range_cell(
    members: Sequence[tuple[UnknownValues, Cell]], planned: Sequence[UnknownValues]
) -> RangeCell:
    """Joins conditions to a range.

    `members` are the conditions with runs, each with the values of its unknown keys. `planned` has
    these values for all planned conditions, with runs or without.
    """
    unknown = [key for key, _ in planned[0]]
    results = (result for _, cell in members for result in cell.results)
    first_cell = members[0][1]
    return RangeCell(
        tuple(_without_unknown(result, unknown) for result in results),
        first_cell.path,
        first_cell.one_of_several,
        tuple(members),
        tuple(planned),
    )


def _without_unknown(result: Result, unknown: Sequence[str]) -> Result:
    """Returns the run with a condition that lacks the unknown keys, so that all have one name."""
    known, _ = split(result.run.condition, unknown)
    return replace(
        result, finished=replace(result.finished, run=replace(result.run, condition=known))
    )
