"""Matches the conditions of two campaigns, on real and emulated paths."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from ccmix.analysis.counting import (
    NotValid,
    base_rtt_s,
    condition_key,
    goodput_bps,
    longest_settling,
    mix,
    not_settled,
    not_valid,
    studied_groups,
)
from ccmix.analysis.ranges import UnknownValues, planned_ranges, split
from ccmix.analysis.results import Result, Results
from ccmix.compare.declared import OF_TRAFFIC, path_settings
from ccmix.config.ini import section_name
from ccmix.model import Topology, UdpSource, condition_name
from ccmix.model.results import Settling

# difference of RTTs of the same path: third-party RTTs are in whole ms
RTT_FRACTION, RTT_LEAST_S = 0.02, 1e-3
ROUNDING_S = 1e-9


@dataclass(frozen=True)
class KnownPath:
    """Describes a path; `rtt_s` is the base RTT or, if it is unknown, the smallest RTT under load;
    None if neither is known.
    """

    emulated: bool
    rtt_s: float | None
    rtt_is_base: bool


def path_of(result_of_condition: Result, to_same_destination: Sequence[Result]) -> KnownPath:
    """Returns the path of a run of a condition, from all runs of its campaign to the same
    destination.
    """
    if isinstance(result_of_condition.run.path, Topology):
        return KnownPath(True, result_of_condition.run.path.base_rtt_s, True)
    if known := [
        rtt_s for each in to_same_destination if (rtt_s := base_rtt_s(each.finished)) is not None
    ]:
        return KnownPath(False, _smallest(known), True)
    medians = (each.finished.metrics.rtt_median_s for each in to_same_destination)
    return KnownPath(False, _smallest([rtt_s for rtt_s in medians if rtt_s is not None]), False)


def same_rtt(rtt_s: float, other_s: float) -> bool:
    """Returns whether two RTTs may be from the same path."""
    return abs(rtt_s - other_s) <= max(RTT_LEAST_S, RTT_FRACTION * rtt_s) + ROUNDING_S


def _smallest(rtts_s: Sequence[float]) -> float | None:
    """Returns the smallest RTT that two runs agree on, so that an outlier doesn't decide; if no two
    agree, the smallest.
    """
    in_order = sorted(rtts_s)
    agreed = (first for first, second in pairwise(in_order) if same_rtt(second, first))
    return next(agreed, in_order[0] if in_order else None)


@dataclass(frozen=True)
class Cell:
    """Holds all runs of a condition to a destination, and the path as all runs to this destination
    show it.
    """

    results: tuple[Result, ...]
    path: KnownPath
    one_of_several: bool = False  # destinations of its entry

    @property
    def first(self) -> Result:
        return self.results[0]

    @cached_property
    def path_settings(self) -> Mapping[str, str]:
        """Returns the settings of the path, swept or not, and whether it is real or emulated."""
        return path_settings(self.first)

    @property
    def valid(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.valid)

    @property
    def not_valid(self) -> tuple[NotValid, ...]:
        return not_valid((result.finished, goodput_bps(result.finished)) for result in self.results)

    @property
    def not_settled(self) -> int:
        """Returns the number of valid runs that have not settled."""
        return sum(not_settled(result.finished) for result in self.valid)

    @property
    def longest_unsettled(self) -> Settling | None:
        """Returns the judgement of the valid, unsettled run that needs the longest duration."""
        return longest_settling(result.finished for result in self.valid)

    @property
    def name(self) -> str:
        """Returns entry, condition, and the destination unless the entry is named after it."""
        run = self.first.run
        named = run.dst == "receiver" or (run.dst in run.entry and not self.one_of_several)
        return " ".join([run.entry, run.condition_name, *([] if named else [run.dst])])

    @property
    def key(self) -> str:
        return condition_key(self.first.finished)

    @property
    def pacing(self) -> tuple[float, ...]:
        """Returns the rate that flows are paced to; None without pacing, or if it is unknown."""
        return tuple(filter(None, [self.first.run.traffic.pacing_bps]))

    @property
    def streams(self) -> Mapping[str, int]:
        """Returns the number of streams of each CCA, without cross traffic and without UDP sources:
        on a twin these stand for the cross traffic of the real path.
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
    """Holds conditions that differ only in unknown keys as a single one, with the name of the
    condition that they have in common.

    Its first runs and its path are from the first condition with runs: the best estimate, if that
    has any.
    """

    members: tuple[
        tuple[UnknownValues, Cell], ...
    ] = ()  # those with finished runs, in the order of the file
    planned: tuple[UnknownValues, ...] = ()  # of all of its conditions

    @cached_property
    def path_settings(self) -> Mapping[str, str]:
        """Returns the condition that its members have in common."""
        first, *others = (cell.path_settings for _, cell in self.members)
        return {
            name: value
            for name, value in first.items()
            if all(other.get(name) == value for other in others)
        }

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.members[0][0])


