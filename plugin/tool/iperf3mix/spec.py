"""Reads and checks the spec of a `throughput` test, and explains why this tool does not run it.
Also reads and writes ISO 8601 durations as pScheduler does (without years and months).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from . import group_grammar

NEWEST_SCHEMA = 7  # of the test's spec, in pScheduler 5.2
DEFAULT_DURATION_S = 10
DEFAULT_LINK_RTT_S = 0.2
DEFAULT_PORT = 5201

# Limits of iperf3 (src/iperf.h), and of the patched one's -i in JSON
MOST_DURATION_S, MOST_OMIT_S, LEAST_INTERVAL_S, MOST_INTERVAL_S = 86400, 600, 0.01, 60.0
MOST_STREAMS, MOST_MSS, MOST_WINDOW_BYTES, MOST_BUFFER_BYTES = 128, 32767, 512 << 20, 1 << 20
MOST_FLOW_LABEL, MOST_CPU = 0xFFFFF, 1024

_DURATION = re.compile(
    r"P(?=\d|T\d)(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?=\d)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_UNITS_S = (604800, 86400, 3600, 60, 1)

# Options that concern only pScheduler
_FOR_PSCHEDULER = ("schema", "source-node", "dest-node")
_NOT_SERVED = {
    "udp": "UDP has no congestion control",
    "loopback": "both ends of a loopback test are one participant",
    "reverse-connections": "iperf3 connects from the source only",
    "bandwidth-strict": "iperf3 has no such mode",
    "burst-size": "iperf3 sends bursts of a size, and doesn't limit them to it",
}

Value = TypeVar("Value")


class SpecError(ValueError):
    """Reports a spec that this tool doesn't run. `reasons` are sentences."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True)
class Request:
    """Holds the options of a test: times in seconds, sizes in bytes, rates in bits per second. An
    option that is not given is None.
    """

    source: str | None
    dest: str
    congestion: str
    groups: tuple[group_grammar.Group, ...]
    streams: int
    duration_s: int
    omit_s: int
    interval_s: float | None
    link_rtt_s: float
    reverse: bool
    single_ended: bool
    single_ended_port: int
    ip_version: int | None
    local_address: str | None
    bandwidth_bps: int | None
    fq_rate_bps: int | None
    window_bytes: int | None
    buffer_bytes: int | None
    mss_bytes: int | None
    ip_tos: int | None
    flow_label: int | None
    zero_copy: bool
    no_delay: bool
    client_cpu: int | None
    server_cpu: int | None

    @property
    def traffic_s(self) -> int:
        return self.omit_s + self.duration_s

    def group_name(self, number: int) -> str:
        """Returns a group's name for messages: its number, from 1, and its text in the test."""
        return f"group {number} ({self.congestion.split(',')[number - 1]})"


def read(test: object) -> Request:
    """Reads the request of a test, {"type", "spec"}; raises SpecError with every reason
    against it.
    """
    if not isinstance(test, dict):
        raise SpecError(["the test is not an object"])
    if test.get("type") != "throughput":
        raise SpecError([f"the test is {test.get('type')!r}, not throughput"])
    spec = test.get("spec")
    if not isinstance(spec, dict):
        raise SpecError(["the test has no spec"])
    reader = _SpecReader(spec)
    request = reader.request()
    if request is None or reader.problems:
        raise SpecError(reader.problems)
    return request


