"""Reads the tables of a run on an emulated path from its raw files.

Each sampled connection is assigned to the one traffic source that made it: an iperf3 test, short
flows (http or a workload), a user's command, or a step that measures the path. The tables have only
these connections; all others are hidden flows (RunTables.strangers).
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis import connections
from ccmix.analysis.iperf3_tables import (
    FLOW,
    FLOW_COLUMNS,
    INTERVAL_COLUMNS,
    START_COLUMNS,
    join_tables,
    read_flows,
    read_intervals,
    read_starts,
    with_udp_goodput,
)
from ccmix.analysis.iperf3_tables import start_s as iperf3_start_s
from ccmix.analysis.measured import JITTER_S
from ccmix.analysis.reports import (
    Iperf3TestReport,
    iperf3_report,
    read_completions,
    service_report,
)
from ccmix.analysis.series import earlier, read_series, recorded
from ccmix.analysis.step_tables import (
    connections_of_steps,
    flows_and_intervals,
    read_steps,
    step_rows,
)
from ccmix.analysis.tables import (
    LEAST_SHARE_OF_A_FLOW,
    NO_DATA_BYTES,
    RunTables,
    make_tables,
    with_counters,
)
from ccmix.generators import iperf3
from ccmix.generators.results import load_json
from ccmix.model import (
    CommandSource,
    HttpSource,
    Iperf3Source,
    Measurement,
    Run,
    TrafficSource,
    UdpSource,
    WorkloadSource,
    run_files,
)


@dataclass(frozen=True)
class _TestTables:
    """The tables of one iperf3 test. `streams` and `control` are its TCP connections.

    Times of flows are those planned for the run. Times of intervals count from the start of the
    test, which was at `start_s` by the wall clock. If iperf3 doesn't report that (None), the test
    is assumed to have started as planned.
    """

    source: Iperf3Source | UdpSource
    flows: pl.DataFrame
    intervals: pl.DataFrame
    starts: pl.DataFrame
    report: Iperf3TestReport | None
    streams: pl.DataFrame
    control: pl.DataFrame
    start_s: float | None

    @property
    def connections(self) -> pl.DataFrame:
        """Returns the connections of the streams and of iperf3's control channel."""
        return pl.concat([self.streams, self.control])

    def since(self, began_s: float) -> "_TestTables":
        """Returns the tables with times of intervals that count from the start of the whole traffic
        instead of the test's. The traffic started at `began_s` by the wall clock.
        """
        offset_s = self.source.start_s if self.start_s is None else self.start_s - began_s
        return replace(self, intervals=self.intervals.with_columns(pl.col("time_s") + offset_s))


@dataclass(frozen=True)
class _SourceFlows:
    """The flows of a traffic source without iperf3 (FLOW_COLUMNS), and the TCP connections that
    carried them (FLOW_CONNECTION_COLUMNS).
    """

    flows: pl.DataFrame
    connections: pl.DataFrame


