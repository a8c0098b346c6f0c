"""Turns iperf3's output for people, with -V or without, from either end, into the document that -J would write.

Quantities have three or four digits there, RTTs are not in it, and only -V prints CCA, time and host.
"""

import email.utils
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ccmix.importing.json_types import Row

LONGEST_LINE = 1000  # characters; longer ones are not iperf3's
OF_A_HOST = ("version", "system_info")  # which a server says once
MOST_DIGITS = 15  # of a whole number

_LINE = re.compile(
    r"\[ *(?P<id>\d+)\](?:\[(?P<role>[TR]X)-[CS]\])?\s+(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+)\s+sec\s+"
    r"(?P<size>\d+(?:\.\d+)?) (?P<size_unit>[KMGT]?)Bytes\s+"
    r"(?P<rate>\d+(?:\.\d+)?) (?P<rate_unit>[KMGT]?)(?P<what>bits|Bytes)/sec"
    r"(?P<rest>.*)"
)
_RESULT = re.compile(r"\[ {0,4}\d{1,4}\].{0,200}?(?:bits|Bytes)/sec")
_RETRANSMITS = re.compile(r"\s+(\d+)\s")
_DATAGRAMS = re.compile(r"\s\d+/\d+ \(")
_CONNECTED = re.compile(r"\[ *(\d+)\](?:\[[TR]X-[CS]\])? local (\S+) port (\d+) connected to (\S+) port (\d+)")
_GROUP_CCA = re.compile(r"\[ *(\d+)\] congestion control algorithm (\S+)")
_STARTING = re.compile(
    r"Starting Test: protocol: (\w+), (\d+) streams.*?omitting (\d+) seconds(?:, (\d+) second test)?"
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
    """Collects what was read of a test so far."""

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


def read_tests(text: str) -> Iterator[tuple[int, str, Row]]:
    """Yields each test's first line, its text, and its document."""
    test = _TextTest(1)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            continue
        begins = _BEGINS.search(line)
        if begins and test.has_results:
            yield test.line, "\n".join(test.lines), test.document()
            before, test = test, _TextTest(number)
            test.start |= {name: value for name, value in before.start.items() if name in OF_A_HOST}
        test.lines.append(line)
        if begins:
            _begin(test, begins)
        else:
            _read(test, line)
    if test.has_results:
        yield test.line, "\n".join(test.lines), test.document()


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
                "socket": _number(socket), "local_host": local, "local_port": _number(local_port),
                "remote_host": remote, "remote_port": _number(remote_port),
            }
        )  # fmt: skip
    elif starting := _STARTING.search(line):
        protocol, streams, omitted_s, seconds = starting.groups()
        test.start["test_start"] |= {
            "protocol": protocol, "num_streams": _number(streams), "omit": _number(omitted_s),
            "duration": _number(seconds or "0"),
        }  # fmt: skip
    elif of_group := _GROUP_CCA.search(line):
        if (socket_number := _number(of_group[1])) is not None:
            test.ccas[socket_number] = of_group[2]
    else:
        _word(test, line.strip())


def _word(test: _TextTest, line: str) -> None:
    """Reads a line whose first words name the value that follows."""
    first, _, rest = line.partition(" ")
    rest = rest.strip()
    if first == "Time:" and (date := email.utils.parsedate_tz(rest)):
        try:
            test.start["timestamp"] = {"timesecs": email.utils.mktime_tz(date)}
        except (ValueError, OverflowError):
            return
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
    """Reads a line of an interval, or of the summary, which names at its end the host that counted."""
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
    if before and before["key"] == (result["start"], omitted) and all(
        other["socket"] != socket for other in before["streams"]
    ):  # fmt: skip
        before["streams"].append(stream)
    else:
        test.intervals.append(
            {"key": (result["start"], omitted), "sum": {"end": end_s, "omitted": omitted}, "streams": [stream]}
        )


def _number(digits: str) -> int | None:
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None
