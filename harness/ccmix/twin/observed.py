"""Reads the results of a run that both ends of a real path can see: steps, RTT probes, sockets.

Nothing is read that only an emulated path reports, so that real and emulated paths are estimated
alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.step_tables import STEP_COLUMNS
from ccmix.archive import parquet
from ccmix.generators.path_steps import ABOVE, BELOW, FILL, IDLE, REACH
from ccmix.model import HostPath, Iperf3Source, Run, run_files
from ccmix.model.results import FinishedRun
from ccmix.model.traffic import BETWEEN_HOSTS

ORDINARY = "test"  # a run without steps counts as a single step of this name
SOCKET_COLUMNS = (
    "time_s",
    "port",
    "rtt_s",
    "min_rtt_s",
    "bytes_sent",
    "bytes_acked",
    "data_segs_out",
    "retransmits",
    "busy_s",
    "receiver_window_limited_s",
    "send_buffer_limited_s",
    "send_window_bytes",
    "send_window_scale",
    "mss_bytes",
    "path_mtu_bytes",
    "ecn",
    "delivered_ce",
    "reorderings_seen",
    "unacked",
    "cwnd_packets",
)
UDP_COLUMNS = ("time_s", "seconds", "received_bytes", "packets", "lost_packets")
BEFORE_S = 0.05  # a step may have begun this much earlier than its recorded time


@dataclass(frozen=True)
class PathStep:
    """Describes one step of a path measurement while it sends. Each step sends a certain load, such
    as UDP above the path's rate. Times are seconds since the traffic began.

    `name` is a kind of generators/path_steps.py, perhaps with the number of the attempt: 'above-2'.
    `cca` is None for UDP, `offered_bps` is None for TCP and if nothing was sent.

    udp: the receiver's intervals of a UDP step: time_s (end of the interval), seconds,
        received_bytes (of the application), packets, lost_packets. Trains have a row for each gap
        between two of their packets. Bursts have a row for each long train, with before_loss and
        after_loss: the number of packets that came before the first and after the last loss.
    """

    name: str
    begin_s: float
    end_s: float
    streams: int
    cca: str | None
    offered_bps: float | None = None
    packet_bytes: int | None = None
    out_of_order: int | None = None
    udp: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def kind(self) -> str:
        """Returns the name without the number of the attempt: 'above' for 'above-2'."""
        return self.name.partition("-")[0]


@dataclass(frozen=True)
class PathRun:
    """Holds the results of one run over a path, from which its properties are estimated.

    rtt: a row for each packet of the RTT probe: time_s, rtt_s (null without an answer)
    sockets: samples of the sending flows' sockets; SOCKET_COLUMNS, as far as the kernel has them
    pings_s: round trips before the traffic
    """

    name: str
    steps: tuple[PathStep, ...]
    rtt: pl.DataFrame
    sockets: pl.DataFrame
    pings_s: tuple[float, ...] = ()

    @property
    def has_steps(self) -> bool:
        """Returns whether the run measured the path in steps, and not only in an iperf3 test."""
        return any(step.kind == REACH for step in self.steps)

    def steps_of_kind(self, *kinds: str) -> list[PathStep]:
        """Returns the steps of these kinds, such as 'above' for 'above-1' and 'above-2'."""
        return [step for step in self.steps if step.kind in kinds]

    @cached_property
    def tcp_steps(self) -> list[PathStep]:
        """Returns the steps that sent TCP; an iperf3 test without steps counts as one."""
        return self.steps_of_kind(REACH, FILL, ORDINARY)

    def step(self, kind: str) -> PathStep | None:
        """Returns the first step of this kind; None without such a step."""
        return next(iter(self.steps_of_kind(kind)), None)

    @property
    def above(self) -> list[PathStep]:
        """Returns the UDP steps that try to offer more than the path's rate."""
        return self.steps_of_kind(ABOVE)

    @property
    def below(self) -> PathStep | None:
        """Returns the UDP step well below the path's rate, which shows random loss and reordering;
        None without such a step.
        """
        return self.step(BELOW)

    @property
    def idle(self) -> PathStep | None:
        """Returns the step that sends nothing, to measure the idle path; None without such a
        step.
        """
        return self.step(IDLE)

    @cached_property
    def idle_rtts_s(self) -> NDArray[np.float64]:
        """Returns the RTTs of the RTT probe, in seconds, while ccmix sent nothing else over the
        path; empty if the run has no such step.
        """
        return (
            self.rtts(self.idle.begin_s, self.idle.end_s).to_numpy() if self.idle else np.array([])
        )

    def rtts(self, begin_s: float, end_s: float) -> pl.Series:
        """Returns the RTTs of the RTT probe's packets that were sent from begin_s to end_s and
        answered.
        """
        return self.answered_probes(begin_s, end_s)["rtt_s"]

    def answered_probes(self, begin_s: float, end_s: float) -> pl.DataFrame:
        """Returns the RTT probe's packets that were sent from begin_s to end_s and answered:
        time_s, rtt_s.
        """
        return self._probes_sent(begin_s, end_s).drop_nulls()

    @property
    def probe_interval_s(self) -> float:
        """Returns the seconds between two packets of the probe; 0 if it sent none."""
        between_s = self.rtt["time_s"].diff().median() if self.rtt.width else None
        return between_s if isinstance(between_s, float) else 0.0

    def unanswered_share(self, begin_s: float, end_s: float) -> float:
        """Returns the share of the RTT probe's packets sent from begin_s to end_s that got no
        answer; 0 if none were sent.
        """
        rtts_s = self._probes_sent(begin_s, end_s)["rtt_s"]
        return rtts_s.null_count() / rtts_s.len() if rtts_s.len() else 0.0

    def _probes_sent(self, begin_s: float, end_s: float) -> pl.DataFrame:
        """Returns all packets of the RTT probe that were sent from begin_s to end_s: time_s, rtt_s
        (null without an answer).
        """
        if not self.rtt.width:
            return pl.DataFrame(schema={"time_s": pl.Float64, "rtt_s": pl.Float64})
        return self.rtt.filter(pl.col("time_s").is_between(begin_s, end_s))

    def sockets_in(self, step: PathStep) -> pl.DataFrame:
        """Returns the samples of the flows' sockets during a step, with SOCKET_COLUMNS. Samples up
        to 0.05 s before and after the step count, because its recorded times are not more exact.
        """
        if not self.sockets.width:
            return self.sockets
        return self.sockets.filter(
            pl.col("time_s").is_between(step.begin_s - BEFORE_S, step.end_s + BEFORE_S)
        )

    def counter_growth(self, step: PathStep, *counters: str, begin_s: float = 0.0) -> pl.DataFrame:
        """Returns by how much counters of tcp_info, such as retransmits, grew between `begin_s` and
        the end of a step: a row for each flow, with a column for each counter. The table is empty
        if a counter was not recorded.
        """
        if not {*counters} <= {*self.sockets.columns}:
            return pl.DataFrame(schema=dict.fromkeys(counters, pl.Float64))
        samples = self.sockets_in(step).filter(pl.col("time_s") >= begin_s).sort("time_s")
        counts = pl.col(*counters).cast(pl.Float64)
        return samples.group_by("port", maintain_order=True).agg(counts.last() - counts.first())


