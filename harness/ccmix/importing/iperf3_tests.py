"""Turns the JSON of an iperf3 test, of any version and from either end, into an imported run.

Values that the document lacks stay empty.
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
from ccmix.model.traffic import group_names as names_of_groups

MOST_STREAMS = 1024  # iperf3 itself takes 128
UDP = "udp"
COMPLETE_SHARE = 0.95  # of the nominal time, which a test that ran to its end has at least
CONTRADICTION = 0.15  # by which a total differs at least from the intervals of the same end


def read_run(
    document: Object,
    location: str,
    overrides: ImportOverrides,
    kind: str,
    server: Object | None = None,
) -> ForeignRun | LeftOut:
    """Makes a run of an iperf3 test from the document of one end, and optionally that of its
    server. Returns LeftOut for a failed or empty test. Raises SourceError.

    `location` is 'FILE:LINE' for messages, and `kind` the format of the file, such as
    'iperf3-text'. If the test was interrupted, so that the ends did not exchange their counts,
    rates are those of its intervals.
    """
    test = _EndOfTest(document, location)
    if not test.streams:
        error = test.document.error
        return LeftOut(
            location, f"the test failed: {sentence(error)}" if error else "the test carried nothing"
        )
    embedded = test.document.server_output_json
    if server is None and isinstance(embedded, dict) and is_test(embedded):
        server = embedded
    other = _EndOfTest(server, location) if server is not None else None
    return test.run(overrides, kind, other)


def read_cookie(document: Object) -> tuple[str, str] | None:
    """Returns the cookie that both ends of a test share, and the end that wrote the document:
    'client' or 'server'. None if the document has no cookie or no end.
    """
    start = document.get("start") if is_test(document) else None
    cookie = start.get("cookie") if start else None
    if not start or not isinstance(cookie, str) or not cookie:
        return None
    ends = {"connecting_to": "client", "accepted_connection": "server"}
    return next(((cookie, end) for mark, end in ends.items() if mark in start), None)


@dataclass
class _Stream:
    """Describes a stream. `forth` means that its data goes from the client to the server. `back`
    means that it goes from the server to the client, in a test with streams in both directions. A
    value is None if the document does not have it.
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
    """Holds the counts of all streams in an interval that ended `end_s` seconds after the test
    began.
    """

    end_s: float
    omitted: bool
    streams: list[Iperf3Count]