def read_emulated(run: Run, folder: Path, measurement: Measurement) -> RunTables:
    """Reads the tables of a run on an emulated path. `folder` is the run's folder. Raises the
    errors of raw_files.read_tables().
    """
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    parts = functools.partial(recorded, logs, measurement, ("localhost",), None)
    series = read_series(parts())
    tests, start_s = _read_iperf3_tests(run, generators, measurement)
    steps = read_steps(generators) if run.traffic.steps else []
    step_host = run.traffic.steps.host if run.traffic.steps else ""
    step_flows, step_intervals = flows_and_intervals(steps, run.traffic, step_host, start_s)
    other_sources = list(_sources_with_sockets(run, series.sockets, tests))
    test_flows = join_tables(FLOW_COLUMNS, (test.flows for test in tests))
    command_flows = [
        _command_flows(run, source, source_sockets, test_flows, start_s)
        for source, source_sockets in other_sources
        if isinstance(source, CommandSource)
    ]
    short_flows = [
        _short_flow(run, source, source_sockets, start_s)
        for source, source_sockets in other_sources
        if not isinstance(source, CommandSource)
    ]
    flow_connections = join_tables(
        connections.FLOW_CONNECTION_COLUMNS,
        (
            *(connections.join_flows(test.streams, test.flows) for test in tests),
            connections.join_flows(connections_of_steps(steps, step_host), step_flows),
            *(command.connections for command in command_flows),
        ),
    )
    short_connections = join_tables(
        connections.FLOW_CONNECTION_COLUMNS, (source.connections for source in short_flows)
    )
    select_flows = functools.partial(connections.flow_samples, connections=flow_connections)
    tables = make_tables(
        pl.concat([test_flows, *(command.flows for command in command_flows), step_flows]),
        join_tables(INTERVAL_COLUMNS, (*(test.intervals for test in tests), step_intervals)),
        replace(series, sockets=select_flows(series.sockets)),
        parts,
        start_s,
        select_flows,
    )
    if tables.bottleneck.is_empty():
        raise ValueError("no sample of the bottleneck's queue")
    short_sockets = connections.flow_samples(series.sockets, short_connections)
    tables = replace(
        tables,
        starts=join_tables(START_COLUMNS, (test.starts for test in tests)),
        completions=read_completions(run, generators),
        steps=step_rows(steps, start_s),
        short_flows=join_tables(FLOW_COLUMNS, (source.flows for source in short_flows)),
        short_sockets=earlier({"sockets": short_sockets}, start_s)["sockets"],
        strangers=_segments_of_strangers(
            run,
            series.sockets,
            (flow_connections, short_connections, *(test.connections for test in tests)),
        ),
        short_flows_seen=not short_flows or (logs / run_files.SOCKMON_STREAM).exists(),
        tests={test.source.label: test.report for test in tests if test.report},
        services={
            source.label: service_report(
                source, generators, measurement.facts.commands, source_sockets, NO_DATA_BYTES
            )
            for source, source_sockets in other_sources
        },
    )
    if run.traffic.steps:  # each step keeps the intervals in which iperf3 reported its goodput
        return tables
    return with_counters(run.traffic, tables, tables.series.sockets, run.traffic.total_s)


def _read_iperf3_tests(
    run: Run, generators: Path, measurement: Measurement
) -> tuple[list[_TestTables], float]:
    """Reads all iperf3 tests of a run, with intervals that count from the start of the traffic.
    Also returns this start, by the wall clock. `generators` is the folder of iperf3's JSON.
    """
    tests = [
        _read_iperf3_test(run, source, generators)
        for source in run.traffic.sources
        if isinstance(source, Iperf3Source | UdpSource)
    ]
    start_s = _traffic_start_s(measurement, tests)
    return [test.since(start_s) for test in tests], start_s


def _read_iperf3_test(run: Run, source: Iperf3Source | UdpSource, generators: Path) -> _TestTables:
    """Reads the tables of one iperf3 test from the JSON of both ends. `generators` is the folder of
    these files.
    """
    client = load_json(generators / run_files.iperf3_client(source.label))
    server = load_json(generators / run_files.iperf3_server(source.label))
    traffic = run.traffic.of_source(source)
    flows = read_flows(traffic, client, source.host, lambda own: run.group_name(source, own))
    if isinstance(source, UdpSource):
        flows = with_udp_goodput(flows, server)
    number = run.traffic.sources.index(source)
    drawn_starts_s: Sequence[float] = ()
    if run.spread and isinstance(source, Iperf3Source):  # UDP starts as a whole
        drawn_starts_s = run.spread.starts_s[number]
    start_s, server_start_s = iperf3_start_s(client), iperf3_start_s(server)
    server_later_s = None
    if start_s is not None and server_start_s is not None:
        server_later_s = server_start_s - start_s
    return _TestTables(
        source,
        flows.with_columns(pl.col("begin_s").fill_null(0.0) + source.start_s),
        read_intervals(traffic, client, server, flows, server_later_s),
        read_starts(client, source.host, drawn_starts_s),
        iperf3_report(client),
        connections.stream_connections(client, source.host),
        connections.control_connection(run, number, server),
        start_s,
    )


