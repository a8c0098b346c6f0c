"""Prepares the part of the HTML report that shows each run: numbers, chart and settings."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ccmix.analysis import path_text
from ccmix.analysis.counting import imported, settling_sentence
from ccmix.analysis.raw_files import as_archived
from ccmix.analysis.results import Result
from ccmix.analysis.statistics import shown, value_of
from ccmix.archive import ArchiveError
from ccmix.charts.encodings import OTHER_COLOURS, all_colours
from ccmix.flattening import flattened
from ccmix.model import HostPath, Run
from ccmix.model.results import FinishedRun, FlowMetrics, GroupMetrics, Metrics
from ccmix.report.heading import Listings, Origin, listing_of
from ccmix.report.strip import strip
from ccmix.units import format_rate, format_time

UNKNOWN = "unknown"
OF_GROUPS = (
    ("goodput", "goodput_bps"),
    ("share", "share"),
    ("fair share", "fair_share"),
    ("retransmitted", "retransmission_rate"),
    ("fairness", "fairness"),
    ("median RTT", "rtt_median_s"),
    ("95% RTT", "rtt_p95_s"),
    ("start-up", "startup_s"),
    ("overshoot", "overshoot"),
)
OF_FLOWS = (
    ("goodput", "goodput_bps"),
    ("share", "share"),
    ("retransmitted", "retransmission_rate"),
    ("median RTT", "rtt_median_s"),
    ("start-up", "startup_s"),
    ("convergence", "convergence_s"),
)
OF_RUN = (
    ("goodput", "goodput_bps"),
    ("utilisation", "utilisation"),
    ("fairness", "fairness"),
    ("convergence", "convergence_s"),
    ("warm-up", "settling.warm_up_s"),
    ("lost by netem", "netem_loss"),
    ("buffer in use", "bottleneck.occupancy_mean"),
    ("dropped at the bottleneck", "bottleneck.drop_rate"),
    ("dropped by the policer", "policer.drop_rate"),
    ("limited by the receiver's window", "receiver_window_limited"),
)


@dataclass(frozen=True)
class TableLine:
    """A row of a table: its cells as text, and how the page shows it.

    `first` begins a new entry, `colour` is that of the CCA, `anchor` is the part of the page that
    the row links to; '' without.
    """

    cells: Sequence[str]
    first: bool = False
    colour: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class RunTable:
    """A table of a run's groups or flows; its first `names` columns hold names, the others
    numbers.
    """

    headings: Sequence[str]
    lines: Sequence[TableLine]
    names: int


@dataclass(frozen=True)
class RunView:
    """Holds what the page shows of a run: the whole run, and texts and tables that are made of it.

    `anchor` is its place in the page.
    """

    anchor: str
    finished: FinishedRun
    not_settled: str  # why, or nothing
    headline: str
    strip: str  # SVG
    not_drawn: str  # why there is none, if the run has series
    numbers: tuple[tuple[str, str], ...]
    groups: RunTable
    flows: RunTable
    settings: tuple[tuple[str, str], ...]
    repeat: str | None
    setup: int
    notices: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class RunSection:
    """Holds the runs of one entry, condition (swept values) and destination."""

    anchor: str
    title: str
    runs: tuple[Result, ...]
    first: int  # number of its first run in the page


def anchor(number: int) -> str:
    return f"run-{number}"


def sections(shown_runs: Iterable[Result]) -> list[RunSection]:
    """Groups the shown runs by entry, condition and destination, in the order of the plan."""
    by_condition: dict[tuple[str, str, str], list[Result]] = {}
    for result in shown_runs:
        by_condition.setdefault(result.run.repeated_key, []).append(result)
    run_sections, first = [], 1
    for number, ((entry, condition, dst), runs) in enumerate(by_condition.items(), 1):
        destination = f" to {dst}" if isinstance(runs[0].run.path, HostPath) else ""
        run_sections.append(
            RunSection(
                f"condition-{number}", f"{entry}{destination}, {condition}", tuple(runs), first
            )
        )
        first += len(runs)
    return run_sections


def views(section: RunSection, origins: dict[Path, Origin], setups: Listings) -> Iterator[RunView]:
    """Yields the runs of a section one by one, because thousands together would fill the memory.

    `origins` has the campaign's commands by its folder; `setups` collects the machines.
    """
    for number, result in enumerate(section.runs, section.first):
        yield _view(number, result, origins.get(result.outdir), setups)


def _view(number: int, result: Result, origin: Origin | None, setups: Listings) -> RunView:
    """Makes the view of one run; `number` counts the runs of the page."""
    finished, unread = _read_whole(result)
    metrics = finished.metrics
    groups, flows = metrics.groups, metrics.flows
    shades = colours((group.group, group.cca) for group in groups)
    drawn, not_drawn = _strip_or_reason(result, shades)
    return RunView(
        anchor=anchor(number),
        finished=finished,
        not_settled=settling_sentence(metrics.settling) if metrics.settling else "",
        headline=", ".join(f"{group.group} {format_rate(group.goodput_bps)}" for group in groups),
        strip=drawn,
        not_drawn=not_drawn,
        numbers=tuple(
            (name, text) for name, key in OF_RUN if (text := _value_text(metrics, key)) != "–"
        ),
        groups=_table(
            ("flows", "group"),
            [(str(group.streams or "–"), group.group) for group in groups],
            OF_GROUPS,
            groups,
            shades,
        ),
        flows=_table(
            ("CCA", "flow"),
            [(flow.cca_used or "–", f"{flow.group} {flow.host}:{flow.port}") for flow in flows],
            OF_FLOWS,
            flows,
            shades,
        ),
        settings=tuple(_settings(finished)),
        repeat=origin.run(result.run) if origin else None,
        setup=setups.number(listing_of(finished)),
        notices=(*unread, *finished.execution.diagnostics, *finished.execution.retries),
        folder=str(result.folder.relative_to(result.outdir)),
    )


def _read_whole(result: Result) -> tuple[FinishedRun, tuple[str, ...]]:
    """Reads the whole run.json of a run.

    If it can't be read any more, returns the numbers that are in memory, and a sentence on that.
    """
    try:
        return result.whole(), ()
    except ArchiveError as error:
        return result.finished, (f"Only its numbers are shown: {error}",)


def _strip_or_reason(result: Result, shades: dict[str, str]) -> tuple[str, str]:
    """Returns (SVG of the goodput over time, ''), or ('', reason) if it can't be drawn."""
    try:
        return strip(
            result.folder, shades, as_archived(result.finished, result.folder).traffic.omit_s
        ), ""
    except ArchiveError as error:
        return "", f"Goodput over time is not drawn: {error}"


