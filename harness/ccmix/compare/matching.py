"""Which condition of one campaign is which of another: by what they are, on real and emulated paths alike."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.conditions import base_rtt_s, condition_key, mix
from ccmix.report.results import Result

OF_TRAFFIC = ("cca", "streams", "pacing")  # swept keys that the mix, streams and pacing of a run already say


@dataclass(frozen=True)
class Cell:
    """All runs of a condition to a destination."""

    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def valid(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.valid)

    @property
    def name(self) -> str:
        run = self.first.run
        return " ".join([run.entry, run.condition_name, *([run.dst] if run.dst != "receiver" else [])])

    @property
    def key(self) -> str:
        return condition_key(self.first.run, self.first.summary)

    @property
    def base_rtt_s(self) -> float | None:
        return base_rtt_s(self.first.run, self.first.summary)


@dataclass(frozen=True)
class Matched:
    """Pairs in the order of A's plan, and what is in one campaign alone."""

    pairs: tuple[tuple[Cell, Cell], ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]


def cells(results: Sequence[Result]) -> list[Cell]:
    """In the order of the plan."""
    found: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.run.entry, result.run.condition_name, result.run.dst), []).append(result)
    return [Cell(tuple(own)) for own in found.values()]


def _by_key_and_destination(cell: Cell) -> Hashable:
    return cell.key, cell.first.run.dst


def _by_key(cell: Cell) -> Hashable:
    return cell.key


def _by_traffic_and_settings(cell: Cell) -> Hashable:
    """Whatever the entry is called, and however its CCAs were swept."""
    run = cell.first.run
    settings = tuple(sorted((key, value) for key, value in run.condition.items() if key not in OF_TRAFFIC))
    return *_by_traffic(cell), settings  # type: ignore[misc]


def _by_traffic(cell: Cell) -> Hashable:
    """Whatever the path: its twin has settings that the path itself needs none for."""
    traffic = cell.first.run.traffic
    return mix(cell.first.summary), traffic.streams, traffic.pacing_bps, traffic.groups, traffic.flows


RULES: tuple[Callable[[Cell], Hashable], ...] = (
    _by_key_and_destination, _by_key, _by_traffic_and_settings, _by_traffic,
)  # fmt: skip


def match(a: Sequence[Cell], b: Sequence[Cell]) -> Matched:
    """By the strictest rule under which each is the only one of its campaign; never by guessing between two."""
    left_a, left_b = list(a), list(b)
    partners: dict[int, Cell] = {}
    for rule in RULES:
        of_a, of_b = _unique(left_a, rule), _unique(left_b, rule)
        for key in of_a.keys() & of_b.keys():
            partners[id(of_a[key])] = of_b[key]
        left_a = [cell for cell in left_a if id(cell) not in partners]
        taken = {id(cell) for cell in partners.values()}
        left_b = [cell for cell in left_b if id(cell) not in taken]
    pairs = tuple((cell, partners[id(cell)]) for cell in a if id(cell) in partners)
    return Matched(pairs, tuple(left_a), tuple(left_b))


def _unique(found: Sequence[Cell], rule: Callable[[Cell], Hashable]) -> Mapping[Hashable, Cell]:
    counts = Counter(map(rule, found))
    return {rule(cell): cell for cell in found if counts[rule(cell)] == 1}
