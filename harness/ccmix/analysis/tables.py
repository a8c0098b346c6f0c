"""Turns a run's raw files into tables: flows, goodput per interval, and the probes' samples."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis import connections, iperf3_tables
from ccmix.analysis.counters import FlowCounters, count_flows, interval_series
from ccmix.analysis.iperf3_tables import (
    FLOW,
    FLOW_COLUMNS,
    INTERVAL_COLUMNS,
    START_COLUMNS,
    merge_short_intervals,
    read_flows,
    read_intervals,
    read_reported,
    read_starts,
    with_udp_goodput,
)
from ccmix.analysis.iperf3_tables import start_s as iperf3_start_s
from ccmix.analysis.measured import JITTER_S, increase
from ccmix.analysis.reports import (
    Iperf3TestReport,
    ServiceReport,
    iperf3_report,
    read_completions,
    service_report,
)
from ccmix.analysis.series import (
    NEEDED,
    SRC,
    Part,
    Series,
    Tables,
    earlier,
    read_series,
    read_sockets,
    recorded,
    sampled,
    with_peers,
    write_tables,
)
from ccmix.analysis.step_tables import (
    STEP_COLUMNS,
    StepResult,
    flows_and_intervals,
    read_steps,
    step_rows,
)
from ccmix.archive import ArchiveError
from ccmix.conditions.qdisc import LEAF_PARENT
from ccmix.generators import command, iperf3
from ccmix.generators.results import GeneratorError, GeneratorResult, load_json
from ccmix.model import (
    CommandSource,
    HostPath,
    HttpSource,
    Iperf3Source,
    Measurement,
    Run,
    Traffic,
    TrafficSource,
    UdpSource,
    WorkloadSource,
    run_files,
)
from ccmix.model.results import FinishedRun

BACKLOGS = "backlog_bytes", "backlog_packets", "least_backlog_bytes"
PARENTS_OF_CLSACT = ("ingress", "ffff:fff1")  # as ccmix-sockmon and tc write it
NO_DATA_BYTES = (
    1000  # iperf3's cookie has 37 bytes, and may be sent again; its first block fills ten segments
)
_ENDS = ["local_address", "local_port", "remote_address", "remote_port"]
# Of the bytes of the largest connection: one that carries less, such as a control connection, is
# not a flow
LEAST_SHARE_OF_A_FLOW = 0.01


@dataclass(frozen=True)
class _TestTables:
    """The tables of one iperf3 test. `streams` and `control` are its TCP connections.

    Times of flows are those planned for the run. Times of intervals count from the start of the
    test, which was at `start_s` by the wall clock. If iperf3 doesn't report that (None), the test
    is assumed to have started as planned: `planned_s` after the start of the traffic.
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
    def planned_s(self) -> float:
        """The planned start of the test, in seconds after the start of the traffic."""
        return self.source.start_s

    @property
    def connections(self) -> pl.DataFrame:
        """Returns the connections of the streams and of iperf3's control channel."""
        return pl.concat([self.streams, self.control])

    def since(self, began_s: float) -> "_TestTables":
        """Returns the tables with times of intervals that count from the start of the whole traffic
        instead of the test's. The traffic started at `began_s` by the wall clock.
        """
        offset_s = self.planned_s if self.start_s is None else self.start_s - began_s
        return replace(self, intervals=self.intervals.with_columns(pl.col("time_s") + offset_s))


@dataclass(frozen=True)
class _SourceFlows:
    """The flows of a traffic source without iperf3 (FLOW_COLUMNS), and the TCP connections that
    carried them (FLOW_CONNECTION_COLUMNS).
    """

    flows: pl.DataFrame
    connections: pl.DataFrame


@dataclass(frozen=True)
class _StepTables:
    """The results of the steps that measure a path, with the flows, intervals and connections of
    those steps that used iperf3.
    """

    results: list[StepResult]
    flows: pl.DataFrame
    intervals: pl.DataFrame
    connections: pl.DataFrame


