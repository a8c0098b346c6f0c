"""Turns the runs of sources into runs of a campaign, each with its run.json."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.hosts import window_limits
from ccmix.archive import file_name
from ccmix.flattening import flattened
from ccmix.importing.foreign_run import ForeignRun, SourceError
from ccmix.importing.foreign_text import writable
from ccmix.importing.sources import ForeignFile
from ccmix.importing.summaries import summary_metrics, with_gaps
from ccmix.model import (
    Destination,
    Execution,
    Facts,
    Finding,
    FinishedRun,
    HostPath,
    ImportedSource,
    ImportFacts,
    ImportOverrides,
    Run,
    Traffic,
    UdpSource,
    Verdict,
    condition_name,
)
from ccmix.model.group_grammar import format_groups
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.terms import IMPORTED, LIMITS

UNKNOWN: Literal["unknown"] = "unknown"  # a name that no source reports
MACHINE: Literal["imported"] = "imported"
UDP = "udp"
ALIKE = 0.05  # by which durations of a condition's runs may be longer than the shortest
MOST_NAME_BYTES = 255  # of a folder, on every file system of Linux


# Settings that separate runs of a condition if the runs differ in them.
APART: Mapping[str, Callable[[ForeignRun], str]] = {
    "src": lambda run: run.src or UNKNOWN,
    "address": lambda run: run.dst_address or UNKNOWN,
    "duration": lambda run: f"{run.duration_s:g}s" if run.duration_s else UNKNOWN,
    "omit": lambda run: f"{run.omit_s:g}s",
    "bitrate": lambda run: f"{(run.udp_bps or 0) / 1e6:g}mbit",
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
    named = [replace(run, duration_s=duration_s) for run, duration_s in zip(named, _durations_s(named), strict=True)]
    named = [replace(run, dst_address=address) for run, address in zip(named, _addresses(named), strict=True)]
    for setting, value in APART.items():
        named = _apart(named, setting, list(map(value, named)))
    for run in named:
        _check_lengths(run, overrides)
    iterations: Counter[tuple[Any, ...]] = Counter()
    planned = []
    for run in named:
        iterations[_cell(run)] += 1
        planned.append(Imported(_run(run, iterations[_cell(run)]), run))
    return planned


def _apart(runs: Sequence[ForeignRun], setting: str, values: Sequence[str]) -> list[ForeignRun]:
    """Returns the runs, with this setting if runs of a condition differ in it."""
    of_cell: dict[tuple[Any, ...], set[str]] = {}
    for run, value in zip(runs, values, strict=True):
        of_cell.setdefault(_cell(run), set()).add(value)
    return [
        replace(run, settings={**run.settings, setting: value}) if len(of_cell[_cell(run)]) > 1 else run
        for run, value in zip(runs, values, strict=True)
    ]


def _durations_s(runs: Sequence[ForeignRun]) -> list[float]:
    """Returns for each run the shortest similar duration of its condition: clocks and samples end a little apart."""
    shortest: dict[tuple[Any, ...], list[float]] = {}
    for run in sorted(runs, key=lambda run: run.duration_s):
        known = shortest.setdefault(_cell(run), [])
        if not known or run.duration_s > known[-1] * (1 + ALIKE):
            known.append(run.duration_s)
    return [max(known for known in shortest[_cell(run)] if known <= run.duration_s) for run in runs]


def _addresses(runs: Sequence[ForeignRun]) -> list[str | None]:
    """Returns each run's own address; if its source has none, the only one that runs of its condition have."""
    known: dict[tuple[Any, ...], set[str]] = {}
    for run in runs:
        if run.dst_address:
            known.setdefault(_cell(run), set()).add(run.dst_address)
    only = {cell: next(iter(addresses)) for cell, addresses in known.items() if len(addresses) == 1}
    return [run.dst_address or only.get(_cell(run)) for run in runs]


def _named(run: ForeignRun, overrides: ImportOverrides, entry: str) -> ForeignRun:
    dst = writable(overrides.dst or run.dst or UNKNOWN)
    src = writable(overrides.src or run.src or UNKNOWN)
    streams = str(run.streams or UNKNOWN)
    entry = overrides.entry or run.entry or entry
    for name, value in (("dst", dst), ("src", src), ("streams", streams)):
        entry = writable(entry.replace(f"{{{name}}}", value))
    settings = {"cca": format_groups(run.groups), "streams": streams} | {
        writable(setting): writable(value) for setting, value in run.settings.items()
    }
    if run.udp_bps is not None:
        settings["cca"] = UDP
    if run.pacing_bps is not None and "pacing" not in settings:
        settings["pacing"] = f"{run.pacing_bps / 1e6:g}mbit"
    base_rtt_s = run.base_rtt_s if overrides.base_rtt_s is None else overrides.base_rtt_s
    return replace(
        run,
        entry=entry,
        src=src,
        dst=dst,
        dst_address=writable(run.dst_address) if run.dst_address else None,
        settings=settings,
        base_rtt_s=base_rtt_s,
    )


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


def _cell(run: ForeignRun) -> tuple[Any, ...]:
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
        path=HostPath(run.src, Destination(run.dst, run.dst_address or run.dst, run.dst), IMPORTED),
    )


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
    if overrides.rate_bps:
        metrics = replace(metrics, utilisation=metrics.goodput_bps / overrides.rate_bps)
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
                rate_bps=overrides.rate_bps,
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
    """Returns 'limited' if sockets of the source show that the hosts were; else unknown, as no probe observed them."""
    limits: list[Finding] = []
    if isinstance(foreign.results, RunTables) and not foreign.results.sockets.is_empty():
        limits = [
            Finding(kind, f"{LIMITS[kind]}: {detail}", accepted=False)
            for kind, detail in window_limits(run, foreign.results)
        ]
    detail = f"imported from {foreign.source}: no probe observed the hosts"
    if foreign.missing:
        detail += f"; {', '.join(foreign.missing)}"
    unseen = Finding(IMPORTED, writable(detail), accepted=True)
    return Verdict("limited" if limits else UNKNOWN, (*limits, unseen))
