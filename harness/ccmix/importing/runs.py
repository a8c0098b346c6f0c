"""Turns imported runs into runs of a campaign, each with an entry, a condition and an iteration."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, TypeVar

from ccmix.archive import file_name
from ccmix.importing.sources import ForeignFile, differ_in_more_than_a_number
from ccmix.importing.values import ForeignRun, SourceError, writable
from ccmix.model import (
    Destination,
    HostPath,
    ImportedSource,
    Run,
    Traffic,
    UdpSource,
    condition_name,
)
from ccmix.model.group_grammar import format_groups
from ccmix.model.results import ImportOverrides
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.terms import IMPORTED
from ccmix.units import parse_rate, parse_time

# Fields of --name-pattern that are not settings of a condition
NOT_SETTINGS = ("cca", "streams", "iteration", "entry", "src", "dst")
UNKNOWN: Literal["unknown"] = "unknown"  # a name that is not in the source
UDP = "udp"
DURATION_TOLERANCE = 0.05  # durations that differ by at most this share count as the same
MOST_OPTION_LETTERS = 40  # of an option's value in a condition's name
MOST_NAME_BYTES = 255  # of a folder, on every file system of Linux

ConditionKey = tuple[Any, ...]
Value = TypeVar("Value")

# Facts that become settings of a condition if its runs differ in them. So the runs become several
# conditions. The options of a test do the same
SEPARATING_FACTS: Mapping[str, Callable[[ForeignRun], str]] = {
    "src": lambda run: run.src or UNKNOWN,
    "address": lambda run: run.dst_address or UNKNOWN,
    "duration": lambda run: f"{run.duration_s:g}s" if run.duration_s else UNKNOWN,
    "omit": lambda run: f"{run.omit_s:g}s",
    "bitrate": lambda run: f"{(run.udp_bps or run.bitrate_bps or 0) / 1e6:g}mbit",
}


@dataclass(frozen=True)
class Imported:
    """Holds a run of the campaign, and the run from a file (`foreign`) from which it was made."""

    run: Run
    foreign: ForeignRun


def plan(
    sources_and_runs: Sequence[tuple[ForeignFile, ForeignRun]], overrides: ImportOverrides
) -> list[Imported]:
    """Returns the runs of the campaign in the order of their sources. Runs of the same condition
    and destination become its iterations.

    A condition is the mix of CCAs, the number of streams, and the settings that the source reports.
    If runs of a condition differ in one of SEPARATING_FACTS or in an option of the test, this fact
    or option becomes a setting, too. Similar durations count as the shortest of them, because some
    sources report how long a test took, and not the duration that the user asked for.

    Raises SourceError for names that are too long.
    """
    named = [_with_names(run, overrides, source.entry) for source, run in sources_and_runs]
    named = [
        run if run.duration_s == duration_s else replace(run, duration_s=duration_s)
        for run, duration_s in zip(named, _durations_s(named), strict=True)
    ]
    named = [
        run if run.dst_address == address else replace(run, dst_address=address)
        for run, address in zip(named, _known_addresses(named), strict=True)
    ]
    for setting, value in SEPARATING_FACTS.items():
        named = _separated(named, setting, list(map(value, named)))
    for option in dict.fromkeys(name for run in named for name in _other_facts(run)):
        named = _separated(
            named, option, _shortened([_other_facts(run).get(option) for run in named])
        )
    named = _with_open_questions(named, [source.name for source, _ in sources_and_runs])
    iterations: Counter[ConditionKey] = Counter()
    planned = []
    for run in named:
        condition = _condition_key(run)
        if condition not in iterations:
            _check_lengths(run, overrides)
        iterations[condition] += 1
        planned.append(Imported(_campaign_run(run, iterations[condition]), run))
    return planned


def _other_facts(run: ForeignRun) -> Mapping[str, str]:
    """Returns facts about a run that campaigns have no field for: its kernel, and options of the
    test that are not settings. Runs of a condition that differ in one of them are separated.
    """
    kernel = {"kernel": run.kernel} if run.kernel else {}
    return kernel | {
        name: value
        for name, value in run.options.items()
        if name not in SEPARATING_FACTS and name not in run.settings
    }


def _shortened(values: Sequence[str | None]) -> list[str | None]:
    """Returns the values, but those that are too long for a folder's name as numbers such as '#2',
    which count the different values from 1.
    """
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values), 1)}
    return [
        f"#{numbers[value]}" if value and len(value) > MOST_OPTION_LETTERS else value
        for value in values
    ]


def _separated(
    runs: Sequence[ForeignRun], setting: str, values: Sequence[str | None]
) -> list[ForeignRun]:
    """Adds a fact as a setting to the runs of each condition in which its values differ, so that
    these runs become several conditions.

    `values` has the fact for each run, None if unknown. Unknown values do not separate runs,
    because a source may leave out a usual value.
    """
    if len(set(values) - {None}) < 2:
        return list(runs)
    conditions = list(map(_condition_key, runs))
    differing = {
        condition
        for condition, values_of_condition in _group_by_condition(conditions, values).items()
        if len(set(values_of_condition) - {None}) > 1
    }
    return [
        replace(run, settings={**run.settings, setting: value or UNKNOWN})
        if condition in differing
        else run
        for run, condition, value in zip(runs, conditions, values, strict=True)
    ]


def _group_by_condition(
    conditions: Sequence[ConditionKey], values: Iterable[Value]
) -> dict[ConditionKey, list[Value]]:
    """Groups the values of runs by condition; `conditions` has the key of each run's condition."""
    grouped: dict[ConditionKey, list[Value]] = {}
    for condition, value in zip(conditions, values, strict=True):
        grouped.setdefault(condition, []).append(value)
    return grouped


