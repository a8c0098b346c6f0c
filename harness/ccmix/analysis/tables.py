"""Turns a run's raw files into tables: flows, goodput and retransmissions per interval, and
probes' recordings.
"""

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
from ccmix.analysis.measured import JITTER_S
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
LEAST_SHARE_OF_A_FLOW = (
    0.01  # of the largest: a connection that carries less, as a control connection, is not a flow
)


@dataclass(frozen=True)
class _TestTables:
    """Holds the tables of a test of iperf3; `streams` and `control` are its connections.

    Times of flows are those of the run, as planned. Times of intervals count from the start of the
    test, which was at `start_s` by the wall clock, if iperf3 reports it.
    """

    flows: pl.DataFrame
    intervals: pl.DataFrame
    starts: pl.DataFrame
    report: Iperf3TestReport | None
    streams: pl.DataFrame
    control: pl.DataFrame
    start_s: float | None
    planned_s: float  # from the start of the traffic

    @property
    def connections(self) -> pl.DataFrame:
        return pl.concat([self.streams, self.control])

    def since(self, began_s: float) -> "_TestTables":
        """Returns the tables with intervals that count from the start of the traffic."""
        later_s = self.planned_s if self.start_s is None else self.start_s - began_s
        return replace(self, intervals=self.intervals.with_columns(pl.col("time_s") + later_s))


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
        """Returns the samples of clsact at an emulated bottleneck, which counts the packets and the
        drops of its policer.
        """
        queues = self.series.queues
        if queues.is_empty():
            return queues
        return queues.filter(
            pl.col("place") == "bottleneck", pl.col("parent").is_in(PARENTS_OF_CLSACT)
        )

    def queue(self, place: str) -> pl.DataFrame:
        """Returns the samples of the root qdisc at a place; those of a shaper have the backlog of
        the queue in it.

        The shaper's own count drifts if the queue drops an older packet for a new one of another
        size, as hhf does: tbf_enqueue() and htb_enqueue() in the kernel's net/sched/ count neither
        packet, qdisc_tree_reduce_backlog() counts both.
        """
        if self.series.queues.is_empty():
            return self.series.queues
        there = self.series.queues.filter(pl.col("place") == place)
        root, leaf = (there.filter(pl.col("parent") == parent) for parent in ("root", LEAF_PARENT))
        both = root.join(
            leaf.select("time_s", *BACKLOGS),
            on="time_s",
            how="left",
            suffix="_own",
            maintain_order="left",
        )
        least = [pl.min_horizontal(name, f"{name}_own").alias(name) for name in BACKLOGS]
        return both.with_columns(least).select(root.columns)

    def write(self, folder: Path) -> None:
        """Writes a file for each series that has rows, with all recordings of the run's own
        flows.
        """
        intervals = self.intervals if self.fine_intervals is None else self.fine_intervals
        ours = {"intervals": intervals, "completions": self.completions, "steps": self.steps}
        write_tables([ours, *self.recorded()], folder)


def read_tables(run: Run, folder: Path, measurement: Measurement) -> RunTables:
    """Reads the raw files of a run.

    Raises GeneratorError, ValueError, KeyError or TypeError if a file is not what its tool writes.
    """
    if isinstance(run.path, HostPath):
        return _between_hosts(run, run.path, folder, measurement)
    return _emulated(run, folder, measurement)


