"""Turns the runs of sources into runs of a campaign, each with its run.json."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, TypeVar

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.hosts import window_limits
from ccmix.archive import file_name
from ccmix.flattening import flattened
from ccmix.importing.foreign_run import ForeignRun, SourceError
from ccmix.importing.foreign_text import writable
from ccmix.importing.name_patterns import differ_in_more_than_a_number
from ccmix.importing.sources import ForeignFile
from ccmix.importing.summaries import summary_metrics, with_gaps
from ccmix.model import (
    Destination,
    Facts,
    HostPath,
    ImportedSource,
    ImportFacts,
    Run,
    Traffic,
    UdpSource,
    condition_name,
)
from ccmix.model.group_grammar import format_groups
from ccmix.model.results import Execution, Finding, FinishedRun, ImportOverrides, Verdict
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.terms import ENDED_EARLY, IMPORTED, LIMITS
from ccmix.units import parse_rate, parse_time

# Fields of --name-pattern that are none of a condition's settings by themselves
NOT_SETTINGS = ("cca", "streams", "iteration", "entry", "src", "dst")
UNKNOWN: Literal["unknown"] = "unknown"  # a name that no source reports
MACHINE: Literal["imported"] = "imported"
UDP = "udp"
ALIKE = 0.05  # by which durations of a condition's runs may be longer than the shortest
MOST_OPTION_LETTERS = 40  # of an option's value in a condition's name
MOST_NAME_BYTES = 255  # of a folder, on every file system of Linux

Cell = tuple[Any, ...]
Value = TypeVar("Value")

# Settings that separate runs of a condition if the runs differ in them, as options of a test do.
APART: Mapping[str, Callable[[ForeignRun], str]] = {
    "src": lambda run: run.src or UNKNOWN,
    "address": lambda run: run.dst_address or UNKNOWN,
    "duration": lambda run: f"{run.duration_s:g}s" if run.duration_s else UNKNOWN,
    "omit": lambda run: f"{run.omit_s:g}s",
    "bitrate": lambda run: f"{(run.udp_bps or run.bitrate_bps or 0) / 1e6:g}mbit",
}


@dataclass(frozen=True)
class Imported:
    """Holds a run of the campaign, and the run of a source that it was made from."""

    run: Run
    foreign: ForeignRun


def plan(sources_and_runs: Sequence[tuple[ForeignFile, ForeignRun]], overrides: ImportOverrides) -> list[Imported]:
    """Returns runs in the order of their sources; those of a condition and destination are its iterations.

    A condition is the mix of CCAs and the number of streams, then the settings of the source. Where runs that are alike
    in these differ in one of APART, that is one of their settings. Durations within ALIKE count as the shortest of
    them: some sources report the time that passed, and not the time that was asked for. Raises SourceError.
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
        named = _apart_where_known(named, option, [_options(run).get(option) for run in named])
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


def _apart(runs: Sequence[ForeignRun], setting: str, values: Sequence[str]) -> list[ForeignRun]:
    """Returns the runs, with this setting if runs of a condition differ in it."""
    if len(set(values)) == 1:
        return list(runs)
    cells = list(map(_cell, runs))
    of_cell: dict[Cell, set[str]] = {}
    for cell, value in zip(cells, values, strict=True):
        of_cell.setdefault(cell, set()).add(value)
    return [
        replace(run, settings={**run.settings, setting: value}) if len(of_cell[cell]) > 1 else run
        for run, cell, value in zip(runs, cells, values, strict=True)
    ]


def _options(run: ForeignRun) -> Mapping[str, str]:
    """Returns what is known of a run besides its settings and APART, by names that none of those has."""
    known = {"kernel": run.kernel} if run.kernel else {}
    return known | {
        name: value for name, value in run.options.items() if name not in APART and name not in run.settings
    }


def _apart_where_known(runs: Sequence[ForeignRun], option: str, values: Sequence[str | None]) -> list[ForeignRun]:
    """Returns the runs, with this option if runs of a condition are known to differ in it.

    Where it isn't known, a source that leaves out what is usual does not separate runs by itself.
    """
    cells = list(map(_cell, runs))
    several = {cell for cell, known in _grouped(cells, values).items() if len(set(known) - {None}) > 1}
    texts = _short([value or UNKNOWN for value in values])
    return [
        replace(run, settings={**run.settings, option: text}) if cell in several else run
        for run, cell, text in zip(runs, cells, texts, strict=True)
    ]