def _with_open_questions(runs: Sequence[ForeignRun], files: Sequence[str]) -> list[ForeignRun]:
    """Adds to each run the questions that the user should answer about its condition: differences
    between its runs that may be settings, but are not known to be.
    """
    conditions = list(map(_condition_key, runs))
    versions = _group_by_condition(conditions, (run.version for run in runs))
    sources = _group_by_condition(
        conditions, ("" if run.name_fields else file for run, file in zip(runs, files, strict=True))
    )
    columns = _group_by_condition(conditions, (run.unclear for run in runs))
    questions = {
        condition: (
            *_ask_about_versions(sorted(set(versions[condition]) - {""})),
            *_ask_about_names(list(dict.fromkeys(filter(None, sources[condition])))),
            *_ask_about_columns(columns[condition]),
        )
        for condition in versions
    }
    return [
        replace(run, open_questions=(*run.open_questions, *questions[condition]))
        if questions[condition]
        else run
        for run, condition in zip(runs, conditions, strict=True)
    ]


def _ask_about_columns(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yields a question about table columns that may be settings, because their values differ
    between the lines of a condition and occur again.

    `rows` has these columns of each line, with their values.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    varying = [name for name in names if 1 < len({row.get(name) for row in rows}) <= len(rows) / 2]
    if varying:
        have = "has" if len(varying) == 1 else "have"
        yield (
            f"whether its lines are of one condition, since {', '.join(varying)} {have} several "
            "values: "
            f"if that is a setting, import the table with --setting '{varying[0]}'"
        )


def _ask_about_versions(versions: Sequence[str]) -> Iterator[str]:
    """Yields a question if the runs of a condition are of several versions of iperf3."""
    if len(versions) > 1:
        yield f"whether its versions of iperf3 measure the same ({', '.join(versions[:3])})"


def _ask_about_names(names: Sequence[str]) -> Iterator[str]:
    """Yields a question if the files of a condition have names that may contain settings."""
    if differ_in_more_than_a_number(names):
        yield (
            f"whether its {len(names)} files are of one condition, since their names differ in "
            "more than a number "
            f"({names[0]}, {names[-1]}): if names hold settings, import them with --name-pattern"
        )


def _durations_s(runs: Sequence[ForeignRun]) -> list[float]:
    """Returns a duration for each run: the shortest of the similar durations in its condition,
    because measured durations of equal tests differ a little. A test that ended early gets the next
    longer duration of a complete test.
    """
    conditions = list(map(_condition_key, runs))
    # The shortest of each group of similar durations, by condition
    shortest: dict[ConditionKey, list[float]] = {}
    complete = (
        (run.duration_s, condition)
        for run, condition in zip(runs, conditions, strict=True)
        if not run.ended_early
    )
    for duration_s, condition in sorted(complete, key=itemgetter(0)):
        condition_shortest = shortest.setdefault(condition, [])
        if not condition_shortest or duration_s > condition_shortest[-1] * (1 + DURATION_TOLERANCE):
            condition_shortest.append(duration_s)
    return [
        _similar_duration_s(run, shortest.get(condition, []))
        for run, condition in zip(runs, conditions, strict=True)
    ]


def _similar_duration_s(run: ForeignRun, shortest_s: Sequence[float]) -> float:
    """Returns the duration for one run from `shortest_s`, the shortest of each group of similar
    durations in its condition, in increasing order.
    """
    if run.ended_early:
        return min(
            (duration_s for duration_s in shortest_s if duration_s >= run.duration_s),
            default=run.duration_s,
        )
    return max(duration_s for duration_s in shortest_s if duration_s <= run.duration_s)


def _known_addresses(runs: Sequence[ForeignRun]) -> list[str | None]:
    """Returns the address of each run's destination. If the source of a run has no address, the run
    gets the address of the other runs of its condition, if they all have the same.
    """
    addresses_of: dict[ConditionKey, set[str]] = {}
    for run in runs:
        if run.dst_address:
            addresses_of.setdefault(_condition_key(run), set()).add(run.dst_address)
    only_address = {
        condition: next(iter(addresses))
        for condition, addresses in addresses_of.items()
        if len(addresses) == 1
    }
    if not only_address:
        return [run.dst_address for run in runs]
    return [run.dst_address or only_address.get(_condition_key(run)) for run in runs]


def _with_names(run: ForeignRun, overrides: ImportOverrides, entry: str) -> ForeignRun:
    """Returns the run with its entry, hosts, settings and path. Each value comes from the first of
    these that has it: the user's options, the file's name (by --name-pattern), the file's content.
    Only the number of streams comes from the content first.

    `entry` is the name of the entry if neither options, name nor content have one. {dst}, {src} and
    {streams} in the name of the entry are replaced.
    """
    dst = writable(overrides.dst or run.name_fields.get("dst") or run.dst or UNKNOWN)
    src = writable(overrides.src or run.name_fields.get("src") or run.src or UNKNOWN)
    streams = str(run.streams or run.name_fields.get("streams") or UNKNOWN)
    entry = overrides.entry or run.name_fields.get("entry") or run.entry or entry
    for name, value in (("dst", dst), ("src", src), ("streams", streams)):
        entry = writable(entry.replace(f"{{{name}}}", value))
    settings = {"cca": format_groups(run.groups), "streams": streams} | {
        writable(setting): writable(value) for setting, value in run.settings.items()
    }
    settings |= {name: text for name, text in run.name_fields.items() if name not in NOT_SETTINGS}
    if run.udp_bps is not None:
        settings["cca"] = UDP
    elif run.bitrate_bps and "bitrate" not in settings:
        settings["bitrate"] = f"{run.bitrate_bps / 1e6:g}mbit"
    if run.pacing_bps is not None and "pacing" not in settings:
        settings["pacing"] = f"{run.pacing_bps / 1e6:g}mbit"
    name_rtt_s = _parse_or_none(parse_time, run.name_fields.get("rtt"))
    base_rtt_s = overrides.base_rtt_s or name_rtt_s or run.base_rtt_s
    return replace(
        run,
        entry=entry,
        src=src,
        dst=dst,
        dst_address=writable(run.dst_address) if run.dst_address else None,
        settings=settings,
        base_rtt_s=base_rtt_s,
        rate_bps=_parse_or_none(parse_rate, _with_bit_unit(run.name_fields.get("rate")))
        or run.rate_bps,
        diagnostics=(*run.diagnostics, *_misread_names(run)),
    )


def _parse_or_none(parse: Callable[[str], float], text: str | None) -> float | None:
    """Returns a quantity that the name of a file states, such as an RTT; None if it can't be
    parsed, for instance without a unit.
    """
    try:
        return parse(text) or None if text else None
    except ValueError:
        return None


def _with_bit_unit(rate: str | None) -> str | None:
    """Returns a rate from a file name with a unit of INI files: '10Mbps' and '10M' become
    '10Mbit'.
    """
    return re.sub(r"(?i)([kmgt])(bps|bit/s|bits?|b)?$", r"\1bit", rate.strip()) if rate else None


def _misread_names(run: ForeignRun) -> Iterator[str]:
    """Yields diagnostics about facts in a file's name that ccmix does not use: quantities without a
    unit, and CCAs that the content contradicts.
    """
    for field, parse, text in (
        ("rtt", parse_time, run.name_fields.get("rtt")),
        ("rate", parse_rate, _with_bit_unit(run.name_fields.get("rate"))),
    ):
        if text and _parse_or_none(parse, text) is None:
            yield (
                f"{{{field}}} in the names of files has no known unit, so it is only a setting; "
                f"give the value for all runs with --{field}"
            )
    named = run.name_fields.get("cca")
    if (
        named
        and run.udp_bps is None
        and {group.cca for group in run.groups} != set(named.split(","))
    ):
        yield (
            f"names of files say {named}, but their content says {format_groups(run.groups)}, "
            "which counts"
        )


def _check_lengths(run: ForeignRun, overrides: ImportOverrides) -> None:
    """Raises SourceError if the entry, destination or condition of a run is too long for the name
    of a folder. The message says how to shorten it.
    """
    assert run.entry is not None
    assert run.dst is not None
    for role, name, remedy in (
        ("entry", run.entry, "give another one with --entry"),
        ("destination", run.dst, "give another one with --dst"),
        ("condition", condition_name(dict(run.settings)), _shorter_condition(run, overrides)),
    ):
        if (excess_bytes := len(file_name(name)) - MOST_NAME_BYTES) > 0:
            raise SourceError(
                f"{run.source}: its {role}, {name[:40]}…, is {excess_bytes} bytes too long for a "
                f"folder's name: {remedy}"
            )


def _shorter_condition(run: ForeignRun, overrides: ImportOverrides) -> str:
    """Returns how the user can shorten the name of a condition: by its longest setting."""
    longest = max(
        run.settings, key=lambda setting: len(file_name(f"{setting}={run.settings[setting]}"))
    )
    option_given = {"src": True, "cca": overrides.cca is not None}
    if option_given.get(longest):
        return f"give another one with --{longest}"
    return f"shorten {longest} in the file" + (
        " or leave out its --setting" if longest in overrides.settings else ""
    )


def _condition_key(run: ForeignRun) -> ConditionKey:
    """Returns the identity of a run's condition and destination: runs with the same key are
    iterations of each other.
    """
    return run.entry, run.dst, *sorted(run.settings.items())


def _campaign_run(run: ForeignRun, iteration: int) -> Run:
    """Returns an imported run in the form of ccmix's own runs, as the given iteration of its
    condition.
    """
    assert run.entry is not None
    assert run.src is not None
    assert run.dst is not None
    source = (
        ImportedSource("", BETWEEN_HOSTS, run.groups, run.streams or None)
        if run.udp_bps is None
        else UdpSource(UDP, BETWEEN_HOSTS, run.udp_bps, run.streams)
    )
    traffic = Traffic(
        sources=(source,),
        duration_s=run.duration_s or None,
        omit_s=run.omit_s,
        interval_s=run.interval_s,
        pacing_bps=run.pacing_bps,
    )
    return Run(
        entry=run.entry,
        condition=dict(run.settings),
        dst=run.dst,
        iteration=iteration,
        seed=None,
        traffic=traffic,
        path=_host_path(run.src, run.dst, run.dst_address or run.dst),
    )


@functools.lru_cache(maxsize=1024)
def _host_path(src: str, dst: str, address: str) -> HostPath:
    """Returns a path between two hosts. Cached, because most runs of an import share it."""
    return HostPath(src, Destination(dst, address, dst), IMPORTED)