def colours(ccas: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns a colour for each group: that of its CCA, or a spare one if that is already used.

    `ccas` has pairs (group, CCA).
    """
    known, spare = all_colours(), iter(OTHER_COLOURS)
    chosen: dict[str, str] = {}
    for group, cca in ccas:
        cca_colour = known.get(cca)
        chosen[group] = (
            cca_colour
            if cca_colour and cca_colour not in chosen.values()
            else next(spare, "#555555")
        )
    return chosen


def _table(
    names: tuple[str, ...],
    name_cells: Sequence[tuple[str, ...]],
    columns: Sequence[tuple[str, str]],
    rows: Sequence[GroupMetrics | FlowMetrics],
    shades: dict[str, str],
) -> RunTable:
    """Returns a table of groups or flows, without the columns that are empty in all rows.

    `names` are the headings of the name columns, and `name_cells` their cells in each row;
    `columns` has (heading, metric) of the others. `shades` has each group's colour.
    """
    used = [
        (heading, key)
        for heading, key in columns
        if any(value_of(row, key) is not None for row in rows)
    ]
    lines = [
        TableLine(
            [*name, *(_value_text(row, key) for _, key in used)], colour=shades.get(row.group, "")
        )
        for name, row in zip(name_cells, rows, strict=True)
    ]
    return RunTable([*names, *(heading for heading, _ in used)], lines, len(names))


def _value_text(metrics: Metrics | GroupMetrics | FlowMetrics, name: str) -> str:
    """Returns a metric with three digits and its unit; '–' if it is missing."""
    value = value_of(metrics, name)
    return "–" if value is None else shown(name, float(f"{value:.3g}"))


def _settings(finished: FinishedRun) -> Iterator[tuple[str, str]]:
    """Yields (name, value) of a run's settings, and the time when it was measured."""
    run = finished.run
    yield "seed", UNKNOWN if run.seed is None else str(run.seed)
    traffic, path = run.traffic, run.path
    yield "traffic", _traffic_text(run)
    yield "measured time", _measured_time(finished)
    if traffic.pacing_bps is not None:
        yield "pacing of each flow", format_rate(traffic.pacing_bps)
    if isinstance(path, HostPath):
        dst = path.dst
        yield from flattened(
            {
                "path": {"src": path.src, "dst": {"name": dst.name, "address": dst.address}}
                if imported(finished)  # which knows few settings of its path
                else _set_values(_host_path_settings(run, path))
            }
        )
    else:
        yield "bottleneck", f"{path_text.rate(path)}, {path_text.queue(path)}"
        if path.policer:
            yield "before the bottleneck", path_text.policer(path.policer)
        if path.ack_bottleneck:
            yield "bottleneck of ACKs", path_text.ack_bottleneck(path)
        for sender in path.senders:
            yield f"queue of {sender.name}", path_text.sender_queue(sender)
            yield f"path of {sender.name}", path_text.netem_of_data(sender)
            if sender.receiver_window_bytes is not None:
                yield f"window of the receiver of {sender.name}", path_text.receiver_window(sender)
            if sender.ack_delay_s is not None:
                yield f"path of ACKs to {sender.name}", path_text.netem_of_acks(sender)
        yield "MTU", f"{path.mtu_bytes} bytes, offloads {'on' if path.offloads else 'off'}"
        for change in path.changes:
            yield f"at {format_time(change.at_s)}", path_text.change(change)
    if run.accept_limits:
        yield "accepted limits", ", ".join(run.accept_limits)
    if (measured_s := finished.execution.measured_s or finished.ended_s) is not None:
        moment = datetime.datetime.fromtimestamp(measured_s, datetime.UTC)
        yield "measured", f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _host_path_settings(run: Run, path: HostPath) -> dict[str, object]:
    """Returns the settings of a real path, nested as in the model.

    The commands that make the traffic, and the pScheduler task, are part of them.
    """
    settings = {key: value for key, value in asdict(path).items() if key != "kind"}
    commands, src = settings["commands"], run.traffic.command
    of_destination = {key: commands.pop(key) for key in ("dst", "dst_once")}
    settings["commands"] = {
        **commands,
        "src": src.line if src else None,
        "dst": of_destination["dst"],
        "src_once": src.kept if src else False,
        "dst_once": of_destination["dst_once"],
    }
    return settings | {"task": asdict(run.traffic.task) if run.traffic.task else None}


def _measured_time(finished: FinishedRun) -> str:
    """Returns the length of the measurement, such as '10 s after 2 s omitted'.

    A run may end when its goodput has settled; then its limit is given, too.
    """
    traffic = finished.run.traffic
    if traffic.duration_s is None:
        return UNKNOWN
    after = f"after {format_time(traffic.omit_s)} omitted"
    if traffic.at_most_s is None:
        return f"{format_time(traffic.duration_s)} {after}"
    limit = format_time(traffic.at_most_s)
    if finished.settled_after_s is None:
        return f"{limit}, the limit, {after}"
    return (
        f"{format_time(finished.settled_after_s)} {after}: the run had settled (its limit: {limit})"
    )


def _traffic_text(run: Run) -> str:
    """Describes the iperf3 test and the other sources of traffic of a run.

    A run without any of them has a command of the user (src-cmd), which makes its traffic.
    """
    test = [path_text.test(run.traffic.test)] if run.traffic.test else []
    named = [path_text.traffic_source(source, source.host) for source in run.traffic.named_sources]
    return "; ".join([*test, *named]) or "what the command makes"


def _set_values(data: dict[str, object]) -> dict[str, object]:
    """Returns nested settings without those that are not set, such as None, '' or {}."""
    kept = {
        key: _set_values(value) if isinstance(value, dict) else value for key, value in data.items()
    }
    return {key: value for key, value in kept.items() if value not in (None, {}, [], (), "", False)}