def _short(values: Sequence[str]) -> list[str]:
    """Returns the values, those that are too long for a folder's name by their numbers in order: '#2'."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values), 1)}
    return [value if len(value) <= MOST_OPTION_LETTERS else f"#{numbers[value]}" for value in values]


def _grouped(cells: Sequence[Cell], values: Iterable[Value]) -> dict[Cell, list[Value]]:
    """Returns the values of the runs under their conditions, which `cells` names for each run."""
    grouped: dict[Cell, list[Value]] = {}
    for cell, value in zip(cells, values, strict=True):
        grouped.setdefault(cell, []).append(value)
    return grouped


def _with_not_known(runs: Sequence[ForeignRun], files: Sequence[str]) -> list[ForeignRun]:
    """Returns the runs, those of a condition with what differs among them and separates none."""
    cells = list(map(_cell, runs))
    versions = _grouped(cells, (run.version for run in runs))
    sources = _grouped(cells, ("" if run.of_name else file for run, file in zip(runs, files, strict=True)))
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
    """Yields what can't be known of columns whose values recur, as those of a setting do, and differ."""
    names = dict.fromkeys(name for row in rows for name in row)
    several = [name for name in names if 1 < len({row.get(name) for row in rows}) <= len(rows) / 2]
    if several:
        have = "has" if len(several) == 1 else "have"
        yield (
            f"whether its lines are of one condition, since {', '.join(several)} {have} several values: "
            f"if that is a setting, import the table with --setting '{several[0]}'"
        )


def _several_versions(versions: Sequence[str]) -> Iterator[str]:
    if len(versions) > 1:
        yield f"whether its versions of iperf3 measure the same ({', '.join(versions[:3])})"


def _several_names(names: Sequence[str]) -> Iterator[str]:
    if differ_in_more_than_a_number(names):
        yield (
            f"whether its {len(names)} files are of one condition, since their names differ in more than a number "
            f"({names[0]}, {names[-1]}): if names hold settings, import them with --name-pattern"
        )


def _durations_s(runs: Sequence[ForeignRun]) -> list[float]:
    """Returns for each run the shortest similar duration of its condition: clocks and samples end a little apart. For a
    test that ended early, the next duration of a whole one.
    """
    cells = list(map(_cell, runs))
    shortest: dict[Cell, list[float]] = {}
    whole = ((run.duration_s, cell) for run, cell in zip(runs, cells, strict=True) if not run.ended_early)
    for duration_s, cell in sorted(whole, key=itemgetter(0)):
        known = shortest.setdefault(cell, [])
        if not known or duration_s > known[-1] * (1 + ALIKE):
            known.append(duration_s)
    return [_alike_s(run, shortest.get(cell, [])) for run, cell in zip(runs, cells, strict=True)]


def _alike_s(run: ForeignRun, shortest_s: Sequence[float]) -> float:
    if run.ended_early:
        return min((known for known in shortest_s if known >= run.duration_s), default=run.duration_s)
    return max(known for known in shortest_s if known <= run.duration_s)


def _addresses(runs: Sequence[ForeignRun]) -> list[str | None]:
    """Returns each run's own address; if its source has none, the only one that runs of its condition have."""
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
    """Returns a quantity in the name of a file; None if it is none, such as one without a unit."""
    try:
        return parse(text) or None if text else None
    except ValueError:
        return None


def _in_bits(rate: str | None) -> str | None:
    """Returns a rate with the unit that INI files have: people name files by '10Mbps' or '10M', and mean bits."""
    return re.sub(r"(?i)([kmgt])(bps|bit/s|bits?|b)?$", r"\1bit", rate.strip()) if rate else None


def _misread_names(run: ForeignRun) -> Iterator[str]:
    """Yields what the name of a file says and ccmix does not use."""
    for field, parse, text in (
        ("rtt", parse_time, run.of_name.get("rtt")), ("rate", parse_rate, _in_bits(run.of_name.get("rate"))),
    ):  # fmt: skip
        if text and _quantity(parse, text) is None:
            yield (
                f"{{{field}}} in the names of files has no known unit: it is a setting alone; "
                f"say with --{field} what it is for all runs"
            )
    named = run.of_name.get("cca")
    if named and run.udp_bps is None and {group.cca for group in run.groups} != set(named.split(",")):
        yield f"names of files say {named}, and their content {format_groups(run.groups)}, which counts"