def senders(run: Run) -> list[str]:
    """Returns the hosts that send over the run's path; for each of them, a twin is made. If the run
    has steps that measure the path, their sender is the only one. Otherwise these are the senders
    of the iperf3 tests.

    Between real hosts, the only sender is BETWEEN_HOSTS.
    """
    if isinstance(run.path, HostPath):
        return [BETWEEN_HOSTS]
    tests = [source for source in run.traffic.sources if isinstance(source, Iperf3Source)]
    return list(
        dict.fromkeys(
            source.host for source in ([run.traffic.steps] if run.traffic.steps else tests)
        )
    )


def observe(finished: FinishedRun, folder: Path, sender: str) -> PathRun:
    """Reads what a finished run shows of the path of one sender from the run's folder: steps, RTTs,
    sockets and pings. The RTT probe runs only at the run's first sender, so the path of another
    sender has no RTTs of it. Raises ArchiveError.
    """
    run, several_senders = finished.run, len(finished.ping_rtt_s) > 1
    # the probe runs only at the first sender
    rtt = (
        _read_if_there(folder / run_files.RTT)
        if not several_senders or sender == next(iter(finished.ping_rtt_s))
        else pl.DataFrame()
    )
    return PathRun(
        name=run.name,
        steps=_steps_of_run(run, folder, sender),
        rtt=rtt.select("time_s", "rtt_s") if rtt.width else rtt,
        sockets=_sockets_of_flows(
            _read_if_there(folder / run_files.SOCKETS), sender if several_senders else None
        ),
        pings_s=finished.ping_rtt_s.get(sender, ()),
    )


