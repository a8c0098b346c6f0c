"""Reads the raw files of a run: the second probe's stream, iperf3's JSON, facts.json, and the plan
in run.json.

It does not use ccmix.analysis, and reads none of its tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ccmix.probes.stream.reader import read_stream
from recomputed.bounds import Bounds, Counter, Numbers
from recomputed.capture import Ends, Sent, read_capture
from recomputed.lab import STREAM

FIRST_PORT = 5201  # of the source 0 of a run
CONTROL = (
    0.01  # of the bytes of a command's largest flow: a connection with less is a control connection
)
LATE_S = 1e-3  # iperf3's own start of the streams counts if it is later than planned by more
COUNTERS = (
    "bytes_sent",
    "bytes_retransmitted",
    "bytes_acked",
    "bytes_received",
    "segs_in",
    "data_segs_out",
    "retransmits",
    "busy_s",
    "receiver_window_limited_s",
)


@dataclass(frozen=True)
class Socket:
    """One end of a connection, as the probe saw it each millisecond."""

    rows: dict[str, Numbers]  # by column, in the order of time
    step_s: float
    cookie: int

    def counter(self, name: str) -> Counter:
        return Counter.read(self.rows["time_s"], self.rows[name], self.step_s)

    @property
    def begin_s(self) -> float:
        return float(self.rows["time_s"][0])

    @property
    def end_s(self) -> float:
        return float(self.rows["time_s"][-1])


@dataclass(frozen=True)
class Connection:
    """A TCP connection; `sender` is the end that sent more."""

    host: str  # the sender's name in the topology, whichever way data went
    host_port: int
    peer: tuple[str, int]
    sender: Socket
    receiver: Socket


@dataclass(frozen=True)
class Datagrams:
    """The UDP data that arrived in the measured time, and that was sent for it: bytes, and seconds
    of each end.
    """

    received: int
    receiver_s: float
    sent: int
    sender_s: float


@dataclass(frozen=True)
class Flow:
    """A stream of iperf3, the connections of a command from one port, or all connections of
    another traffic source.
    """

    source: int
    host: str
    port: int | None  # None: all connections of the source
    is_source: bool  # whether all flows of the source count as one where flows are compared
    test_group: int  # the number of the group within the source
    cca: str | None
    begin_s: float  # when it is active, from time 0 on
    end_s: float
    connections: tuple[Connection, ...]
    udp: Counter | None = None  # bytes that the receiver's kernel got
    told: Datagrams | None = None  # what both ends of UDP say themselves

    @property
    def active_s(self) -> float:
        return self.end_s - self.begin_s

    @property
    def unit(self) -> tuple[int, int | None]:
        """Returns a key that distinguishes flows in comparisons."""
        return self.source, None if self.is_source else self.port


class RawRun:
    """The raw files of a run; all times are seconds from time 0, the start of the traffic."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown: dict[str, Any] = json.loads((folder / "run.json").read_text())
        self.facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
        self.traffic: dict[str, Any] = self.shown["run"]["traffic"]
        self.path: dict[str, Any] = self.shown["run"]["path"]
        self.sources: list[dict[str, Any]] = self.traffic["sources"]
        self.omit_s, self.interval_s = (
            float(self.traffic["omit_s"]),
            float(self.traffic["interval_s"]),
        )
        self.settled_after_s: float | None = self.shown["settled_after_s"]
        self.end_s = self.omit_s + float(self.settled_after_s or self.traffic["duration_s"])
        self._stream = read_stream(folder / "logs" / STREAM)

    @property
    def name(self) -> str:
        return f"{self.folder.parts[-4]} {self.folder.parts[-3]}"

    @cached_property
    def zero_s(self) -> float:
        """Time 0 by the guest's clock: as planned, or later if iperf3 reports that all of its tests
        started later.
        """
        late = []
        for number, source in enumerate(self.sources):
            if source["kind"] in ("iperf3", "udp"):
                started = self.iperf3(number, "client")["start"]["test_start"].get("start_time")
                late.append(started - source["start_s"] - self.facts["began_s"] if started else 0.0)
        least = min(late, default=0.0)
        return float(self.facts["began_s"]) + (least if least > LATE_S else 0.0)

    @property
    def monotonic_zero_s(self) -> float:
        first = self._stream.sockets.row(0, named=True)
        return float(first["monotonic_s"] - (first["time_s"] - self.zero_s))

    @cached_property
    def step_s(self) -> float:
        return 1 / float(self._stream.header["rate_hz"])

    def label(self, number: int) -> str:
        source = self.sources[number]
        return f"{source['name']}.{source['host']}" if source["name"] else source["host"]

    def iperf3(self, number: int, end: str) -> dict[str, Any]:
        [file] = (self.folder / "generators").glob(f"{self.label(number)}-iperf3-{end}.json")
        found: dict[str, Any] = {}
        for line in file.read_text().splitlines() if self.settled_after_s else ():
            event = json.loads(line)  # of --json-stream
            found[event["event"]] = event["data"]
        return found or dict(json.loads(file.read_text()))

    @cached_property
    def connections(self) -> list[Connection]:
        """All TCP connections that the probe saw at both ends, in the order of their starts."""
        ends = {name: end == "sender" for name, end in self.facts["series"]["sockets"].items()}
        columns = ("time_s", *COUNTERS, "rtt_s")
        found: dict[tuple[Any, ...], list[Socket]] = {}
        names = ("netns", "cookie", "local_address", "local_port", "remote_address", "remote_port")
        known = self._stream.sockets.with_columns(
            pl.col("time_s") - self.zero_s,
            *(
                pl.col(name).str.strip_prefix("::ffff:")
                for name in ("local_address", "remote_address")
            ),
        )
        for key, rows in known.group_by(names, maintain_order=True):
            netns, cookie, *four = key
            four = [*four[2:], *four[:2]] if not ends[str(netns)] else four
            kept = rows.select(pl.col(columns).cast(pl.Float64))
            found.setdefault((ends[str(netns)], *four), []).append(
                Socket({name: kept[name].to_numpy() for name in columns}, self.step_s, int(cookie))  # type: ignore[call-overload]
            )
        made = []
        for (at_host, *four), sockets in found.items():
            peers = found.get((False, *four), [])
            for near, far in zip(sockets, peers, strict=False) if at_host else ():
                forth = near.rows["bytes_sent"][-1] >= far.rows["bytes_sent"][-1]
                address, port, *peer = four
                host = self.facts["series"]["senders"][address]
                made.append(
                    Connection(host, port, tuple(peer), *((near, far) if forth else (far, near)))
                )  # type: ignore[arg-type]
        return sorted(made, key=lambda connection: connection.sender.begin_s)

    @cached_property
    def flows(self) -> list[Flow]:
        return [flow for number in range(len(self.sources)) for flow in self._flows_of(number)]

    def _flows_of(self, number: int) -> Iterator[Flow]:
        source = self.sources[number]
        host, kind, begin_s = (
            source["host"],
            source["kind"],
            max(self.omit_s, float(source["start_s"])),
        )
        if kind == "udp":
            own_words = self._arrived(number), self._told(number)
            yield Flow(number, host, None, False, 0, None, begin_s, self.end_s, (), *own_words)
        elif kind == "iperf3":
            for stream in self.iperf3(number, "client")["start"]["connected"]:
                group = stream.get("group", 1) - 1
                delayed_s = max(self.omit_s, source["start_s"] + source["groups"][group]["delay_s"])
                own = self._of(
                    host, stream["local_port"], (stream["remote_host"], stream["remote_port"])
                )
                cca = stream.get("congestion") or source["groups"][group]["cca"]
                yield Flow(
                    number,
                    host,
                    stream["local_port"],
                    False,
                    group,
                    cca,
                    delayed_s,
                    self.end_s,
                    own,
                )
        elif not host.endswith("receiver"):
            by_port: dict[int | None, list[Connection]] = {}
            for each in self._of_service(number):
                by_port.setdefault(each.host_port if kind == "command" else None, []).append(each)
            sent = {
                port: sum(each.sender.rows["bytes_sent"][-1] for each in own)
                for port, own in by_port.items()
            }
            for port, connections in by_port.items():
                if sent[port] >= CONTROL * max(sent.values()):
                    yield from self._active(number, port, connections)

    def _active(
        self, number: int, port: int | None, connections: list[Connection]
    ) -> Iterator[Flow]:
        """Yields the flow of these connections if it is active in the measured time: from the begin
        of its first connection to the end of its last one, at whichever end they last longer.
        """
        begin_s = max(
            self.omit_s,
            min(min(each.sender.begin_s, each.receiver.begin_s) for each in connections),
        )
        end_s = min(
            self.end_s, max(max(each.sender.end_s, each.receiver.end_s) for each in connections)
        )
        cca = self.sources[number].get("cca")
        if end_s > begin_s:
            host = self.sources[number]["host"]
            yield Flow(number, host, port, True, 0, cca, begin_s, end_s, tuple(connections))

    def _of(self, host: str, port: int, peer: tuple[str, int]) -> tuple[Connection, ...]:
        return tuple(
            each
            for each in self.connections
            if (each.host, each.host_port, each.peer) == (host, port, peer)
        )

    def _of_service(self, number: int) -> Iterator[Connection]:
        """Yields the connections of a source that is not iperf3's: by its server's port, or all
        connections that belong to no other source.
        """
        source, iperf3s = self.sources[number], set()
        for other, each in enumerate(self.sources):
            if each["kind"] == "iperf3":
                streams = self.iperf3(other, "client")["start"]["connected"]
                iperf3s |= {
                    (each["host"], stream["local_port"], stream["remote_port"])
                    for stream in streams
                }
            if each["kind"] in ("iperf3", "udp"):
                accepted = self.iperf3(other, "server")["start"]["accepted_connection"]
                iperf3s.add((each["host"], accepted["port"], FIRST_PORT + other))
        services = {
            FIRST_PORT + n
            for n, each in enumerate(self.sources)
            if each["kind"] in ("http", "workload")
        }
        for each in self.connections:
            ours = each.host == source["host"] and each.sender.rows["bytes_sent"][-1] > 0
            if source["kind"] == "command":
                others = {each.host_port, each.peer[1]} & services
                ours = (
                    ours and not others and (each.host, each.host_port, each.peer[1]) not in iperf3s
                )
            else:
                port = each.host_port if source["kind"] == "http" else each.peer[1]
                ours = ours and port == FIRST_PORT + number
            if ours:
                yield each

    def _arrived(self, number: int) -> Counter:
        """Counts the bytes of a UDP source from the datagrams of its receiver's kernel, all of
        which belong to the source.
        """
        host, ends = self.sources[number]["host"], self.facts["series"]["sockets"]
        own = f"ccmix-{host}-receiver"
        rows = self._stream.counters.filter(
            pl.col("netns") == (own if own in ends else "ccmix-receiver"),
            pl.col("name") == "Udp.InDatagrams",
        )
        size = self.iperf3(number, "client")["start"]["test_start"]["blksize"]
        values = rows["value"].cast(pl.Float64).to_numpy() * size
        return Counter(rows["time_s"].to_numpy() - self.zero_s, values - values[:1])

    def _told(self, number: int) -> Datagrams:
        def counted(end: str) -> tuple[int, float]:
            intervals = [
                each for each in self.iperf3(number, end)["intervals"] if not each["sum"]["omitted"]
            ]
            own = [stream["bytes"] for each in intervals for stream in each["streams"]]
            return sum(own), float(intervals[-1]["sum"]["end"]) if intervals else 0.0

        return Datagrams(*counted("server"), *counted("client"))

    @cached_property
    def captured(self) -> dict[Ends, Sent]:
        """Returns the packets that each end sent, from the capture, which is taken after the queues
        of the senders.
        """
        file = self.folder / "capture.pcap.zst"
        return read_capture(file) if file.exists() else {}

    @cached_property
    def refused(self) -> bool:
        """Returns whether a sender's own queue dropped packets, which the kernel counts as sent."""
        places = [f"ccmix-{sender['name']}/eth0" for sender in self.path["senders"]]
        return any(
            self.queue_growth(place, "drops", self.omit_s, self.end_s).low for place in places
        )

    def left(self, connection: Connection, column: int) -> Counter:
        """Returns a counter of Sent.rows of a sender, for the packets that left its device."""
        addresses = {host: address for address, host in self.facts["series"]["senders"].items()}
        rows = self.captured[
            addresses[connection.host], connection.host_port, *connection.peer
        ].rows
        times = np.array([row[0] - self.zero_s for row in rows])
        return Counter.read(times, np.array([float(row[column]) for row in rows]), 0.0)

    def queue(self, place: str, parent: str = "root") -> dict[str, Numbers]:
        """Returns the samples of a qdisc, such as `place` 'ccmix-bottleneck/east'; empty columns if
        there is none.
        """
        netns, device = place.split("/")
        rows = self._stream.queues.filter(
            pl.col("netns") == netns, pl.col("device") == device, pl.col("parent") == parent
        )
        columns = rows.select(
            "time_s", "bytes", "packets", "drops", "backlog_bytes", "backlog_packets"
        )
        numbers = {name: columns[name].cast(pl.Float64).to_numpy() for name in columns.columns}
        return numbers | {"time_s": numbers["time_s"] - self.zero_s}

    def queue_growth(
        self, place: str, name: str, begin_s: float, end_s: float, parent: str = "root"
    ) -> Bounds:
        rows = self.queue(place, parent)
        return Counter(rows["time_s"], rows[name]).growth(begin_s, end_s)

    @property
    def data_delays(self) -> list[str]:
        """Returns the devices whose netem has the data of the senders."""
        forth = (pl.col("netns") == "ccmix-delay") & pl.col("device").str.starts_with("east")
        rows = self._stream.queues.filter(forth)
        return [f"ccmix-delay/{device}" for device in rows["device"].unique(maintain_order=True)]

    def moments_s(self, begin_s: float, end_s: float) -> list[float]:
        """Returns the moments in this time at which the run itself is sampled: a grid from the end
        of `omit` on, the borders of the measured time, and the start of the last flow.
        """
        first = int(np.floor((begin_s - self.omit_s) / self.interval_s)) - 1
        last = int(np.ceil((end_s - self.omit_s) / self.interval_s)) + 1
        grid = [self.omit_s + number * self.interval_s for number in range(first, last + 1)]
        groups = [
            (source["start_s"], group)
            for source in self.sources
            for group in source.get("groups", ())
        ]
        starts_s = [
            *(source["start_s"] for source in self.sources),
            *(at + group["delay_s"] for at, group in groups),
        ]
        borders_s = (0.0, self.omit_s, max(self.omit_s, *starts_s), self.end_s)
        moments = {round(moment, 9) for moment in (*grid, *borders_s)}
        return sorted(moment for moment in moments if begin_s - 1e-6 <= moment <= end_s + 1e-6)

    def borders_s(self, interval_s: float) -> Numbers:
        """Returns the borders of intervals: from the end of the omitted time in both directions.
        The first and the last interval may be shorter, but a rest of less than half an interval at
        the end does not count.
        """
        first = -np.ceil(self.omit_s / interval_s - 1e-9)
        last = np.floor((self.end_s - self.omit_s) / interval_s + 0.5 + 1e-9)
        return np.clip(
            self.omit_s + np.arange(first, max(1, last) + 1) * interval_s, 0.0, self.end_s
        )