@dataclass(frozen=True)
class RunTables:
    """Holds the tables of a run; time_s is 0 when the test's traffic starts, at the beginning of
    the omitted time.

    flows: FLOW_COLUMNS, a row for each connection that carries data; host is the sender's name,
        'src' between hosts. begin_s and end_s bound the time in which it was to send; null: as long
        as the run
    intervals: SERIES_COLUMNS of flows and short_flows; by the generator if nothing sampled their
        sockets
    series: the recordings of the probes from which metrics are computed; only sockets of the flows,
        with their `group`
    counters: the counters of both ends of flows and short_flows at any moment
    completions: see reports.read_completions()
    began_s: when the traffic began, by this machine's wall clock; in the lab by the guest's
    short_flows: FLOW_COLUMNS, a row for each source of http or workload, which counts as one flow,
        however many connections it has
    short_sockets: the samples of their sockets, as in series
    short_flows_seen: whether the probe could see flows that ended between two samples, or there are
        no short flows
    recorded: reads all of these recordings again, part by part, because together they may not fit
        into memory
    starts: of iperf3's streams on an emulated path, see iperf3_tables.read_starts()
    reported: the generator's report about sockets that no probe sampled:
        iperf3_tables.read_reported()
    tests: by a source's label, iperf3's report about its test
    services: by a source's label, the report about a source of short flows, or about a command
    steps: of an entry of type path, see step_tables.step_rows()
    fine_intervals: as intervals, if the probes sampled more often than iperf3 can report; otherwise
        None
    strangers: the maximum number of segments that an end sent over a connection of no known source
    """

    flows: pl.DataFrame
    intervals: pl.DataFrame
    series: Series
    began_s: float
    recorded: Callable[[], Iterable[Tables]] = tuple
    counters: FlowCounters = field(default_factory=FlowCounters)
    completions: pl.DataFrame = field(default_factory=pl.DataFrame)
    short_flows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FLOW_COLUMNS))
    short_sockets: pl.DataFrame = field(default_factory=pl.DataFrame)
    short_flows_seen: bool = True
    reported: pl.DataFrame | None = None
    starts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=START_COLUMNS))
    tests: Mapping[str, Iperf3TestReport] = field(default_factory=dict)
    services: Mapping[str, ServiceReport] = field(default_factory=dict)
    fine_intervals: pl.DataFrame | None = None
    steps: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STEP_COLUMNS))
    strangers: int = 0

    @property
    def sockets(self) -> pl.DataFrame:
        """Returns the samples of the senders' established sockets, the only ones that metrics and
        verdicts use.
        """
        return sampled(self.series.sockets)

    @property
    def bottleneck(self) -> pl.DataFrame:
        """Returns the samples of an emulated bottleneck's root qdisc."""
        return self.queue("bottleneck")

    @property
    def policer(self) -> pl.DataFrame:
        """Returns the samples of the clsact qdisc at the emulated bottleneck, which holds the
        policer: its counters are the policer's.
        """
        queues = self.series.queues
        if queues.is_empty():
            return queues
        return queues.filter(
            pl.col("place") == "bottleneck", pl.col("parent").is_in(PARENTS_OF_CLSACT)
        )

    def queue(self, place: str) -> pl.DataFrame:
        """Returns the samples of the root qdisc at a place, such as 'bottleneck' or 'sender-queue
        h2'. If this qdisc is a shaper with another qdisc below it, each backlog is the smaller of
        the two qdiscs' backlogs.

        The reason is that the shaper's own backlog may drift above the true one. This happens if
        the qdisc below it, such as hhf, drops an older packet for a new one of another size:
        tbf_enqueue() and htb_enqueue() in the kernel's net/sched/ count neither packet,
        qdisc_tree_reduce_backlog() counts both.
        """
        if self.series.queues.is_empty():
            return self.series.queues
        samples = self.series.queues.filter(pl.col("place") == place)
        root, leaf = (
            samples.filter(pl.col("parent") == parent) for parent in ("root", LEAF_PARENT)
        )
        with_leaf = root.join(
            leaf.select("time_s", *BACKLOGS),
            on="time_s",
            how="left",
            suffix="_of_leaf",
            maintain_order="left",
        )
        smaller = [pl.min_horizontal(name, f"{name}_of_leaf").alias(name) for name in BACKLOGS]
        return with_leaf.with_columns(smaller).select(root.columns)

    def write(self, folder: Path) -> None:
        """Writes each table that has rows to a Parquet file in `folder`, with all samples of the
        run's flows, not only those that metrics need.
        """
        intervals = self.intervals if self.fine_intervals is None else self.fine_intervals
        computed = {"intervals": intervals, "completions": self.completions, "steps": self.steps}
        write_tables([computed, *self.recorded()], folder)