def _read_if_there(file: Path) -> pl.DataFrame:
    """Returns the table in the Parquet file; a table without columns if the file does not exist."""
    return parquet.read(file) if file.exists() else pl.DataFrame()


def _sockets_of_flows(sockets: pl.DataFrame, host: str | None) -> pl.DataFrame:
    """Selects samples of sockets: the socket sends, is established, and belongs to a flow of the
    run (its group is known). The result has those of SOCKET_COLUMNS that were recorded. If `host`
    is given, only samples of the flows that this host sends are selected.
    """
    if not {"end", "group", "state", "host"} <= set(sockets.columns):
        return pl.DataFrame()
    flows = sockets.filter(
        pl.col("end") == "sender", pl.col("group").is_not_null(), pl.col("state") == "established"
    )
    flows = flows.filter(pl.col("host") == host) if host else flows
    return flows.select(name for name in SOCKET_COLUMNS if name in flows.columns)


def _steps_of_run(run: Run, folder: Path, sender: str) -> tuple[PathStep, ...]:
    """Returns the steps of the path measurement of a run. A run without steps counts as a single
    step with the name ORDINARY: the iperf3 test of this sender, without the omitted time.
    """
    table = _read_if_there(folder / run_files.STEPS_SERIES)
    if table.width:
        return steps_of(table)
    tests = (
        source
        for source in run.traffic.sources
        if isinstance(source, Iperf3Source) and source.host == sender
    )
    test = next(tests, None)
    if test is None or run.traffic.duration_s is None:
        return ()
    cca = ",".join(dict.fromkeys(group.cca for group in test.groups))
    return (PathStep(ORDINARY, run.traffic.omit_s, run.traffic.total_s, test.streams, cca),)


def steps_of(table: pl.DataFrame) -> tuple[PathStep, ...]:
    """Returns the steps that did not fail, from the rows of steps.parquet. Columns that an older
    file lacks are null.
    """
    table = pl.concat([pl.DataFrame(schema=STEP_COLUMNS), table], how="diagonal")
    steps = []
    for (name,), rows in table.filter(pl.col("failed").is_null()).group_by(
        ["step"], maintain_order=True
    ):
        first = rows.row(0, named=True)
        steps.append(
            PathStep(
                name=str(name),
                begin_s=first["begin_s"],
                end_s=min(first["end_s"], first["begin_s"] + first["asked_s"]),
                streams=first["streams"],
                cca=first["cca"],
                offered_bps=first["offered_bps"],
                packet_bytes=first["packet_bytes"],
                out_of_order=first["out_of_order"],
                udp=rows.select(*UDP_COLUMNS, "before_loss", "after_loss").drop_nulls(UDP_COLUMNS),
            )
        )
    return tuple(steps)
