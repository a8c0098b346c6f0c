"""Joins imported results of one experiment: both ends of a test, and simultaneous tests.

The client's and the server's result of one iperf3 test share a cookie. Tests that began together
between two hosts become one run; other tests get a setting that names the simultaneous ones.
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
from ccmix.importing.iperf3_tests import read_cookie, read_run
from ccmix.importing.sources import ForeignFile
from ccmix.importing.values import ForeignRun, LeftOut
from ccmix.model import Group
from ccmix.model.results import ImportOverrides
from ccmix.terms import BESIDE

# between the begins of tests that were started together: many documents have whole seconds
TOGETHER_S = 1.0
DURATION_TOLERANCE = 0.05
MOST_LETTERS = 60  # for simultaneous tests in a condition's name

SourceRun = tuple[ForeignFile, ForeignRun]  # a file, and a run that was read from it


def without_copies(
    runs: Sequence[SourceRun],
) -> tuple[list[SourceRun], list[LeftOut]]:
    """Returns the runs without repeated results, and the copies that are left out, because a test
    that was saved twice is still only one observation.

    A copy has the same JSON document from iperf3 as an earlier run, or the same text from
    pScheduler. Documents are only compared if they have the same cookie, by which iperf3 names a
    test.
    """
    firsts: dict[tuple[str, str] | bytes, list[ForeignRun]] = {}
    kept, copies = [], []
    for source, run in runs:
        # pScheduler's results have no cookie, but their text differs between tests, because it has
        # times and counts
        key = run.raw.get("pscheduler.json") if run.document is None else read_cookie(run.document)
        runs_with_key = firsts.setdefault(key, []) if key else []
        first = next((known for known in runs_with_key if known.document == run.document), None)
        if first is None:
            runs_with_key.append(run)
            kept.append((source, run))
        else:
            copies.append(LeftOut(run.source, f"is a copy of {first.source}"))
    return kept, copies


def join_ends(runs: Sequence[SourceRun], overrides: ImportOverrides) -> list[SourceRun]:
    """Joins the client's and the server's result of each iperf3 test into one run. Returns all
    runs, joined or not.

    Both results have the same cookie. If the client or the server has several results with this
    cookie, none is joined, because it is not known which of them belong together.
    """
    ends: dict[tuple[str, str], list[ForeignRun]] = {}
    for _, run in runs:
        if run.document is not None and (cookie := read_cookie(run.document)):
            ends.setdefault(cookie, []).append(run)
    servers: dict[int, ForeignRun] = {}
    for (cookie_text, end), clients in ends.items():
        matching_servers = ends.get((cookie_text, "server"), [])
        if end == "client" and len(clients) == len(matching_servers) == 1:
            servers[id(clients[0])] = matching_servers[0]
    joined_servers = {id(server) for server in servers.values()}
    return [
        (source, _join_server(run, servers[id(run)], overrides) if id(run) in servers else run)
        for source, run in runs
        if id(run) not in joined_servers
    ]


def _join_server(client: ForeignRun, server: ForeignRun, overrides: ImportOverrides) -> ForeignRun:
    """Returns a run that is read again from the documents of both ends of a test, because only the
    receiver knows the goodput, and only the sender its retransmissions.
    """
    assert client.document is not None
    known_facts = replace(overrides, cca=client.name_fields.get("cca", overrides.cca))
    joined = read_run(
        client.document,
        f"{client.source} and {server.source}",
        known_facts,
        client.kind,
        server.document,
    )
    assert isinstance(joined, ForeignRun)
    server_files = {
        name.replace("iperf3", "iperf3-server", 1): content for name, content in server.raw.items()
    }
    return replace(
        joined,
        raw={**client.raw, **server_files},
        missing=_merged_texts((joined.missing, client.missing)),
        entry=client.entry,
        name_fields=client.name_fields,
    )


@dataclass(frozen=True)
class _TimedRun:
    """Holds a run and the time span in which it sent data, in seconds since 1970."""

    number: int  # in the list of all runs
    run: ForeignRun
    results: RunTables
    begin_s: float
    end_s: float

    @property
    def ports(self) -> frozenset[int]:
        """The client's ports of all streams, by which tests between the same hosts differ."""
        return frozenset(self.results.flows["port"])


