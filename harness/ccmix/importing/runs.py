"""Turns the runs of sources into runs of a campaign."""

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
ALIKE = 0.05  # factor by which runs of a condition may be longer than the shortest run
MOST_OPTION_LETTERS = 40  # of an option's value in a condition's name
MOST_NAME_BYTES = 255  # of a folder, on every file system of Linux

Cell = tuple[Any, ...]
Value = TypeVar("Value")

# Settings that separate runs of a condition if the runs differ in them, like options of a test.
APART: Mapping[str, Callable[[ForeignRun], str]] = {
    "src": lambda run: run.src or UNKNOWN,
    "address": lambda run: run.dst_address or UNKNOWN,
    "duration": lambda run: f"{run.duration_s:g}s" if run.duration_s else UNKNOWN,
    "omit": lambda run: f"{run.omit_s:g}s",
    "bitrate": lambda run: f"{(run.udp_bps or run.bitrate_bps or 0) / 1e6:g}mbit",
}


@dataclass(frozen=True)
class Imported:
    """Holds a run of the campaign, and the run of a source from which it was made."""

    run: Run
    foreign: ForeignRun


def plan(
    sources_and_runs: Sequence[tuple[ForeignFile, ForeignRun]], overrides: ImportOverrides
) -> list[Imported]:
    """Returns runs in the order of their sources; those of a condition and destination are its
    iterations.

    A condition is the mix of CCAs and the number of streams, then the settings of the source. Where
    runs that are alike in these differ in one of APART, that is one of their settings. Durations
    within ALIKE count as the shortest of
    them: some sources report the time that passed, and not the time that was asked for. Raises
        SourceError.
    """
    named = [_named(run, overrides, source.entry) for source, run in sources_and_runs]
    named = [
        run if run.duration_s == duration_s else replace(run, duration_s=duration_s)
        for run, duration_s in zip(named, _durations_s(named), strict=True)
    ]
    named = [
        run if run.dst_address == address else replace(run, dst_address=address)
        for run, address in zip(named, _addresses(named), strict=True)
    ]
    for setting, value in APART.items():
        named = _apart(named, setting, list(map(value, named)))
    for option in dict.fromkeys(name for run in named for name in _options(run)):
        named = _apart(named, option, _short([_options(run).get(option) for run in named]))
    named = _with_not_known(named, [source.name for source, _ in sources_and_runs])
    iterations: Counter[Cell] = Counter()
    planned = []
    for run in named:
        cell = _cell(run)
        if cell not in iterations:
            _check_lengths(run, overrides)
        iterations[cell] += 1
        planned.append(Imported(_run(run, iterations[cell]), run))
    return planned


def _options(run: ForeignRun) -> Mapping[str, str]:
    """Returns the facts about a run that have no place of their own in a campaign: its kernel, and
    all options but the settings and those that are stored separately (APART).
    """
    known = {"kernel": run.kernel} if run.kernel else {}
    return known | {
        name: value
        for name, value in run.options.items()
        if name not in APART and name not in run.settings
    }


def _short(values: Sequence[str | None]) -> list[str | None]:
    """Returns the values; replaces values that are too long for a folder's name by numbers in their
    order: '#2'.
    """
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values), 1)}
    return [
        f"#{numbers[value]}" if value and len(value) > MOST_OPTION_LETTERS else value
        for value in values
    ]


def _apart(
    runs: Sequence[ForeignRun], setting: str, values: Sequence[str | None]
) -> list[ForeignRun]:
    """Returns the runs, with this setting if runs of a condition are known to differ in it.

    An unknown value does not separate runs, because a source may leave out a usual value.
    """
    if len(set(values) - {None}) < 2:
        return list(runs)
    cells = list(map(_cell, runs))
    several = {
        cell for cell, known in _grouped(cells, values).items() if len(set(known) - {None}) > 1
    }
    return [
        replace(run, settings={**run.settings, setting: value or UNKNOWN})
        if cell in several
        else run
        for run, cell, value in zip(runs, cells, values, strict=True)
    ]