def _check_lengths(run: ForeignRun, overrides: ImportOverrides) -> None:
    """Raises SourceError if a name of the run is too long for a folder, with what makes it shorter."""
    assert run.entry is not None
    assert run.dst is not None
    for what, name, remedy in (
        ("entry", run.entry, "give another one with --entry"),
        ("destination", run.dst, "give another one with --dst"),
        ("condition", condition_name(dict(run.settings)), _shorter_condition(run, overrides)),
    ):
        if (beyond := len(file_name(name)) - MOST_NAME_BYTES) > 0:
            raise SourceError(
                f"{run.source}: its {what}, {name[:40]}…, is {beyond} bytes too long for a folder's name: {remedy}"
            )


def _shorter_condition(run: ForeignRun, overrides: ImportOverrides) -> str:
    """Returns what shortens the longest setting of the condition."""
    longest = max(run.settings, key=lambda setting: len(file_name(f"{setting}={run.settings[setting]}")))
    option_given = {"src": True, "cca": overrides.cca is not None}
    if option_given.get(longest):
        return f"give another one with --{longest}"
    return f"shorten {longest} in the file" + (" or leave out its --setting" if longest in overrides.settings else "")


def _cell(run: ForeignRun) -> Cell:
    """Returns what tells the runs of a condition and destination from all others."""
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


def goodput_bps(run: ForeignRun) -> float:
    """Returns the goodput of the whole run."""
    if isinstance(run.results, RunTables):
        return float(run.results.flows["goodput_bps"].sum())
    return sum(group.goodput_bps for group in run.results)


def finished_run(imported: Imported, overrides: ImportOverrides) -> FinishedRun:
    """Returns the run with all that its source reports."""
    run, foreign = imported.run, imported.foreign
    if isinstance(foreign.results, RunTables):
        base_rtts_s = foreign.pings_s or ((foreign.base_rtt_s,) if foreign.base_rtt_s else ())
        metrics = with_gaps(run_metrics(run, foreign.results, {SRC: tuple(base_rtts_s)}), foreign.results.flows)
    else:
        metrics = summary_metrics(foreign.results, foreign.rtt_median_s)
    rate_bps = overrides.rate_bps or foreign.rate_bps
    if rate_bps:
        metrics = replace(metrics, utilisation=metrics.goodput_bps / rate_bps)
    if foreign.ended_early:
        metrics = replace(metrics, settling=None)  # what would be judged is the asked time
    return FinishedRun(
        run=run,
        execution=Execution(MACHINE, diagnostics=tuple(_diagnostics(foreign))),
        facts=Facts(
            kernel=foreign.kernel or UNKNOWN,
            iperf3=foreign.version,
            generator=foreign.kind,
            sysctls={},
            hosts={},
            imported=ImportFacts(
                kind=foreign.kind,
                source=foreign.source,
                missing=foreign.missing,
                estimated=foreign.estimated,
                base_rtt_s=foreign.base_rtt_s,
                rate_bps=rate_bps,
                details=tuple(flattened(dict(foreign.details))) if foreign.details else (),
            ),
        ),
        started_s=foreign.began_s,
        began_s=foreign.began_s,
        ended_s=foreign.ended_s,
        ping_rtt_s={SRC: foreign.pings_s} if foreign.pings_s else {},
        metrics=metrics,
        verdict=verdict(run, foreign),
    )


def _diagnostics(foreign: ForeignRun) -> Iterator[str]:
    yield from foreign.diagnostics
    if "goodput_bps" in foreign.estimated:
        yield "goodput is the sender's throughput: the source does not report what was received"


def verdict(run: Run, foreign: ForeignRun) -> Verdict:
    """Returns 'limited' if the test ended early, or sockets of the source show that the hosts limited it; else unknown,
    as no probe observed them.
    """
    limits: list[Finding] = []
    if foreign.ended_early:
        limits.append(Finding(ENDED_EARLY, f"the test ended {foreign.ended_early}", accepted=False))
    if isinstance(foreign.results, RunTables) and not foreign.results.sockets.is_empty():
        limits += (
            Finding(kind, f"{LIMITS[kind]}: {detail}", accepted=False)
            for kind, detail in window_limits(run, foreign.results)
        )
    detail = f"imported from {foreign.source}: no probe observed the hosts"
    if foreign.missing:
        detail += f"; {', '.join(foreign.missing)}"
    unseen = Finding(IMPORTED, writable(detail), accepted=True)
    return Verdict("limited" if limits else UNKNOWN, (*limits, unseen), foreign.not_known)
