"""Writes what a report says before its results: title, paths, machines, and how to repeat it.

For runs of type path, which measure a path, also says what they found.
"""

import getopt
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

from ccmix.analysis.counting import base_rtt_s
from ccmix.analysis.path_text import BASE_RTT, path_settings
from ccmix.analysis.results import Result, Results
from ccmix.archive.campaign import runs_by_version
from ccmix.flattening import flattened
from ccmix.model import Facts, HostPath, Run, Topology
from ccmix.model.results import CampaignOrigin, FinishedRun
from ccmix.text.words import be, listed
from ccmix.twin import estimate as estimates
from ccmix.twin.estimate import (
    BUFFER,
    BURST,
    CROSS,
    LOSS,
    MTU,
    POLICER,
    QUEUE,
    RATE,
    REORDERING,
    WINDOW,
    Estimate,
    Twin,
)
from ccmix.twin.twin import twins_of_runs
from ccmix.units import format_count, format_rate, format_time

OF_MEASURED = (
    "kernel",
    "kernel_version",
    "lab_kernel",
    "guest_root",
    "lab_programs",
    "iperf3",
    "sysctls",
    "generator",
    "hosts",
    "device",
    "offloads",
    "sender_qdiscs",
    "bpf_ccas",
)
OF_IMPORTED = ("kernel", "iperf3", "generator", "sysctls", "hosts")
UNKNOWN = "unknown"

Listing = list[tuple[str, str]]  # names and values


class Listings:
    """Collects lists of (name, value), such as a machine's facts; equal lists share a number.

    Thousands of runs have few different machines, so the page shows each list once.
    """

    def __init__(self) -> None:
        self.all: list[Listing] = []

    def number(self, listing: Listing) -> int:
        """Returns the listing's number, from 1, and adds it if it is new."""
        if listing not in self.all:
            self.all.append(listing)
        return self.all.index(listing) + 1


def listing_of(finished: FinishedRun) -> Listing:
    """Returns the known facts about the machine, or the lab, that a run was measured on."""
    facts = finished.facts
    listed = _listing_of_imported(facts) if facts.imported else _listing_of_measured(facts)
    confined = finished.execution.confinement
    guest = [("guest's confinement", confined)] if confined else []
    return [("machine", finished.execution.machine), *guest, *listed]


def _listing_of_measured(facts: Facts) -> Listing:
    """Returns the facts that ccmix recorded, as (name, value)."""
    known = asdict(facts)
    return flattened({name: known[name] for name in OF_MEASURED if known[name] is not None})


def _listing_of_imported(facts: Facts) -> Listing:
    """Returns the facts of an imported run: few of them are known, some only from its source."""
    known = asdict(facts)
    source = known["imported"]
    details = source.pop("details")
    named = {name: known[name] or UNKNOWN for name in OF_IMPORTED if known[name] is not None}
    return [*flattened(named | {"imported": source}), *details]


# The options of `ccmix run` as getopt writes them. To repeat a single run, only the options for
# where and how it is measured are needed.
SHORT = "o:j:H:i:"
LONG = (
    "outdir=",
    "jobs=",
    "only=",
    "run=",
    "resume",
    "seed=",
    "lab",
    "hosts=",
    "nic=",
    "netem-at=",
)
KEPT = ("--lab", "-H", "--hosts", "-i", "--nic", "--netem-at")


@dataclass(frozen=True)
class Origin:
    """Makes the commands that repeat a campaign, or one of its runs.

    Only campaigns of `ccmix run` and `ccmix demo` have such commands.
    """

    origin: CampaignOrigin

    @property
    def config(self) -> str:
        """Returns the name of the INI file to show in the commands that repeat the campaign.

        For `ccmix demo`, it is the name of the demo's file. Otherwise it is the first word of the
        recorded command line that ends with .ini, or campaign.ini if there is none.
        """
        if self._of_demo:
            return "demo-quick.ini" if "--quick" in self._words else "demo.ini"
        return next(
            (PurePath(word).name for word in self._words if word.endswith(".ini")), "campaign.ini"
        )

    @property
    def campaign(self) -> str | None:
        """Returns the command of the whole campaign as the user gave it, with 'ccmix' as program.

        None if ccmix did not run it.
        """
        return shlex.join(["ccmix", *self.origin.command[1:]]) if self._ran else None

    def run(self, run: Run) -> str | None:
        """Returns the command that repeats only this run, with the same seed.

        It needs the INI file in the working folder. None if ccmix did not run the campaign, or with
        options that this version doesn't have.
        """
        if not self._ran or (options := self._options()) is None:
            return None
        seed = ["--seed", str(self.origin.seed)]
        return shlex.join(
            ["ccmix", "run", self.config, *options, *seed, "--run", run.name, "-o", "again"]
        )

    @property
    def _ran(self) -> bool:
        """Returns whether `ccmix run` or `ccmix demo` made the campaign."""
        return self.origin.seed is not None and self.origin.command[1:2] in (("run",), ("demo",))

    @property
    def _of_demo(self) -> bool:
        return self.origin.command[1:2] == ("demo",)

    @property
    def _words(self) -> Sequence[str]:
        """Returns the recorded command line without its first two words, such as 'ccmix run'."""
        return self.origin.command[2:]

    def _options(self) -> list[str] | None:
        """Returns the options of the recorded command line that say where runs are measured (KEPT).

        The demo always runs in the lab. Returns None if another version of ccmix made the campaign,
        with an option that this version does not have.
        """
        if self._of_demo:
            return ["--lab"]
        try:
            given, _ = getopt.gnu_getopt(self._words, SHORT, LONG)
        except getopt.GetoptError:
            return None
        return [word for name, value in given if name in KEPT for word in (name, value) if word]


