"""Matches the conditions of two campaigns, A and B, so that their results can be compared.

Conditions on a real path also match conditions on an emulated path that stands for it.
"""

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
from ccmix.model import Run, Topology, UdpSource, condition_name
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


@dataclass(frozen=True)
class MatchedPair:
    """Holds a condition of A, the matching one of B, and the rule that matched them, as text."""

    a: Cell
    b: Cell
    rule: str

    @property
    def name(self) -> str:
        """Returns the name of the emulated condition; both names if both are real, or both
        emulated.
        """
        cells = (
            [self.a, self.b]
            if self.a.path.emulated == self.b.path.emulated
            else [_emulated_cell(self)]
        )
        return " and ".join(dict.fromkeys(cell.name for cell in cells))


@dataclass(frozen=True)
class Matched:
    """Holds pairs in the order of A's plan, and the conditions that only one campaign has.

    `namesakes` are conditions that have the same name but don't match, for example because they ran
    other CCAs.
    """

    pairs: tuple[MatchedPair, ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]
    namesakes: tuple[MatchedPair, ...] = ()


def cells(results: Sequence[Result]) -> list[Cell]:
    """Groups runs by entry, condition (swept values) and destination, in the order of the plan.

    The path of a group is known from all runs to the same destination.
    """
    by_condition: dict[tuple[str, str, str], list[Result]] = {}
    by_destination: dict[str, list[Result]] = {}
    for result in results:
        by_condition.setdefault(_name_and_destination(result.run), []).append(result)
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


def _name_and_destination(run: Run) -> tuple[str, str, str]:
    """Returns the values that the runs of a condition share: entry, swept values, destination."""
    return run.entry, run.condition_name, run.dst


def _by_traffic_and_settings(cell: Cell) -> Hashable:
    """Returns the values that must be equal to match: traffic, and swept settings of the path.

    The names of the entries, and the way in which their CCAs were swept, may differ.
    """
    run = cell.first.run
    settings = tuple(
        sorted((key, value) for key, value in run.condition.items() if key not in OF_TRAFFIC)
    )
    return *_by_traffic(cell), settings  # type: ignore[misc]


def _by_traffic(cell: Cell) -> Hashable:
    """Returns the values that must be equal to match: CCAs, streams, pacing, other sources.

    The path may differ: an emulated path has settings that the real path doesn't need.
    """
    traffic = cell.first.run.traffic
    return (
        mix(cell.first.finished),
        traffic.streams,
        traffic.pacing_bps,
        traffic.groups,
        traffic.named_sources,
    )


def _rule_of_varied_settings(a: Sequence[Cell], b: Sequence[Cell]) -> "Rule | None":
    """Returns a rule for the settings of the path that A or B varies; None if neither varies any.

    Under this rule, conditions match if they have the same traffic and the same values of these
    settings. A setting that neither varies may differ between A and B: the comparison then lists it
    as a difference.
    """
    varied = sorted({*_varied(a), *_varied(b)})
    if not varied:
        return None

    def key(cell: Cell) -> Hashable:
        """Returns the values that must be equal to match under this rule."""
        settings = cell.path_settings
        return _by_traffic(cell), settings["path"], tuple(settings.get(name) for name in varied)

    return key


def _varied(cells_of_campaign: Sequence[Cell]) -> set[str]:
    """Returns the names of the path settings that have several values in a campaign."""
    names = {name for cell in cells_of_campaign for name in cell.path_settings}
    return {
        name
        for name in names
        if len({cell.path_settings.get(name) for cell in cells_of_campaign}) > 1
    }


Rule = Callable[[Cell], Hashable]
RULES: tuple[tuple[str, Rule], ...] = (
    (
        "same entry, condition, CCAs, streams and destination",
        lambda cell: (cell.key, cell.first.run.dst),
    ),
    ("same entry, condition, CCAs and streams", lambda cell: cell.key),
    # whether a setting of the path is swept or has a fixed value in its section does not matter
    (
        "same traffic and path",
        lambda cell: (_by_traffic(cell), frozenset(cell.path_settings.items())),
    ),
    ("same traffic and settings", _by_traffic_and_settings),
)
"""The rules that match conditions, the strictest first: a text for the user, and the values that
must be equal.
"""
BY_VARIED = "same traffic, and same values of the path's settings that A or B varies"
BY_DESTINATION = "same CCAs and streams, and the emulated path is named after the real destination"
BY_RTT = "same CCAs and streams on a real and an emulated path of the same RTT"
BY_TRAFFIC = "same traffic"
BY_NAME = "same entry and condition"


