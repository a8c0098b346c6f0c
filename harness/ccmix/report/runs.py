"""What the HTML report shows of each run."""

import datetime
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ccmix.analysis.counting import imported
from ccmix.charts.colours import OTHER_COLOURS, all_colours
from ccmix.model import HostPath, Run
from ccmix.report import words
from ccmix.report.facts import Listings, flattened, of_setup
from ccmix.report.numbers import shown
from ccmix.report.repeat import Origin
from ccmix.report.results import Result, Results
from ccmix.report.strip import strip
from ccmix.units import format_rate, format_time

UNKNOWN = "unknown"
OF_GROUPS = (
    ("goodput", "goodput_bps"), ("share", "share"), ("fair share", "fair_share"),
    ("retransmitted", "retransmission_rate"), ("fairness", "fairness"), ("median RTT", "rtt_median_s"),
    ("95% RTT", "rtt_p95_s"), ("start-up", "startup_s"), ("overshoot", "overshoot"),
)  # fmt: skip
OF_FLOWS = (
    ("goodput", "goodput_bps"), ("share", "share"), ("retransmitted", "retransmission_rate"),
    ("median RTT", "rtt_median_s"), ("start-up", "startup_s"), ("convergence", "convergence_s"),
)  # fmt: skip
OF_RUN = (
    ("goodput", "goodput_bps"), ("utilisation", "utilisation"), ("fairness", "fairness"),
    ("convergence", "convergence_s"), ("lost by netem", "netem_loss"), ("buffer in use", "bottleneck.occupancy_mean"),
    ("dropped at the bottleneck", "bottleneck.drop_rate"),
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """Cells of a table as text; `first` of an entry, the colour of its CCA, and the place in the page it leads to."""

    cells: Sequence[str]
    first: bool = False
    colour: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Table:
    """The first columns, `names` of them, are names."""

    headings: Sequence[str]
    lines: Sequence[Line]
    names: int


@dataclass(frozen=True)
class RunView:
    """One run as text; `anchor` is its place in the page."""

    anchor: str
    name: str
    iteration: int
    status: str
    findings: tuple[str, ...]
    headline: str
    strip: str  # SVG
    numbers: tuple[tuple[str, str], ...]
    groups: Table
    flows: Table
    settings: tuple[tuple[str, str], ...]
    repeat: str | None
    commands: tuple[tuple[str, str], ...]
    setup: int
    notices: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Section:
    """The runs of one entry, condition and destination."""

    anchor: str
    title: str
    runs: tuple[Result, ...]
    first: int  # number of its first run in the page


def anchor(number: int) -> str:
    return f"run-{number}"


def sections(results: Results) -> list[Section]:
    """In the order of the plan."""
    cells: dict[tuple[str, str, str], list[Result]] = {}
    for result in results.runs:
        cells.setdefault((result.run.entry, result.run.condition_name, result.run.dst), []).append(result)
    found, first = [], 1
    for number, ((entry, condition, dst), runs) in enumerate(cells.items(), 1):
        to = f" to {dst}" if isinstance(runs[0].run.path, HostPath) else ""
        found.append(Section(f"condition-{number}", f"{entry}{to}, {condition}", tuple(runs), first))
        first += len(runs)
    return found


def views(section: Section, origins: dict[Any, Origin], setups: Listings) -> Iterator[RunView]:
    """One after the other, since thousands together would fill the memory. Raises ArchiveError."""
    for number, result in enumerate(section.runs, section.first):
        yield _view(number, result, origins.get(result.outdir), setups)


def _view(number: int, result: Result, origin: Origin | None, setups: Listings) -> RunView:
    run, summary = result.run, result.summary
    metrics, validity = summary["metrics"], summary["validity"]
    groups, flows = metrics["groups"], metrics.get("flows", [])
    shades = colours(groups)
    return RunView(
        anchor=anchor(number),
        name=run.name,
        iteration=run.iteration,
        status=validity["status"],
        findings=tuple(
            finding["detail"] + (" (accepted)" if finding["accepted"] else "") for finding in validity["findings"]
        ),
        headline=", ".join(f"{group['group']} {format_rate(group['goodput_bps'])}" for group in groups),
        strip=strip(result.folder, shades, run.traffic.omit_s),
        numbers=tuple((name, text) for name, key in OF_RUN if (text := _value(metrics, key)) != "–"),
        groups=_table(("flows", "group"), [(str(group["streams"] or "–"), group["group"]) for group in groups],
                      OF_GROUPS, groups, shades),
        flows=_table(("CCA", "flow"), [(str(flow.get("cca_used") or "–"), _flow_name(flow)) for flow in flows],
                     OF_FLOWS, flows, shades),
        settings=tuple(_settings(run, summary)),
        repeat=origin.run(run) if origin else None,
        commands=tuple(commands(summary["facts"].get("commands"))),
        setup=setups.number(of_setup(summary)),
        notices=(*summary["where"].get("notices", ()), *summary["where"].get("retries", ())),
        folder=str(result.folder.relative_to(result.outdir)),
    )  # fmt: skip


def colours(groups: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Of each group that of its CCA; another one where a group before it has that."""
    known, spare = all_colours(), iter(OTHER_COLOURS)
    chosen: dict[str, str] = {}
    for group in groups:
        own = known.get(group["cca"])
        chosen[group["group"]] = own if own and own not in chosen.values() else next(spare, "#555555")
    return chosen


def _table(
    names: tuple[str, ...], named: Sequence[tuple[str, ...]], columns: Sequence[tuple[str, str]],
    rows: Sequence[dict[str, Any]], shades: dict[str, str],
) -> Table:  # fmt: skip
    """Without columns that are empty in all rows."""
    used = [(heading, key) for heading, key in columns if any(row.get(key) is not None for row in rows)]
    lines = [
        Line([*name, *(_value(row, key) for _, key in used)], colour=shades.get(str(row.get("group")), ""))
        for name, row in zip(named, rows, strict=True)
    ]
    return Table([*names, *(heading for heading, _ in used)], lines, len(names))


def _value(data: dict[str, Any], key: str) -> str:
    found: Any = data
    for part in key.split("."):
        found = (found or {}).get(part)
    return "–" if found is None else shown(key, float(f"{found:.3g}"))


def _flow_name(flow: dict[str, Any]) -> str:
    return f"{flow.get('group', '')} {flow.get('host') or ''}:{flow.get('port')}".strip()


def _settings(run: Run, summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was asked for, and when it was measured."""
    yield "seed", UNKNOWN if run.seed is None else str(run.seed)
    traffic, path = run.traffic, run.path
    yield "traffic", _traffic(run)
    yield "measured time", _measured_time(run)
    if traffic.pacing_bps is not None:
        yield "pacing of each flow", format_rate(traffic.pacing_bps)
    if isinstance(path, HostPath):
        yield from flattened({"path": _told_path(path) if imported(summary) else _given(run.to_json()["path"])})
    else:
        yield "bottleneck", f"{words.rate(path)}, {words.queue(path)}"
        for sender in path.senders:
            yield f"path of {sender.name}", words.own_path(sender)
        yield "MTU", f"{path.mtu_bytes} bytes, offloads {'on' if path.offloads else 'off'}"
        for change in path.changes:
            yield f"at {format_time(change.at_s)}", words.change(change)
    if run.accept_limits:
        yield "accepted limits", ", ".join(run.accept_limits)
    if (measured_s := summary["where"].get("measured_s") or summary.get("ended_s")) is not None:
        moment = datetime.datetime.fromtimestamp(measured_s, datetime.UTC)
        yield "measured", f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _told_path(path: HostPath) -> dict[str, Any]:
    """What an import can know."""
    return {"src": path.src, "dst": {"name": path.dst.name, "address": path.dst.address}}


def _measured_time(run: Run) -> str:
    traffic = run.traffic
    if not traffic.duration_s:
        return UNKNOWN
    return f"{format_time(traffic.duration_s)} after {format_time(traffic.omit_s)} omitted"


def _traffic(run: Run) -> str:
    if run.traffic.flows:
        return "; ".join(words.flows(line, line.host) for line in run.traffic.flows)
    groups = ",".join(map(str, run.traffic.groups))
    count = str(run.traffic.streams or "an unknown number of")
    return f"{count} flows of {groups}" if groups else "what the command makes"


def _given(data: dict[str, Any]) -> dict[str, Any]:
    """Without what is not set."""
    kept = {key: _given(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: value for key, value in kept.items() if value not in (None, {}, [], (), "", False)}


def commands(data: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Each with where it ran: ('h1 client', 'iperf3 --client ...'); the user's own are lines of the shell."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from commands(value, f"{name} {key}".strip())
    elif isinstance(data, list) and data and all(isinstance(one, list) for one in data):
        for one in data:
            yield from commands(one, name)
    elif isinstance(data, list) and name:
        yield name, shlex.join(map(str, data))
    elif isinstance(data, list):
        yield from (("command", str(line)) for line in data if line)
    elif data:
        yield name, str(data)
