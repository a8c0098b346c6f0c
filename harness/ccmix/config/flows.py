"""Reads the traffic sources of an emulated path: `flows.short = h1 bbr:1`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccmix.conditions.layout import layout
from ccmix.config.groups import GROUPS, check_name
from ccmix.config.ini import read_text as read_file
from ccmix.config.named_values import settings
from ccmix.config.problems import ConfigError, Contradiction, nearest, quoted
from ccmix.config.senders import read_host_names
from ccmix.config.values import Kind, whole_number
from ccmix.generators.distributions import NAMED, Points, mean_bytes, read_points
from ccmix.model import (
    CommandSource,
    Group,
    HttpSource,
    Iperf3Source,
    PathSource,
    Topology,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.group_grammar import DEFAULT_CCA, RATE_UNITS_BPS
from ccmix.model.traffic import group_names
from ccmix.units import LEAST_RATE_BPS, MOST_RATE_BPS, SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

MOST_STREAMS = 128  # of iperf3 (MAX_STREAMS in iperf.h)
MOST_PARALLEL = 300  # processes of curl
MOST_REQUESTS = 1_000_000
MOST_FILE_BYTES = 2**40
STEPS = "path"  # the name of the source that measures an emulated path
UNNAMED = ("", "")  # the name and the host of a source that has none yet
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,23}", re.ASCII)
_UDP = re.compile(r"udp(?::(?P<streams>\d{1,3}))?@(?P<rate>\d{1,15}(?:\.\d{1,9})?)(?P<unit>[KMGTkmgt]?)", re.ASCII)
_LATE = re.compile(r"(?P<rest>.*)\+(?P<delay>[\d.]+(?:us|ms|s|m|min|h))", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Line:
    """Holds what a key flows.NAME describes before the path is known.

    `source` has no name and host yet, and a workload neither sizes nor, where `load` is given, a rate: `load` is a
    share of the bottleneck's.
    """

    hosts: tuple[str, ...]
    source: TrafficSource
    load: float | None = None


def read_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no name of flows: write a letter, then letters, digits, - and _")
    return text


def read_line(text: str) -> Line:
    """Reads a traffic source.

    Examples are 'h1 bbr:1+30s', 'h1 udp@100M', 'h1 http requests 5000 size 15kb', 'h1 workload web-search load 30%'
    and 'h1 command LINE'.
    """
    hosts, _, rest = text.partition(" ")
    names, rest = _hosts(hosts), rest.strip()
    kind = rest.partition(" ")[0]
    if not rest:
        raise ValueError("says nothing of its flows: write for instance h1 bbr:1")
    if kind == "command":
        return Line(names, CommandSource(*UNNAMED, _command(rest)))
    if kind in ("http", "workload") or rest.startswith("udp"):
        rest, start_s = _start(rest)
        if kind == "http":
            return Line(names, replace(_http(rest.split()[1:]), start_s=start_s))
        if kind == "workload":
            workload, load = _workload(rest.split()[1:])
            return Line(names, replace(workload, start_s=start_s), load)
        if start_s != int(start_s):
            raise ValueError(f"begins after {start_s:g} s: iperf3 sends UDP for whole seconds, so write whole ones")
        return Line(names, replace(_udp(rest), start_s=start_s))
    groups = GROUPS.read(rest)
    streams = sum(group.weight for group in groups)
    if streams > MOST_STREAMS:
        raise ValueError(f"has {streams} streams, the sum of its weights: iperf3 has {MOST_STREAMS} at most")
    return Line(names, Iperf3Source(*UNNAMED, groups, streams))


def _hosts(text: str) -> tuple[str, ...]:
    """Returns the hosts of a source; a command may run on a receiver, whose name no sender may have."""
    return (text,) if text.endswith("receiver") else read_host_names(text)


def _start(text: str) -> tuple[str, float]:
    """Returns the text without '+30s' at its end, and that in seconds."""
    match = _LATE.fullmatch(text)
    return (match["rest"].strip(), parse_time(match["delay"])) if match else (text, 0.0)


def _command(rest: str) -> str:
    line = rest.removeprefix("command").strip()
    if not line:
        raise ValueError("has no command: write for instance h1 command ./my-tool {dst}")
    return line


def _udp(text: str) -> UdpSource:
    match = _UDP.fullmatch(text)
    if not match:
        raise ValueError(f"has {quoted(text)}, which is no udp[:STREAMS]@RATE[+DELAY], such as udp@100M")
    rate_bps = float(match["rate"]) * RATE_UNITS_BPS[match["unit"].upper()]
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("has a rate of UDP that is not from 1K to 1000T")
    return UdpSource(*UNNAMED, rate_bps, whole_number(1, MOST_STREAMS).read(match["streams"] or "1"))


def _cca(text: str) -> str:
    check_name(text)
    return text


def _http(words: Sequence[str]) -> HttpSource:
    given = settings(words, ("requests", "size", "parallel", "cca"))
    if missing := [name for name in ("requests", "size") if name not in given]:
        raise ValueError(f"has no {missing[0]}: write for instance http requests 5000 size 15kb")
    requests = _of("requests", given["requests"], whole_number(1, MOST_REQUESTS).read)
    return HttpSource(
        *UNNAMED,
        requests=requests,
        size_bytes=_of("size", given["size"], _file_size),
        parallel=_of("parallel", given.get("parallel", "1"), whole_number(1, min(MOST_PARALLEL, requests)).read),
        cca=_cca(given.get("cca", DEFAULT_CCA)),
    )


def _of(name: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"has for {name} {quoted(text)}, which {error}") from None


def _file_size(text: str) -> int:
    number, unit = quantity(text, SIZE_BYTES, "15kb, 1mb")
    size_bytes = round(number * SIZE_BYTES[unit])
    if not 1 <= size_bytes <= MOST_FILE_BYTES:
        raise ValueError("is no size from 1b to 1tib: a flow carries data")
    return size_bytes


def _workload(words: Sequence[str]) -> tuple[WorkloadSource, float | None]:
    if not words:
        raise ValueError(f"names no distribution: use one of {', '.join(NAMED)}, or a file")
    given = settings(words[1:], ("load", "rate", "cca"))
    if ("load" in given) == ("rate" in given):
        raise ValueError("needs either load, a share of the bottleneck's rate, or rate: write for instance load 30%")
    load = _of("load", given["load"], parse_percent) if "load" in given else None
    if load == 0:
        raise ValueError("has a load of 0%")
    offered_bps = _of("rate", given["rate"], parse_rate) if "rate" in given else 0.0
    return WorkloadSource(*UNNAMED, words[0], (), offered_bps, _cca(given.get("cca", DEFAULT_CCA))), load


def named_sources(settings: Mapping[str, Any], path: Topology, folder: Path) -> tuple[TrafficSource, ...]:
    """Returns the sources of all keys flows.NAME, one for each host.

    Raises Contradiction for a host that the path has not, or a wrong file.
    """
    sources: list[TrafficSource] = []
    hosts = [sender.name for sender in path.senders]
    receivers = layout(path).receivers
    for key, named in settings.items():
        if key.startswith("flows."):
            line: Line = named.value
            for host in line.hosts:
                known = [*hosts, *receivers] if isinstance(line.source, CommandSource) else hosts
                if host not in known:
                    raise Contradiction(key, f"is of the host {quoted(host)}{nearest(host, known)}")
                try:
                    source = _resolved(line, path, folder)
                except ValueError as error:
                    raise Contradiction(key, str(error)) from None
                sources.append(replace(source, name=named.name, host=host))
    return tuple(sources)


def steps_beside(others: Sequence[TrafficSource], path: Topology, most_bps: float) -> tuple[TrafficSource, ...]:
    """Returns the steps that measure the path, from its first sender, and the other sources, which are cross traffic.

    Raises Contradiction for cross traffic that has the steps' name, or begins later than they.
    """
    for source in others:
        key = f"flows.{source.name}"
        if source.name == STEPS:
            raise Contradiction(key, f"has the name of the steps that measure the path: call it other than {STEPS}")
        if source.start_s:
            raise Contradiction(key, "begins later than the steps that measure the path: leave its delay out")
    return (PathSource(STEPS, path.senders[0].name, most_bps), *others)


def own_test_beside(
    others: Sequence[TrafficSource], path: Topology, groups: tuple[Group, ...], streams: int
) -> tuple[TrafficSource, ...]:
    """Returns the test that the keys cca and streams describe, from the path's first sender, and the other sources,
    which are cross traffic.

    Raises Contradiction for another test, for cross traffic with the name of a group of the test, and for a host that
    sends nothing, whose netem could not be verified.
    """
    first, *more = (sender.name for sender in path.senders)
    for source in others:
        key = f"flows.{source.name}"
        if isinstance(source, Iperf3Source):
            message = (
                "is a test by iperf3 itself, and beside cca and streams there is only cross traffic: make it udp, "
                "http, workload or command, or remove cca and streams"
            )
            raise Contradiction(key, message)
        if source.name in group_names(groups):
            raise Contradiction(key, f"has the name of the test's group {source.name}: call it otherwise")
    at_work = {source.host.removesuffix("-receiver") for source in others}
    if idle := [name for name in more if name not in at_work]:
        message = f"is sent by {first}, and {idle[0]} sends nothing: give {idle[0]} a line of flows, or remove it"
        raise Contradiction("cca", message)
    return (Iperf3Source("", first, groups, streams), *others)


def _resolved(line: Line, path: Topology, folder: Path) -> TrafficSource:
    workload = line.source
    if not isinstance(workload, WorkloadSource):
        return workload
    points = NAMED.get(workload.distribution) or _points_of_file(folder / workload.distribution)
    if mean_bytes(points) <= 0:
        raise ValueError(f"{workload.distribution}: its flows have no bytes")
    offered_bps = workload.offered_bps if line.load is None else line.load * path.rate_bps
    return replace(workload, sizes=points, offered_bps=offered_bps)


def _points_of_file(file: Path) -> Points:
    try:
        return read_points(read_file(file))
    except ConfigError as error:
        known = ", ".join(NAMED)
        raise ValueError(f"{error.problems[0]}: a distribution is one of {known}, or a file") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


LINE = Kind("host, and what it sends", "as in the group grammar, or udp, http, workload, command", read_line)