@dataclass(frozen=True)
class MatchedPair:
    """Holds a condition of A, the matching condition of B, and the rule as text."""

    a: Cell
    b: Cell
    rule: str

    @property
    def name(self) -> str:
        """Returns the name of the emulated condition, or of both if both are of one kind."""
        cells = (
            [self.a, self.b] if self.a.path.emulated == self.b.path.emulated else [_emulated(self)]
        )
        return " and ".join(dict.fromkeys(cell.name for cell in cells))


@dataclass(frozen=True)
class Matched:
    """Holds pairs in the order of A's plan, and the conditions that only one campaign has.

    `namesakes` are conditions with the same name that don't match: they have run other CCAs, for
    instance.
    """

    pairs: tuple[MatchedPair, ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]
    namesakes: tuple[MatchedPair, ...] = ()


def cells(results: Sequence[Result]) -> list[Cell]:
    """Returns the conditions in the order of the plan."""
    by_condition: dict[tuple[str, str, str], list[Result]] = {}
    to: dict[str, list[Result]] = {}
    for result in results:
        by_condition.setdefault(
            (result.run.entry, result.run.condition_name, result.run.dst), []
        ).append(result)
        to.setdefault(result.run.dst, []).append(result)
    several = Counter(
        entry for entry, _ in {(result.run.entry, result.run.dst) for result in results}
    )
    return [
        Cell(tuple(own), path_of(own[0], to[dst]), several[entry] > 1)
        for (entry, _, dst), own in by_condition.items()
    ]


def joined(results: Results) -> list[Cell]:
    """Returns the conditions in the order of the plan. Conditions that differ only in unknown keys
    become a RangeCell.
    """
    planned = {
        place: values
        for campaign in results.campaigns
        for place, values in planned_ranges(campaign).items()
    }
    by_known: dict[tuple[str, str, str], list[tuple[UnknownValues, Cell]]] = {}
    for cell in cells(results.runs):
        run = cell.first.run
        known, values = split(run.condition, results.unknown_of(cell.first))
        by_known.setdefault((run.entry, condition_name(known), run.dst), []).append((values, cell))
    return [
        _range_cell(members, planned[place]) if place in planned else members[0][1]
        for place, members in by_known.items()
    ]


def _range_cell(
    members: Sequence[tuple[UnknownValues, Cell]], planned: Sequence[UnknownValues]
) -> RangeCell:
    unknown = [key for key, _ in planned[0]]
    results = (result for _, cell in members for result in cell.results)
    point = members[0][1]
    return RangeCell(
        tuple(_without(result, unknown) for result in results),
        point.path,
        point.one_of_several,
        tuple(members),
        tuple(planned),
    )


def _without(result: Result, unknown: Sequence[str]) -> Result:
    """Returns a run under the condition that the range has in common."""
    known, _ = split(result.run.condition, unknown)
    return replace(
        result, finished=replace(result.finished, run=replace(result.run, condition=known))
    )


def _by_key_and_destination(cell: Cell) -> Hashable:
    return cell.key, cell.first.run.dst


def _by_key(cell: Cell) -> Hashable:
    return cell.key


def _by_name(cell: Cell) -> Hashable:
    run = cell.first.run
    return run.entry, run.condition_name, run.dst


def _by_traffic_and_settings(cell: Cell) -> Hashable:
    """Returns a key that ignores the entry's name, and how its CCAs were swept."""
    run = cell.first.run
    settings = tuple(
        sorted((key, value) for key, value in run.condition.items() if key not in OF_TRAFFIC)
    )
    return *_by_traffic(cell), settings  # type: ignore[misc]


def _by_traffic(cell: Cell) -> Hashable:
    """Returns a key that ignores the path: its twin has settings that the path itself
    doesn't need.
    """
    traffic = cell.first.run.traffic
    return (
        mix(cell.first.finished),
        traffic.streams,
        traffic.pacing_bps,
        traffic.groups,
        traffic.named_sources,
    )


def _by_traffic_and_path(cell: Cell) -> Hashable:
    """Returns a key that ignores which settings of the path are swept, and which are written in
    its section.
    """
    return _by_traffic(cell), frozenset(cell.path_settings.items())


def _by_what_is_varied(a: Sequence[Cell], b: Sequence[Cell]) -> "Rule | None":
    """Returns a key of the traffic, and of those settings of the path that one of the campaigns
    varies; None if neither varies any.

    A setting with only one value in each campaign is not part of a condition. If the two values
    differ, the comparison lists it.
    """
    varied = sorted({*_varied(a), *_varied(b)})
    if not varied:
        return None

    def key(cell: Cell) -> Hashable:
        settings = cell.path_settings
        return _by_traffic(cell), settings["path"], tuple(settings.get(name) for name in varied)

    return key


def _varied(cells_of_campaign: Sequence[Cell]) -> set[str]:
    """Returns the settings that have several values among the paths of a campaign."""
    names = {name for cell in cells_of_campaign for name in cell.path_settings}
    return {
        name
        for name in names
        if len({cell.path_settings.get(name) for cell in cells_of_campaign}) > 1
    }