def _emulated(run: Run, folder: Path, measurement: Measurement) -> RunTables:
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS

    def parts() -> Iterator[Part]:
        return recorded(logs, measurement, ("localhost",), None)

    series = read_series(parts())
    of_iperf3 = [
        source for source in run.traffic.sources if isinstance(source, Iperf3Source | UdpSource)
    ]
    tests = [_iperf3(run, source, generators) for source in of_iperf3]
    start_s = _start_s(measurement, zip(of_iperf3, tests, strict=True))
    tests = [test.since(start_s) for test in tests]
    flows = pl.concat([pl.DataFrame(schema=FLOW_COLUMNS), *(test.flows for test in tests)])
    others = list(_sockets_of_others(run, series.sockets, tests))
    steps = run.traffic.steps
    results = read_steps(generators) if steps else []
    of_steps = flows_and_intervals(results, run.traffic, steps.host if steps else "", start_s)
    of_commands = [
        _of_command(run, source, own, flows, start_s)
        for source, own in others
        if isinstance(source, CommandSource)
    ]
    known = pl.concat(
        [
            pl.DataFrame(schema=connections.FLOW_CONNECTION_COLUMNS),
            *(connections.join_flows(test.streams, test.flows) for test in tests),
            connections.join_flows(
                _streams_of_steps(results, steps.host if steps else ""), of_steps[0]
            ),
            *(own for _, own in of_commands),
        ]
    )
    flows = pl.concat([flows, *(flows for flows, _ in of_commands), of_steps[0]])
    short = [
        _short_flow(run, source, own, start_s)
        for source, own in others
        if not isinstance(source, CommandSource)
    ]

    def ours(sockets: pl.DataFrame) -> pl.DataFrame:
        return connections.flow_samples(sockets, known)

    sockets = ours(series.sockets)
    short_known = [
        pl.DataFrame(schema=connections.FLOW_CONNECTION_COLUMNS),
        *(own for _, own in short),
    ]
    of_short = earlier(
        {"sockets": connections.flow_samples(series.sockets, pl.concat(short_known))}, start_s
    )["sockets"]
    # also connections whose server was not sampled, for instance because a SYN was lost
    to_servers = (
        series.sockets.filter(connections.is_with_server(run, number, source))
        for number, source in enumerate(run.traffic.sources)
        if isinstance(source, HttpSource | WorkloadSource)
    )
    of_sources = (known, *short_known, *to_servers, *(test.connections for test in tests))
    sources = pl.concat(each.select(connections.CONNECTION) for each in of_sources)
    strangers = series.sockets.join(sources, on=connections.CONNECTION, how="anti")
    of_tests = (test.intervals for test in tests)
    intervals = pl.concat([pl.DataFrame(schema=INTERVAL_COLUMNS), *of_tests, of_steps[1]])
    tables = _tables(flows, intervals, replace(series, sockets=sockets), parts, start_s, ours)
    if tables.bottleneck.is_empty():
        raise ValueError("no sample of the bottleneck's queue")
    tables = replace(
        tables,
        starts=pl.concat([pl.DataFrame(schema=START_COLUMNS), *(test.starts for test in tests)]),
        completions=read_completions(run, generators),
        steps=step_rows(results, start_s),
        short_flows=pl.concat([pl.DataFrame(schema=FLOW_COLUMNS), *(flow for flow, _ in short)]),
        short_sockets=of_short,
        strangers=strangers["segs_out"].max() or 0,  # type: ignore[arg-type]
        short_flows_seen=not short or (logs / run_files.SOCKMON_STREAM).exists(),
        tests={
            source.label: test.report
            for source, test in zip(of_iperf3, tests, strict=True)
            if test.report
        },
        services={
            source.label: service_report(
                source, generators, _lines(measurement), own, NO_DATA_BYTES
            )
            for source, own in others
        },
    )
    return (
        tables
        if steps
        else with_counters(run.traffic, tables, tables.series.sockets, run.traffic.total_s)
    )


def _start_s(measurement: Measurement, tests: Iterable[tuple[TrafficSource, _TestTables]]) -> float:
    """Returns when the traffic began by the wall clock: as planned, unless each test of iperf3
    started later.
    """
    if measurement.began_s is None:
        raise ValueError("the facts don't say when the traffic began")
    starts_s = [test.start_s - source.start_s for source, test in tests if test.start_s is not None]
    first_s = min(starts_s, default=0.0)
    return first_s if first_s > measurement.began_s + JITTER_S else measurement.began_s


def with_counters(
    traffic: Traffic, tables: RunTables, sockets: pl.DataFrame, end_s: float
) -> RunTables:
    """Adds the counters of flows, and the series made from them.

    `sockets` are those of the flows, in all states; `end_s` is the end of the traffic after time 0.
    If only the generator counted, its intervals are kept.
    """
    every = pl.concat([sockets, tables.short_sockets], how="diagonal")
    closed = every.filter("final").group_by(FLOW).agg(closed_s=pl.col("time_s").max())
    tables = replace(
        tables,
        flows=_until_closed(tables.flows, closed),
        short_flows=_until_closed(tables.short_flows, closed),
    )
    goes_on = traffic.command is not None and traffic.command.kept
    begins_s = {
        (host, port): None if goes_on else begin_s or 0.0
        for host, port, begin_s in tables.flows.select(*FLOW, "begin_s").iter_rows()
    }
    counters = count_flows(every, tables.intervals, begins_s)
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
        return interval_series(counters, flows, traffic, interval_s, end_s)

    finer = traffic.interval_s < traffic.goodput_interval_s
    return replace(
        tables,
        counters=counters,
        intervals=series(traffic.goodput_interval_s),
        fine_intervals=series(traffic.interval_s) if finer else None,
    )


