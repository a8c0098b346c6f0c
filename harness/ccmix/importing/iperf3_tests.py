"""Turns a test of iperf3, of any version and from either end, into a run: what its document lacks is a gap.

Documents are those of -J. Since 3.1 fields were added and none was removed: 3.1 has no congestion control algorithms,
no interval in test_start, and in no record whether its end is the sender; retransmits and RTT are not of every system.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from ccmix.analysis.iperf3_tables import (
    BLOCK_BYTES,
    FLOW_COLUMNS,
    INTERVAL_COLUMNS,
    read_intervals,
    read_reported,
    whole_blocks,
)
from ccmix.analysis.series import SRC, read_series
from ccmix.analysis.tables import RunTables
from ccmix.generators.results import sentence
from ccmix.importing import asked_times
from ccmix.importing.foreign_run import ForeignRun, LeftOut, SourceError
from ccmix.importing.foreign_text import writable
from ccmix.importing.json_types import Object, Row
from ccmix.importing.numbers import (
    LEAST_INTERVAL_S,
    MOST_CLOCK_S,
    MOST_COUNT,
    MOST_RATE_BPS,
    MOST_TIME_S,
    known,
    known_count,
)
from ccmix.importing.values import object_in, objects_in, text_in
from ccmix.model import Group, ImportedSource, Traffic
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.model.results import ImportOverrides
from ccmix.model.traffic import group_names as group_names_of

MOST_STREAMS = 1024  # iperf3 itself takes 128
MOST_RTT_S = 1000.0
UDP = "udp"
WHOLE = 0.95  # of the asked time, which a test that ran to its end has at least
# Settings of a test by what iperf3 calls them. Others of its fields keep their names.
OPTIONS = {"blksize": "length", "sock_bufsize": "window", "tcp_mss": "mss", "tcp_mss_default": "mss"}
# What a run has besides, and what is no setting of the traffic
_NO_OPTIONS = (
    "protocol", "num_streams", "omit", "duration", "reverse", "bidir", "interval", "target_bitrate", "fqrate",
)  # fmt: skip
_CLIENT, _SERVER = "connecting_to", "accepted_connection"


def is_test(document: Object) -> bool:
    """Returns whether iperf3 -J wrote the document, also about a test that failed."""
    return isinstance(document.get("start"), dict) and bool(document.keys() & {"intervals", "end", "error"})


def read_run(
    document: Object, where: str, overrides: ImportOverrides, kind: str, server: Object | None = None
) -> ForeignRun | LeftOut:
    """Returns the run of a test from the document of one end, and from the other end's, `server`. Raises SourceError.

    If a test has no end, or one without what the other end counted, rates are those of its intervals.
    """
    test = _Test(document, where)
    if not test.streams:
        error = document.get("error")
        return LeftOut(where, f"the test failed: {sentence(error)}" if error else "the test carried nothing")
    embedded = document.get("server_output_json")  # of --get-server-output
    if server is None and isinstance(embedded, dict) and is_test(embedded):
        server = embedded
    other = _Test(server, where) if server is not None else None
    return test.run(overrides, kind, other)


def cookie_of(document: Object) -> tuple[str, str] | None:
    """Returns the cookie that both ends of a test share, and the end that wrote the document: 'client' or 'server'."""
    start = object_in(document.get("start"))
    cookie = start.get("cookie")
    if not isinstance(cookie, str) or not cookie:
        return None
    return (cookie, "client") if _CLIENT in start else (cookie, "server") if _SERVER in start else None


def _of_end(row: Row) -> Row:
    """Returns what only the end of a test says about a stream."""
    return {name: row[name] for name in ("cca_used", "group_number") if row.get(name) is not None}


def _others_count(row: Row) -> str:
    """Returns which rate of a stream in a client's document is the server's count."""
    return "goodput_bps" if row["forth"] else "throughput_bps"


class _Test:
    """Reads a document; a value that is no number or an impossible one is a gap."""

    def __init__(self, document: Object, where: str) -> None:
        self.where, self.document = where, document
        self.start, self.end = object_in(document.get("start")), object_in(document.get("end"))
        self.asked = object_in(self.start.get("test_start"))
        self.error = document.get("error")
        self.at_server = _SERVER in self.start and _CLIENT not in self.start
        self.reverse = bool(known_count(self.asked.get("reverse")))
        self.udp = self.asked.get("protocol") == "UDP"
        self.ports = self._ports()
        self.intervals = self._intervals(document)
        self.streams = self._streams()
        self._complete_ports()
        if len(self.streams) > MOST_STREAMS:
            raise SourceError(f"{where}: has {len(self.streams)} streams, and iperf3 makes at most 128: take it out")

    def _ports(self) -> dict[int, int]:
        """Returns the client's port of each stream that the document has it of."""
        key = "remote_port" if self.at_server else "local_port"
        ports: dict[int, int] = {}
        for connected in objects_in(self.start.get("connected")):
            socket, port = known_count(connected.get("socket")), known_count(connected.get(key))
            if socket is not None and port is not None and port not in ports.values():
                ports.setdefault(socket, port)
        return ports

    def _complete_ports(self) -> None:
        free = (number for number in range(len(self.streams) * 2 + 1) if number not in self.ports.values())
        for row in self.streams:
            if row["socket"] not in self.ports:
                self.ports[row["socket"]] = next(free)

    def _intervals(self, document: Object) -> list[Row]:
        """Returns intervals as iperf3 writes them, without those whose time or bytes the document lacks.

        A server whose client was interrupted writes its last interval twice (iperf3 3.12).
        """
        intervals: list[Row] = []
        for interval in objects_in(document.get("intervals")):
            streams = [stream for stream in map(self._interval, objects_in(interval.get("streams"))) if stream]
            whole = object_in(interval.get("sum"))
            end_s = known(whole.get("end"), MOST_TIME_S)
            if end_s is None and streams:
                end_s = known(objects_in(interval.get("streams"))[0].get("end"), MOST_TIME_S)
            if end_s is not None and streams:
                omitted = bool(whole.get("omitted", any(stream["omitted"] for stream in streams)))
                total = {"end": end_s, "omitted": omitted}
                if not intervals or intervals[-1]["sum"] != total:
                    intervals.append({"sum": total, "streams": streams})
        return intervals

    def _interval(self, stream: Object) -> Row | None:
        socket, size = known_count(stream.get("socket")), known_count(stream.get("bytes"))
        if socket is None or size is None:
            return None
        rtt_us = known(stream.get("rtt"), MOST_RTT_S * 1e6)
        return {
            "socket": socket,
            "bytes": size,
            "retransmits": known_count(stream.get("retransmits")),
            "rtt": rtt_us,
            "omitted": bool(stream.get("omitted", False)),
            "sender": stream.get("sender"),
        }

    def _streams(self) -> list[Row]:
        """Returns a row of FLOW_COLUMNS for each; `back` marks the other direction of a test in both."""
        ends = (
            () if self.udp and self.at_server else objects_in(self.end.get("streams"))
        )  # a server's count is of nothing
        ended = {row["socket"]: row for stream in ends if (row := self._ended(stream))}
        exchanged = self._exchanged(list(ended.values()))
        self.finished = bool(objects_in(self.end.get("streams"))) and exchanged and not self.error
        if not exchanged:
            ended = {socket: row | {_others_count(row): None} for socket, row in ended.items()}
        carried = [] if self.finished and ended else self._of_intervals()
        rows = [row | _of_end(ended.get(row["socket"], {})) for row in carried] or list(ended.values())
        both_ways = len({row["forth"] for row in rows}) > 1
        for number, row in enumerate(rows):
            row["stream"] = number
            row["back"] = both_ways and not row["forth"]
        return rows

    def _exchanged(self, ended: Sequence[Row]) -> bool:
        """Returns whether the client knows what the server counted: until the ends exchange their counts, it has 0."""
        if self.udp or self.at_server:
            return True
        others = [row[_others_count(row)] for row in ended]
        own = [row["throughput_bps" if row["forth"] else "goodput_bps"] for row in ended]
        return any(count is None or count > 0 for count in others) or not any(own)

    def _ended(self, stream: Object) -> Row | None:
        udp = object_in(stream.get("udp"))
        sender, receiver = (udp, udp) if udp else (object_in(stream.get("sender")), object_in(stream.get("receiver")))
        socket = known_count((sender or receiver).get("socket"))
        if socket is None:
            return None
        sent_bps, received_bps = (known(end.get("bits_per_second"), MOST_RATE_BPS) for end in (sender, receiver))
        forth = bool(sender.get("sender", not self.reverse)) != self.at_server
        if udp:
            lost, packets = known_count(udp.get("lost_packets")), known_count(udp.get("packets"))
            if received_bps is not None:
                received_bps *= max(0.0, 1 - (lost or 0) / packets) if packets else 1.0
        elif self.at_server:  # which doesn't know what the client counted
            sends = sender.get("sender", self.reverse)
            sent_bps, received_bps = (sent_bps, None) if sends else (None, received_bps)
        if sent_bps is None and received_bps is None:
            return None
        return self._row(socket, forth) | {
            "goodput_bps": received_bps,
            "throughput_bps": sent_bps,
            "retransmits": known_count(sender.get("retransmits")),
            "bytes_sent": known_count(sender.get("bytes")) if sent_bps is not None else None,
            "cca_used": text_in(sender.get("congestion")),
            "group_number": known_count(stream.get("group") or sender.get("group")),
        }

    def _of_intervals(self) -> list[Row]:
        """Adds up the intervals of a test without its end, as counted by the host that wrote them."""
        carried: dict[int, Row] = {}
        seconds, before_s = 0.0, 0.0
        for interval in self.intervals:
            if interval["sum"]["omitted"]:
                continue
            seconds += max(0.0, interval["sum"]["end"] - before_s)
            before_s = interval["sum"]["end"]
            for stream in interval["streams"]:
                sends = stream["sender"] if isinstance(stream["sender"], bool) else self.reverse == self.at_server
                row = carried.setdefault(
                    stream["socket"],
                    self._row(stream["socket"], sends != self.at_server) | {"bytes": 0, "sends": sends},
                )
                row["bytes"] += stream["bytes"]
                if stream["retransmits"] is not None:
                    row["retransmits"] = (row["retransmits"] or 0) + stream["retransmits"]
        for row in carried.values():
            size, sends = row.pop("bytes"), row.pop("sends")
            row["throughput_bps" if sends else "goodput_bps"] = (
                known(size * 8 / seconds, MOST_RATE_BPS) if seconds else 0
            )
            row["bytes_sent"] = size if sends else None
        return list(carried.values())

    def _row(self, socket: int, forth: bool) -> Row:
        return {
            "socket": socket, "forth": forth, "goodput_bps": None, "throughput_bps": None, "retransmits": None,
            "bytes_sent": None, "cca_used": None, "group_number": None,
        }  # fmt: skip

    def run(self, overrides: ImportOverrides, kind: str, other: "_Test | None") -> ForeignRun:
        """Returns the run: see read_run()."""
        missing = []
        if not self.finished:
            counted = "its intervals" if self.intervals else "this end of it"
            missing.append(f"the test has no {'whole ' if self.end else ''}end: rates are those of {counted}")
        if self.error:
            missing.append(f"iperf3 said: {sentence(self.error)}")
        groups, names = self._groups(overrides, other)
        omit_s, interval_s, duration_s = self._times()
        bitrate_bps = known(self.asked.get("target_bitrate", self.start.get("target_bitrate")), MOST_RATE_BPS)
        rows = self._flows(groups, names, overrides)
        estimated = ["goodput_bps"] if any(row["goodput_bps"] is None for row in rows) else []
        sends_here = self.reverse == self.at_server
        if self.intervals and other is None and sends_here:
            estimated.append("goodput_bps of intervals")
        flows = pl.DataFrame(rows, schema=FLOW_COLUMNS).with_columns(
            pl.col("goodput_bps").fill_null(pl.col("throughput_bps"))
        )
        streams = sum(not row["back"] for row in self.streams)
        traffic = Traffic((ImportedSource("", SRC, groups, streams),), duration_s, omit_s, interval_s)
        if not self.intervals:
            missing.append("it has no intervals")
        began_s, ended_early = self._began_s(), self._ended_early()
        length_s = omit_s + (self._took_s() if ended_early else duration_s)
        return ForeignRun(
            kind=kind,
            source=self.where,
            results=RunTables(
                flows=flows,
                intervals=self._interval_table(traffic, flows, other),
                series=read_series(()),
                began_s=0.0,
                reported=self._reported(other if other is not None and not sends_here else self),
            ),
            groups=groups,
            streams=streams,
            udp_bps=(bitrate_bps or 0.0) if self.udp else None,
            bitrate_bps=None if self.udp else bitrate_bps or None,
            options=self._options(),
            ended_early=ended_early,
            settings={"direction": "both"} if any(row["back"] for row in self.streams) else {},
            **self._ends(other),
            duration_s=duration_s,
            omit_s=omit_s,
            interval_s=interval_s,
            pacing_bps=known(self.start.get("fq_rate"), MOST_RATE_BPS) or None,
            began_s=began_s,
            ended_s=None if began_s is None else began_s + length_s,
            kernel=self._kernel(),
            version=text_in(self.start.get("version")) or "",
            missing=tuple(missing),
            estimated=tuple(estimated),
            document=self.document,
        )

    def _groups(self, overrides: ImportOverrides, other: "_Test | None") -> tuple[tuple[Group, ...], dict[int, str]]:
        """Returns all groups with their CCAs if iperf3 is patched; else the one CCA that it names, if any."""
        named: dict[int, str] = {}
        for connected in objects_in(self.start.get("connected")):
            number, cca = known_count(connected.get("group")), text_in(connected.get("congestion"))
            if number and cca:
                named.setdefault(number, cca)
        if len(named) > 1 and sorted(named) == list(range(1, len(named) + 1)):
            return tuple(Group(named[number]) for number in sorted(named)), named
        used = next(iter(named.values()), None)
        of_ends = [text_in(test.end.get("sender_tcp_congestion")) for test in (self, other) if test is not None]
        cca = used or next((cca for cca in of_ends if cca), None) or overrides.cca or DEFAULT_CCA
        return (Group(UDP if self.udp else cca),), {}

    def _flows(self, groups: Sequence[Group], names: Mapping[int, str], overrides: ImportOverrides) -> list[Row]:
        group_names = group_names_of(groups)
        only = groups[0].cca if len(groups) == 1 and not self.udp else None
        rows = []
        for row in self.streams:
            number = row["group_number"]
            in_group = number - 1 if names and number in names else 0
            used = row["cca_used"] or (only if only != DEFAULT_CCA else overrides.cca)
            rows.append(
                {
                    "host": SRC,
                    "port": self.ports[row["socket"]],
                    "stream": row["stream"],
                    "group": group_names[in_group] + (" back" if row["back"] else ""),
                    "cca_asked": None,
                    "cca_used": None if self.udp else used,
                    "udp": self.udp,
                    "goodput_bps": row["goodput_bps"],
                    "throughput_bps": row["throughput_bps"],
                    "retransmits": row["retransmits"],
                    "bytes_sent": row["bytes_sent"],
                }
            )
        return rows

    def _times(self) -> tuple[float, float, float]:
        """Returns omitted time, interval and duration, in seconds."""
        omit_s = known(self.asked.get("omit"), MOST_TIME_S) or 0.0
        ends = [interval["sum"]["end"] for interval in self.intervals]
        lengths = [after - before for before, after in zip([0.0, *ends], ends, strict=False) if after > before]
        interval_s = known(self.asked.get("interval"), MOST_TIME_S) or asked_times.interval_s(lengths)
        took_s = self._took_s()
        of_bytes = any(known(self.asked.get(name), MOST_COUNT) for name in ("bytes", "blocks"))
        estimate_s = took_s if of_bytes else asked_times.duration_s(took_s)
        duration_s = known(self.asked.get("duration"), MOST_TIME_S) or estimate_s
        return omit_s, max(interval_s, LEAST_INTERVAL_S) if self.intervals else 0.0, duration_s

    def _took_s(self) -> float:
        """Returns how long the test carried data, the omitted time left out."""
        sums = (object_in(self.end.get(name)) for name in ("sum_sent", "sum_received", "sum"))
        ends_s = (interval["sum"]["end"] for interval in self.intervals if not interval["sum"]["omitted"])
        of_end_s = [seconds for total in sums if (seconds := known(total.get("seconds"), MOST_TIME_S))]
        return of_end_s[0] if of_end_s else max(ends_s, default=0.0)

    def _ended_early(self) -> str:
        """Returns after how much of its time the test ended; empty if it ran to its end, whatever was lost of that."""
        if self.finished:
            return ""
        took_s, asked_s = self._took_s(), known(self.asked.get("duration"), MOST_TIME_S)
        if not asked_s:
            return f"after {took_s:.3g} s"
        return "" if took_s >= WHOLE * asked_s else f"after {took_s:.3g} of {asked_s:g} s"

    def _options(self) -> dict[str, str]:
        """Returns the test's further settings that the document has, by names in OPTIONS."""
        of_start = {name: self.start[name] for name in OPTIONS if name in self.start}
        if "tcp_mss" in of_start:
            of_start.pop("tcp_mss_default", None)
        of_test = {name: value for name, value in self.asked.items() if name not in _NO_OPTIONS}
        return {
            OPTIONS.get(name, writable(name)): writable(f"{value:g}" if isinstance(value, float) else str(value))
            for name, value in (of_start | of_test).items()
            if isinstance(value, str | int | float) and value is not None
        }

    def _client(self, port: str = "local_port") -> Row:
        """Returns the parts of the document that iperf3_tables reads, with the client's ports as `port`."""
        sockets = {row["socket"] for row in self.streams}
        connected = [{"socket": socket, port: self.ports[socket]} for socket in sockets]
        intervals = [
            {**interval, "streams": [stream for stream in interval["streams"] if stream["socket"] in sockets]}
            for interval in self.intervals
        ]
        ends = [
            {"sender": {"socket": row["socket"], "bytes": row["bytes_sent"], "retransmits": row["retransmits"]}}
            for row in self.streams
            if row["bytes_sent"] is not None and not self.udp
        ]
        return {
            "start": {"connected": connected, "tcp_mss_default": known_count(self.start.get("tcp_mss_default"))},
            "intervals": intervals,
            "end": {"streams": ends},
        }

    def _reported(self, sender: "_Test") -> pl.DataFrame:
        """Returns what the sender reports about its sockets; only the client's document has the segments' size."""
        document = sender._client()
        document["start"]["tcp_mss_default"] = document["start"]["tcp_mss_default"] or known_count(
            self.start.get("tcp_mss_default")
        )
        return read_reported(document, SRC)

    def _interval_table(self, traffic: Traffic, flows: pl.DataFrame, other: "_Test | None") -> pl.DataFrame:
        """Returns what arrived, counted by the receiver if its document is there; each direction by itself."""
        if other is not None and (not other.intervals or set(other.ports.values()) != set(self.ports.values())):
            other = None
        tables = [pl.DataFrame(schema=INTERVAL_COLUMNS)]
        for forth in (True, False):
            ports = [self.ports[row["socket"]] for row in self.streams if row["forth"] == forth]
            sends = forth != self.at_server
            sender, receiver = (self, other) if sends else (other or self, self if other else None)
            if ports and sender.intervals:
                server = receiver._client("remote_port") if receiver is not None else None
                table = read_intervals(traffic, sender._client(), server, flows)
                tables.append(table.filter(pl.col("port").is_in(ports)).cast(INTERVAL_COLUMNS))  # type: ignore[arg-type]
        return whole_blocks(pl.concat(tables), flows, known_count(self.asked.get("blksize")) or BLOCK_BYTES)

    def _ends(self, other: "_Test | None") -> Row:
        """Returns the names of sender and receiver: a host's own, and the one that the other end used."""
        own = self._hostname()
        remote = text_in(object_in(self.start.get(_SERVER if self.at_server else _CLIENT)).get("host"))
        if other is not None and other._hostname() and remote is None:
            remote = other._hostname()
        connected = objects_in(self.start.get("connected"))
        address = text_in(connected[0].get("remote_host")) if connected else None
        if self.reverse != self.at_server:
            return {"src": remote, "dst": own, "dst_address": None}
        return {"src": own, "dst": remote or address, "dst_address": address}

    def _hostname(self) -> str | None:
        """Returns the name that uname gave, as in system_info: 'Linux dtn1 6.1.0 ...'."""
        words = (text_in(self.start.get("system_info")) or "").split()
        return words[1] if len(words) > 2 else None

    def _began_s(self) -> float | None:
        stamp = object_in(self.start.get("timestamp"))
        milliseconds = known(stamp.get("timemillisecs"), MOST_CLOCK_S * 1e3)
        return milliseconds / 1e3 if milliseconds else known(stamp.get("timesecs"), MOST_CLOCK_S) or None

    def _kernel(self) -> str | None:
        """Returns the release of the sender's kernel, if this end is the sender's."""
        words = (text_in(self.start.get("system_info")) or "").split()
        sends_here = self.reverse == self.at_server
        return words[2] if sends_here and len(words) > 2 and words[0] == "Linux" else None
