"""Models the JSON of iperf3 of any version, and reads its plain text into the same form.

The documents come from either end; the text may be with or without -V.

Since 3.1 fields were added and none was removed: 3.1 has no congestion control algorithms, no
interval in test_start, and in no record whether its end is the sender; retransmits and RTT are not
of every system. In the output for people, quantities have three or four digits, RTTs are not there,
and only -V prints CCA, time and host.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict

from ccmix.importing.times import date_s
from ccmix.importing.values import (
    Count,
    Document,
    Flag,
    ForeignObject,
    Items,
    Maybe,
    Microseconds,
    NeededCount,
    Object,
    Part,
    Rate,
    Row,
    Seconds,
    Text,
)


class Iperf3Host(ForeignObject):
    """The other host, by the name that this end uses for it."""

    host: Text


class Iperf3Connection(ForeignObject):
    """A connected stream; `group` and `congestion` are only in the output of the patched iperf3."""

    socket: NeededCount
    local_port: Count
    remote_host: Text
    remote_port: Count
    group: Count
    congestion: Text


class Iperf3Timestamp(ForeignObject):
    """The time at which the test began, in seconds or milliseconds since 1970."""

    timesecs: Count
    timemillisecs: Count


class Iperf3Settings(ForeignObject):
    """The settings of the test. All other fields are options of the traffic, too."""

    model_config = ConfigDict(extra="allow")

    protocol: Any = None
    num_streams: Any = None
    omit: Seconds
    duration: Seconds
    reverse: Count
    bidir: Any = None
    interval: Seconds
    target_bitrate: Rate
    fqrate: Any = None
    blksize: Count
    bytes: Count
    blocks: Count


class Iperf3Start(ForeignObject):
    """Facts that are known before the traffic begins."""

    connected: Items[Iperf3Connection]
    connecting_to: Maybe[Iperf3Host]
    accepted_connection: Maybe[Iperf3Host]
    version: Text
    system_info: Text
    timestamp: Part[Iperf3Timestamp]
    test_start: Part[Iperf3Settings]
    target_bitrate: Rate
    fq_rate: Rate
    sock_bufsize: Count
    tcp_mss: Count
    tcp_mss_default: Count


class Iperf3Count(ForeignObject):
    """The counts of one stream during an interval, as one end has them, in the form that
    analysis.iperf3_tables reads. `rtt` is in microseconds, `end` in seconds since the begin.
    """

    socket: NeededCount
    bytes: NeededCount
    retransmits: Count
    rtt: Microseconds
    omitted: Flag
    sender: Maybe[bool]
    end: Seconds


class Iperf3IntervalSum(ForeignObject):
    """The sum over the streams of an interval; only its time is used."""

    end: Seconds
    omitted: Maybe[bool]


class Iperf3Interval(ForeignObject):
    """An interval of all streams."""

    sum: Part[Iperf3IntervalSum]
    streams: Items[Iperf3Count]


class Iperf3StreamEnd(ForeignObject):
    """The counts of one end for a stream during the test."""

    socket: Count
    bits_per_second: Rate
    bytes: Count
    retransmits: Count
    sender: Maybe[bool]
    congestion: Text
    group: Count
    packets: Count
    lost_packets: Count


class Iperf3StreamEnds(ForeignObject):
    """The counts of both ends for a stream; UDP has only one record."""

    udp: Maybe[Iperf3StreamEnd]
    sender: Part[Iperf3StreamEnd]
    receiver: Part[Iperf3StreamEnd]
    group: Count


class Iperf3EndSum(ForeignObject):
    """The sum over all streams; only its time is used."""

    seconds: Seconds


class Iperf3End(ForeignObject):
    """The results of the test; empty if it failed."""

    streams: Items[Iperf3StreamEnds]
    sum_sent: Part[Iperf3EndSum]
    sum_received: Part[Iperf3EndSum]
    sum: Part[Iperf3EndSum]
    sender_tcp_congestion: Text


class Iperf3Document(ForeignObject):
    """A test, as one of its ends reports it; `server_output_json` is from --get-server-output."""

    start: Part[Iperf3Start]
    intervals: Items[Iperf3Interval]
    end: Part[Iperf3End]
    error: Any = None
    server_output_json: Any = None


def is_test(document: Object) -> bool:
    """Returns whether iperf3 -J wrote this JSON object; true also for a failed test."""
    return isinstance(document.get("start"), dict) and bool(
        document.keys() & {"intervals", "end", "error"}
    )


LONGEST_LINE = 1000  # characters; longer ones are not iperf3's
SERVER_FACTS = ("version", "system_info")  # which a server says once
MOST_DIGITS = 15  # of a whole number
SERVER_ENDED = "the server has terminated"  # during a test, or when it had none

# Titles, clocks and loggers write any text before a line, so these are searched for in the line
_NUMBER = r"\d+(?:\.\d+)?|[-+]?(?:nan|inf)"
_LINE = re.compile(
    r"\[ *(?P<id>\d+)\](?:\[(?P<role>[TR]X)-[CS]\])?"
    r"\s+(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+)\s+sec\s+"
    rf"(?P<size>{_NUMBER}) (?P<size_unit>[KMGT]?)Bytes\s+"
    rf"(?P<rate>{_NUMBER}) (?P<rate_unit>[KMGT]?)(?P<what>bits|Bytes)/sec"
    r"(?P<rest>.*)"
)
_RETRANSMITS = re.compile(r"\s+(\d+)\s")
_DATAGRAMS = re.compile(r"\s(-?\d+)/(\d+) \(")
_CONNECTED = re.compile(
    r"\[ *(\d+)\](?:\[[TR]X-[CS]\])? local (\S+) port (\d+) connected to (\S+) port (\d+)"
)
_GROUP_CCA = re.compile(r"\[ *(\d+)\] congestion control algorithm (\S+)")
_STARTING = re.compile(
    r"Starting Test: protocol: (\w+), (\d+) streams.*?omitting (\d+) seconds(?:, (\d+) second "
    r"test)?"
)
_BEGINS = re.compile(
    r"(?P<version>iperf 3\.[\w.+-]+)(?: \(.*\))?\s*$|(?P<idle>Server listening on )|"
    r"Connecting to host (?P<to>.+), port \d+|Accepted connection from (?P<accepted>.+), port \d+"
)
_NAMED = re.compile(
    r".*(?:^|[^A-Za-z])(?:Time: (?P<time>[A-Z][a-z]{2}, .+)|(?P<reverse>Reverse mode), |"
    r"Cookie: (?P<cookie>\S+)|TCP MSS: (?P<tcp_mss_default>\d+)|"
    r"(?P<system_info>Linux \S+ \d+\.\d.*)|"
    r"Target Bitrate: (?:.*\D)?(?P<target_bitrate>\d+)|"
    r"snd_tcp_congestion (?P<sender_tcp_congestion>\S+)|"
    r"iperf3: (?:error|interrupt) - (?P<error>.+)|(?P<udp>Total Datagrams)|(?P<summary>- - - ))"
)
# docker compose writes the outputs of its services in turns, with the service before each line
_SERVICE = re.compile(r"([A-Za-z]\S*)\s+\| ")
_IPERF2 = re.compile(
    r"Client connecting to .{1,200}?, (?:TCP|UDP) port |Server listening on (?:TCP|UDP) port |"
    r"\] local \S+ port \d+ connected with |iperf version 2\.|"
    r"\[ *(?:\d+|SUM)\]\s+\d+\.(?:\d|\d{4})- *\d+\.(?:\d|\d{4})\s+sec|"
    r"^(?:[+-]\d{4}:)?\d{14}(?:\.\d+)?(?:,[\da-fA-F.:]*){4},-?\d+,\d+\.\d+[-,]",
    re.MULTILINE,
)
IPERF2_REFUSED = (
    "is the output of iperf 2, which measures and prints other values than iperf3: repeat the test "
    "with iperf3, or write its results into a table"
)
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def is_text(head: str) -> bool:
    """Returns whether a text is the output of iperf3 for people: it has a line with a rate. `head`
    is the beginning of the text.
    """
    return bool(_LINE.search(head))


def is_iperf2(head: str) -> bool:
    """Returns whether a text is the output of iperf 2, as text or CSV. `head` is its beginning."""
    return bool(_IPERF2.search(head))


@dataclass
class _TextTest:
    """Collects a test from the lines of iperf3's text. `streams` and `ccas` are by socket; `line`
    is the number of its first line in the file. `in_summary` says that lines about the whole test
    follow, and `counts_sent` that intervals count what only a sender knows.
    """

    line: int
    start: Row = field(default_factory=lambda: {"connected": [], "test_start": {}})
    end: Row = field(default_factory=dict)
    intervals: list[Row] = field(default_factory=list)
    streams: dict[int, Row] = field(default_factory=dict)
    ccas: dict[int, str] = field(default_factory=dict)
    error: str | None = None
    lines: list[str] = field(default_factory=list)
    in_summary: bool = False
    counts_sent: bool = False

    @property
    def has_results(self) -> bool:
        """Whether a result or an error of the test was read. A text may have several tests, and the
        next line that begins a test then begins another one.
        """
        return bool(self.intervals or self.streams or self.error)

    def document(self) -> Row:
        """Returns the test in the form of the JSON that iperf3 -J would have written.

        A server's text does not name the direction. The server sends if its intervals have the
        counts of a sender, or if its summary has only those.
        """
        totals = {
            end: any(stream.get(end, {}).get("bytes") for stream in self.streams.values())
            for end in ("sender", "receiver")
        }
        if "accepted_connection" in self.start and (
            self.counts_sent or (totals["sender"] and not totals["receiver"])
        ):
            self.start["test_start"]["reverse"] = 1
        numbers = {cca: number for number, cca in enumerate(dict.fromkeys(self.ccas.values()), 1)}
        for connection in self.start["connected"]:
            if cca := self.ccas.get(connection["socket"]):
                connection |= {"congestion": cca, "group": numbers[cca]}
        for socket, stream in self.streams.items():
            if cca := self.ccas.get(socket):
                stream |= {"group": numbers[cca]}
                stream.setdefault("sender", {}).setdefault("congestion", cca)
        return {
            "start": self.start,
            "intervals": self.intervals,
            "end": {**self.end, "streams": list(self.streams.values())} if self.streams else {},
        } | ({"error": self.error} if self.error else {})


def read_tests(text: str, name: str) -> Iterator[Document]:
    """Yields each test in the text that iperf3 prints for people, in the form of the JSON that
    iperf3 -J would have written. `name` is the file name, for messages.

    A server's text has many tests, each of which begins with 'Accepted connection from ...'.
    """
    test = _TextTest(1)
    lines = [pair for pair in enumerate(text.split("\n"), 1) if len(pair[1]) <= LONGEST_LINE]
    for number, line in sorted(lines, key=_service):
        first_line = _BEGINS.search(line)
        if first_line and first_line["idle"] and test.error == SERVER_ENDED:
            test.error = None  # after the test, although it is printed before this line
        if first_line and test.has_results:
            yield Document(test.document(), "\n".join(test.lines), f"{name}:{test.line}")
            previous, test = test, _TextTest(number)
            test.start |= {
                name: value for name, value in previous.start.items() if name in SERVER_FACTS
            }
        test.lines.append(line)
        if first_line:
            _read_first_line(test, first_line)
        else:
            _read_test_line(test, line)
    if test.has_results:
        yield Document(test.document(), "\n".join(test.lines), f"{name}:{test.line}")


def _service(numbered: tuple[int, str]) -> str:
    """Returns the name of docker compose's service that wrote a numbered line; empty for others."""
    named = _SERVICE.match(numbered[1])
    return named[1] if named else ""