def _until_closed(flows: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
    """Returns the flows; if a flow ends by itself, its end_s is when both of its sockets have
    closed.
    """
    both = flows.join(closed, on=FLOW, how="left", maintain_order="left")
    end_s = pl.when(pl.col("end_s").is_not_null()).then(pl.max_horizontal("end_s", "closed_s"))
    return both.with_columns(end_s=end_s).drop("closed_s")


def _lines(measurement: Measurement) -> dict[str, list[str]]:
    """Returns the commands that were run, by their role."""
    lines: dict[str, list[str]] = {}
    for made in measurement.facts.commands:
        lines.setdefault(made.role, []).append(made.line)
    return lines


def _sockets_of_others(
    run: Run, sockets: pl.DataFrame, tests: Iterable[_TestTables]
) -> Iterator[tuple[TrafficSource, pl.DataFrame]]:
    """Yields the sources that are not iperf3's, each with its sockets at the sending end."""
    sending = sockets.filter(pl.col("end") == "sender")
    for number, source in enumerate(run.traffic.sources):
        if isinstance(source, HttpSource | WorkloadSource):
            yield source, sending.filter(connections.is_with_server(run, number, source))
    of_iperf3 = [
        pl.DataFrame(schema=connections.CONNECTION_COLUMNS),
        *(test.connections for test in tests),
    ]
    yield from connections.command_sockets(run, sending, pl.concat(of_iperf3))


def _lives(sockets: pl.DataFrame, interval_s: float) -> pl.DataFrame:
    """Returns for each connection (host, port, PEER, cookie) begin_s, end_s (null while it lives),
    CCA and bytes sent; if it received more than it sent, it is `reverse`, and received bytes count.

    A connection began when a search of the probe first saw it, or before its first sample by the
    time for which it had been busy, whichever is earlier.
    """
    if "age_s" not in sockets.columns:
        sockets = sockets.with_columns(age_s=pl.lit(0.0))
    if "cookie" not in sockets.columns:  # as where ss sampled them
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
    run: Run, source: TrafficSource, own: pl.DataFrame, start_s: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns the row of a source of short flows, and its connections; its port is that of its
    server.
    """
    port = iperf3.PORT + run.traffic.sources.index(source)
    lives = _lives(own, run.traffic.interval_s)
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
    ours = group, pl.lit(port, pl.Int64).alias("flow_port"), pl.lit(value=False).alias("reverse")
    known = lives.select(*connections.CONNECTION, *ours).unique(maintain_order=True)
    return row.select(*FLOW_COLUMNS).cast(FLOW_COLUMNS), known  # type: ignore[arg-type]


def _of_command(
    run: Run, source: CommandSource, own: pl.DataFrame, of_iperf3: pl.DataFrame, start_s: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns the flows of a command, one for each of its connections that carried data, and these
    connections.

    If a flow of iperf3 has the same port, the command's flow gets a number above all ports.
    """
    ports = of_iperf3.select(*FLOW, shared=True).unique()
    numbered = (
        _lives(own, run.traffic.interval_s)
        .join(ports, on=FLOW, how="left", maintain_order="left")
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
    known = (
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
    return rows.cast(FLOW_COLUMNS), known  # type: ignore[arg-type]


def _iperf3(run: Run, source: Iperf3Source | UdpSource, generators: Path) -> _TestTables:
    client = load_json(generators / run_files.iperf3_client(source.label))
    server = load_json(generators / run_files.iperf3_server(source.label))
    traffic = run.traffic.of_source(source)
    flows = read_flows(traffic, client, source.host, lambda own: run.group_name(source, own))
    if isinstance(source, UdpSource):
        flows = with_udp_goodput(flows, server)
    drawn_s = run.spread.starts_s[run.traffic.sources.index(source)] if run.spread else ()
    asked_s = drawn_s if isinstance(source, Iperf3Source) else ()  # UDP starts as a whole
    starts_s = [iperf3_start_s(each) for each in (client, server)]
    later_s = (
        starts_s[1] - starts_s[0] if starts_s[0] is not None and starts_s[1] is not None else None
    )
    return _TestTables(
        flows.with_columns(pl.col("begin_s").fill_null(0.0) + source.start_s),
        read_intervals(traffic, client, server, flows, later_s),
        read_starts(client, source.host, asked_s),
        iperf3_report(client),
        connections.stream_connections(client, source.host),
        connections.control_connection(run, run.traffic.sources.index(source), server),
        starts_s[0],
        source.start_s,
    )


def _tables(
    flows: pl.DataFrame,
    intervals: pl.DataFrame,
    series: Series,
    parts: Callable[[], Iterator[Part]],
    start_s: float,
    ours: Callable[[pl.DataFrame], pl.DataFrame],
) -> RunTables:
    """Makes the tables of series by the wall clock, which come from `parts`; `ours` selects the
    flows' sockets.
    """

    def finished() -> Iterator[Tables]:
        for part in parts():
            of_flows = (
                {"sockets": ours(with_peers(part.tables["sockets"]))}
                if "sockets" in part.tables
                else {}
            )
            yield earlier({**part.tables, **of_flows}, start_s)

    moved: dict[str, Any] = earlier({name: getattr(series, name) for name in NEEDED}, start_s)
    return RunTables(flows, intervals, replace(series, **moved), start_s, finished)


def as_measured(run: Run, folder: Path, settled_after_s: float | None) -> Run:
    """Returns the run with the measured time after which it was ended because it had settled, and
    with the times and the interval that the iperf3 of a src-cmd was really given.

    If its raw files are not kept, times and interval are the planned ones.
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
    client = _result(run, generators).client
    if client is None:
        return run
    given = client["start"].get("test_start", {})
    omit_s, interval_s = (
        float(given.get("omit", 0.0)),
        float(given.get("interval") or run.traffic.interval_s),
    )
    asked_s = float(given.get("duration", 0.0)) if settled_after_s is None else 0.0
    duration_s = asked_s or run.traffic.duration_s
    return replace(
        run,
        traffic=replace(run.traffic, omit_s=omit_s, interval_s=interval_s, duration_s=duration_s),
    )


def as_archived(finished: FinishedRun, folder: Path) -> Run:
    """Returns as_measured() of a finished run. Raises ArchiveError if its raw files are damaged."""
    try:
        return as_measured(finished.run, folder, finished.settled_after_s)
    except (GeneratorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f"{folder / run_files.GENERATORS}: can't be understood: {error}"
        ) from error


def _between_hosts(run: Run, path: HostPath, folder: Path, measurement: Measurement) -> RunTables:
    """Returns the tables of a run between hosts: flows as iperf3 reports them, otherwise as the
    source's sockets show them.
    """
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    if run.traffic.steps:
        return _steps_between_hosts(run, path, folder, measurement)
    result = _result(run, generators)
    client = result.client
    unseen = measurement.facts.hosts_unseen
    foreign = () if run.traffic.command and run.traffic.command.kept else measurement.ports_before

    def parts() -> Iterator[Part]:
        return recorded(logs, measurement, ("src", "dst"), path.mpstat_cores)

    series = read_series(parts())
    ours = series.sockets.filter(~pl.col("port").is_in(list(foreign)))
    if client is not None:
        flows = read_flows(run.traffic, client, SRC)
    elif result.throughput is not None and unseen:
        flows = iperf3_tables.pscheduler_flows(run.traffic, result.throughput, SRC)
    else:
        flows = flows_of_sockets(sampled(ours))
    named = connections.stream_connections(client, SRC) if client is not None else None

    def of_flows(sockets: pl.DataFrame) -> pl.DataFrame:
        return connections.flow_samples_between_hosts(sockets, flows, named)

    sockets = of_flows(ours)
    start_s = _start_between_hosts_s(measurement, client, sampled(sockets))
    if client is not None:
        intervals = read_intervals(run.traffic, client, result.server, flows)
    elif result.throughput is not None and unseen:
        intervals = iperf3_tables.pscheduler_intervals(run.traffic, result.throughput, flows)
    else:
        intervals = pl.DataFrame(schema=INTERVAL_COLUMNS)
        begin_s = (
            pl.col("begin_s") - start_s
            if run.traffic.command and run.traffic.command.kept
            else pl.lit(0.0)
        )
        flows = flows.with_columns(begin_s=begin_s, end_s=pl.col("end_s") - start_s)
    tables = _tables(flows, intervals, replace(series, sockets=sockets), parts, start_s, of_flows)
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
    """Returns when the traffic began, by this machine's clock.

    That is when the patched iperf3 says that its test started. Otherwise it is estimated from the
    first sample in which a socket has sent data: the sample's time less the growth of
    tcpi_busy_time, but not before the previous sample. The earliest socket counts.
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


def _steps_between_hosts(
    run: Run, path: HostPath, folder: Path, measurement: Measurement
) -> RunTables:
    """Returns the tables of the steps that measure a path between hosts; time_s is 0 when the first
    step begins.
    """

    def parts() -> Iterator[Part]:
        return recorded(folder / run_files.LOGS, measurement, ("src", "dst"), path.mpstat_cores)

    results = read_steps(folder / run_files.GENERATORS)
    start_s = results[0].step.began_s
    flows, intervals = flows_and_intervals(results, run.traffic, SRC, start_s)
    series = read_series(parts())
    ours = series.sockets.filter(~pl.col("port").is_in(list(measurement.ports_before)))
    named = _streams_of_steps(results, SRC)

    def of_flows(sockets: pl.DataFrame) -> pl.DataFrame:
        return connections.flow_samples_between_hosts(sockets, flows, named)

    tables = _tables(
        flows, intervals, replace(series, sockets=of_flows(ours)), parts, start_s, of_flows
    )
    return replace(tables, steps=step_rows(results, start_s))


def _streams_of_steps(results: Iterable[StepResult], host: str) -> pl.DataFrame:
    """Returns the connections of all steps: connections.CONNECTION_COLUMNS."""
    every = (
        connections.stream_connections(result.client, host) for result in results if result.client
    )
    return pl.concat([pl.DataFrame(schema=connections.CONNECTION_COLUMNS), *every]).unique(
        maintain_order=True
    )


def _result(run: Run, generators: Path) -> GeneratorResult:
    """Returns the generator's result. Raises GeneratorError."""
    if run.traffic.command:
        return command.of_src_command(generators, run.traffic)
    if run.traffic.task:
        return command.of_pscheduler(generators)
    client = load_json(generators / run_files.iperf3_client(iperf3.LABEL))
    server_file = generators / run_files.iperf3_server(iperf3.LABEL)
    server = load_json(server_file) if server_file.exists() else client.get("server_output_json")
    return GeneratorResult("iperf3", client, server)


def bytes_sampled(folder: Path) -> int:
    """Returns the bytes that the sockets of a run had sent at their last samples; 0 if nothing
    can be read.
    """
    try:
        sent = pl.concat(
            sockets.select("bytes_sent", *_ENDS)
            for sockets in read_sockets(folder / run_files.LOGS)
        )
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    return bytes_sent(sent, _ENDS)


def bytes_sent(samples: pl.DataFrame, of_a_socket: Sequence[str] = FLOW) -> int:
    """Adds up all sockets, each until its last sample; the columns `of_a_socket`
    identify a socket.
    """
    return int(samples.group_by(of_a_socket).agg(pl.col("bytes_sent").max())["bytes_sent"].sum())


def flows_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns the connections that carried data, each with the rate that the destination
    acknowledged.

    All rates are over the same time, from the first sample of any connection to the last, so that
    successive flows don't add up to more than passed.
    """
    seen = (
        samples.sort("time_s")
        .group_by(FLOW, maintain_order=True)
        .agg(
            acked=pl.col("bytes_acked").last() - pl.col("bytes_acked").first(),
            sent=pl.col("bytes_sent").last() - pl.col("bytes_sent").first(),
            begin_s=pl.col("time_s").first(),
            end_s=pl.col("time_s").last(),
            cca=pl.col("cca").last(),
            retransmits=pl.col("retransmits").last() - pl.col("retransmits").first(),
            bytes_sent=pl.col("bytes_sent").last(),
        )
        .filter((pl.col("end_s") > pl.col("begin_s")) & (pl.col("acked") > 0))
    )
    carried = (
        seen.filter(pl.col("acked") >= LEAST_SHARE_OF_A_FLOW * pl.col("acked").max())
        .with_row_index("stream")
        .with_columns(seconds=pl.col("end_s").max() - pl.col("begin_s").min())
    )
    return carried.select(
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
    """Returns the acknowledged rate and the retransmissions between each two samples of a flow."""
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