Rule = Callable[[Cell], Hashable]
RULES: tuple[tuple[str, Rule], ...] = (
    ("same entry, condition, CCAs, streams and destination", _by_key_and_destination),
    ("same entry, condition, CCAs and streams", _by_key),
    ("same traffic and path", _by_traffic_and_path),
    ("same traffic and settings", _by_traffic_and_settings),
)
BY_VARIED = "same traffic, and same values of the path's settings that A or B varies"
BY_DESTINATION = "same CCAs and streams, and the emulated path is named after the real destination"
BESIDE = "same CCAs and streams on a real and an emulated path of the same RTT"
BY_TRAFFIC = "same traffic"
BY_NAME = "same entry and condition"


def match(a: Sequence[Cell], b: Sequence[Cell]) -> Matched:
    """Matches conditions by the strictest rule under which each is unique in its campaign. Never
    guesses between two.

    A real condition is matched with each emulated condition of the same CCAs, streams and path: the
    comparison shows which of them is like the real one.
    """
    by_varied = _by_what_is_varied(a, b)
    pairs = list(_beside(a, b, (), _named_after, BY_DESTINATION))
    for text, rule in (*RULES, *([(BY_VARIED, by_varied)] if by_varied else [])):
        pairs += _unique_pairs(*_left(a, b, pairs), rule, text)
    pairs += _beside(a, b, pairs, _same_rtt, BESIDE)
    by_traffic = _unique_pairs(*_left(a, b, pairs), _by_traffic, BY_TRAFFIC)
    pairs += (pair for pair in by_traffic if _same_rtt(pair.a, pair.b) is not False)
    left_a, left_b = _left(a, b, pairs)
    order = {id(cell): at for at, cell in enumerate([*a, *b])}
    pairs.sort(key=lambda pair: (order[id(pair.a)], order[id(pair.b)]))
    return Matched(tuple(pairs), tuple(left_a), tuple(left_b), tuple(_namesakes(a, b, pairs)))


def _left(
    a: Sequence[Cell], b: Sequence[Cell], pairs: Sequence[MatchedPair]
) -> tuple[list[Cell], list[Cell]]:
    taken = {id(cell) for pair in pairs for cell in (pair.a, pair.b)}
    return [cell for cell in a if id(cell) not in taken], [
        cell for cell in b if id(cell) not in taken
    ]


def _unique_pairs(
    a: Sequence[Cell], b: Sequence[Cell], rule: Rule, text: str
) -> Iterator[MatchedPair]:
    of_a, of_b = _unique(a, rule), _unique(b, rule)
    yield from (MatchedPair(cell, of_b[key], text) for key, cell in of_a.items() if key in of_b)


def _unique(cells_of_campaign: Sequence[Cell], rule: Rule) -> Mapping[Hashable, Cell]:
    counts = Counter(map(rule, cells_of_campaign))
    return {rule(cell): cell for cell in cells_of_campaign if counts[rule(cell)] == 1}


def _namesakes(
    a: Sequence[Cell], b: Sequence[Cell], pairs: Sequence[MatchedPair]
) -> Iterator[MatchedPair]:
    """Yields conditions with the same name that are not matched with each other."""
    matched = {(id(pair.a), id(pair.b)) for pair in pairs}
    for pair in _unique_pairs(a, b, _by_name, BY_NAME):
        if (id(pair.a), id(pair.b)) not in matched:
            yield pair


def _named_after(cell: Cell, other: Cell) -> bool:
    """Returns whether the name of an emulated path or of its entry contains the name of a real
    destination.
    """
    emulated, real = (cell, other) if cell.path.emulated else (other, cell)
    end = re.escape(section_name(real.first.run.dst))
    names = f"{emulated.first.run.topology.name} {emulated.first.run.entry}"
    return bool(re.search(rf"(?<![\w.]){end}(?![\w.])", names))


def _same_rtt(cell: Cell, other: Cell) -> bool | None:
    """Returns whether an emulated path has the RTT of a real one; None if an RTT is unknown, or if
    both paths are real or both emulated.
    """
    if (
        cell.path.emulated == other.path.emulated
        or cell.path.rtt_s is None
        or other.path.rtt_s is None
    ):
        return None
    return same_rtt(cell.path.rtt_s, other.path.rtt_s)


def _beside(
    a: Sequence[Cell],
    b: Sequence[Cell],
    pairs: Sequence[MatchedPair],
    rule: Callable[[Cell, Cell], object],
    text: str,
) -> Iterator[MatchedPair]:
    """Yields emulated conditions without a partner, each with the only real condition that it can
    stand for: with the same CCAs and streams, and with the same pacing if both have it.
    """
    left = {id(cell) for own in _left(a, b, pairs) for cell in own}
    others = {
        emulated: [cell for cell in b if cell.path.emulated != emulated]
        for emulated in (False, True)
    }
    twins = [
        MatchedPair(cell, other, text)
        for cell in a
        for other in others[cell.path.emulated]
        if cell.streams == other.streams
        and len({*cell.pacing, *other.pacing}) < 2
        and rule(cell, other)
    ]
    choices = Counter(id(_emulated(pair)) for pair in twins)
    yield from (
        pair for pair in twins if choices[id(_emulated(pair))] == 1 and id(_emulated(pair)) in left
    )


def _emulated(pair: MatchedPair) -> Cell:
    return pair.a if pair.a.path.emulated else pair.b
