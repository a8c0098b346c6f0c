"""Turns a test of iperf3, of any version and from either end, into a run. Values that its document
lacks stay empty.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ccmix.analysis.iperf3_tables import (
    BLOCK_BYTES,
    FLOW_COLUMNS,
    INTERVAL_COLUMNS,
    merge_short_intervals,
    read_intervals,
    read_reported,
)
from ccmix.analysis.series import SRC, read_series
from ccmix.analysis.tables import RunTables
from ccmix.generators.results import sentence
from ccmix.importing import times
from ccmix.importing.iperf3_documents import (
    Iperf3Count,
    Iperf3Document,
    Iperf3Interval,
    Iperf3StreamEnds,
    is_test,
)
from ccmix.importing.times import LEAST_INTERVAL_S, MOST_CLOCK_S
from ccmix.importing.values import (
    MOST_RATE_BPS,
    ForeignRun,
    LeftOut,
    Object,
    Row,
    SourceError,
    within,
    writable,
)
from ccmix.model import Group, ImportedSource, Traffic
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.model.results import ImportOverrides
from ccmix.model.traffic import group_names as group_names_of

MOST_STREAMS = 1024  # iperf3 itself takes 128
UDP = "udp"
WHOLE = 0.95  # of the nominal time, which a test that ran to its end has at least


def read_run(
    document: Object,
    where: str,
    overrides: ImportOverrides,
    kind: str,
    server: Object | None = None,
) -> ForeignRun | LeftOut:
    """Returns the run of a test from the document of one end and that of the other end, `server`.
    Raises SourceError.

    If a test has no end, or one without what the other end counted, rates are those of its
    intervals.
    """
    test = _Test(document, where)
    if not test.streams:
        error = test.document.error
        return LeftOut(
            where, f"the test failed: {sentence(error)}" if error else "the test carried nothing"
        )
    embedded = test.document.server_output_json
    if server is None and isinstance(embedded, dict) and is_test(embedded):
        server = embedded
    other = _Test(server, where) if server is not None else None
    return test.run(overrides, kind, other)


def cookie_of(document: Object) -> tuple[str, str] | None:
    """Returns the cookie that both ends of a test share, and the end that wrote the document:
    'client' or 'server'.
    """
    start = document.get("start") if is_test(document) else None
    cookie = start.get("cookie") if start else None
    if not start or not isinstance(cookie, str) or not cookie:
        return None
    ends = {"connecting_to": "client", "accepted_connection": "server"}
    return next(((cookie, end) for mark, end in ends.items() if mark in start), None)


@dataclass
class _Stream:
    """Describes a stream. `forth`: the client sends; `back`: a test in both
    directions has it, too.
    """

    socket: int
    forth: bool
    goodput_bps: float | None = None
    throughput_bps: float | None = None
    retransmits: int | None = None
    bytes_sent: int | None = None
    cca: str | None = None
    group: int = 0  # from 1; 0: none
    number: int = 0
    back: bool = False


@dataclass(frozen=True)
class _Interval:
    end_s: float
    omitted: bool
    streams: list[Iperf3Count]


class _Test:
    """Reads a document."""

    def __init__(self, document: Object, where: str) -> None:
        self.where, self.raw = where, document
        self.document = Iperf3Document.model_validate(document)
        self.start, self.end = self.document.start, self.document.end
        self.settings = self.start.test_start
        self.at_server = (
            self.start.accepted_connection is not None and self.start.connecting_to is None
        )
        self.reverse = bool(self.settings.reverse)
        self.sends_here = self.reverse == self.at_server
        self.udp = self.settings.protocol == "UDP"
        self.intervals = _intervals(self.document.intervals)
        self.streams = self._streams()
        self.ports = self._ports()
        if len(self.streams) > MOST_STREAMS:
            raise SourceError(
                f"{where}: has {len(self.streams)} streams, but iperf3 makes at most 128: take "
                "it out"
            )

    def _ports(self) -> dict[int, int]:
        """Returns the client's port of each stream; a small number for one that the document has
        no port of.
        """
        ports: dict[int, int] = {}
        for connected in self.start.connected:
            port = connected.remote_port if self.at_server else connected.local_port
            if port is not None and port not in ports.values():
                ports.setdefault(connected.socket, port)
        free = (
            number for number in range(len(self.streams) * 2 + 1) if number not in ports.values()
        )
        for stream in self.streams:
            if stream.socket not in ports:
                ports[stream.socket] = next(free)
        return ports

    def _streams(self) -> list[_Stream]:
        ends = (
            () if self.udp and self.at_server else self.end.streams
        )  # a server's count of UDP is of nothing
        ended = {stream.socket: stream for end in ends if (stream := self._ended(end))}
        exchanged = self._exchanged(list(ended.values()))
        self.finished = bool(self.end.streams) and exchanged and not self.document.error
        if not exchanged:
            for stream in ended.values():
                if stream.forth:
                    stream.goodput_bps = None
                else:
                    stream.throughput_bps = None
        streams = [] if self.finished and ended else self._of_intervals()
        for stream in streams:
            if end := ended.get(stream.socket):
                stream.cca, stream.group = end.cca, end.group
        streams = streams or list(ended.values())
        both_ways = len({stream.forth for stream in streams}) > 1
        for number, stream in enumerate(streams):
            stream.number, stream.back = number, both_ways and not stream.forth
        return streams

    def _exchanged(self, ended: Sequence[_Stream]) -> bool:
        """Returns whether the client knows the server's counts, which are 0 until the ends exchange
        their counts.
        """
        if self.udp or self.at_server:
            return True
        forth = [(stream.goodput_bps, stream.throughput_bps) for stream in ended if stream.forth]
        back = [(stream.throughput_bps, stream.goodput_bps) for stream in ended if not stream.forth]
        rates = [*forth, *back]  # counts of the server and of the client for each stream
        return any(there is None or there > 0 for there, _ in rates) or not any(
            here for _, here in rates
        )

    def _ended(self, stream: Iperf3StreamEnds) -> _Stream | None:
        sender, receiver = (
            (stream.udp, stream.udp) if stream.udp else (stream.sender, stream.receiver)
        )
        socket = receiver.socket if sender.socket is None else sender.socket
        sent_bps, received_bps = sender.bits_per_second, receiver.bits_per_second
        sends = (self.reverse == self.at_server) if sender.sender is None else sender.sender
        if stream.udp and received_bps is not None and sender.packets:
            received_bps *= max(0.0, 1 - (sender.lost_packets or 0) / sender.packets)
        elif not stream.udp and self.at_server:  # which doesn't know the client's counts
            sent_bps, received_bps = (sent_bps, None) if sends else (None, received_bps)
        if socket is None or (sent_bps is None and received_bps is None):
            return None
        return _Stream(
            socket,
            forth=sends != self.at_server,
            goodput_bps=received_bps,
            throughput_bps=sent_bps,
            retransmits=sender.retransmits,
            bytes_sent=sender.bytes if sent_bps is not None else None,
            cca=sender.congestion,
            group=stream.group or sender.group or 0,
        )

    def _of_intervals(self) -> list[_Stream]:
        """Adds up the intervals of a test without its end, as counted by the host that
        wrote them.
        """
        carried: dict[int, _Stream] = {}
        sizes: Counter[int] = Counter()
        seconds, before_s = 0.0, 0.0
        for interval in self.intervals:
            if interval.omitted:
                continue
            seconds += max(0.0, interval.end_s - before_s)
            before_s = interval.end_s
            for count in interval.streams:
                sends = self.sends_here if count.sender is None else count.sender
                stream = carried.setdefault(
                    count.socket, _Stream(count.socket, forth=sends != self.at_server)
                )
                sizes[count.socket] += count.bytes
                if count.retransmits is not None:
                    stream.retransmits = (stream.retransmits or 0) + count.retransmits
        for socket, stream in carried.items():
            rate_bps = within(sizes[socket] * 8 / seconds, MOST_RATE_BPS) if seconds else 0.0
            if stream.forth != self.at_server:
                stream.throughput_bps, stream.bytes_sent = rate_bps, sizes[socket]
            else:
                stream.goodput_bps = rate_bps
        return list(carried.values())

    def run(self, overrides: ImportOverrides, kind: str, other: "_Test | None") -> ForeignRun:
        """Returns the run: see read_run()."""
        missing = []
        if not self.finished:
            counted = "its intervals" if self.intervals else "this end of it"
            missing.append(
                f"the test has no {'whole ' if self.end.model_fields_set else ''}end: rates are "
                f"those of {counted}"
            )
        if self.document.error:
            missing.append(f"iperf3 said: {sentence(self.document.error)}")
        groups, names = self._groups(overrides, other)
        omit_s, interval_s, duration_s = self._times()
        bitrate_bps = (
            self.start.target_bitrate
            if self.settings.target_bitrate is None
            else self.settings.target_bitrate
        )
        flows = self._flows(groups, names, overrides)
        estimated = ["goodput_bps"] if flows["goodput_bps"].null_count() else []
        if self.intervals and other is None and self.sends_here:
            estimated.append("goodput_bps of intervals")
        flows = flows.with_columns(pl.col("goodput_bps").fill_null(pl.col("throughput_bps")))
        streams = sum(not stream.back for stream in self.streams)
        traffic = Traffic(
            (ImportedSource("", SRC, groups, streams),), duration_s, omit_s, interval_s
        )
        if not self.intervals:
            missing.append("it has no intervals")
        began_s, ended_early = self._began_s(), self._ended_early()
        length_s = omit_s + (self._took_s() if ended_early else duration_s)
        system = (self.start.system_info or "").split()
        return ForeignRun(
            kind=kind,
            source=self.where,
            results=RunTables(
                flows=flows,
                intervals=self._interval_table(traffic, flows, other),
                series=read_series(()),
                began_s=0.0,
                reported=self._reported(
                    other if other is not None and not self.sends_here else self
                ),
            ),
            groups=groups,
            streams=streams,
            udp_bps=(bitrate_bps or 0.0) if self.udp else None,
            bitrate_bps=None if self.udp else bitrate_bps or None,
            options=self._options(),
            ended_early=ended_early,
            settings={"direction": "both"} if any(stream.back for stream in self.streams) else {},
            **self._ends(other),
            duration_s=duration_s,
            omit_s=omit_s,
            interval_s=interval_s,
            pacing_bps=self.start.fq_rate or None,
            began_s=began_s,
            ended_s=None if began_s is None else began_s + length_s,
            kernel=system[2]
            if self.sends_here and len(system) > 2 and system[0] == "Linux"
            else None,
            version=self.start.version or "",
            missing=tuple(missing),
            estimated=tuple(estimated),
            document=self.raw,
        )

    def _groups(
        self, overrides: ImportOverrides, other: "_Test | None"
    ) -> tuple[tuple[Group, ...], dict[int, str]]:
        """Returns all groups with their CCAs if iperf3 is patched; otherwise the only CCA that it
        names, if any.
        """
        named: dict[int, str] = {}
        for connected in self.start.connected:
            if connected.group and connected.congestion:
                named.setdefault(connected.group, connected.congestion)
        if len(named) > 1 and sorted(named) == list(range(1, len(named) + 1)):
            return tuple(Group(named[number]) for number in sorted(named)), named
        of_ends = [test.end.sender_tcp_congestion for test in (self, other) if test is not None]
        ccas = (*named.values(), *of_ends, overrides.cca, DEFAULT_CCA)
        return (Group(UDP if self.udp else next(filter(None, ccas))),), {}

    def _flows(
        self, groups: Sequence[Group], names: Mapping[int, str], overrides: ImportOverrides
    ) -> pl.DataFrame:
        group_names, begins_s = group_names_of(groups), self._begins_s() if names else {}
        only = groups[0].cca if len(groups) == 1 and not self.udp else None
        default = only if only != DEFAULT_CCA else overrides.cca
        rows = [
            {
                "host": SRC,
                "port": self.ports[stream.socket],
                "stream": stream.number,
                "group": group_names[stream.group - 1 if stream.group in names else 0]
                + (" back" if stream.back else ""),
                "cca_asked": None,
                "cca_used": None if self.udp else stream.cca or default,
                "udp": self.udp,
                "goodput_bps": stream.goodput_bps,
                "throughput_bps": stream.throughput_bps,
                "retransmits": stream.retransmits,
                "bytes_sent": stream.bytes_sent,
                "begin_s": begins_s.get(stream.socket),
            }
            for stream in self.streams
        ]
        return pl.DataFrame(rows, schema=FLOW_COLUMNS)

    def _begins_s(self) -> dict[int, float]:
        """Returns, by socket, the start of the first interval in which a stream carried data, in
        seconds from the start of the test. No document has the delay of a group.
        """
        begins_s: dict[int, float] = {}
        omit_s, end_s = self.settings.omit or 0.0, 0.0
        for interval in self.intervals:
            begin_s, end_s = end_s, interval.end_s + (0.0 if interval.omitted else omit_s)
            for count in interval.streams:
                if count.bytes:
                    begins_s.setdefault(count.socket, begin_s)
        return begins_s

    def _times(self) -> tuple[float, float, float]:
        """Returns omitted time, interval and duration, in seconds."""
        settings = self.settings
        ends = [interval.end_s for interval in self.intervals]
        lengths = [
            after - before
            for before, after in zip([0.0, *ends], ends, strict=False)
            if after > before
        ]
        interval_s = settings.interval or times.interval_s(lengths)
        took_s = self._took_s()
        estimate_s = took_s if settings.bytes or settings.blocks else times.duration_s(took_s)
        duration_s = settings.duration or estimate_s
        return (
            settings.omit or 0.0,
            max(interval_s, LEAST_INTERVAL_S) if self.intervals else 0.0,
            duration_s,
        )

    def _took_s(self) -> float:
        """Returns how long the test carried data, without the omitted time."""
        of_end_s = (
            total.seconds for total in (self.end.sum_sent, self.end.sum_received, self.end.sum)
        )
        counted = (interval.end_s for interval in self.intervals if not interval.omitted)
        return next(filter(None, of_end_s), None) or max(counted, default=0.0)

    def _ended_early(self) -> str:
        """Returns the part of its time after which the test ended. Empty if it ran to its end, even
        if the output of the end was lost.
        """
        if self.finished:
            return ""
        took_s, nominal_s = self._took_s(), self.settings.duration
        if not nominal_s:
            return f"after {took_s:.3g} s"
        return "" if took_s >= WHOLE * nominal_s else f"after {took_s:.3g} of {nominal_s:g} s"

    def _options(self) -> dict[str, str]:
        """Returns further settings of the test from the document, by the names of iperf3's
        options.
        """
        start, settings = self.start, self.settings
        options: dict[str, str | int | None] = {
            "window": start.sock_bufsize,
            "mss": start.tcp_mss or start.tcp_mss_default,
            "length": settings.blksize,
            "bytes": settings.bytes,
            "blocks": settings.blocks,
        }
        for name, value in (settings.model_extra or {}).items():
            if isinstance(value, str | int | float):
                options[writable(name)] = f"{value:g}" if isinstance(value, float) else value
        return {name: writable(str(value)) for name, value in options.items() if value is not None}

    def _client(self, port: str = "local_port") -> Row:
        """Returns the parts of the document that iperf3_tables reads, with the client's ports
        as `port`.
        """
        sockets = {stream.socket for stream in self.streams}
        return {
            "start": {
                "connected": [{"socket": socket, port: self.ports[socket]} for socket in sockets],
                "tcp_mss_default": self.start.tcp_mss_default,
            },
            "intervals": [
                {
                    "sum": {"end": interval.end_s, "omitted": interval.omitted},
                    "streams": [
                        vars(count) for count in interval.streams if count.socket in sockets
                    ],
                }
                for interval in self.intervals
            ],
            "end": {
                "streams": [
                    {
                        "sender": {
                            "socket": stream.socket,
                            "bytes": stream.bytes_sent,
                            "retransmits": stream.retransmits,
                        }
                    }
                    for stream in self.streams
                    if stream.bytes_sent is not None and not self.udp
                ]
            },
        }

    def _reported(self, sender: "_Test") -> pl.DataFrame:
        """Returns the sender's report about its sockets. Only the client's document has the size of
        segments.
        """
        document = sender._client()
        document["start"]["tcp_mss_default"] = (
            document["start"]["tcp_mss_default"] or self.start.tcp_mss_default
        )
        return read_reported(document, SRC)

    def _interval_table(
        self, traffic: Traffic, flows: pl.DataFrame, other: "_Test | None"
    ) -> pl.DataFrame:
        """Returns the received bytes of each direction, counted by the receiver if its document
        exists.
        """
        if other is not None and (
            not other.intervals or set(other.ports.values()) != set(self.ports.values())
        ):
            other = None
        tables = [pl.DataFrame(schema=INTERVAL_COLUMNS)]
        for forth in (True, False):
            ports = [self.ports[stream.socket] for stream in self.streams if stream.forth == forth]
            sends = forth != self.at_server
            sender, receiver = (self, other) if sends else (other or self, self if other else None)
            if ports and sender.intervals:
                server = receiver._client("remote_port") if receiver is not None else None
                table = read_intervals(traffic, sender._client(), server, flows)
                tables.append(table.filter(pl.col("port").is_in(ports)).cast(INTERVAL_COLUMNS))  # type: ignore[arg-type]
        return merge_short_intervals(pl.concat(tables), flows, self.settings.blksize or BLOCK_BYTES)

    def _ends(self, other: "_Test | None") -> Row:
        """Returns the names of sender and receiver: the host's own name, and the name that the
        other end used.
        """
        peer = self.start.accepted_connection if self.at_server else self.start.connecting_to
        remote = (peer.host if peer else None) or (other.hostname if other is not None else None)
        address = self.start.connected[0].remote_host if self.start.connected else None
        if self.sends_here:
            return {"src": self.hostname, "dst": remote or address, "dst_address": address}
        return {"src": remote, "dst": self.hostname, "dst_address": None}

    @property
    def hostname(self) -> str | None:
        """Returns the host name from uname in system_info: 'Linux dtn1 6.1.0 ...'."""
        words = (self.start.system_info or "").split()
        return words[1] if len(words) > 2 else None

    def _began_s(self) -> float | None:
        milliseconds, seconds = self.start.timestamp.timemillisecs, self.start.timestamp.timesecs
        return (
            within(milliseconds / 1e3 if milliseconds else float(seconds or 0), MOST_CLOCK_S)
            or None
        )


def _intervals(intervals: Sequence[Iperf3Interval]) -> list[_Interval]:
    """Returns the intervals, except those without a time in the document.

    A server whose client was interrupted writes its last interval twice (iperf3 3.12).
    """
    kept: list[_Interval] = []
    for interval in intervals:
        if not interval.streams:
            continue
        end_s = interval.streams[0].end if interval.sum.end is None else interval.sum.end
        omitted = interval.sum.omitted
        if omitted is None:
            omitted = any(count.omitted for count in interval.streams)
        if end_s is not None and (
            not kept or (kept[-1].end_s, kept[-1].omitted) != (end_s, omitted)
        ):
            kept.append(_Interval(end_s, omitted, interval.streams))
    return kept
