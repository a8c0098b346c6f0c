"""Joins the results of one experiment into one run: results from both ends of an iperf3 test, which
share a cookie, and results of tests that ran together between two hosts. Adds to other tests which
tests ran at the same time.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import polars as pl

from ccmix.analysis.series import read_series
from ccmix.analysis.tables import RunTables
from ccmix.importing.iperf3_tests import cookie_of, read_run
from ccmix.importing.sources import ForeignFile
from ccmix.importing.values import ForeignRun, LeftOut
from ccmix.model import Group
from ccmix.model.results import ImportOverrides
from ccmix.terms import BESIDE

# by which tests that were started together may begin apart: many documents have whole seconds
TOGETHER_S = 1.0
DURATION_APART = 0.05
MOST_LETTERS = 60  # for simultaneous tests in a condition's name

SourceRun = tuple[ForeignFile, ForeignRun]


def without_copies(
    runs: Sequence[SourceRun],
) -> tuple[list[SourceRun], list[LeftOut]]:
    """Returns the first run of each document, and the left-out copies: a test is one observation,
    however often it was saved.
    """
    firsts: dict[tuple[str, str] | bytes, list[ForeignRun]] = {}
    kept, copies = [], []
    for source, run in runs:
        # The text of a result of pScheduler has all that a cookie would tell apart: its moment and
        # its counts
        mark = run.raw.get("pscheduler.json") if run.document is None else cookie_of(run.document)
        alike = firsts.setdefault(mark, []) if mark else []
        first = next((other for other in alike if other.document == run.document), None)
        if first is None:
            alike.append(run)
            kept.append((source, run))
        else:
            copies.append(LeftOut(run.source, f"is a copy of {first.source}"))
    return kept, copies


def paired(runs: Sequence[SourceRun], overrides: ImportOverrides) -> list[SourceRun]:
    """Returns the runs. Joins the server's and the client's result of a test, unless one of them
    occurs twice.
    """
    ends: dict[tuple[str, str], list[ForeignRun]] = {}
    for _, run in runs:
        if run.document is not None and (cookie := cookie_of(run.document)):
            ends.setdefault(cookie, []).append(run)
    servers: dict[int, ForeignRun] = {}
    for (cookie_itself, end), clients in ends.items():
        there = ends.get((cookie_itself, "server"), [])
        if end == "client" and len(clients) == len(there) == 1:
            servers[id(clients[0])] = there[0]
    joined = {id(server) for server in servers.values()}
    return [
        (source, _with_server(run, servers[id(run)], overrides) if id(run) in servers else run)
        for source, run in runs
        if id(run) not in joined
    ]


def _with_server(client: ForeignRun, server: ForeignRun, overrides: ImportOverrides) -> ForeignRun:
    assert client.document is not None
    known = replace(overrides, cca=client.of_name.get("cca", overrides.cca))
    whole = read_run(
        client.document, f"{client.source} and {server.source}", known, client.kind, server.document
    )
    assert isinstance(whole, ForeignRun)
    of_server = {
        name.replace("iperf3", "iperf3-server", 1): content for name, content in server.raw.items()
    }
    return replace(
        whole,
        raw={**client.raw, **of_server},
        missing=_each_once((whole.missing, client.missing)),
        entry=client.entry,
        of_name=client.of_name,
    )


@dataclass(frozen=True)
class _Span:
    """Holds a run and the time span of its data, in seconds since 1970."""

    number: int  # in the list of all runs
    run: ForeignRun
    results: RunTables
    begin_s: float
    end_s: float

    @property
    def ports(self) -> frozenset[int]:
        return frozenset(self.results.flows["port"])


def together(runs: Sequence[SourceRun]) -> list[SourceRun]:
    """Joins tests that began together into one run. Gives other runs a setting that names the
    simultaneous tests. Returns all runs.

    Tests from one sender to one receiver are one run if they began together, with different ports
    and the same settings; each CCA of the run is a group. Tests are simultaneous if they share a
    host and some of their time. Two results with the same ports belong to one test, or are copies.
    """
    spans = sorted(
        (span for number, run in enumerate(runs) if (span := _span(number, run[1]))),
        key=attrgetter("begin_s"),
    )
    heads: dict[int, int] = {}  # the first run of those that are one, by the number of each other
    ports = {
        span.number: span.ports for span in spans
    }  # of a first run with all that are one with it
    beside: dict[int, list[tuple[_Span, _Span]]] = {}
    for earlier, later in _overlapping(spans):
        head = heads.get(earlier.number, earlier.number)
        is_free = (
            later.number not in heads and not ports[head] & later.ports
        )  # else a copy of a joined test
        if (
            is_free
            and runs[earlier.number][0].entry == runs[later.number][0].entry
            and _began_together(earlier, later)
        ):
            heads[later.number] = head
            ports[head] |= later.ports
    for pair in _overlapping(spans):
        first, second = (heads.get(span.number, span.number) for span in pair)
        if first != second:
            beside.setdefault(first, []).append(pair)
            beside.setdefault(second, []).append(pair[::-1])
    members: dict[int, list[ForeignRun]] = {}
    for number, head in sorted(heads.items()):
        members.setdefault(head, []).append(runs[number][1])
    made = []
    for number, (source, run) in enumerate(runs):
        if number not in heads:
            one = _joined([run, *members[number]]) if number in members else run
            made.append((source, _with_others(one, beside[number]) if number in beside else one))
    return made


def _span(number: int, run: ForeignRun) -> _Span | None:
    """Returns the time span of a run's data; None if its source does not report the time or the
    hosts.
    """
    if not isinstance(run.results, RunTables) or run.began_s is None or not run.src or not run.dst:
        return None
    end_s = (
        run.ended_s
        if run.ended_early and run.ended_s
        else run.began_s + run.omit_s + run.duration_s
    )
    return _Span(number, run, run.results, run.began_s, end_s)


def _overlapping(spans: Sequence[_Span]) -> Iterator[tuple[_Span, _Span]]:
    """Yields pairs of runs that overlap in time and share a host, the earlier run first. `spans`
    are sorted by their begin.
    """
    running: list[_Span] = []
    for span in spans:
        running = [before for before in running if before.end_s > span.begin_s]
        yield from ((before, span) for before in running if _shares_path(before, span))
        running.append(span)


def _shares_path(earlier: _Span, later: _Span) -> bool:
    ends, others = ({span.run.src, span.run.dst} for span in (earlier, later))
    shorter_s = min(span.end_s - span.begin_s for span in (earlier, later))
    both_s = min(earlier.end_s, later.end_s) - later.begin_s
    if not ends & others or both_s <= min(TOGETHER_S, shorter_s / 2):
        return False
    return ends != others or not earlier.ports & later.ports


def _began_together(earlier: _Span, later: _Span) -> bool:
    """Returns whether two tests that overlap are one experiment: see together()."""
    a, b = earlier.run, later.run
    longer_s, shorter_s = max(a.duration_s, b.duration_s), min(a.duration_s, b.duration_s)
    alike = all(
        getattr(a, name) == getattr(b, name)
        for name in (
            "src",
            "dst",
            "kind",
            "settings",
            "omit_s",
            "pacing_bps",
            "bitrate_bps",
            "options",
        )
    )
    sampled = not (
        earlier.results.series.sockets.is_empty() and later.results.series.sockets.is_empty()
    )
    return (
        alike
        and _without_cca(a) == _without_cca(b)
        and not sampled
        and a.udp_bps is b.udp_bps is None
        and "direction" not in a.settings
        and later.begin_s - earlier.begin_s <= TOGETHER_S
        and longer_s <= shorter_s * (1 + DURATION_APART)
    )


def _without_cca(run: ForeignRun) -> dict[str, str]:
    """Returns the fields from the name of the run's file that describe the whole test."""
    return {field: text for field, text in run.of_name.items() if field != "cca"}


