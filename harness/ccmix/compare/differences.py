"""Finds the settings that differ between the matching conditions of two campaigns, A and B."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ccmix.analysis.counting import imported
from ccmix.analysis.results import Result, Results
from ccmix.archive.campaign import FILE
from ccmix.compare.cells import same_rtt
from ccmix.compare.declared import EMULATED, NONE, UNKNOWN, Declared, declared, path_defaults
from ccmix.compare.matching import MatchedPair
from ccmix.config import ConfigError, ini
from ccmix.units import format_time

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
    """Describes a setting whose values differ between A and B.

    `a` and `b` have the values, several if runs differ. `conditions` are the names of the
    conditions that differ; empty means all.
    """

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    conditions: tuple[str, ...] = ()

    @property
    def unknown(self) -> bool:
        """Returns whether a campaign doesn't record a value that must exist.

        The value may then be the same in both campaigns.
        """
        return UNKNOWN in (*self.a, *self.b)


class _ValuePair(NamedTuple):
    """A setting, and its values in A and in B."""

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def differences(pairs: Sequence[MatchedPair], a: Results, b: Results) -> list[Difference]:
    """Returns the settings that differ in the matching conditions of A and B, unknown values first,
    after the versions of ccmix that made A and B, if these differ.

    Each pair of conditions is compared by itself; the same difference in several is listed once.
    """
    read_a, read_b = _declared_reader(a), _declared_reader(b)
    conditions_by_row: dict[_ValuePair, list[str]] = {}
    for pair in pairs:
        settings_of_both = read_a(pair.a.results), read_b(pair.b.results)
        for row in (*_differing_rtts(pair), *_differing_settings(*settings_of_both)):
            conditions_by_row.setdefault(row, []).append(pair.name)
    settings = list(dict.fromkeys(row.what for row in conditions_by_row))
    found = (
        Difference(*row, conditions=() if len(conditions) == len(pairs) else tuple(conditions))
        for row, conditions in sorted(
            conditions_by_row.items(), key=lambda item: settings.index(item[0].what)
        )
    )
    versions = a.ccmix_versions, b.ccmix_versions
    of_ccmix = [Difference("ccmix", *versions)] if versions[0] != versions[1] else []
    return [*of_ccmix, *sorted(found, key=lambda difference: not difference.unknown)]


def _differing_rtts(pair: MatchedPair) -> Iterator[_ValuePair]:
    """Yields the base RTTs of a pair if one is imported and they differ. Of other runs, their
    delays are settings.
    """
    a_s, b_s = pair.a.path.base_rtt_s, pair.b.path.base_rtt_s
    is_imported = any(imported(cell.first.finished) for cell in (pair.a, pair.b))
    if is_imported and a_s is not None and b_s is not None and not same_rtt(a_s, b_s):
        yield _ValuePair("base RTT", (format_time(a_s),), (format_time(b_s),))


def _declared_reader(results: Results) -> Callable[[Sequence[Result]], list[Declared]]:
    """Returns a function that lists the settings that runs of a campaign declare.

    The function gives each different set of settings once. It remembers the sets, because a
    campaign may have a hundred thousand runs, but has few different hosts, paths and kinds of
    traffic.
    """
    remembered: dict[tuple[object, ...], Declared] = {}
    sections: dict[str, Mapping[str, str]] = {}  # keys of the INI file, by entry
    for campaign in results.campaigns:
        with contextlib.suppress(ConfigError):  # an import has no file
            file = ini.read(campaign.outdir / FILE, campaign.ini)
            sections |= {section.name: section.inherited | section.own for section in file.sections}

    def declared_sets(runs: Sequence[Result]) -> list[Declared]:
        """Returns the different sets of declared settings among the runs, usually only one.

        Runs with the same key declare the same settings, because the key has all that declared()
        reads. For facts, path and traffic, it has the ids of the objects, which many runs share.
        The condition (swept values) matters only for imported runs.
        """
        sets_of_runs = {}
        for result in runs:
            run, finished = result.run, result.finished
            condition = run.condition.items() if imported(finished) else ()
            ids = map(id, (finished.facts, run.path, run.traffic))
            key = finished.execution.machine, run.entry, run.accept_limits, *condition, *ids
            if key not in remembered:
                remembered[key] = declared(result, sections.get(run.entry, {}))
            sets_of_runs[key] = remembered[key]
        return list(sets_of_runs.values())

    return declared_sets


def _differing_settings(a: Sequence[Declared], b: Sequence[Declared]) -> Iterator[_ValuePair]:
    """Yields the settings that differ between the runs of a condition in A and in B.

    If a campaign lacks a whole family, such as all sysctls, that is a single difference.
    """
    for part in a[0]:
        families_a, families_b = ([run[part] for run in side] for side in (a, b))
        if families_a == families_b:
            continue
        for family in _all_keys(*families_a, *families_b):
            members_a, members_b = (
                [families.get(family, {}) for families in side] for side in (families_a, families_b)
            )
            family_is_missing = not any(members_a) or not any(members_b)
            for name in [""] if family_is_missing else _all_keys(*members_a, *members_b):
                values_a, values_b = (
                    [
                        _joined_members(members) if family_is_missing else members.get(name, "")
                        for members in side
                    ]
                    for side in (members_a, members_b)
                )
                missing_a = _value_if_missing(part, family, name, a[0], b[0], values_b)
                missing_b = _value_if_missing(part, family, name, b[0], a[0], values_a)
                shown_a = _distinct_values(values_a, missing_a)
                shown_b = _distinct_values(values_b, missing_b)
                if {*shown_a} != {*shown_b} and "" not in (*shown_a, *shown_b):
                    yield _ValuePair((family + name).rstrip(" -."), shown_a, shown_b)


def _joined_members(members: Mapping[str, str]) -> str:
    """Returns all settings of a family as one text: 'h1 none, h2 3%'."""
    return ", ".join(map(" ".join, members.items()))


def _distinct_values(values: Sequence[str], missing: str) -> tuple[str, ...]:
    """Returns the values, each once, with `missing` in place of ''."""
    return tuple(dict.fromkeys(value or missing for value in values))


def _all_keys(*mappings: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _value_if_missing(
    part: str,
    family: str,
    name: str,
    campaign: Declared,
    other: Declared,
    other_values: Sequence[str],
) -> str:
    """Returns the value to show for a setting that a `campaign` lacks and the `other` has.

    It is UNKNOWN if the campaign can't have recorded it, NONE if it is not set, and '' if this is
    not a difference, such as the queue of an emulated path that a real path can't have.
    """
    paths = [each["path"][""]["path"] for each in (campaign, other)]
    foreign = campaign["environment"][""]["machine"] == "imported"
    if part == "entry":
        return ""
    if part != "path" or (paths[0] == paths[1] and not foreign):
        return UNKNOWN if part == "environment" and family in OF_EVERY_HOST else NONE
    if paths[1] == EMULATED:
        return "" if (family + name).startswith(OF_EMULATION) else UNKNOWN
    if name in ENDS or {*other_values} <= {path_defaults().get(family, {}).get(name, NONE)}:
        return ""
    return UNKNOWN if foreign else NONE