def _read_first_line(test: _TextTest, first_line: "re.Match[str]") -> None:
    """Reads a line that begins a test: the version, or the name of the other host. Forgets an
    earlier connection, which had no result.
    """
    if first_line["version"]:
        test.start["version"] = first_line["version"]
    elif host := first_line["to"] or first_line["accepted"]:
        role = "connecting_to" if first_line["to"] else "accepted_connection"
        test.start |= {role: {"host": host}, "connected": [], "test_start": {}}


def _read_test_line(test: _TextTest, line: str) -> None:
    """Reads a line of a test's text into `test`; lines that are not known are ignored."""
    if result := _LINE.search(line):
        _read_result(test, result)
    elif connected := _CONNECTED.search(line):
        socket, local, local_port, remote, remote_port = connected.groups()
        test.start["connected"].append(
            {
                "socket": _whole_number(socket),
                "local_host": local,
                "local_port": _whole_number(local_port),
                "remote_host": remote,
                "remote_port": _whole_number(remote_port),
            }
        )
    elif starting := _STARTING.search(line):
        protocol, streams, omitted_s, seconds = starting.groups()
        test.start["test_start"] |= {
            "protocol": protocol,
            "num_streams": _whole_number(streams),
            "omit": _whole_number(omitted_s),
            "duration": _whole_number(seconds or "0"),
        }
    elif group_cca := _GROUP_CCA.search(line):
        if (socket_number := _whole_number(group_cca[1])) is not None:
            test.ccas[socket_number] = group_cca[2]
    elif named := _NAMED.match(line):
        _read_named_value(test, named)


