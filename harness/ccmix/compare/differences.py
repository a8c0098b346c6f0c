"""Finds the settings that conditions of two campaigns declare differently: each pair of conditions
is compared by itself.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ccmix.analysis.counting import imported
from ccmix.analysis.results import Result, Results
from ccmix.archive.campaign import FILE
from ccmix.compare.declared import EMULATED, NONE, UNKNOWN, Declared, declared, path_defaults
from ccmix.compare.matching import MatchedPair
from ccmix.config import ConfigError, ini

# Settings that a real path lacks, and settings of its ends
OF_EMULATION = (
    "topology",
    "hosts",
    "receivers",
    "shaper",
    "burst",
    "offloads",
    "spread",
    "kernel",
    "host-root",
    "control",
    "sender-",
    "at.",
    "tcpdump",
    "param-sweep",
)
ENDS = ("src", "dst", "dst-host", "alias")
OF_EVERY_HOST = ("sysctl.", "offloads.", "sender-queue.")


@dataclass(frozen=True)
class Difference:
    """Describes a setting that has other values in B than in A, in these `conditions`: in all
    conditions of both if there are none.
    """

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    conditions: tuple[str, ...] = ()

    @property
    def unknown(self) -> bool:
        """Returns whether a campaign doesn't record a value that must exist: the value may be the
        same in both.
        """
        return UNKNOWN in (*self.a, *self.b)


class _ValuePair(NamedTuple):
    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def differences(pairs: Sequence[MatchedPair], a: Results, b: Results) -> list[Difference]:
    """Returns the differences of environment, path, traffic and entry between pairs of A and B,
    beginning with the unknown ones.
    """
    read_a, read_b = _reader(a), _reader(b)
    names: dict[_ValuePair, list[str]] = {}
    for pair in pairs:
        for row in _between(read_a(pair.a.results), read_b(pair.b.results)):
            names.setdefault(row, []).append(pair.name)
    settings = list(dict.fromkeys(row.what for row in names))
    found = (
        Difference(*row, conditions=() if len(names[row]) == len(pairs) else tuple(names[row]))
        for row in sorted(names, key=lambda row: settings.index(row.what))
    )
    return sorted(found, key=lambda difference: not difference.unknown)


def _reader(results: Results) -> Callable[[Sequence[Result]], list[Declared]]:
    """Returns a function that reads the declared values of a run, but reads equal parts only once:
    there may be a hundred thousand runs, and few facts, paths and traffics.
    """
    known: dict[tuple[object, ...], Declared] = {}
    sections: dict[str, Mapping[str, str]] = {}
    for campaign in results.campaigns:
        with contextlib.suppress(ConfigError):  # an import has no file
            file = ini.read(campaign.outdir / FILE, campaign.ini)
            sections |= {section.name: section.inherited | section.own for section in file.sections}

    def read(some: Sequence[Result]) -> list[Declared]:
        found = {}
        for result in some:
            run, finished = result.run, result.finished
            condition = run.condition.items() if imported(finished) else ()
            ids = map(id, (finished.facts, run.path, run.traffic))
            key = finished.execution.machine, run.entry, run.accept_limits, *condition, *ids
            if key not in known:
                known[key] = declared(result, sections.get(run.entry, {}))
            found[key] = known[key]
        return list(found.values())

    return read


def _between(a: Sequence[Declared], b: Sequence[Declared]) -> Iterator[_ValuePair]:
    for part in a[0]:
        of_a, of_b = ([each[part] for each in side] for side in (a, b))
        for family in _keys(*of_a, *of_b) if of_a != of_b else ():
            own_a, own_b = (
                [settings.get(family, {}) for settings in side] for side in (of_a, of_b)
            )
            one = not any(own_a) or not any(own_b)  # a side lacks the family
            for name in [""] if one else _keys(*own_a, *own_b):
                values_a, values_b = (
                    [_in_one(own) if one else own.get(name, "") for own in side]
                    for side in (own_a, own_b)
                )
                shown_a = _shown(values_a, _absent(part, family, name, a[0], b[0], values_b))
                shown_b = _shown(values_b, _absent(part, family, name, b[0], a[0], values_a))
                if {*shown_a} != {*shown_b} and "" not in (*shown_a, *shown_b):
                    yield _ValuePair((family + name).rstrip(" -."), shown_a, shown_b)


def _in_one(members: Mapping[str, str]) -> str:
    return ", ".join(map(" ".join, members.items()))


def _shown(values: Sequence[str], absent: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value or absent for value in values))


def _keys(*mappings: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _absent(
    part: str, family: str, name: str, own: Declared, other: Declared, others: Sequence[str]
) -> str:
    """Returns the value of a setting that only the other has; '' if that is not a difference."""
    paths = [each["path"][""]["path"] for each in (own, other)]
    foreign = own["environment"][""]["machine"] == "imported"
    if part == "entry":
        return ""
    if part != "path" or (paths[0] == paths[1] and not foreign):
        return UNKNOWN if part == "environment" and family in OF_EVERY_HOST else NONE
    if paths[1] == EMULATED:
        return "" if (family + name).startswith(OF_EMULATION) else UNKNOWN
    if name in ENDS or {*others} <= {path_defaults().get(family, {}).get(name, NONE)}:
        return ""
    return UNKNOWN if foreign else NONE
