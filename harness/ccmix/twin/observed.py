"""Reads the part of a run's results that both ends of a real path can see. Nothing is read that
only an emulated path reports.
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
from ccmix.generators.path_steps import (
    ABOVE,
    AVAILABLE,
    BELOW,
    BURSTS,
    FILL,
    IDLE,
    REACH,
    SHARE,
    TRAINS,
)
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
    """Describes a step while it sends; times count from the begin of the traffic. `offered_bps` is
    None for TCP and if nothing was sent.

    udp: time_s (end of the interval), seconds, received_bytes (of the application), packets,
        lost_packets. Trains have a row for each gap between two of their packets. Bursts have a row
        for each long train, with before_loss and after_loss: the number of packets that came before
        the first and after the last loss.
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
        """Returns 'above', 'below', ..., without the number of the attempt."""
        return self.name.partition("-")[0]


@dataclass(frozen=True)
class PathRun:
    """Holds the results of a run that show its path.

    rtt: time_s and rtt_s of the probe's questions
    sockets: SOCKET_COLUMNS of the sender's flows, as far as the kernel has them
    pings_s: round trips before the traffic
    """

    name: str
    steps: tuple[PathStep, ...]
    rtt: pl.DataFrame
    sockets: pl.DataFrame
    pings_s: tuple[float, ...] = ()

    @property
    def has_steps(self) -> bool:
        """Returns whether the run has steps that measure the path."""
        return any(step.kind == REACH for step in self.steps)

    def of_kind(self, *kinds: str) -> list[PathStep]:
        return [step for step in self.steps if step.kind in kinds]

    @cached_property
    def tcp_steps(self) -> list[PathStep]:
        return self.of_kind(REACH, FILL, ORDINARY)

    @property
    def above(self) -> list[PathStep]:
        return self.of_kind(ABOVE)

    @property
    def available(self) -> list[PathStep]:
        return self.of_kind(AVAILABLE)

    @property
    def share(self) -> PathStep | None:
        return next(iter(self.of_kind(SHARE)), None)

    @property
    def below(self) -> PathStep | None:
        return next(iter(self.of_kind(BELOW)), None)

    @property
    def trains(self) -> PathStep | None:
        return next(iter(self.of_kind(TRAINS)), None)

    @property
    def bursts(self) -> PathStep | None:
        return next(iter(self.of_kind(BURSTS)), None)

    @property
    def idle(self) -> PathStep | None:
        return next(iter(self.of_kind(IDLE)), None)

    @cached_property
    def idle_rtts_s(self) -> NDArray[np.float64]:
        """Returns the RTTs of the answered questions of the idle step; empty if it is missing."""
        return (
            self.rtts(self.idle.begin_s, self.idle.end_s).to_numpy() if self.idle else np.array([])
        )

    def rtts(self, begin_s: float, end_s: float) -> pl.Series:
        """Returns the RTTs of the answered questions that were sent in that time."""
        return self.answered(begin_s, end_s)["rtt_s"]

    def answered(self, begin_s: float, end_s: float) -> pl.DataFrame:
        """Returns the answered questions of that time: time_s, rtt_s."""
        return self._asked(begin_s, end_s).drop_nulls()

    @property
    def asked_each_s(self) -> float:
        """Returns the time between two questions of the probe; 0 without questions."""
        between_s = self.rtt["time_s"].diff().median() if self.rtt.width else None
        return between_s if isinstance(between_s, float) else 0.0

    def unanswered(self, begin_s: float, end_s: float) -> float:
        """Returns the unanswered share of the questions of that time; 0 without questions."""
        asked = self._asked(begin_s, end_s)["rtt_s"]
        return asked.null_count() / asked.len() if asked.len() else 0.0

    def _asked(self, begin_s: float, end_s: float) -> pl.DataFrame:
        """Returns all questions of that time; the RTT is null without an answer."""
        if not self.rtt.width:
            return pl.DataFrame(schema={"time_s": pl.Float64, "rtt_s": pl.Float64})
        return self.rtt.filter(pl.col("time_s").is_between(begin_s, end_s))

    def sockets_in(self, step: PathStep) -> pl.DataFrame:
        """Returns the samples of the flows' sockets in a step."""
        if not self.sockets.width:
            return self.sockets
        return self.sockets.filter(
            pl.col("time_s").is_between(step.begin_s - BEFORE_S, step.end_s + BEFORE_S)
        )

    def grown(self, step: PathStep, *counters: str, begin_s: float = 0.0) -> pl.DataFrame:
        """Returns the growth of counters in a step from begin_s on, with a row for each flow; empty
        if a counter was not recorded.
        """
        if not {*counters} <= {*self.sockets.columns}:
            return pl.DataFrame(schema=dict.fromkeys(counters, pl.Float64))
        samples = self.sockets_in(step).filter(pl.col("time_s") >= begin_s).sort("time_s")
        numbers = pl.col(*counters).cast(pl.Float64)
        return samples.group_by("port", maintain_order=True).agg(numbers.last() - numbers.first())


def senders(run: Run) -> list[str]:
    """Returns the hosts that send over the path: in the steps that measure it, or otherwise in
    iperf3 tests.
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
    """Reads the results of a finished run for the path of a sender. Raises ArchiveError."""
    run, several = finished.run, len(finished.ping_rtt_s) > 1
    # the probe sends its questions from the first sender
    rtt = (
        _read(folder / run_files.RTT)
        if not several or sender == next(iter(finished.ping_rtt_s))
        else pl.DataFrame()
    )
    return PathRun(
        name=run.name,
        steps=_steps(run, folder, sender),
        rtt=rtt.select("time_s", "rtt_s") if rtt.width else rtt,
        sockets=_flows(_read(folder / run_files.SOCKETS), sender if several else None),
        pings_s=finished.ping_rtt_s.get(sender, ()),
    )


def _read(file: Path) -> pl.DataFrame:
    return parquet.read(file) if file.exists() else pl.DataFrame()


def _flows(sockets: pl.DataFrame, host: str | None) -> pl.DataFrame:
    if not sockets.width:
        return sockets
    own = sockets.filter(
        pl.col("end") == "sender", pl.col("group").is_not_null(), pl.col("state") == "established"
    )
    own = own.filter(pl.col("host") == host) if host else own
    return own.select(name for name in SOCKET_COLUMNS if name in own.columns)


def _steps(run: Run, folder: Path, sender: str) -> tuple[PathStep, ...]:
    table = _read(folder / run_files.STEPS_SERIES)
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
    """Returns the steps of steps.parquet that did not fail; an older file may lack the last
    columns.
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