class _EndOfTest:
    """Reads the document that one end of a test wrote. `at_server` means that this end is the
    server, and `sends_here` that it sends the data. In a test in both directions, the client counts
    as the sender.
    """

    def __init__(self, document: Object, location: str) -> None:
        """Reads the document: settings, direction, streams and intervals. `location` is 'FILE:LINE'
        for messages. Raises SourceError if there are too many streams.
        """
        self.location, self.raw = location, document
        self.document = Iperf3Document.model_validate(document)
        self.start, self.end = self.document.start, self.document.end
        self.settings = self.start.test_start
        self.at_server = (
            self.start.accepted_connection is not None and self.start.connecting_to is None
        )
        self.reverse = bool(self.settings.reverse)
        self.sends_here = self.reverse == self.at_server
        self.udp = self.settings.protocol == "UDP"
        self.intervals = _read_intervals(self.document.intervals)
        omitted_ends_s = (interval.end_s for interval in self.intervals if interval.omitted)
        self.omit_s = times.omit_s(self.settings.omit, omitted_ends_s)
        self.streams = self._read_streams()
        self.ports = self._client_ports()
        if len(self.streams) > MOST_STREAMS:
            raise SourceError(
                f"{location}: has {len(self.streams)} streams, but iperf3 makes at most 128: take "
                "it out"
            )

    def _client_ports(self) -> dict[int, int]:
        """Returns the client's port of each stream by socket, which identifies the stream at both
        ends; a small unused number if the document does not have the port.
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

    def _read_streams(self) -> list[_Stream]:
        """Returns the streams with their rates: from the summary at the end of the test, or from
        the intervals if the summary is missing, lacks the other end's counts, or contradicts the
        intervals of a receiver (as with -R and -O up to 3.3). Sets `finished` and `contradictory`.
        """
        stream_summaries = (
            () if self.udp and self.at_server else self.end.streams
        )  # the summary of a UDP server counts nothing
        summary_streams = {
            stream.socket: stream
            for summary in stream_summaries
            if (stream := self._summary_stream(summary))
        }
        has_server_counts = self._has_server_counts(list(summary_streams.values()))
        self.finished = bool(self.end.streams) and has_server_counts and not self.document.error
        if not has_server_counts:
            for stream in summary_streams.values():
                if stream.forth:
                    stream.goodput_bps = None
                else:
                    stream.throughput_bps = None
        streams = self._streams_from_intervals()
        ends_s = [interval.end_s for interval in self.intervals if not interval.omitted]
        has_first = len(ends_s) < 2 or ends_s[0] < 1.5 * (ends_s[1] - ends_s[0])  # a text may not
        self.contradictory = (
            self.finished
            and has_first
            and any(
                _contradict(stream.goodput_bps, summary_streams[stream.socket].goodput_bps)
                for stream in streams
                if stream.socket in summary_streams
            )
        )
        if self.finished and summary_streams and not self.contradictory:
            streams = []
        for stream in streams:
            if summary := summary_streams.get(stream.socket):
                stream.cca, stream.group = summary.cca, summary.group
                if self.contradictory:
                    stream.retransmits = summary.retransmits
        streams = streams or list(summary_streams.values())
        both_ways = len({stream.forth for stream in streams}) > 1
        for number, stream in enumerate(streams):
            stream.number, stream.back = number, both_ways and not stream.forth
        return streams

    def _has_server_counts(self, summary_streams: Sequence[_Stream]) -> bool:
        """Returns whether this document has the counts of the server. In a client's document they
        are 0 until both ends exchange their counts at the end, which an interrupted test never
        reaches. A server's document always has them.
        """
        if self.udp or self.at_server:
            return True
        from_client = [
            (stream.goodput_bps, stream.throughput_bps)
            for stream in summary_streams
            if stream.forth
        ]
        from_server = [
            (stream.throughput_bps, stream.goodput_bps)
            for stream in summary_streams
            if not stream.forth
        ]
        rates = [
            *from_client,
            *from_server,
        ]  # counts of the server and of the client for each stream
        return any(server_bps is None or server_bps > 0 for server_bps, _ in rates) or not any(
            client_bps for _, client_bps in rates
        )

    def _summary_stream(self, stream: Iperf3StreamEnds) -> _Stream | None:
        """Returns a stream from its record in the summary; None if the record has no rate. Packets
        that UDP lost are not part of the goodput.
        """
        sender, receiver = (
            (stream.udp, stream.udp) if stream.udp else (stream.sender, stream.receiver)
        )
        socket = receiver.socket if sender.socket is None else sender.socket
        sent_bps, received_bps = sender.bits_per_second, receiver.bits_per_second
        sends = (self.reverse == self.at_server) if sender.sender is None else sender.sender
        if stream.udp and received_bps is not None and sender.packets is not None:
            lost = (sender.lost_packets or 0) / sender.packets if sender.packets else None
            received_bps = None if lost is None else received_bps * max(0.0, 1 - lost)
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

    def _streams_from_intervals(self) -> list[_Stream]:
        """Returns the streams of a test whose document lacks the summary, with the sums over its
        intervals. These are only the counts of the end that wrote the document.
        """
        streams: dict[int, _Stream] = {}
        sizes: Counter[int] = Counter()
        seconds, previous_end_s = 0.0, 0.0
        for interval in self.intervals:
            if interval.omitted:
                continue
            seconds += max(0.0, interval.end_s - previous_end_s)
            previous_end_s = interval.end_s
            for count in interval.streams:
                sends = self.sends_here if count.sender is None else count.sender
                stream = streams.setdefault(
                    count.socket, _Stream(count.socket, forth=sends != self.at_server)
                )
                sizes[count.socket] += count.bytes
                if count.retransmits is not None:
                    stream.retransmits = (stream.retransmits or 0) + count.retransmits
        for socket, stream in streams.items():
            rate_bps = within(sizes[socket] * 8 / seconds, MOST_RATE_BPS) if seconds else 0.0
            if stream.forth != self.at_server:
                stream.throughput_bps, stream.bytes_sent = rate_bps, sizes[socket]
            else:
                stream.goodput_bps = rate_bps
        return list(streams.values())

    def run(self, overrides: ImportOverrides, kind: str, other: "_EndOfTest | None") -> ForeignRun:
        """Returns the run of this test, with what the other end counted if its document is known
        (`other`). `kind` is the format of the file, such as 'iperf3-text'; `overrides` are facts
        that the user gives.
        """
        missing = []
        if not self.finished:
            counted = "its intervals" if self.intervals else "this end of it"
            missing.append(
                f"the test has no {'whole ' if self.end.model_fields_set else ''}end: rates are "
                f"those of {counted}"
            )
        if self.contradictory:
            missing.append("its totals contradict the receiver's intervals, whose rates it has")
        if self.document.error:
            missing.append(f"iperf3 said: {sentence(self.document.error)}")
        groups, names = self._find_groups(overrides, other)
        omit_s, interval_s, duration_s = self._nominal_times()
        bitrate_bps = (
            self.start.target_bitrate
            if self.settings.target_bitrate is None
            else self.settings.target_bitrate
        )
        flows = self._flow_table(groups, names, overrides)
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
        total_s = omit_s + (self._carried_data_s() if ended_early else duration_s)
        uname = (self.start.system_info or "").split()
        return ForeignRun(
            kind=kind,
            source=self.location,
            results=RunTables(
                flows=flows,
                intervals=self._interval_table(traffic, flows, other),
                series=read_series(()),
                began_s=0.0,
                reported=self._socket_report(
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
            **self._host_names(other),
            duration_s=duration_s,
            omit_s=omit_s,
            interval_s=interval_s,
            pacing_bps=self.start.fq_rate or None,
            began_s=began_s,
            ended_s=None if began_s is None else began_s + total_s,
            kernel=uname[2] if self.sends_here and len(uname) > 2 and uname[0] == "Linux" else None,
            version=self.start.version or "",
            missing=tuple(missing),
            estimated=tuple(estimated),
            document=self.raw,
        )

    def _find_groups(
        self, overrides: ImportOverrides, other: "_EndOfTest | None"
    ) -> tuple[tuple[Group, ...], dict[int, str]]:
        """Returns the groups of streams with their CCAs, and the CCA of each group by its number in
        the document.

        Only the patched iperf3 has several groups. For others, returns one group with the CCA that
        either end or the user names, and no numbers.
        """
        cca_by_number: dict[int, str] = {}
        for connected in self.start.connected:
            if connected.group and connected.congestion:
                cca_by_number.setdefault(connected.group, connected.congestion)
        if len(cca_by_number) > 1 and sorted(cca_by_number) == list(
            range(1, len(cca_by_number) + 1)
        ):
            return tuple(
                Group(cca_by_number[number]) for number in sorted(cca_by_number)
            ), cca_by_number
        default_ccas = [
            test.end.sender_tcp_congestion for test in (self, other) if test is not None
        ]
        ccas = (*cca_by_number.values(), *default_ccas, overrides.cca, DEFAULT_CCA)
        return (Group(UDP if self.udp else next(filter(None, ccas))),), {}

    def _flow_table(
        self, groups: Sequence[Group], cca_by_number: Mapping[int, str], overrides: ImportOverrides
    ) -> pl.DataFrame:
        """Returns FLOW_COLUMNS, a row for each stream. `cca_by_number` has the CCAs of the
        document's groups; it is empty if the test has only one.
        """
        group_names, begins_s = names_of_groups(groups), self._begins_s() if cca_by_number else {}
        only_cca = groups[0].cca if len(groups) == 1 and not self.udp else None
        default_cca = only_cca if only_cca != DEFAULT_CCA else overrides.cca
        rows = [
            {
                "host": SRC,
                "port": self.ports[stream.socket],
                "stream": stream.number,
                "group": group_names[stream.group - 1 if stream.group in cca_by_number else 0]
                + (" back" if stream.back else ""),
                "cca_asked": None,
                "cca_used": None if self.udp else stream.cca or default_cca,
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
        """Returns when each stream first carried data, by socket, in seconds from the start of the
        test: the begin of the first interval with data. Documents do not have the delayed start of
        a group.
        """
        begins_s: dict[int, float] = {}
        end_s = 0.0
        for interval in self.intervals:
            begin_s, end_s = end_s, interval.end_s + (0.0 if interval.omitted else self.omit_s)
            for count in interval.streams:
                if count.bytes:
                    begins_s.setdefault(count.socket, begin_s)
        return begins_s

    def _nominal_times(self) -> tuple[float, float, float]:
        """Returns the omitted time, the interval and the duration that the user of iperf3 asked
        for, in seconds. Interval and duration are estimated from measured times if the document
        does not have them.
        """
        settings = self.settings
        ends_s = [interval.end_s for interval in self.intervals]
        lengths_s = [
            next_end - previous
            for previous, next_end in zip([0.0, *ends_s], ends_s, strict=False)
            if next_end > previous
        ]
        interval_s = settings.interval or times.interval_s(lengths_s)
        took_s = self._carried_data_s()
        estimate_s = took_s if settings.bytes or settings.blocks else times.duration_s(took_s)
        duration_s = settings.duration or estimate_s
        return (
            self.omit_s,
            max(interval_s, LEAST_INTERVAL_S) if self.intervals else 0.0,
            duration_s,
        )

    def _carried_data_s(self) -> float:
        """Returns how long the test carried data in seconds, without the omitted time."""
        summary_s = (
            total.seconds for total in (self.end.sum_sent, self.end.sum_received, self.end.sum)
        )
        interval_ends_s = (interval.end_s for interval in self.intervals if not interval.omitted)
        return next(filter(None, summary_s), None) or max(interval_ends_s, default=0.0)

    def _ended_early(self) -> str:
        """Returns when the test ended too early, such as 'after 3 of 10 s'. Empty if it ran to its
        end, even if its last output was lost.
        """
        if self.finished:
            return ""
        took_s, nominal_s = self._carried_data_s(), self.settings.duration
        if not nominal_s:
            return f"after {took_s:.3g} s"
        return (
            "" if took_s >= COMPLETE_SHARE * nominal_s else f"after {took_s:.3g} of {nominal_s:g} s"
        )

    def _options(self) -> dict[str, str]:
        """Returns further settings of the test, such as the MSS, by the names of iperf3's
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

    def _client_document(self, port: str = "local_port") -> Row:
        """Returns the document in the form that analysis.iperf3_tables reads, even if it is
        incomplete or the server's. `port` is the field for the client's ports: remote_port in a
        server's document.
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

    def _socket_report(self, sender: "_EndOfTest") -> pl.DataFrame:
        """Returns the counts of the sockets in the document of the sending end, with the columns
        REPORTED_COLUMNS. The size of segments is in the client's document, which is one of the two.
        """
        document = sender._client_document()
        document["start"]["tcp_mss_default"] = (
            document["start"]["tcp_mss_default"] or self.start.tcp_mss_default
        )
        return read_reported(document, SRC)

    def _interval_table(
        self, traffic: Traffic, flows: pl.DataFrame, other: "_EndOfTest | None"
    ) -> pl.DataFrame:
        """Returns INTERVAL_COLUMNS: the received bytes of each stream and interval, counted by the
        receiver if its document exists.

        Each direction is read on its own, because its sender may be either end.
        """
        if other is not None and (
            not other.intervals or set(other.ports.values()) != set(self.ports.values())
        ):
            other = None
        tables = [pl.DataFrame(schema=INTERVAL_COLUMNS)]
        for client_sends in (True, False):
            ports = [
                self.ports[stream.socket] for stream in self.streams if stream.forth == client_sends
            ]
            this_end_sends = client_sends != self.at_server
            sender, receiver = (
                (self, other) if this_end_sends else (other or self, self if other else None)
            )
            if ports and sender.intervals:
                server = receiver._client_document("remote_port") if receiver is not None else None
                table = read_intervals(traffic, sender._client_document(), server, flows)
                tables.append(table.filter(pl.col("port").is_in(ports)).cast(INTERVAL_COLUMNS))  # type: ignore[arg-type]
        return merge_short_intervals(pl.concat(tables), flows, self.settings.blksize or BLOCK_BYTES)

    def _host_names(self, other: "_EndOfTest | None") -> Row:
        """Returns src, dst and dst_address of the run. The document has the name of the host that
        wrote it, and the name or address that this host used for the other one.
        """
        other_host = self.start.accepted_connection if self.at_server else self.start.connecting_to
        other_name = (other_host.host if other_host else None) or (
            other.hostname if other is not None else None
        )
        address = self.start.connected[0].remote_host if self.start.connected else None
        if self.sends_here:
            return {"src": self.hostname, "dst": other_name or address, "dst_address": address}
        return {"src": other_name, "dst": self.hostname, "dst_address": None}

    @property
    def hostname(self) -> str | None:
        """The name of the host that wrote the document, from uname in system_info: 'Linux dtn1
        6.1.0 ...'.
        """
        words = (self.start.system_info or "").split()
        return words[1] if len(words) > 2 else None

    def _began_s(self) -> float | None:
        """Returns when the test began, in seconds since 1970; None if the document does
        not say it.
        """
        milliseconds, seconds = self.start.timestamp.timemillisecs, self.start.timestamp.timesecs
        return (
            within(milliseconds / 1e3 if milliseconds else float(seconds or 0), MOST_CLOCK_S)
            or None
        )


def _contradict(rate_bps: float | None, total_bps: float | None) -> bool:
    """Returns whether two rates of a stream, both counted by one end, can't both be right. False if
    one of them is not known.
    """
    if rate_bps is None or total_bps is None:
        return False
    return abs(rate_bps - total_bps) > CONTRADICTION * max(rate_bps, total_bps)


def _read_intervals(intervals: Sequence[Iperf3Interval]) -> list[_Interval]:
    """Returns the intervals of a document. Leaves out intervals without a time, and repeated
    intervals: a server whose client was interrupted writes its last interval twice (iperf3 3.12).
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
