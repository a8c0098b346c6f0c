"""Matches the conditions of two campaigns, A and B, so that their results can be compared.

Conditions on a real path also match conditions on an emulated path that stands for it.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.counting import (
    mix,
)
from ccmix.compare.cells import Cell, same_rtt
from ccmix.compare.declared import OF_TRAFFIC
from ccmix.config.ini import section_name


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
    for pair in _unique_pairs(a, b, lambda cell: cell.first.run.repeated_key, BY_NAME):
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