def match(a: Sequence[Cell], b: Sequence[Cell]) -> Matched:
    """Matches the conditions of A and B: first by the strictest rule, the rest by weaker ones.

    A rule gives each condition a key. It matches two conditions with the same key only if no other
    condition of their campaigns has this key, so it never guesses. A real condition is matched with
    each emulated condition that may stand for it, to show which of them is like the real path.
    """
    by_varied = _rule_of_varied_settings(a, b)
    pairs = list(_real_and_emulated_pairs(a, b, (), _named_after, BY_DESTINATION))
    for text, rule in (*RULES, *([(BY_VARIED, by_varied)] if by_varied else [])):
        pairs += _unique_pairs(*_unmatched(a, b, pairs), rule, text)
    pairs += _real_and_emulated_pairs(a, b, pairs, _same_rtt, BY_RTT)
    by_traffic = _unique_pairs(*_unmatched(a, b, pairs), _by_traffic, BY_TRAFFIC)
    pairs += (pair for pair in by_traffic if _same_rtt(pair.a, pair.b) is not False)
    left_a, left_b = _unmatched(a, b, pairs)
    order = {id(cell): at for at, cell in enumerate([*a, *b])}
    pairs.sort(key=lambda pair: (order[id(pair.a)], order[id(pair.b)]))
    return Matched(tuple(pairs), tuple(left_a), tuple(left_b), tuple(_namesakes(a, b, pairs)))


def _unmatched(
    a: Sequence[Cell], b: Sequence[Cell], pairs: Sequence[MatchedPair]
) -> tuple[list[Cell], list[Cell]]:
    """Returns the conditions of A, and those of B, that are in none of the pairs."""
    taken = {id(cell) for pair in pairs for cell in (pair.a, pair.b)}
    return [cell for cell in a if id(cell) not in taken], [
        cell for cell in b if id(cell) not in taken
    ]


def _unique_pairs(
    a: Sequence[Cell], b: Sequence[Cell], rule: Rule, text: str
) -> Iterator[MatchedPair]:
    """Yields the pairs of conditions that match by a rule and are the only ones with their key.

    `rule` returns a condition's key, which must be equal; `text` describes the rule to the user.
    """
    by_key_a, by_key_b = _unique(a, rule), _unique(b, rule)
    yield from (
        MatchedPair(cell, by_key_b[key], text) for key, cell in by_key_a.items() if key in by_key_b
    )


def _unique(cells_of_campaign: Sequence[Cell], rule: Rule) -> Mapping[Hashable, Cell]:
    """Returns the conditions by key, without those that share their key."""
    counts = Counter(map(rule, cells_of_campaign))
    return {rule(cell): cell for cell in cells_of_campaign if counts[rule(cell)] == 1}


def _namesakes(
    a: Sequence[Cell], b: Sequence[Cell], pairs: Sequence[MatchedPair]
) -> Iterator[MatchedPair]:
    """Yields conditions with the same name that are not matched, for a list of what differs."""
    matched = {(id(pair.a), id(pair.b)) for pair in pairs}
    for pair in _unique_pairs(a, b, lambda cell: _name_and_destination(cell.first.run), BY_NAME):
        if (id(pair.a), id(pair.b)) not in matched:
            yield pair


def _named_after(cell: Cell, other: Cell) -> bool:
    """Returns whether an emulated path, or its entry, is named after the real destination.

    One of the two cells is real and one is emulated, in any order.
    """
    emulated, real = (cell, other) if cell.path.emulated else (other, cell)
    end = re.escape(section_name(real.first.run.dst))
    names = f"{emulated.first.run.topology.name} {emulated.first.run.entry}"
    return bool(re.search(rf"(?<![\w.]){end}(?![\w.])", names))


def _same_rtt(cell: Cell, other: Cell) -> bool | None:
    """Returns whether a real and an emulated path have the same base RTT.

    None if an RTT is unknown, or if both paths are real or both emulated.
    """
    if (
        cell.path.emulated == other.path.emulated
        or cell.path.rtt_s is None
        or other.path.rtt_s is None
    ):
        return None
    return same_rtt(cell.path.rtt_s, other.path.rtt_s)


def _real_and_emulated_pairs(
    a: Sequence[Cell],
    b: Sequence[Cell],
    pairs: Sequence[MatchedPair],
    rule: Callable[[Cell, Cell], object],
    text: str,
) -> Iterator[MatchedPair]:
    """Yields pairs of a real and an emulated condition with the same traffic that pass `rule`.

    An emulated condition gets a pair only if it is in none of `pairs` yet, and if exactly one real
    condition fits. A condition fits if it has the same CCAs and streams, and (if both conditions
    have pacing) the same pacing.
    """
    unmatched_ids = {
        id(cell) for campaign_cells in _unmatched(a, b, pairs) for cell in campaign_cells
    }
    others = {
        emulated: [cell for cell in b if cell.path.emulated != emulated]
        for emulated in (False, True)
    }
    candidates = [
        MatchedPair(cell, other, text)
        for cell in a
        for other in others[cell.path.emulated]
        if cell.streams == other.streams
        and len({*cell.pacing, *other.pacing}) < 2
        and rule(cell, other)
    ]
    choices = Counter(id(_emulated_cell(pair)) for pair in candidates)
    yield from (
        pair
        for pair in candidates
        if choices[id(_emulated_cell(pair))] == 1 and id(_emulated_cell(pair)) in unmatched_ids
    )


def _emulated_cell(pair: MatchedPair) -> Cell:
    """Returns the condition of the pair that ran on an emulated path."""
    return pair.a if pair.a.path.emulated else pair.b