def _read_named_value(test: _TextTest, named: "re.Match[str]") -> None:
    """Reads a value that follows its name, such as 'TCP MSS: 1448 (default)', or a heading."""
    name, text = str(named.lastgroup), named[str(named.lastgroup)].rstrip()
    settings = test.start["test_start"]
    if name == "time":
        test.start["timestamp"] = {"timesecs": date_s(text)}
    elif name == "reverse":
        settings[name] = 1
    elif name == "tcp_mss_default":
        test.start[name] = _whole_number(text)
    elif name == "target_bitrate":
        settings[name] = _whole_number(text)
    elif name == "sender_tcp_congestion":
        test.end.setdefault(name, text)
    elif name == "error":
        test.error = text if text != SERVER_ENDED or test.intervals else None
    elif name == "udp":
        settings.setdefault("protocol", "UDP")
    elif name == "summary":
        test.in_summary = True
    else:
        test.start.setdefault(name, text)


def _read_result(test: _TextTest, result: "re.Match[str]") -> None:
    """Reads a line with a rate into `test`. A line of the summary ends with the word sender or
    receiver, the end that counted. In the summary of UDP of iperf3 3.0 and 3.1, it has no such
    word: its size and rate are those of the sender, its datagrams those of the receiver. All other
    lines are about an interval.

    A line for each stream has the same interval; these lines follow each other.
    """
    socket, end_s = _whole_number(result["id"]), float(result["end"])
    size, rate = (
        float(result[name]) if result[name][0].isdigit() else math.nan for name in ("size", "rate")
    )
    size *= _BINARY[result["size_unit"]]
    factors, bits_per_unit = (_DECIMAL, 1) if result["what"] == "bits" else (_BINARY, 8)
    rate_bps = rate * factors[result["rate_unit"]] * bits_per_unit
    rest = result["rest"] + " "
    words = rest.split()
    retransmits = (
        _whole_number(retransmitted[1]) if (retransmitted := _RETRANSMITS.match(rest)) else None
    )
    direction = {"sender": result["role"] == "TX"} if result["role"] else {}
    count = {"socket": socket, "bytes": size, "bits_per_second": rate_bps, **direction}
    datagrams = _DATAGRAMS.search(rest)
    if datagrams:
        test.start["test_start"].setdefault("protocol", "UDP")
    if words[-1:] in (["sender"], ["receiver"]) and socket is not None:
        test.end.setdefault("sum", {"seconds": end_s})
        stream = test.streams.setdefault(socket, {})
        stream[words[-1]] = count | ({"retransmits": retransmits} if words[-1] == "sender" else {})
        return
    if test.in_summary and datagrams and socket is not None:
        test.end.setdefault("sum", {"seconds": end_s})
        lost, packets = map(_whole_number, datagrams.groups())
        test.streams[socket] = {"udp": count | {"lost_packets": lost, "packets": packets}}
        return
    test.counts_sent |= retransmits is not None and not result["role"]
    omitted = "(omitted)" in words
    udp = test.start["test_start"].get("protocol") == "UDP"
    stream = count | {"omitted": omitted, "retransmits": None if udp else retransmits}
    last = test.intervals[-1] if test.intervals else None
    if (
        last
        and last["key"] == (result["start"], omitted)
        and all(counted["socket"] != socket for counted in last["streams"])
    ):
        last["streams"].append(stream)
    else:
        test.intervals.append(
            {
                "key": (result["start"], omitted),
                "sum": {"end": end_s, "omitted": omitted},
                "streams": [stream],
            }
        )


def _whole_number(digits: str) -> int | None:
    """Returns digits as a number; None if they are not a number, or too long for a count."""
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None