class _SpecReader:
    """Reads a spec's options, and collects the mistakes in them."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._read: set[str] = set()
        self.problems: list[str] = []

    def request(self) -> Request | None:
        if not self._schema_is_known():
            return None
        congestion = self._option("congestion", _text, "")
        mix = self._groups(congestion)
        single_ended = "single-ended" in self._spec  # with any value, the test has one participant
        request = Request(
            source=self._option("source", _text, None),
            dest=self._option("dest", _text, ""),
            congestion=congestion,
            groups=mix,
            streams=self._option("parallel", _whole(1, MOST_STREAMS), 1),
            duration_s=self._option(
                "duration", _whole_seconds(1, MOST_DURATION_S), DEFAULT_DURATION_S
            ),
            omit_s=self._option("omit", _whole_seconds(0, MOST_OMIT_S), 0),
            interval_s=self._option("interval", _interval, None),
            link_rtt_s=self._option("link-rtt", _duration, DEFAULT_LINK_RTT_S),
            reverse=self._option("reverse", _truth, False),
            single_ended=single_ended,
            single_ended_port=self._option("single-ended-port", _whole(1, 65535), DEFAULT_PORT),
            ip_version=self._option("ip-version", _ip_version, None),
            local_address=self._option("local-address", _text, None),
            bandwidth_bps=self._option("bandwidth", _whole(1), None),
            fq_rate_bps=self._option("fq-rate", _whole(1), None),
            window_bytes=self._option("window-size", _whole(1, MOST_WINDOW_BYTES), None),
            buffer_bytes=self._option("buffer-length", _whole(1, MOST_BUFFER_BYTES), None),
            mss_bytes=self._option("mss", _whole(1, MOST_MSS), None),
            ip_tos=self._option("ip-tos", _whole(0, 255), None),
            flow_label=self._option("flow-label", _whole(1, MOST_FLOW_LABEL), None),
            zero_copy=self._option("zero-copy", _truth, False),
            no_delay=self._option("no-delay", _truth, False),
            client_cpu=self._option("client-cpu-affinity", _whole(0, MOST_CPU), None),
            server_cpu=self._option("server-cpu-affinity", _whole(0, MOST_CPU), None),
        )
        self._option("single-ended", _truth, False)
        if not request.dest and "dest" not in self._spec:
            self.problems.append("the test has no dest")
        if request.flow_label is not None and request.ip_version == 4:
            self.problems.append("a flow-label is for IPv6, and ip-version is 4")
        if single_ended and request.server_cpu is not None:
            self.problems.append(
                "server-cpu-affinity needs a participant at the destination, and the test is "
                "single-ended"
            )
        self._refuse_the_others()
        return request

    def _schema_is_known(self) -> bool:
        schema = self._spec.get("schema", 1)
        if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
            self.problems.append(
                f"the spec's schema is {schema!r}, not a number from 1 to {NEWEST_SCHEMA}"
            )
        elif schema > NEWEST_SCHEMA:
            self.problems.append(
                f"the spec's schema is {schema}, and the newest that this tool knows is "
                f"{NEWEST_SCHEMA}"
            )
        return not self.problems

    def _groups(self, congestion: str) -> tuple[group_grammar.Group, ...]:
        if "congestion" not in self._spec:
            self.problems.append(
                "no congestion is asked for: this tool mixes congestion control algorithms"
            )
        if not congestion:
            return ()
        if not group_grammar.is_group_list(congestion):
            self.problems.append(
                f"congestion {congestion!r} is one algorithm for all streams: a test for stock "
                "iperf3"
            )
            return ()
        try:
            return group_grammar.parse_groups(congestion)
        except group_grammar.GroupGrammarError as error:
            self.problems.append(f"congestion {congestion!r}: {error}")
            return ()

    def _option(self, name: str, kind: Callable[[object], Value], default: Any) -> Any:
        """Returns an option's value, or the default if it is missing or wrong. Reports a wrong
        value as a problem.
        """
        self._read.add(name)
        if name not in self._spec:
            return default
        try:
            return kind(self._spec[name])
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return default

    def _refuse_the_others(self) -> None:
        for name, value in self._spec.items():
            if name in self._read or name in _FOR_PSCHEDULER:
                continue
            if name not in _NOT_SERVED:
                self.problems.append(f"{name} is not supported: this tool doesn't know it")
            elif (
                value is not False or name == "loopback"
            ):  # with this key, the test has one participant
                self.problems.append(f"{name} is not supported: {_NOT_SERVED[name]}")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"is {value!r}, not a text")
    return value


def _truth(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError(f"is {value!r}, not true or false")
    return value


def _whole(least: int, most: int | None = None) -> Callable[[object], int]:
    span = f"from {least} to {most}" if most is not None else f"of at least {least}"

    def read_whole(value: object) -> int:
        # JSON Schema's integers may be written 5.0
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
            raise ValueError(f"is {value!r}, not a whole number {span}")
        if value < least or (most is not None and value > most):
            raise ValueError(f"is {value!r}, not a whole number {span}")
        return int(value)

    return read_whole


def _duration(value: object) -> float:
    return duration_s(_text(value))


def _whole_seconds(least: int, most: int) -> Callable[[object], int]:
    def read_seconds(value: object) -> int:
        seconds = _duration(value)
        if seconds != int(seconds) or not least <= seconds <= most:
            raise ValueError(f"is {value}: iperf3 takes whole seconds from {least} to {most}")
        return int(seconds)

    return read_seconds


def _interval(value: object) -> float:
    seconds = _duration(value)
    if not LEAST_INTERVAL_S <= seconds <= MOST_INTERVAL_S:
        raise ValueError(f"is {value}: iperf3 takes {LEAST_INTERVAL_S} to {MOST_INTERVAL_S:g} s")
    return seconds


def _ip_version(value: object) -> int:
    if value not in (4, 6) or isinstance(value, bool):
        raise ValueError(f"is {value!r}, not 4 or 6")
    return int(value)


def duration_s(text: str) -> float:
    """Returns a duration in seconds; raises ValueError for any other text."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as PT30S")
    return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS_S) if part)


def duration_text(whole_seconds: float) -> str:
    """Writes a duration in whole seconds, rounded up."""
    return f"PT{math.ceil(whole_seconds)}S"


def moment_s(text: str) -> float:
    """Returns an ISO 8601 date and time with its zone, in seconds since 1970; raises ValueError
    for any other text.
    """
    # Python 3.10 doesn't read the Z
    when = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    if when.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return when.timestamp()