MOST_ENTRIES = 3  # that a title names
MOST_PATHS = 10  # that have a line each
MOST_VALUES = 3  # of a setting that are listed; of more, the first and the last
OF_PATH = ("rate", BASE_RTT, "loss", "buffer", "qdisc")
SORTED_BY: dict[str, Callable[[Topology], float]] = {
    "rate": lambda path: path.rate_bps,
    BASE_RTT: lambda path: path.base_rtt_s,
}


def title(results: Results) -> str:
    """Returns the titles of the INI files; without titles, the entries and their swept keys.

    An entry is a section of the INI file that describes an experiment.
    """
    titles = list(dict.fromkeys(campaign.plan.title for campaign in results.campaigns))
    if titles and all(titles):
        return " and ".join(titles)
    entries = list(dict.fromkeys(result.run.entry for result in results.runs))
    names = entries
    if len(entries) > MOST_ENTRIES:
        names = entries[: MOST_ENTRIES - 1]
        names.append(f"{len(entries) - len(names)} more entries")
    swept = _swept_keys(results)
    return f"{listed(names)}{f' by {listed(swept)}' if swept else ''}"


def _swept_keys(results: Results) -> list[str]:
    """Returns the keys that have several values in the runs of an entry."""
    values: dict[tuple[str, str], set[str]] = {}
    for result in results.runs:
        for key, value in result.run.condition.items():
            values.setdefault((key, result.run.entry), set()).add(value)
    return list(dict.fromkeys(key for (key, _), of_entry in values.items() if len(of_entry) > 1))


def folders(results: Results) -> str:
    """Returns the names of the campaigns' folders."""
    return listed([campaign.outdir.resolve().name for campaign in results.campaigns])


def missing(results: Results) -> str:
    """Says how many planned runs are not finished; '' if all are."""
    left = results.planned - len(results.runs)
    return f"{be(left, 'run')} missing: failed, or not run yet." if left else ""


def mixed_versions(results: Results) -> list[str]:
    """Returns a sentence for each campaign whose runs were made by several versions of ccmix."""
    return [
        f"Made by several versions of ccmix, whose numbers may differ: {runs_by_version(versions)}."
        for versions in map(results.versions_of, results.campaigns)
        if len(versions) > 1
    ]


def paths(results: Results) -> list[str]:
    """Returns a line for each path; after MOST_PATHS lines, a line with the number of the others.

    Example: '1.00 Gbit/s, base RTT 10 ms or 88 ms, loss 0%, buffer 1 BDP, qdisc bfifo'.
    """
    emulated: dict[str, list[Topology]] = {}
    real: dict[tuple[str, str], list[Result]] = {}
    for result in results.runs:
        path = result.run.path
        if isinstance(path, HostPath):
            real.setdefault((path.src, path.dst.name), []).append(result)
        else:
            emulated.setdefault(path.name, []).append(path)
    lines = [
        _emulated_line(name if len(emulated) > 1 else "", of_path)
        for name, of_path in emulated.items()
    ]
    lines += [_real_line(src, dst, of_path) for (src, dst), of_path in real.items()]
    more = format_count(len(lines) - MOST_PATHS, "more path")
    return [*lines[:MOST_PATHS], *([f"... and {more}"] if lines[MOST_PATHS:] else [])]


def _emulated_line(name: str, topologies: Iterable[Topology]) -> str:
    """Describes all variants of an emulated path in a line; `name` is '' if it is the only path."""
    paths = list(dict.fromkeys(topologies))
    parts = []
    for key in OF_PATH:
        in_order = sorted(paths, key=SORTED_BY[key]) if key in SORTED_BY else paths
        values = _values_text([path_settings(path)[key] for path in in_order])
        parts.append(values if key == "rate" else f"{key} {values}")
    return f"{name and name + ': '}{', '.join(parts)}"


