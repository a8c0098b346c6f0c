"""What was found in sources to runs of a campaign, each with its run.json."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import window_limits
from ccmix.archive import file_name
from ccmix.importing.found import Found, SourceError, Told
from ccmix.importing.sources import Source
from ccmix.importing.summaries import summary_metrics, with_gaps
from ccmix.importing.text import writable
from ccmix.model import Destination, Flows, HostPath, Run, Traffic, UdpFlows, condition_name
from ccmix.terms import IMPORTED, LIMITS

UNKNOWN = "unknown"  # a name that no source tells
MACHINE = "imported"
UDP = "udp"
ALIKE = 0.05  # by which durations of a condition's runs may be longer than the shortest
MOST_NAME_BYTES = 255  # of a folder, on every file system of Linux


# What parts runs of a condition that differ in it, as a setting.
APART: Mapping[str, Callable[[Found], str]] = {
    "src": lambda one: one.src or UNKNOWN,
    "address": lambda one: one.dst_address or UNKNOWN,
    "duration": lambda one: f"{one.duration_s:g}s" if one.duration_s else UNKNOWN,
    "omit": lambda one: f"{one.omit_s:g}s",
    "bitrate": lambda one: f"{(one.udp_bps or 0) / 1e6:g}mbit",
}


@dataclass(frozen=True)
class Imported:
    """A run of the campaign, and where it is from."""

    run: Run
    found: Found


def plan(found: Sequence[tuple[Source, Found]], told: Told) -> list[Imported]:
    """Runs in the order of their sources; those of a condition and destination are its iterations.

    A condition is the mix of CCAs and the number of streams, then the settings of the source. Where runs that are alike
    in these have other durations, sources, or any of APART, that is one of their settings. Durations within ALIKE are
    one, the shortest: some sources tell the time that passed, and not that which was asked for. Raises SourceError.
    """
    named = [_named(one, told, source.entry) for source, one in found]
    named = [replace(one, duration_s=duration_s) for one, duration_s in zip(named, _durations_s(named), strict=True)]
    named = [replace(one, dst_address=address) for one, address in zip(named, _addresses(named), strict=True)]
    for setting, value in APART.items():
        named = _apart(named, setting, list(map(value, named)))
    for one in named:
        _check_lengths(one, told)
    iterations: Counter[tuple[Any, ...]] = Counter()
    planned = []
    for one in named:
        iterations[_cell(one)] += 1
        planned.append(Imported(_run(one, iterations[_cell(one)]), one))
    return planned


def _apart(found: Sequence[Found], setting: str, values: Sequence[str]) -> list[Found]:
    """The same, with this setting where runs of a condition differ in it."""
    of_cell: dict[tuple[Any, ...], set[str]] = {}
    for one, value in zip(found, values, strict=True):
        of_cell.setdefault(_cell(one), set()).add(value)
    return [
        replace(one, settings={**one.settings, setting: value}) if len(of_cell[_cell(one)]) > 1 else one
        for one, value in zip(found, values, strict=True)
    ]


def _durations_s(found: Sequence[Found]) -> list[float]:
    """Of each run the shortest one of its condition that its own is like: clocks and samples end a little apart."""
    shortest: dict[tuple[Any, ...], list[float]] = {}
    for one in sorted(found, key=lambda one: one.duration_s):
        known = shortest.setdefault(_cell(one), [])
        if not known or one.duration_s > known[-1] * (1 + ALIKE):
            known.append(one.duration_s)
    return [max(known for known in shortest[_cell(one)] if known <= one.duration_s) for one in found]


def _addresses(found: Sequence[Found]) -> list[str | None]:
    """Of each run its own; where its source doesn't tell, the only one that others of its condition have."""
    known: dict[tuple[Any, ...], set[str]] = {}
    for one in found:
        if one.dst_address:
            known.setdefault(_cell(one), set()).add(one.dst_address)
    only = {cell: next(iter(addresses)) for cell, addresses in known.items() if len(addresses) == 1}
    return [one.dst_address or only.get(_cell(one)) for one in found]


def _named(one: Found, told: Told, entry: str) -> Found:
    dst = writable(told.dst or one.dst or UNKNOWN)
    src = writable(told.src or one.src or UNKNOWN)
    streams = str(one.streams or UNKNOWN)
    entry = told.entry or one.entry or entry
    for name, value in (("dst", dst), ("src", src), ("streams", streams)):
        entry = writable(entry.replace(f"{{{name}}}", value))
    settings = {"cca": ",".join(map(str, one.groups)), "streams": streams} | {
        writable(setting): writable(value) for setting, value in one.settings.items()
    }
    if one.udp_bps is not None:
        settings["cca"] = UDP
    if one.pacing_bps is not None and "pacing" not in settings:
        settings["pacing"] = f"{one.pacing_bps / 1e6:g}mbit"
    base_rtt_s = one.base_rtt_s if told.base_rtt_s is None else told.base_rtt_s
    return replace(
        one,
        entry=entry,
        src=src,
        dst=dst,
        dst_address=writable(one.dst_address) if one.dst_address else None,
        settings=settings,
        base_rtt_s=base_rtt_s,
    )


