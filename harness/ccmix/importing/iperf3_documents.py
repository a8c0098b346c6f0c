"""Models the documents of iperf3 -J, of any version and from either end, and reads iperf3's plain
text, with or without -V, into the same form.

Since 3.1 fields were added and none was removed: 3.1 has no congestion control algorithms, no
interval in test_start, and in no record whether its end is the sender; retransmits and RTT are not
of every system. In the output for people, quantities have three or four digits, RTTs are not there,
and only -V prints CCA, time and host.
"""

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
    """The other host, by the name that this end uses."""

    host: Text


class Iperf3Connection(ForeignObject):
    """A connected stream; `group` and `congestion` are of the patched iperf3."""

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
    """The counts of one end for a stream during an interval, in the form that
    analysis.iperf3_tables reads.
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
    """Returns whether iperf3 -J wrote the document, including documents about failed tests."""
    return isinstance(document.get("start"), dict) and bool(
        document.keys() & {"intervals", "end", "error"}
    )


LONGEST_LINE = 1000  # characters; longer ones are not iperf3's
OF_A_HOST = ("version", "system_info")  # which a server says once
MOST_DIGITS = 15  # of a whole number

_LINE = re.compile(
    r"\[ *(?P<id>\d+)\](?:\[(?P<role>[TR]X)-[CS]\])?"
    r"\s+(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+)\s+sec\s+"
    r"(?P<size>\d+(?:\.\d+)?) (?P<size_unit>[KMGT]?)Bytes\s+"
    r"(?P<rate>\d+(?:\.\d+)?) (?P<rate_unit>[KMGT]?)(?P<what>bits|Bytes)/sec"
    r"(?P<rest>.*)"
)
_RESULT = re.compile(r"\[ {0,4}\d{1,4}\].{0,200}?(?:bits|Bytes)/sec")
_RETRANSMITS = re.compile(r"\s+(\d+)\s")
_DATAGRAMS = re.compile(r"\s\d+/\d+ \(")
_CONNECTED = re.compile(
    r"\[ *(\d+)\](?:\[[TR]X-[CS]\])? local (\S+) port (\d+) connected to (\S+) port (\d+)"
)
_GROUP_CCA = re.compile(r"\[ *(\d+)\] congestion control algorithm (\S+)")
_STARTING = re.compile(
    r"Starting Test: protocol: (\w+), (\d+) streams.*?omitting (\d+) seconds(?:, (\d+) second "
    r"test)?"
)
_BEGINS = re.compile(
    r"(?P<version>iperf 3\.\S+)|Server listening on |Connecting to host (?P<to>.+), port \d+|"
    r"Accepted connection from (?P<accepted>.+), port \d+"
)
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def is_text(head: str) -> bool:
    return bool(_RESULT.search(head))


@dataclass
class _TextTest:
    """Collects the parts of a test that were read so far."""

    line: int
    start: Row = field(default_factory=lambda: {"connected": [], "test_start": {}})
    end: Row = field(default_factory=dict)
    intervals: list[Row] = field(default_factory=list)
    streams: dict[int, Row] = field(default_factory=dict)
    ccas: dict[int, str] = field(default_factory=dict)
    error: str | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def has_results(self) -> bool:
        return bool(self.intervals or self.streams or self.error)

    def document(self) -> Row:
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
    """Yields the document of each test; `name` is the file name."""
    test = _TextTest(1)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            continue
        begins = _BEGINS.search(line)
        if begins and test.has_results:
            yield Document(test.document(), "\n".join(test.lines), f"{name}:{test.line}")
            before, test = test, _TextTest(number)
            test.start |= {name: value for name, value in before.start.items() if name in OF_A_HOST}
        test.lines.append(line)
        if begins:
            _begin(test, begins)
        else:
            _read(test, line)
    if test.has_results:
        yield Document(test.document(), "\n".join(test.lines), f"{name}:{test.line}")


def _begin(test: _TextTest, begins: "re.Match[str]") -> None:
    if begins["version"]:
        test.start["version"] = begins["version"]
    elif begins["to"]:
        test.start["connecting_to"] = {"host": begins["to"]}
    elif begins["accepted"]:
        test.start["accepted_connection"] = {"host": begins["accepted"]}


def _read(test: _TextTest, line: str) -> None:
    if result := _LINE.search(line):
        _result(test, result)
    elif connected := _CONNECTED.search(line):
        socket, local, local_port, remote, remote_port = connected.groups()
        test.start["connected"].append(
            {
                "socket": _number(socket),
                "local_host": local,
                "local_port": _number(local_port),
                "remote_host": remote,
                "remote_port": _number(remote_port),
            }
        )
    elif starting := _STARTING.search(line):
        protocol, streams, omitted_s, seconds = starting.groups()
        test.start["test_start"] |= {
            "protocol": protocol,
            "num_streams": _number(streams),
            "omit": _number(omitted_s),
            "duration": _number(seconds or "0"),
        }
    elif of_group := _GROUP_CCA.search(line):
        if (socket_number := _number(of_group[1])) is not None:
            test.ccas[socket_number] = of_group[2]
    else:
        _word(test, line.strip())


def _word(test: _TextTest, line: str) -> None:
    """Reads a line whose first words name the value that follows."""
    first, _, rest = line.partition(" ")
    rest = rest.strip()
    if first == "Time:":
        test.start["timestamp"] = {"timesecs": date_s(rest)}
    elif line.startswith("Reverse mode,"):
        test.start["test_start"]["reverse"] = 1
    elif first == "Cookie:":
        test.start["cookie"] = rest
    elif line.startswith("TCP MSS:"):
        test.start["tcp_mss_default"] = _number(rest.split()[1]) if len(rest.split()) > 1 else None
    elif line.startswith("Target Bitrate:"):
        test.start["test_start"]["target_bitrate"] = _number(rest.split()[-1])
    elif first == "snd_tcp_congestion":
        test.end.setdefault("sender_tcp_congestion", rest)
    elif first == "Linux" and len(rest.split()) > 1:
        test.start.setdefault("system_info", line)
    elif (message := line.partition("iperf3: ")[2]).startswith(("error - ", "interrupt - ")):
        test.error = message.partition(" - ")[2]


def _result(test: _TextTest, result: "re.Match[str]") -> None:
    """Reads a line of an interval, or of the summary, which names at its end the host
    that counted.
    """
    socket, end_s = _number(result["id"]), float(result["end"])
    size = float(result["size"]) * _BINARY[result["size_unit"]]
    units, bits = (_DECIMAL, 1) if result["what"] == "bits" else (_BINARY, 8)
    rate_bps = float(result["rate"]) * units[result["rate_unit"]] * bits
    rest = result["rest"] + " "
    words = rest.split()
    retransmits = _number(again[1]) if (again := _RETRANSMITS.match(rest)) else None
    sender = {"sender": result["role"] == "TX"} if result["role"] else {}
    count = {"socket": socket, "bytes": size, "bits_per_second": rate_bps, **sender}
    if words[-1:] in (["sender"], ["receiver"]) and socket is not None:
        test.end.setdefault("sum", {"seconds": end_s})
        if _DATAGRAMS.search(rest):
            test.start["test_start"].setdefault("protocol", "UDP")
        stream = test.streams.setdefault(socket, {})
        stream[words[-1]] = count | ({"retransmits": retransmits} if words[-1] == "sender" else {})
        return
    omitted = "(omitted)" in words
    udp = test.start["test_start"].get("protocol") == "UDP"
    stream = count | {"omitted": omitted, "retransmits": None if udp else retransmits}
    before = test.intervals[-1] if test.intervals else None
    if (
        before
        and before["key"] == (result["start"], omitted)
        and all(other["socket"] != socket for other in before["streams"])
    ):
        before["streams"].append(stream)
    else:
        test.intervals.append(
            {
                "key": (result["start"], omitted),
                "sum": {"end": end_s, "omitted": omitted},
                "streams": [stream],
            }
        )


def _number(digits: str) -> int | None:
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None