def join_simultaneous_tests(runs: Sequence[SourceRun]) -> list[SourceRun]:
    """Joins tests that began together into one run, because their CCAs competed with each other.
    Other runs that overlap get a setting that names the simultaneous tests. Returns all runs.

    Tests between the same two hosts become one run if they began together, with different ports and
    the same settings; each CCA of the run is then a group. Tests are simultaneous if they share a
    host and some of their time. Two results with a common port are the two ends of one test, or
    copies of it, so they are not joined.
    """
    spans = sorted(
        (span for number, run in enumerate(runs) if (span := _time_span(number, run[1]))),
        key=attrgetter("begin_s"),
    )
    # The numbers in these tables are indexes of `runs`.
    # By the number of a joined run: the number of the run to which it is joined
    joined_to: dict[int, int] = {}
    # By number: the ports of a run, and of the runs that are joined to it
    ports_by_run = {span.number: span.ports for span in spans}
    # By number: pairs of a test that is part of this run, and a test of another run at that time
    simultaneous: dict[int, list[tuple[_TimedRun, _TimedRun]]] = {}
    for earlier, later in _overlapping(spans):
        first_run = joined_to.get(earlier.number, earlier.number)
        # A test with a port that the joined run already has is a copy
        may_join = later.number not in joined_to and not ports_by_run[first_run] & later.ports
        if (
            may_join
            and runs[earlier.number][0].entry == runs[later.number][0].entry
            and _began_together(earlier, later)
        ):
            joined_to[later.number] = first_run
            ports_by_run[first_run] |= later.ports
    for pair in _overlapping(spans):
        run_a, run_b = (joined_to.get(span.number, span.number) for span in pair)
        if run_a != run_b:
            simultaneous.setdefault(run_a, []).append(pair)
            simultaneous.setdefault(run_b, []).append(pair[::-1])
    joined_runs: dict[int, list[ForeignRun]] = {}
    for number, first_run in sorted(joined_to.items()):
        joined_runs.setdefault(first_run, []).append(runs[number][1])
    result = []
    for number, (source, run) in enumerate(runs):
        if number not in joined_to:
            joined = _join_runs([run, *joined_runs[number]]) if number in joined_runs else run
            if number in simultaneous:
                joined = _with_simultaneous_tests(joined, simultaneous[number])
            result.append((source, joined))
    return result


def _time_span(number: int, run: ForeignRun) -> _TimedRun | None:
    """Returns a run with the time span of its data; None if its source does not report the time or
    the hosts. `number` is the run's index in the list of all runs.
    """
    if not isinstance(run.results, RunTables) or run.began_s is None or not run.src or not run.dst:
        return None
    end_s = (
        run.ended_s
        if run.ended_early and run.ended_s
        else run.began_s + run.omit_s + run.duration_s
    )
    return _TimedRun(number, run, run.results, run.began_s, end_s)


def _overlapping(spans: Sequence[_TimedRun]) -> Iterator[tuple[_TimedRun, _TimedRun]]:
    """Yields pairs of runs that overlap in time and share a host, the earlier run first. `spans`
    must be sorted by their begin.
    """
    running: list[_TimedRun] = []
    for later in spans:
        running = [earlier for earlier in running if earlier.end_s > later.begin_s]
        yield from ((earlier, later) for earlier in running if _shares_path(earlier, later))
        running.append(later)


def _shares_path(earlier: _TimedRun, later: _TimedRun) -> bool:
    """Returns whether two tests may influence each other: they share a host, and overlap by more
    than TOGETHER_S or half of the shorter test. A shorter overlap may be an error of the clocks.

    Two results with a common port, between the same two hosts, belong to the same test, so the
    answer is False.
    """
    earlier_hosts, later_hosts = ({span.run.src, span.run.dst} for span in (earlier, later))
    shorter_s = min(span.end_s - span.begin_s for span in (earlier, later))
    common_s = min(earlier.end_s, later.end_s) - later.begin_s
    if not earlier_hosts & later_hosts or common_s <= min(TOGETHER_S, shorter_s / 2):
        return False
    return earlier_hosts != later_hosts or not earlier.ports & later.ports