def _check_lengths(one: Found, told: Told) -> None:
    """Raises SourceError where a name of the run is too long for a folder, with what makes it shorter."""
    assert one.entry is not None
    assert one.dst is not None
    for what, name, remedy in (
        ("entry", one.entry, "give another one with --entry"),
        ("destination", one.dst, "give another one with --dst"),
        ("condition", condition_name(dict(one.settings)), _shorter_condition(one, told)),
    ):
        if (beyond := len(file_name(name)) - MOST_NAME_BYTES) > 0:
            raise SourceError(
                f"{one.source}: its {what}, {name[:40]}…, is {beyond} bytes too long for a folder's name: {remedy}"
            )


def _shorter_condition(one: Found, told: Told) -> str:
    """By its longest setting."""
    longest = max(one.settings, key=lambda setting: len(file_name(f"{setting}={one.settings[setting]}")))
    told_by = {"src": True, "cca": told.cca is not None}
    if told_by.get(longest):
        return f"give another one with --{longest}"
    return f"shorten {longest} in the file" + (" or leave out its --setting" if longest in told.settings else "")


def _cell(one: Found) -> tuple[Any, ...]:
    return one.entry, one.dst, *sorted(one.settings.items())


def _run(one: Found, iteration: int) -> Run:
    assert one.entry is not None
    assert one.src is not None
    assert one.dst is not None
    udp = one.udp_bps is not None
    traffic = Traffic(
        groups=() if udp else one.groups,
        streams=0 if udp else one.streams,
        duration_s=one.duration_s,
        omit_s=one.omit_s,
        interval_s=one.interval_s,
        pacing_bps=one.pacing_bps,
        flows=(Flows(UDP, "src", UdpFlows(one.udp_bps or 0.0, one.streams)),) if udp else (),
    )
    return Run(
        entry=one.entry,
        condition=dict(one.settings),
        dst=one.dst,
        iteration=iteration,
        seed=None,
        traffic=traffic,
        path=HostPath(one.src, Destination(one.dst, one.dst_address or one.dst, one.dst), IMPORTED),
    )


def goodput_bps(found: Found) -> float:
    """Of the whole run."""
    if isinstance(found.results, RunTables):
        return float(found.results.flows["goodput_bps"].sum())
    return sum(group.goodput_bps for group in found.results)


def summary(imported: Imported, told: Told) -> dict[str, Any]:
    """run.json's content."""
    run, found = imported.run, imported.found
    facts = {
        "kernel": UNKNOWN,
        "iperf3": "",
        "generator": found.kind,
        "sysctls": {},
        "hosts": {},
        "probes": {},
        "imported": {
            "kind": found.kind,
            "source": found.source,
            "missing": list(found.missing),
            "estimated": list(found.estimated),
            "base_rtt_s": found.base_rtt_s,
            "rate_bps": told.rate_bps,
        },
        **found.facts,
    }
    if isinstance(found.results, RunTables):
        base_rtts_s = list(found.pings_s) or ([found.base_rtt_s] if found.base_rtt_s else [])
        metrics = with_gaps(run_metrics(run, found.results, facts | {"ping_rtt_s": base_rtts_s}), found.results.flows)
    else:
        metrics = summary_metrics(found.results, found.rtt_median_s)
    if told.rate_bps:
        metrics["utilisation"] = metrics["goodput_bps"] / told.rate_bps
    return {
        "run": run.to_json(),
        "where": {"machine": MACHINE, "real_seconds": None, "retries": [], "notices": list(_notices(found))},
        "facts": facts,
        "started_s": found.began_s,
        "began_s": found.began_s,
        "ended_s": found.ended_s,
        "ping_rtt_s": list(found.pings_s),
        "metrics": metrics,
        "validity": validity(run, found),
    }


def _notices(found: Found) -> Iterator[str]:
    yield from found.notices
    if "goodput_bps" in found.estimated:
        yield "goodput is the sender's throughput: what was received is not told"


def validity(run: Run, found: Found) -> Mapping[str, Any]:
    """Limited, where sockets of the source show that the hosts were; else unknown, since no probe of ccmix's looked."""
    limits = []
    if isinstance(found.results, RunTables) and not found.results.sockets.is_empty():
        limits = [
            {"kind": kind, "detail": f"{LIMITS[kind]}: {detail}", "accepted": False}
            for kind, detail in window_limits(run, found.results)
        ]
    detail = f"imported from {found.source}: no probe looked"
    if found.missing:
        detail += f"; {', '.join(found.missing)}"
    unseen = {"kind": IMPORTED, "detail": writable(detail), "accepted": True}
    return {"status": "limited" if limits else UNKNOWN, "findings": [*limits, unseen]}