def _segments_of_strangers(
    run: Run, sockets: pl.DataFrame, assigned: Iterable[pl.DataFrame]
) -> int:
    """Returns the maximum number of segments that an end sent over a connection that no traffic
    source made (RunTables.strangers); 0 if there is no such connection.

    `assigned`: tables with the connections of all sources. Connections to ccmix's own servers also
    belong to a source, even if the server's end was not sampled, for instance because a SYN was
    lost.
    """
    to_servers = (
        sockets.filter(connections.is_with_server(run, number, source))
        for number, source in enumerate(run.traffic.sources)
        if isinstance(source, HttpSource | WorkloadSource)
    )
    known = pl.concat(each.select(connections.CONNECTION) for each in (*assigned, *to_servers))
    strangers = sockets.join(known, on=connections.CONNECTION, how="anti")
    return strangers["segs_out"].max() or 0  # type: ignore[return-value]


def _traffic_start_s(measurement: Measurement, tests: Iterable[_TestTables]) -> float:
    """Returns when the traffic began, by the wall clock: as planned, unless every iperf3 test
    started later than planned. Raises ValueError if the plan is not recorded.
    """
    if measurement.began_s is None:
        raise ValueError("the facts don't say when the traffic began")
    starts_s = [test.start_s - test.source.start_s for test in tests if test.start_s is not None]
    first_s = min(starts_s, default=0.0)
    return first_s if first_s > measurement.began_s + JITTER_S else measurement.began_s


def _sources_with_sockets(
    run: Run, sockets: pl.DataFrame, tests: Iterable[_TestTables]
) -> Iterator[tuple[TrafficSource, pl.DataFrame]]:
    """Yields the sources other than iperf3 (http, workload, command), each with the samples of its
    sockets at the sending end. A command gets the sockets on its host that belong to no other
    source.

    tests: the iperf3 tests of the run, whose connections belong to no command
    """
    at_sender = sockets.filter(pl.col("end") == "sender")
    for number, source in enumerate(run.traffic.sources):
        if isinstance(source, HttpSource | WorkloadSource):
            yield source, at_sender.filter(connections.is_with_server(run, number, source))
    iperf3_connections = join_tables(
        connections.CONNECTION_COLUMNS, (test.connections for test in tests)
    )
    yield from connections.command_sockets(run, at_sender, iperf3_connections)


def _connection_lives(sockets: pl.DataFrame, interval_s: float) -> pl.DataFrame:
    """Summarises the samples of each connection in one row: CONNECTION, cookie, begin_s, end_s
    (null if it was not closed), cca, bytes_sent and reverse.

    If a connection received more than it sent, it is `reverse`, and bytes_sent has the received
    bytes. It began before its first sample by `age_s` (the time since a search of the probe first
    saw it) or by the time for which it had been busy (at most `interval_s`), whichever is longer.
    """
    if "age_s" not in sockets.columns:
        sockets = sockets.with_columns(age_s=pl.lit(0.0))
    if "cookie" not in sockets.columns:  # ss sampled them, which does not report it
        sockets = sockets.with_columns(cookie=pl.lit(None, pl.UInt64))
    return (
        sockets.sort("time_s", maintain_order=True)
        .group_by(*connections.CONNECTION, "cookie", maintain_order=True)
        .agg(
            begin_s=(
                pl.col("time_s")
                - pl.max_horizontal("age_s", pl.col("busy_s").clip(0.0, interval_s))
            ).first(),
            end_s=pl.when(pl.col("final").last()).then(pl.col("time_s").last()),
            cca=pl.col("cca").drop_nulls().last(),
            bytes_sent=pl.max_horizontal("bytes_sent", "bytes_received").last(),
            reverse=(pl.col("bytes_received") > pl.col("bytes_sent")).last(),
        )
    )