def _began_together(earlier: _TimedRun, later: _TimedRun) -> bool:
    """Returns whether two overlapping tests are one experiment that was started as several iperf3
    clients: they have the same settings, and almost the same begin and duration.

    False for UDP, for tests in both directions, and if ss sampled the sockets of one of the tests.
    """
    first, second = earlier.run, later.run
    longer_s, shorter_s = (
        max(first.duration_s, second.duration_s),
        min(first.duration_s, second.duration_s),
    )
    same_settings = all(
        getattr(first, name) == getattr(second, name)
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
    has_socket_samples = not (
        earlier.results.series.sockets.is_empty() and later.results.series.sockets.is_empty()
    )
    return (
        same_settings
        and _test_fields(first) == _test_fields(second)
        and not has_socket_samples
        and first.udp_bps is second.udp_bps is None
        and "direction" not in first.settings
        and later.begin_s - earlier.begin_s <= TOGETHER_S
        and longer_s <= shorter_s * (1 + DURATION_TOLERANCE)
    )


def _test_fields(run: ForeignRun) -> dict[str, str]:
    """Returns the fields of the run's file name (by --name-pattern) except the CCA: they are the
    same for all CCAs that competed in an experiment.
    """
    return {field: text for field, text in run.name_fields.items() if field != "cca"}


def _join_runs(runs: Sequence[ForeignRun]) -> ForeignRun:
    """Makes one run of runs that began together, with a group of streams for each CCA.

    All streams are numbered again. The weights of the groups are the numbers of their streams,
    divided by the greatest common divisor: 4 and 8 streams give the weights 1 and 2.
    """
    tables = [run.results for run in runs if isinstance(run.results, RunTables)]
    cca_by_group = {
        name: name.partition(":")[0] for table in tables for name in table.flows["group"].unique()
    }
    flows = pl.concat(table.flows for table in tables).with_columns(
        stream=pl.int_range(pl.len(), dtype=pl.Int64), group=pl.col("group").replace(cca_by_group)
    )
    intervals = pl.concat(table.intervals for table in tables).with_columns(
        pl.col("group").replace(cca_by_group)
    )
    reported = [table.reported for table in tables if table.reported is not None]
    streams = Counter(flows["group"])
    divisor = math.gcd(*streams.values())
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
        groups=tuple(Group(cca, count // divisor) for cca, count in streams.items()),
        streams=flows.height,
        began_s=min(run.began_s for run in runs if run.began_s is not None),
        ended_s=max((run.ended_s for run in runs if run.ended_s is not None), default=None),
        ended_early=next((run.ended_early for run in runs if run.ended_early), ""),
        missing=_merged_texts(run.missing for run in runs),
        estimated=_merged_texts(run.estimated for run in runs),
        diagnostics=_merged_texts(run.diagnostics for run in runs),
        raw={
            f"{number}-{name}": text
            for number, run in enumerate(runs, 1)
            for name, text in run.raw.items()
        },
        name_fields=_test_fields(runs[0]),
        document=None,
    )


def _merged_texts(texts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Returns all texts in their order, without repetitions."""
    return tuple(dict.fromkeys(itertools.chain.from_iterable(texts)))


def _with_simultaneous_tests(
    run: ForeignRun, pairs: Sequence[tuple[_TimedRun, _TimedRun]]
) -> ForeignRun:
    """Returns the run with a setting that names the tests that ran at the same time, so that the
    run is not compared with runs that had the path for themselves. For example, '2x cubic:4' means
    two tests, each with 4 streams of CUBIC.

    Each pair in `pairs` has a test that is part of this run, and a test of another run that ran at
    the same time.
    """
    name_by_test = {other.number: _test_name(own_test, other) for own_test, other in pairs}
    counts = Counter(name_by_test.values())
    text = " and ".join(
        sorted(f"{count}x {name}" if count > 1 else name for name, count in counts.items())
    )
    if len(text) > MOST_LETTERS:
        text = f"{counts.total()} tests"
    return replace(run, settings={**run.settings, BESIDE: text})


def _test_name(reference: _TimedRun, test: _TimedRun) -> str:
    """Names a test that ran at the same time as the test `reference`: 'cubic,bbr:8 to dtn2 +5s'.

    The name has the CCAs ('udp' for a UDP test) and the number of streams. If the two tests have
    different destinations, the name also has the destination of `test`. If they began more than
    TOGETHER_S apart, the name says how many seconds `test` began after `reference` (+5s) or before
    `reference` (-5s).
    """
    ccas = ",".join(
        dict.fromkeys(
            "udp" if test.run.udp_bps is not None else group.cca for group in test.run.groups
        )
    )
    destination = f" to {test.run.dst}" if test.run.dst != reference.run.dst else ""
    later_s = test.begin_s - reference.begin_s
    began = f" {later_s:+.0f}s" if abs(later_s) > TOGETHER_S else ""
    return f"{ccas}:{test.run.streams}{destination}{began}"
