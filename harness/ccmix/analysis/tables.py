"""Holds the tables of a run: flows, goodput per interval, and the probes' samples.

raw_files.py reads them from a run's raw files. Sockets alone also give flows and goodputs, if no
program reports them.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis.counters import FlowCounters, count_flows, interval_series
from ccmix.analysis.iperf3_tables import (
    FLOW,
    FLOW_COLUMNS,
    INTERVAL_COLUMNS,
    START_COLUMNS,
    by_flow,
    merge_short_intervals,
)
from ccmix.analysis.measured import increase
from ccmix.analysis.reports import Iperf3TestReport, ServiceReport
from ccmix.analysis.series import (
    NEEDED,
    Part,
    Series,
    Tables,
    earlier,
    read_sockets,
    sampled,
    with_peers,
    write_tables,
)
from ccmix.analysis.step_tables import STEP_COLUMNS
from ccmix.conditions.qdisc import LEAF_PARENT
from ccmix.model import Traffic, UdpSource, run_files

BACKLOGS = "backlog_bytes", "backlog_packets", "least_backlog_bytes"
PARENTS_OF_CLSACT = ("ingress", "ffff:fff1")  # as ccmix-sockmon and tc write it
# iperf3's cookie has 37 bytes, and may be sent again; its first block fills ten segments
NO_DATA_BYTES = 1000
_ENDS = ["local_address", "local_port", "remote_address", "remote_port"]
# Of the bytes of the largest connection: one that carries less, such as a control connection, is
# not a flow
LEAST_SHARE_OF_A_FLOW = 0.01


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
        root = samples.filter(pl.col("parent") == "root")
        leaf = samples.filter(pl.col("parent") == LEAF_PARENT).select("time_s", *BACKLOGS)
        with_leaf = root.join(
            leaf, on="time_s", how="left", suffix="_of_leaf", maintain_order="left"
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


def make_tables(
    flows: pl.DataFrame,
    intervals: pl.DataFrame,
    series: Series,
    parts: Callable[[], Iterable[Part]],
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
            tables = dict(part.tables)
            if "sockets" in tables:
                tables["sockets"] = select_flows(with_peers(tables["sockets"]))
            yield earlier(tables, start_s)

    shifted: dict[str, Any] = earlier({name: getattr(series, name) for name in NEEDED}, start_s)
    return RunTables(flows, intervals, replace(series, **shifted), start_s, shifted_parts)


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
    runs_on = traffic.command and traffic.command.kept
    begins_s = {
        flow: None if runs_on else begin_s or 0.0
        for flow, begin_s in by_flow(tables.flows, "begin_s").items()
    }
    counters = count_flows(all_sockets, tables.intervals, begins_s)
    tables = replace(tables, counters=counters)
    if set(counters.counted_by.values()) <= {"generator"} and not isinstance(
        traffic.sources[0], UdpSource
    ):
        return replace(tables, intervals=merge_short_intervals(tables.intervals, tables.flows))
    flows = pl.concat([tables.flows, tables.short_flows])
    series = functools.partial(interval_series, counters, flows, traffic, end_s=end_s)
    finer = traffic.interval_s < traffic.goodput_interval_s
    return replace(
        tables,
        intervals=series(interval_s=traffic.goodput_interval_s),
        fine_intervals=series(interval_s=traffic.interval_s) if finer else None,
    )


def _until_closed(flows: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
    """Returns the flows with a later `end_s` if their sockets closed later than planned. Flows that
    last until the end of the run (`end_s` is null) stay as they are.

    closed: when both sockets of a flow had closed, as host, port and closed_s
    """
    both = flows.join(closed, on=FLOW, how="left", maintain_order="left")
    end_s = pl.when(pl.col("end_s").is_not_null()).then(pl.max_horizontal("end_s", "closed_s"))
    return both.with_columns(end_s=end_s).drop("closed_s")


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
        reverse=False,
        udp=False,
    ).cast(FLOW_COLUMNS)  # type: ignore[arg-type]


def intervals_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns the goodput (acknowledged bits/s) and the retransmissions between each two successive
    samples of a flow: INTERVAL_COLUMNS.
    """
    return (
        samples.sort(*FLOW, "time_s")
        .select(
            "time_s",
            *FLOW,
            "group",
            omitted=False,
            seconds=pl.col("time_s").diff().over(FLOW),
            goodput_bps=(pl.col("bytes_acked").diff() * 8 / pl.col("time_s").diff()).over(FLOW),
            retransmits=pl.col("retransmits").diff().over(FLOW),
        )
        .drop_nulls("seconds")
        .select(*INTERVAL_COLUMNS)
        .cast(INTERVAL_COLUMNS)  # type: ignore[arg-type]
    )