def _joined(runs: Sequence[ForeignRun]) -> ForeignRun:
    """Joins runs that began together into one run, with a group for each CCA."""
    tables = [run.results for run in runs if isinstance(run.results, RunTables)]
    of_group = {
        name: name.partition(":")[0] for table in tables for name in table.flows["group"].unique()
    }
    flows = pl.concat(table.flows for table in tables).with_columns(
        stream=pl.int_range(pl.len(), dtype=pl.Int64), group=pl.col("group").replace(of_group)
    )
    intervals = pl.concat(table.intervals for table in tables).with_columns(
        pl.col("group").replace(of_group)
    )
    reported = [table.reported for table in tables if table.reported is not None]
    streams = Counter(flows["group"])
    least = math.gcd(*streams.values())
    return replace(
        runs[0],
        source=" and ".join(run.source for run in runs),
        results=RunTables(
            flows=flows,
            intervals=intervals.sort("time_s", maintain_order=True),
            series=read_series(()),
            began_s=0.0,
            reported=pl.concat(reported) if len(reported) == len(tables) else None,
        ),
        groups=tuple(Group(cca, count // least) for cca, count in streams.items()),
        streams=flows.height,
        began_s=min(run.began_s for run in runs if run.began_s is not None),
        ended_s=max((run.ended_s for run in runs if run.ended_s is not None), default=None),
        ended_early=next((run.ended_early for run in runs if run.ended_early), ""),
        missing=_each_once(run.missing for run in runs),
        estimated=_each_once(run.estimated for run in runs),
        diagnostics=_each_once(run.diagnostics for run in runs),
        raw={
            f"{number}-{name}": text
            for number, run in enumerate(runs, 1)
            for name, text in run.raw.items()
        },
        of_name=_without_cca(runs[0]),
        document=None,
    )


def _each_once(texts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(texts)))


def _with_others(run: ForeignRun, pairs: Sequence[tuple[_Span, _Span]]) -> ForeignRun:
    """Returns the run with a setting that names the simultaneous tests."""
    others = Counter({other.number: _other(own, other) for own, other in pairs}.values())
    text = " and ".join(
        sorted(f"{count}x {name}" if count > 1 else name for name, count in others.items())
    )
    if len(text) > MOST_LETTERS:
        text = f"{others.total()} tests"
    return replace(run, settings={**run.settings, BESIDE: text})


def _other(own: _Span, other: _Span) -> str:
    """Returns CCAs and streams of a simultaneous test, its destination if it differs, and how much
    later it began.
    """
    ccas = ",".join(
        dict.fromkeys(
            "udp" if other.run.udp_bps is not None else group.cca for group in other.run.groups
        )
    )
    to = f" to {other.run.dst}" if other.run.dst != own.run.dst else ""
    later_s = other.begin_s - own.begin_s
    began = f" {later_s:+.0f}s" if abs(later_s) > TOGETHER_S else ""
    return f"{ccas}:{other.run.streams}{to}{began}"