def _grouped(cells: Sequence[Cell], values: Iterable[Value]) -> dict[Cell, list[Value]]:
    """Returns the values of the runs by condition; `cells` has the condition of each run."""
    grouped: dict[Cell, list[Value]] = {}
    for cell, value in zip(cells, values, strict=True):
        grouped.setdefault(cell, []).append(value)
    return grouped


def _with_not_known(runs: Sequence[ForeignRun], files: Sequence[str]) -> list[ForeignRun]:
    """Returns the runs with their differences that do not separate runs of a condition."""
    cells = list(map(_cell, runs))
    versions = _grouped(cells, (run.version for run in runs))
    sources = _grouped(
        cells, ("" if run.of_name else file for run, file in zip(runs, files, strict=True))
    )
    columns = _grouped(cells, (run.unclear for run in runs))
    texts = {
        cell: (
            *_several_versions(sorted(set(versions[cell]) - {""})),
            *_several_names(list(dict.fromkeys(filter(None, sources[cell])))),
            *_unclear(columns[cell]),
        )
        for cell in versions
    }
    return [
        replace(run, not_known=(*run.not_known, *texts[cell])) if texts[cell] else run
        for run, cell in zip(runs, cells, strict=True)
    ]


def _unclear(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yields questions about columns that may be settings: their values differ and recur."""
    names = dict.fromkeys(name for row in rows for name in row)
    several = [name for name in names if 1 < len({row.get(name) for row in rows}) <= len(rows) / 2]
    if several:
        have = "has" if len(several) == 1 else "have"
        yield (
            f"whether its lines are of one condition, since {', '.join(several)} {have} several "
            "values: "
            f"if that is a setting, import the table with --setting '{several[0]}'"
        )


def _several_versions(versions: Sequence[str]) -> Iterator[str]:
    if len(versions) > 1:
        yield f"whether its versions of iperf3 measure the same ({', '.join(versions[:3])})"


def _several_names(names: Sequence[str]) -> Iterator[str]:
    if differ_in_more_than_a_number(names):
        yield (
            f"whether its {len(names)} files are of one condition, since their names differ in "
            "more than a number "
            f"({names[0]}, {names[-1]}): if names hold settings, import them with --name-pattern"
        )


def _durations_s(runs: Sequence[ForeignRun]) -> list[float]:
    """Returns for each run the shortest similar duration of its condition, because clocks and
    samples end a little apart. For a test that ended early, returns the next duration of a whole
    test.
    """
    cells = list(map(_cell, runs))
    shortest: dict[Cell, list[float]] = {}
    whole = (
        (run.duration_s, cell) for run, cell in zip(runs, cells, strict=True) if not run.ended_early
    )
    for duration_s, cell in sorted(whole, key=itemgetter(0)):
        known = shortest.setdefault(cell, [])
        if not known or duration_s > known[-1] * (1 + ALIKE):
            known.append(duration_s)
    return [_alike_s(run, shortest.get(cell, [])) for run, cell in zip(runs, cells, strict=True)]


def _alike_s(run: ForeignRun, shortest_s: Sequence[float]) -> float:
    if run.ended_early:
        return min(
            (known for known in shortest_s if known >= run.duration_s), default=run.duration_s
        )
    return max(known for known in shortest_s if known <= run.duration_s)


def _addresses(runs: Sequence[ForeignRun]) -> list[str | None]:
    """Returns each run's own address. If its source has no address, returns the only address among
    runs of its condition.
    """
    known: dict[Cell, set[str]] = {}
    for run in runs:
        if run.dst_address:
            known.setdefault(_cell(run), set()).add(run.dst_address)
    only = {cell: next(iter(addresses)) for cell, addresses in known.items() if len(addresses) == 1}
    if not only:
        return [run.dst_address for run in runs]
    return [run.dst_address or only.get(_cell(run)) for run in runs]


def _named(run: ForeignRun, overrides: ImportOverrides, entry: str) -> ForeignRun:
    dst = writable(overrides.dst or run.of_name.get("dst") or run.dst or UNKNOWN)
    src = writable(overrides.src or run.of_name.get("src") or run.src or UNKNOWN)
    streams = str(run.streams or run.of_name.get("streams") or UNKNOWN)
    entry = overrides.entry or run.of_name.get("entry") or run.entry or entry
    for name, value in (("dst", dst), ("src", src), ("streams", streams)):
        entry = writable(entry.replace(f"{{{name}}}", value))
    settings = {"cca": format_groups(run.groups), "streams": streams} | {
        writable(setting): writable(value) for setting, value in run.settings.items()
    }
    settings |= {name: text for name, text in run.of_name.items() if name not in NOT_SETTINGS}
    if run.udp_bps is not None:
        settings["cca"] = UDP
    elif run.bitrate_bps and "bitrate" not in settings:
        settings["bitrate"] = f"{run.bitrate_bps / 1e6:g}mbit"
    if run.pacing_bps is not None and "pacing" not in settings:
        settings["pacing"] = f"{run.pacing_bps / 1e6:g}mbit"
    of_name_s = _quantity(parse_time, run.of_name.get("rtt"))
    base_rtt_s = overrides.base_rtt_s or of_name_s or run.base_rtt_s
    return replace(
        run,
        entry=entry,
        src=src,
        dst=dst,
        dst_address=writable(run.dst_address) if run.dst_address else None,
        settings=settings,
        base_rtt_s=base_rtt_s,
        rate_bps=_quantity(parse_rate, _in_bits(run.of_name.get("rate"))) or run.rate_bps,
        diagnostics=(*run.diagnostics, *_misread_names(run)),
    )


def _quantity(parse: Callable[[str], float], text: str | None) -> float | None:
    """Returns a quantity in the name of a file; None if it is not one, as without a unit."""
    try:
        return parse(text) or None if text else None
    except ValueError:
        return None


def _in_bits(rate: str | None) -> str | None:
    """Returns a rate with a unit of INI files: in file names, '10Mbps' and '10M' mean
    bits.
    """
    return re.sub(r"(?i)([kmgt])(bps|bit/s|bits?|b)?$", r"\1bit", rate.strip()) if rate else None


def _misread_names(run: ForeignRun) -> Iterator[str]:
    """Yields problems with facts in the name of a file that ccmix does not use."""
    for field, parse, text in (
        ("rtt", parse_time, run.of_name.get("rtt")),
        ("rate", parse_rate, _in_bits(run.of_name.get("rate"))),
    ):
        if text and _quantity(parse, text) is None:
            yield (
                f"{{{field}}} in the names of files has no known unit, so it is only a setting; "
                f"give the value for all runs with --{field}"
            )
    named = run.of_name.get("cca")
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
    """Raises SourceError with a remedy if a name of the run is too long for a folder."""
    assert run.entry is not None
    assert run.dst is not None
    for what, name, remedy in (
        ("entry", run.entry, "give another one with --entry"),
        ("destination", run.dst, "give another one with --dst"),
        ("condition", condition_name(dict(run.settings)), _shorter_condition(run, overrides)),
    ):
        if (beyond := len(file_name(name)) - MOST_NAME_BYTES) > 0:
            raise SourceError(
                f"{run.source}: its {what}, {name[:40]}…, is {beyond} bytes too long for a "
                f"folder's name: {remedy}"
            )


def _shorter_condition(run: ForeignRun, overrides: ImportOverrides) -> str:
    """Returns the remedy that shortens the longest setting of the condition."""
    longest = max(
        run.settings, key=lambda setting: len(file_name(f"{setting}={run.settings[setting]}"))
    )
    option_given = {"src": True, "cca": overrides.cca is not None}
    if option_given.get(longest):
        return f"give another one with --{longest}"
    return f"shorten {longest} in the file" + (
        " or leave out its --setting" if longest in overrides.settings else ""
    )


def _cell(run: ForeignRun) -> Cell:
    """Returns the key of the runs of a condition and destination."""
    return run.entry, run.dst, *sorted(run.settings.items())


def _run(run: ForeignRun, iteration: int) -> Run:
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
        path=_path(run.src, run.dst, run.dst_address or run.dst),
    )


@functools.lru_cache(maxsize=1024)
def _path(src: str, dst: str, address: str) -> HostPath:
    return HostPath(src, Destination(dst, address, dst), IMPORTED)