def read_tables(run: Run, folder: Path, measurement: Measurement) -> RunTables:
    """Reads the raw files of a run (iperf3's JSON, recordings of the probes) into tables; `folder`
    is the run's folder.

    Raises GeneratorError, ValueError, KeyError or TypeError if a file is not what its tool writes.
    """
    if isinstance(run.path, HostPath):
        return _read_between_hosts(run, run.path, folder, measurement)
    return _read_emulated(run, folder, measurement)


def _read_emulated(run: Run, folder: Path, measurement: Measurement) -> RunTables:
    """Reads the tables of a run on an emulated path.

    First, each sampled connection is assigned to the one traffic source that made it: an iperf3
    test, short flows (http or a workload), a user's command, or a step that measures the path. The
    tables have only these connections; all others are hidden flows (see RunTables.strangers).
    """
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS

    def parts() -> Iterator[Part]:
        """Reads all recordings again, part by part: together, they may not fit into memory."""
        return recorded(logs, measurement, ("localhost",), None)

    series = read_series(parts())
    tests, start_s = _read_iperf3_tests(run, generators, measurement)
    steps = _read_emulated_steps(run, generators, start_s)
    other_sources = list(_sources_with_sockets(run, series.sockets, tests))
    test_flows = _concat(FLOW_COLUMNS, (test.flows for test in tests))
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
    flow_connections = _concat(
        connections.FLOW_CONNECTION_COLUMNS,
        (
            *(connections.join_flows(test.streams, test.flows) for test in tests),
            steps.connections,
            *(command.connections for command in command_flows),
        ),
    )
    short_connections = _concat(
        connections.FLOW_CONNECTION_COLUMNS, (source.connections for source in short_flows)
    )

    def select_flows(sockets: pl.DataFrame) -> pl.DataFrame:
        """Returns only the sockets of known flows, with their group and port."""
        return connections.flow_samples(sockets, flow_connections)

    tables = _make_tables(
        pl.concat([test_flows, *(command.flows for command in command_flows), steps.flows]),
        _concat(INTERVAL_COLUMNS, (*(test.intervals for test in tests), steps.intervals)),
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
        starts=_concat(START_COLUMNS, (test.starts for test in tests)),
        completions=read_completions(run, generators),
        steps=step_rows(steps.results, start_s),
        short_flows=_concat(FLOW_COLUMNS, (source.flows for source in short_flows)),
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
                source, generators, _command_lines(measurement), source_sockets, NO_DATA_BYTES
            )
            for source, source_sockets in other_sources
        },
    )
    if run.traffic.steps:  # each step keeps the intervals in which iperf3 reported its goodput
        return tables
    return with_counters(run.traffic, tables, tables.series.sockets, run.traffic.total_s)