# Of several connections: the begin of the first, and the end of the last unless one was not closed
_BEGIN_S = pl.col("begin_s").min()
_END_S = pl.when(pl.col("end_s").is_not_null().all()).then(pl.col("end_s").max())
# Values of a flow that are known only from counters, or not at all
_NOT_REPORTED: dict[str, Any] = {
    **dict.fromkeys(("cca_asked", "goodput_bps", "throughput_bps", "retransmits", "stream")),
    "reverse": False,
    "udp": False,
}


def _short_flow(
    run: Run, source: TrafficSource, sockets: pl.DataFrame, start_s: float
) -> _SourceFlows:
    """Returns a source of short flows (http or a workload) as one flow, however many connections it
    has, and these connections. The flow's port is that of the source's server.

    sockets: the samples of the source's sockets
    start_s: when the traffic began, by the wall clock
    """
    port = iperf3.PORT + run.traffic.sources.index(source)
    lives = _connection_lives(sockets, run.traffic.interval_s)
    group = pl.lit(run.group_name(source))
    flow = lives.select(
        **_NOT_REPORTED,
        host=pl.lit(source.host),
        port=port,
        group=group,
        cca_used=None,
        bytes_sent=pl.col("bytes_sent").sum(),
        begin_s=source.start_s if isinstance(source, HttpSource) else _BEGIN_S - start_s,
        end_s=_END_S - start_s,
    )
    flow_connections = lives.select(
        *connections.CONNECTION, group=group, flow_port=pl.lit(port, pl.Int64), reverse=False
    ).unique(maintain_order=True)
    return _SourceFlows(_as_flows(flow), flow_connections)


def _as_flows(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows as a table of flows, with the columns and types of FLOW_COLUMNS."""
    return rows.select(*FLOW_COLUMNS).cast(FLOW_COLUMNS)  # type: ignore[arg-type]


def _command_flows(
    run: Run,
    source: CommandSource,
    sockets: pl.DataFrame,
    iperf3_flows: pl.DataFrame,
    start_s: float,
) -> _SourceFlows:
    """Returns the flows of a user's command, one for each of its connections that carried data, and
    these connections.

    A connection with less than 1% of the largest one's bytes is not a flow, because it is probably
    a control connection. If an iperf3 flow has the same port, the command's flow gets a number
    above all ports.

    sockets: the samples of the command's sockets
    start_s: when the traffic began, by the wall clock
    """
    iperf3_ports = iperf3_flows.select(*FLOW, shared=True).unique()
    numbered = (
        _connection_lives(sockets, run.traffic.interval_s)
        .join(iperf3_ports, on=FLOW, how="left", maintain_order="left")
        .with_columns(
            flow_port=pl.col("port")
            + pl.when(pl.col("shared")).then(connections.SAME_PORT).otherwise(0)
        )
    )
    flows = numbered.group_by("host", "flow_port", maintain_order=True).agg(
        pl.col("bytes_sent").sum(),
        pl.col("cca").filter(~pl.col("reverse")).last(),
        begin_s=_BEGIN_S - start_s,
        end_s=_END_S - start_s,
    )
    kept = flows.filter(
        pl.col("bytes_sent") >= LEAST_SHARE_OF_A_FLOW * pl.col("bytes_sent").max(),
        pl.col("bytes_sent") > 0,
    )
    group = pl.lit(run.group_name(source)).alias("group")
    flow_connections = (
        numbered.join(kept, on=["host", "flow_port"], how="semi", maintain_order="left")
        .select(*connections.CONNECTION, group, "flow_port", "reverse")
        .unique(maintain_order=True)
    )
    rows = kept.with_columns(
        group,
        **_NOT_REPORTED | {"stream": pl.int_range(pl.len())},
        port="flow_port",
        cca_used="cca",
    )
    return _SourceFlows(_as_flows(rows), flow_connections)