def _real_line(src: str, dst: str, results: Sequence[Result]) -> str:
    """Describes a real path: its ends, the rates that an import knows, and the base RTT.

    If no run knows the base RTT, it is the smallest median RTT under load.
    """
    rtts_s = sorted(
        rtt_s for result in results if (rtt_s := base_rtt_s(result.finished)) is not None
    )
    rates = {
        source.rate_bps
        for result in results
        if (source := result.finished.facts.imported) and source.rate_bps
    }
    under_load_s = [
        rtt_s for result in results if (rtt_s := result.finished.metrics.rtt_median_s) is not None
    ]
    parts = [f"{src} to {dst}", *map(format_rate, sorted(rates))]
    if rtts_s:
        ends = dict.fromkeys(map(_three_digits, (rtts_s[0], rtts_s[-1])))
        parts.append(f"base RTT {' to '.join(ends)}")
    else:
        parts.append(
            f"RTT {_three_digits(min(under_load_s))} under load"
            if under_load_s
            else "RTT not known"
        )
    return ", ".join(parts)


def _three_digits(rtt_s: float) -> str:
    """Returns an RTT with three significant digits: '88.1 ms'."""
    return format_time(float(f"{rtt_s:.3g}"))


def _values_text(texts: Sequence[str]) -> str:
    """Lists the different values: 'a, b or c'. If there are more than MOST_VALUES, names only the
    first and the last, with the number of values: 'a to f (6 values)'.
    """
    values = list(dict.fromkeys(texts))
    if len(values) > MOST_VALUES:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return listed(values, "or")


UNTOLD = " ?"  # ends what can't be told
OF_BOTTLENECK = (RATE, CROSS, BUFFER, QUEUE, POLICER)
OF_WAY = (BASE_RTT, LOSS, BURST, REORDERING, MTU)
OF_RECEIVER = (WINDOW,)
UNUSUAL = (BURST, POLICER)  # what most paths don't have


@dataclass(frozen=True)
class Station:
    """A place of a path's drawing, such as the bottleneck, with what was measured there.

    Example of `known`: ('rate 926 Mbit/s', 'buffer 48 kB').
    """

    name: str
    known: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredPath:
    """Holds the report's part on a measured path: the drawing, and the table of estimates."""

    title: str
    stations: tuple[Station, ...]
    lines: tuple[tuple[str, ...], ...]  # under HEADINGS


def measured_paths(results: Results) -> list[MeasuredPath]:
    """Returns the paths that valid runs of type path have measured, by destination.

    Raises ArchiveError if a series of a run can't be read.
    """
    runs = [
        (result.finished, result.folder)
        for result in results.runs
        if result.valid and result.run.traffic.steps
    ]
    return [_measured_path(twin) for twin in twins_of_runs(runs)] if runs else []


def _measured_path(twin: Twin) -> MeasuredPath:
    """Describes a measured path: `twin` has the estimates of its rate, buffer, loss and so on."""
    path, count = twin.runs[0].run.path, len(twin.runs)
    name = f"{twin.name}, emulated"
    if isinstance(path, HostPath):
        name = twin.name if f" from {path.src}" in twin.name else f"{path.src} to {twin.name}"
    lines = tuple(map(estimates.line, twin.estimates))
    return MeasuredPath(f"{name} ({format_count(count, 'run')})", _stations(twin), lines)


def _stations(twin: Twin) -> tuple[Station, ...]:
    """Sorts the estimates to the places of the path that they are about, in the packets' order."""
    known = {each.quantity: each for each in twin.estimates}

    def station(name: str, quantities: Sequence[str]) -> Station:
        parts = (_estimate_text(known[quantity]) for quantity in quantities if quantity in known)
        return Station(name, tuple(part for part in parts if part))

    return (
        Station("sender", ()),
        station("bottleneck", OF_BOTTLENECK),
        station("the way", OF_WAY),
        station("receiver", OF_RECEIVER),
    )


def _estimate_text(estimate: Estimate) -> str:
    """Returns 'buffer 48 kB', or 'buffer ?' if the value can't be told.

    For a quantity that most paths lack, such as a policer, it is then ''.
    """
    text = estimates.value(estimate)
    if text == "cannot be told":
        return "" if estimate.quantity in UNUSUAL else f"{estimate.quantity}{UNTOLD}"
    return f"{estimate.quantity} {text}"


def path_drawing(path: MeasuredPath) -> str:
    """Draws a path as a line: 'sender ── [bottleneck: rate 926 Mbit/s] ── receiver'."""
    return " ── ".join(
        f"[{station.name}: {', '.join(station.known)}]" if station.known else station.name
        for station in path.stations
    )


def path_sentence(path: MeasuredPath) -> str:
    """Sums up a measured path in a sentence.

    Example: 'The path a to b: rate 926 Mbit/s, buffer 48 kB, base RTT 20 ms. Cannot be told: cross
    traffic.'
    """
    known = [
        part for station in path.stations for part in station.known if not part.endswith(UNTOLD)
    ]
    not_told = [
        part.removesuffix(UNTOLD)
        for station in path.stations
        for part in station.known
        if part not in known
    ]
    left = f" Cannot be told: {', '.join(not_told)}." if not_told else ""
    return f"The path {path.title}: {', '.join(known) or 'nothing is known'}.{left}"