def _concat(columns: Mapping[str, Any], tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Puts tables with these columns one below the other; without any table, returns an empty
    one.
    """
    return pl.concat([pl.DataFrame(schema=columns), *tables])


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


def _read_emulated_steps(run: Run, generators: Path, start_s: float) -> _StepTables:
    """Reads the tables of the steps that measure an emulated path; empty ones if the run has no
    steps. Times count from `start_s`, by the wall clock.
    """
    steps = run.traffic.steps
    host = steps.host if steps else ""
    results = read_steps(generators) if steps else []
    flows, intervals = flows_and_intervals(results, run.traffic, host, start_s)
    step_connections = connections.join_flows(_connections_of_steps(results, host), flows)
    return _StepTables(results, flows, intervals, step_connections)


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
    starts_s = [test.start_s - test.planned_s for test in tests if test.start_s is not None]
    first_s = min(starts_s, default=0.0)
    return first_s if first_s > measurement.began_s + JITTER_S else measurement.began_s


def with_counters(
    traffic: Traffic, tables: RunTables, sockets: pl.DataFrame, end_s: float
) -> RunTables:
    """Adds the counters of all flows (RunTables.counters) to the tables, and replaces the intervals
    that iperf3 reports by intervals computed from these counters.

    sockets: the samples of the flows' sockets, in all states
    end_s: the end of the traffic, in the time of the tables

    If no socket was sampled, the intervals that iperf3 reports are kept.
    """
    all_sockets = pl.concat([sockets, tables.short_sockets], how="diagonal")
    closed = all_sockets.filter("final").group_by(FLOW).agg(closed_s=pl.col("time_s").max())
    tables = replace(
        tables,
        flows=_until_closed(tables.flows, closed),
        short_flows=_until_closed(tables.short_flows, closed),
    )
    runs_on = traffic.command is not None and traffic.command.kept
    begins_s = {
        (host, port): None if runs_on else begin_s or 0.0
        for host, port, begin_s in tables.flows.select(*FLOW, "begin_s").iter_rows()
    }
    counters = count_flows(all_sockets, tables.intervals, begins_s)
    if set(counters.counted_by.values()) <= {"generator"} and not isinstance(
        traffic.sources[0], UdpSource
    ):
        return replace(
            tables,
            counters=counters,
            intervals=merge_short_intervals(tables.intervals, tables.flows),
        )
    flows = pl.concat([tables.flows, tables.short_flows])

    def series(interval_s: float) -> pl.DataFrame:
        """Computes the flows' goodput and retransmissions in intervals of this length."""
        return interval_series(counters, flows, traffic, interval_s, end_s)

    finer = traffic.interval_s < traffic.goodput_interval_s
    return replace(
        tables,
        counters=counters,
        intervals=series(traffic.goodput_interval_s),
        fine_intervals=series(traffic.interval_s) if finer else None,
    )


def _until_closed(flows: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
    """Returns the flows with a later `end_s` if their sockets closed later than planned. Flows that
    last until the end of the run (`end_s` is null) stay as they are.

    closed: when both sockets of a flow had closed, as host, port and closed_s
    """
    both = flows.join(closed, on=FLOW, how="left", maintain_order="left")
    end_s = pl.when(pl.col("end_s").is_not_null()).then(pl.max_horizontal("end_s", "closed_s"))
    return both.with_columns(end_s=end_s).drop("closed_s")


def _command_lines(measurement: Measurement) -> dict[str, list[str]]:
    """Returns the shell lines of the commands that were run, by their role, such as 'h1 client'."""
    lines: dict[str, list[str]] = {}
    for executed in measurement.facts.commands:
        lines.setdefault(executed.role, []).append(executed.line)
    return lines


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
    iperf3_connections = [
        pl.DataFrame(schema=connections.CONNECTION_COLUMNS),
        *(test.connections for test in tests),
    ]
    yield from connections.command_sockets(run, at_sender, pl.concat(iperf3_connections))


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


_SPAN = (
    pl.col("begin_s").min(),
    pl.when(pl.col("end_s").is_not_null().all()).then(pl.col("end_s").max()),
)
_FROM_COUNTERS = {
    name: pl.lit(None)
    for name in ("cca_asked", "goodput_bps", "throughput_bps", "retransmits", "stream")
} | {name: pl.lit(value=False) for name in ("reverse", "udp")}


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
    group = pl.lit(run.group_name(source)).alias("group")
    row = lives.select(
        **_FROM_COUNTERS,
        host=pl.lit(source.host),
        port=pl.lit(port),
        group=group,
        cca_used=pl.lit(None, pl.String),
        bytes_sent=pl.col("bytes_sent").sum(),
        begin_s=_SPAN[0] - start_s,
        end_s=_SPAN[1] - start_s,
    )
    if isinstance(source, HttpSource):
        row = row.with_columns(begin_s=pl.lit(source.start_s))
    flow_columns = (
        group,
        pl.lit(port, pl.Int64).alias("flow_port"),
        pl.lit(value=False).alias("reverse"),
    )
    flow_connections = lives.select(*connections.CONNECTION, *flow_columns).unique(
        maintain_order=True
    )
    flow = row.select(*FLOW_COLUMNS).cast(FLOW_COLUMNS)  # type: ignore[arg-type]
    return _SourceFlows(flow, flow_connections)


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
        _SPAN[0] - start_s,
        (_SPAN[1] - start_s).alias("end_s"),
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
        **_FROM_COUNTERS | {"stream": pl.int_range(pl.len())},
        port="flow_port",
        cca_used="cca",
    ).select(*FLOW_COLUMNS)
    return _SourceFlows(rows.cast(FLOW_COLUMNS), flow_connections)  # type: ignore[arg-type]


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
    drawn_starts_s = run.spread.starts_s[run.traffic.sources.index(source)] if run.spread else ()
    asked_starts_s = (
        drawn_starts_s if isinstance(source, Iperf3Source) else ()
    )  # UDP starts as a whole
    starts_s = [iperf3_start_s(each) for each in (client, server)]
    server_later_s = (
        starts_s[1] - starts_s[0] if starts_s[0] is not None and starts_s[1] is not None else None
    )
    return _TestTables(
        source,
        flows.with_columns(pl.col("begin_s").fill_null(0.0) + source.start_s),
        read_intervals(traffic, client, server, flows, server_later_s),
        read_starts(client, source.host, asked_starts_s),
        iperf3_report(client),
        connections.stream_connections(client, source.host),
        connections.control_connection(run, run.traffic.sources.index(source), server),
        starts_s[0],
    )


def _make_tables(
    flows: pl.DataFrame,
    intervals: pl.DataFrame,
    series: Series,
    parts: Callable[[], Iterator[Part]],
    start_s: float,
    select_flows: Callable[[pl.DataFrame], pl.DataFrame],
) -> RunTables:
    """Makes RunTables. Times of samples are shifted from the wall clock, so that 0 is `start_s`,
    the start of the traffic; those of `flows` and `intervals` already count from there.

    parts: reads all recordings again, in parts
    select_flows: returns the rows of a socket table that belong to the flows
    """

    def shifted_parts() -> Iterator[Tables]:
        """Yields all recordings again, in parts, with shifted times and only the flows' sockets."""
        for part in parts():
            flow_sockets = (
                {"sockets": select_flows(with_peers(part.tables["sockets"]))}
                if "sockets" in part.tables
                else {}
            )
            yield earlier({**part.tables, **flow_sockets}, start_s)

    shifted: dict[str, Any] = earlier({name: getattr(series, name) for name in NEEDED}, start_s)
    return RunTables(flows, intervals, replace(series, **shifted), start_s, shifted_parts)


def as_measured(run: Run, folder: Path, settled_after_s: float | None) -> Run:
    """Returns the run with its actual times, which may differ from the plan in two cases: the run
    was ended because it had settled, or a user's command or pScheduler called iperf3 with another
    omitted time, duration and interval.

    settled_after_s: the measured time of a run that was ended because it had settled; otherwise
        None
    folder: the run's folder. If it has no raw files, only settled_after_s is applied.
    """
    if settled_after_s is not None:
        run = replace(run, traffic=replace(run.traffic, duration_s=settled_after_s))
    generators = folder / run_files.GENERATORS
    if (
        not isinstance(run.path, HostPath)
        or not (run.traffic.command or run.traffic.task)
        or not generators.exists()
    ):
        return run
    client = _read_result(run, generators).client
    if client is None:
        return run
    test_start = client["start"].get("test_start", {})
    omit_s, interval_s = (
        float(test_start.get("omit", 0.0)),
        float(test_start.get("interval") or run.traffic.interval_s),
    )
    iperf3_duration_s = float(test_start.get("duration", 0.0)) if settled_after_s is None else 0.0
    duration_s = iperf3_duration_s or run.traffic.duration_s
    return replace(
        run,
        traffic=replace(run.traffic, omit_s=omit_s, interval_s=interval_s, duration_s=duration_s),
    )


def as_archived(finished: FinishedRun, folder: Path) -> Run:
    """Returns a finished run of an archive with its actual times, which may differ from the plan:
    see as_measured(). Raises ArchiveError if its raw files are damaged.
    """
    try:
        return as_measured(finished.run, folder, finished.settled_after_s)
    except (GeneratorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f"{folder / run_files.GENERATORS}: can't be understood: {error}"
        ) from error


def _read_between_hosts(
    run: Run, path: HostPath, folder: Path, measurement: Measurement
) -> RunTables:
    """Reads the tables of a run between hosts. The flows are those that iperf3 reports. Without
    iperf3's report, they are the connections of the sampled sockets, or if ccmix has no shell on
    the hosts, the flows that pScheduler reports.

    Sockets that existed before the run do not count, unless a command runs on from run to run.
    """
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    if run.traffic.steps:
        return _read_steps_between_hosts(run, path, folder, measurement)
    result = _read_result(run, generators)
    client = result.client
    hosts_unseen = measurement.facts.hosts_unseen
    foreign_ports = (
        () if run.traffic.command and run.traffic.command.kept else measurement.ports_before
    )

    def parts() -> Iterator[Part]:
        """Reads all recordings again, part by part."""
        return recorded(logs, measurement, ("src", "dst"), path.mpstat_cores)

    series = read_series(parts())
    new_sockets = series.sockets.filter(~pl.col("port").is_in(list(foreign_ports)))
    if client is not None:
        flows = read_flows(run.traffic, client, SRC)
    elif result.throughput is not None and hosts_unseen:
        flows = iperf3_tables.pscheduler_flows(run.traffic, result.throughput, SRC)
    else:
        flows = flows_of_sockets(sampled(new_sockets))
    named_connections = connections.stream_connections(client, SRC) if client is not None else None

    def select_flows(flow_sockets: pl.DataFrame) -> pl.DataFrame:
        """Returns only the sockets of the flows, with their group."""
        return connections.flow_samples_between_hosts(flow_sockets, flows, named_connections)

    flow_sockets = select_flows(new_sockets)
    start_s = _start_between_hosts_s(measurement, client, sampled(flow_sockets))
    if client is not None:
        intervals = read_intervals(run.traffic, client, result.server, flows)
    elif result.throughput is not None and hosts_unseen:
        intervals = iperf3_tables.pscheduler_intervals(run.traffic, result.throughput, flows)
    else:
        intervals = pl.DataFrame(schema=INTERVAL_COLUMNS)
        begin_s = (
            pl.col("begin_s") - start_s
            if run.traffic.command and run.traffic.command.kept
            else pl.lit(0.0)
        )
        flows = flows.with_columns(begin_s=begin_s, end_s=pl.col("end_s") - start_s)
    tables = _make_tables(
        flows, intervals, replace(series, sockets=flow_sockets), parts, start_s, select_flows
    )
    if client is not None and isinstance(run.traffic.test, Iperf3Source):
        report = iperf3_report(client)
        tables = replace(tables, tests={run.traffic.test.label: report} if report else {})
    if client is not None:
        tables = replace(tables, reported=read_reported(client, SRC))
    end_s = run.traffic.seconds or float(flows["end_s"].max() or 0.0)  # type: ignore[arg-type]
    return with_counters(run.traffic, tables, tables.series.sockets, end_s)


def _start_between_hosts_s(
    measurement: Measurement, client: dict[str, Any] | None, samples: pl.DataFrame
) -> float:
    """Returns when the traffic began, by the clock of this machine.

    The patched iperf3 says when its test started. Otherwise the start of each socket is estimated
    from its first sample with data: it is the time of that sample minus the growth of
    tcpi_busy_time since the previous sample, but not before the previous sample. The earliest of
    these starts is returned.

    client: the JSON of iperf3's client; None without iperf3
    samples: of the senders' established sockets
    """
    if client is not None and (start_s := iperf3_start_s(client)) is not None:
        return start_s - measurement.clocks_s.get(SRC, 0.0)
    sending = samples.sort("time_s", maintain_order=True).with_columns(
        before_s=pl.col("time_s").shift(1).over(FLOW),
        busy_before_s=pl.col("busy_s").shift(1).over(FLOW),
    )
    first = sending.filter(pl.col("bytes_sent") > NO_DATA_BYTES).unique(
        FLOW, keep="first", maintain_order=True
    )
    busy_s = pl.col("busy_s") - pl.col("busy_before_s").fill_null(0.0)
    starts_s = first.select(pl.max_horizontal(pl.col("time_s") - busy_s, "before_s"))["time_s"]
    return float(starts_s.min()) if starts_s.len() else measurement.started_s  # type: ignore[arg-type]


def _read_steps_between_hosts(
    run: Run, path: HostPath, folder: Path, measurement: Measurement
) -> RunTables:
    """Reads the tables of a run that measures a path between hosts in steps, one after the other.
    time_s is 0 when the first step begins.
    """

    def parts() -> Iterator[Part]:
        """Reads all recordings again, part by part."""
        return recorded(folder / run_files.LOGS, measurement, ("src", "dst"), path.mpstat_cores)

    results = read_steps(folder / run_files.GENERATORS)
    start_s = results[0].step.began_s
    flows, intervals = flows_and_intervals(results, run.traffic, SRC, start_s)
    series = read_series(parts())
    new_sockets = series.sockets.filter(~pl.col("port").is_in(list(measurement.ports_before)))
    named_connections = _connections_of_steps(results, SRC)

    def select_flows(sockets: pl.DataFrame) -> pl.DataFrame:
        """Returns only the sockets of the steps' flows, with their group."""
        return connections.flow_samples_between_hosts(sockets, flows, named_connections)

    tables = _make_tables(
        flows,
        intervals,
        replace(series, sockets=select_flows(new_sockets)),
        parts,
        start_s,
        select_flows,
    )
    return replace(tables, steps=step_rows(results, start_s))


def _connections_of_steps(results: Iterable[StepResult], host: str) -> pl.DataFrame:
    """Returns the TCP connections of all steps, with the columns connections.CONNECTION_COLUMNS."""
    by_step = (
        connections.stream_connections(result.client, host) for result in results if result.client
    )
    return pl.concat([pl.DataFrame(schema=connections.CONNECTION_COLUMNS), *by_step]).unique(
        maintain_order=True
    )


def _read_result(run: Run, generators: Path) -> GeneratorResult:
    """Reads the results of the program that made the traffic between hosts: ccmix's iperf3, a
    user's command, or pScheduler. `generators` is the folder of its files. Raises GeneratorError if
    a file is missing or damaged.
    """
    if run.traffic.command:
        return command.read_src_command_result(generators, run.traffic)
    if run.traffic.task:
        return command.read_pscheduler_result(generators)
    client = load_json(generators / run_files.iperf3_client(iperf3.LABEL))
    server_file = generators / run_files.iperf3_server(iperf3.LABEL)
    server = load_json(server_file) if server_file.exists() else client.get("server_output_json")
    return GeneratorResult("iperf3", client, server)


def bytes_sampled(folder: Path) -> int:
    """Returns how many bytes the sockets of a run had sent by their last samples; 0 if nothing can
    be read. Called for runs that failed, whose traffic still counts for the user's budget.
    """
    try:
        sent = pl.concat(
            sockets.select("bytes_sent", *_ENDS)
            for sockets in read_sockets(folder / run_files.LOGS)
        )
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    return bytes_sent(sent, _ENDS)


def bytes_sent(samples: pl.DataFrame, socket_columns: Sequence[str] = FLOW) -> int:
    """Returns the sum of the bytes that all sockets in `samples` sent: for each socket, its largest
    counter. The columns `socket_columns` together identify a socket.
    """
    return int(samples.group_by(socket_columns).agg(pl.col("bytes_sent").max())["bytes_sent"].sum())


def flows_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns a flow (FLOW_COLUMNS) for each connection that carried data, from samples of sockets,
    for traffic of which no program reports flows.

    Goodput is the rate at which the destination acknowledged bytes. All rates are averages over the
    same time: from the first sample of any connection to the last sample of any connection. So the
    rates of flows that run one after the other don't add up to more than the total rate.
    """
    with_data = (
        samples.sort("time_s")
        .group_by(FLOW, maintain_order=True)
        .agg(
            acked=increase("bytes_acked"),
            sent=increase("bytes_sent"),
            begin_s=pl.col("time_s").first(),
            end_s=pl.col("time_s").last(),
            cca=pl.col("cca").last(),
            retransmits=increase("retransmits"),
            bytes_sent=pl.col("bytes_sent").last(),
        )
        .filter((pl.col("end_s") > pl.col("begin_s")) & (pl.col("acked") > 0))
    )
    flows = (
        with_data.filter(pl.col("acked") >= LEAST_SHARE_OF_A_FLOW * pl.col("acked").max())
        .with_row_index("stream")
        .with_columns(seconds=pl.col("end_s").max() - pl.col("begin_s").min())
    )
    return flows.select(
        *FLOW,
        pl.col("stream").cast(pl.Int64),
        group="cca",
        cca_asked=pl.lit(None, pl.String),
        cca_used="cca",
        goodput_bps=pl.col("acked") * 8 / pl.col("seconds"),
        throughput_bps=pl.col("sent") * 8 / pl.col("seconds"),
        retransmits="retransmits",
        bytes_sent="bytes_sent",
        begin_s=pl.col("begin_s").min(),
        end_s=pl.col("end_s").max(),
        reverse=pl.lit(value=False),
        udp=pl.lit(value=False),
    ).cast(FLOW_COLUMNS)  # type: ignore[arg-type]


def intervals_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns the goodput (acknowledged bits/s) and the retransmissions between each two successive
    samples of a flow: INTERVAL_COLUMNS.
    """
    return (
        samples.sort(*FLOW, "time_s")
        .select(
            "time_s",
            pl.col("time_s").diff().over(FLOW).alias("seconds"),
            pl.lit(value=False).alias("omitted"),
            *FLOW,
            (pl.col("bytes_acked").diff() * 8 / pl.col("time_s").diff())
            .over(FLOW)
            .alias("goodput_bps"),
            pl.col("retransmits").diff().over(FLOW).alias("retransmits"),
            "group",
        )
        .drop_nulls("seconds")
        .cast(INTERVAL_COLUMNS)  # type: ignore[arg-type]
    )
