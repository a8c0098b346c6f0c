"""Reads the traffic of an emulated path: CCAs in the group grammar of the patched iperf3, and
traffic sources (`flows.short = h1 bbr:1`).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.conditions.layout import layout
from ccmix.config.ini import read_text as read_file
from ccmix.config.problems import ConfigError, Contradiction, nearest, quoted
from ccmix.config.senders import read_host_names
from ccmix.config.values import Kind, Settings, read_named, settings, whole_number
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
from ccmix.model.group_grammar import DEFAULT_CCA, RATE_UNITS_BPS, GroupGrammarError, parse_groups
from ccmix.model.traffic import group_names
from ccmix.terms import BPF_CCAS, CCAS
from ccmix.units import (
    LEAST_RATE_BPS,
    MOST_RATE_BPS,
    SIZE_BYTES,
    parse_percent,
    parse_rate,
    parse_time,
    quantity,
)

_CCA_NAME = re.compile(r"[a-z0-9_]{1,15}", re.ASCII)  # the names that lab/build accepts


def _read_groups(text: str) -> tuple[Group, ...]:
    """Reads groups that may have spaces around them, which iperf3 does not accept."""
    return tuple(_read_group(part.strip()) for part in text.split(","))


def _read_group(text: str) -> Group:
    try:
        (group,) = parse_groups(text)
    except GroupGrammarError as error:
        raise ValueError(
            f"{quoted(text)} is not CCA[:WEIGHT][@RATE][+DELAY], such as bbr:4@2.4G+10s: "
            f"{error.reason}"
        ) from None
    check_name(group.cca)
    return group


def check_name(cca: str) -> None:
    """Raises ValueError for a name that no CCA can have, neither a known CCA nor one that a user
    adds to the lab.
    """
    if not _CCA_NAME.fullmatch(cca):
        check_known([cca])


def check_known(ccas: Iterable[str]) -> None:
    """Raises ValueError for a CCA that is neither in Linux nor one of the BBR versions."""
    for cca in ccas:
        if cca not in (DEFAULT_CCA, *CCAS):
            raise ValueError(f"{quoted(cca)} is not a known CCA" + nearest(cca, CCAS))


def _read_loaded(text: str) -> tuple[str, ...]:
    """Reads the CCAs to load as BPF programs."""
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in BPF_CCAS:
            raise ValueError(
                f"{quoted(name)} can't be loaded by ccmix-cca: write {' or '.join(BPF_CCAS)}, or "
                "both"
            )
    if len(set(names)) < len(names):
        raise ValueError("names a CCA twice")
    return tuple(names)


GROUPS = Kind("groups", "rates: K, M, G, T bit/s; delays: ms, s", _read_groups)
LOADED = Kind("list of CCAs", f"of {', '.join(BPF_CCAS)}", _read_loaded)

MOST_STREAMS = 128  # of iperf3 (MAX_STREAMS in iperf.h)
MOST_PARALLEL = 300  # processes of curl
MOST_REQUESTS = 1_000_000
MOST_FILE_BYTES = 2**40
STEPS = "path"  # the name of the source that measures an emulated path
UNNAMED = ("", "")  # the name and the host of a source, before they are known
_FLOWS_NAME = re.compile(r"[a-z][a-z0-9_-]{0,23}", re.ASCII)
_UDP = re.compile(
    r"udp(?::(?P<streams>\d{1,3}))?@(?P<rate>\d{1,15}(?:\.\d{1,9})?)(?P<unit>[KMGTkmgt]?)", re.ASCII
)
_LATE = re.compile(r"(?P<rest>.*)\+(?P<delay>[\d.]+(?:us|ms|s|m|min|h))", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Line:
    """Holds the traffic of a key flows.NAME before the path is known.

    `source` has no name and host yet. A workload has no sizes yet and, if `load` is given, no rate:
    `load` is a share of the bottleneck's rate. Without `source`, the hosts send nothing.
    """

    hosts: tuple[str, ...]
    source: TrafficSource | None
    load: float | None = None


def read_name(text: str) -> str:
    if not _FLOWS_NAME.fullmatch(text):
        raise ValueError(
            f"{quoted(text)} is not a name for flows: write a letter, then letters, digits, - and _"
        )
    return text


def read_line(text: str) -> Line:
    """Reads a traffic source.

    Examples are 'h1 bbr:1+30s', 'h1 udp@100M', 'h1 http requests 5000 size 15kb', 'h1 workload
    web-search load 30%', 'h1 command LINE' and 'h1 none'.
    """
    hosts, _, rest = text.partition(" ")
    names, rest = _hosts(hosts), rest.strip()
    kind = rest.partition(" ")[0]
    if not rest:
        raise ValueError("does not say what its host sends: write for instance h1 bbr:1")
    if rest == "none":
        return Line(names, None)
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
            raise ValueError(
                f"starts after {start_s:g} s, but iperf3 sends UDP only for whole seconds: write "
                "whole seconds"
            )
        return Line(names, replace(_udp(rest), start_s=start_s))
    groups = GROUPS.read(rest)
    streams = sum(group.weight for group in groups)
    if streams > MOST_STREAMS:
        raise ValueError(
            f"has {streams} streams (the sum of its weights), but iperf3 allows at most "
            f"{MOST_STREAMS}"
        )
    return Line(names, Iperf3Source(*UNNAMED, groups, streams))


def _hosts(text: str) -> tuple[str, ...]:
    """Returns the hosts of a source. A command may run on a receiver, which has a name that a
    sender can't have.
    """
    return (text,) if text.endswith("receiver") else read_host_names(text)


def _start(text: str) -> tuple[str, float]:
    """Splits '+30s' off the end of a text; returns the rest, and the seconds."""
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
        raise ValueError(
            f"{quoted(text)} is not udp[:STREAMS]@RATE[+DELAY]: write for instance udp@100M"
        )
    rate_bps = float(match["rate"]) * RATE_UNITS_BPS[match["unit"].upper()]
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("has a UDP rate that is not from 1K to 1000T")
    return UdpSource(
        *UNNAMED, rate_bps, whole_number(1, MOST_STREAMS).read(match["streams"] or "1")
    )


def _cca(text: str) -> str:
    check_name(text)
    return text


def _http(words: Sequence[str]) -> HttpSource:
    given = settings(words, ("requests", "size", "parallel", "cca"))
    if missing := [name for name in ("requests", "size") if name not in given]:
        raise ValueError(f"has no {missing[0]}: write for instance http requests 5000 size 15kb")
    requests = read_named("requests", given["requests"], whole_number(1, MOST_REQUESTS).read)
    return HttpSource(
        *UNNAMED,
        requests=requests,
        size_bytes=read_named("size", given["size"], _file_size),
        parallel=read_named(
            "parallel",
            given.get("parallel", "1"),
            whole_number(1, min(MOST_PARALLEL, requests)).read,
        ),
        cca=_cca(given.get("cca", DEFAULT_CCA)),
    )


def _file_size(text: str) -> int:
    number, unit = quantity(text, SIZE_BYTES, "15kb, 1mb")
    size_bytes = round(number * SIZE_BYTES[unit])
    if not 1 <= size_bytes <= MOST_FILE_BYTES:
        raise ValueError("is not a size from 1b to 1tib: write for instance 15kb")
    return size_bytes


def _workload(words: Sequence[str]) -> tuple[WorkloadSource, float | None]:
    if not words:
        raise ValueError(f"names no distribution: use one of {', '.join(NAMED)}, or a file")
    given = settings(words[1:], ("load", "rate", "cca"))
    if ("load" in given) == ("rate" in given):
        raise ValueError(
            "needs either load (a share of the bottleneck's rate) or rate: write for instance "
            "load 30%"
        )
    load = read_named("load", given["load"], parse_percent) if "load" in given else None
    if load == 0:
        raise ValueError("has a load of 0%: write for instance load 30%")
    offered_bps = read_named("rate", given["rate"], parse_rate) if "rate" in given else 0.0
    return WorkloadSource(
        *UNNAMED, words[0], (), offered_bps, _cca(given.get("cca", DEFAULT_CCA))
    ), load


def named_sources(settings: Settings, path: Topology, folder: Path) -> tuple[TrafficSource, ...]:
    """Returns the sources of all keys flows.NAME, one for each host.

    Raises Contradiction for a host that is not on the path, or a wrong file.
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
                    raise Contradiction(
                        key, f"{quoted(host)} is not a host of the path{nearest(host, known)}"
                    )
                if line.source is None:
                    continue
                try:
                    source = _resolved(line.source, line.load, path, folder)
                except ValueError as error:
                    raise Contradiction(key, str(error)) from None
                sources.append(replace(source, name=named.name, host=host))
    return tuple(sources)


def steps_beside(
    others: Sequence[TrafficSource], path: Topology, most_bps: float
) -> tuple[TrafficSource, ...]:
    """Returns the steps that measure the path, sent by its first sender, and the other sources,
    which are cross traffic.

    Raises Contradiction for cross traffic that has the steps' name or starts later than the steps.
    """
    for source in others:
        key = f"flows.{source.name}"
        if source.name == STEPS:
            raise Contradiction(
                key, "has the same name as the steps that measure the path: choose another name"
            )
        if source.start_s:
            raise Contradiction(
                key, "starts later than the steps that measure the path: remove its delay"
            )
    return (PathSource(STEPS, path.senders[0].name, most_bps), *others)


def hosts_of_lines(settings: Settings) -> set[str]:
    """Returns the hosts in the keys flows.NAME."""
    return {
        host
        for key, named in settings.items()
        if key.startswith("flows.")
        for host in named.value.hosts
    }


def own_test_beside(
    others: Sequence[TrafficSource],
    path: Topology,
    groups: tuple[Group, ...],
    streams: int,
    named: Collection[str],
) -> tuple[TrafficSource, ...]:
    """Returns the test that the keys cca and streams describe, sent by the path's first sender, and
    the other sources, which are cross traffic.

    `named` are the hosts in the keys flows.NAME. Raises Contradiction for another test, for cross
    traffic with the name of a group of the test, and for a host that sends nothing.
    """
    first, *more = (sender.name for sender in path.senders)
    for source in others:
        key = f"flows.{source.name}"
        if isinstance(source, Iperf3Source):
            raise Contradiction(
                key,
                "is a second iperf3 test, but with cca and streams all flows must be cross "
                "traffic: make it udp, http, workload or command, or remove cca and streams",
            )
        if source.name in group_names(groups):
            raise Contradiction(
                key, f"has the same name as the test's group {source.name}: choose another"
            )
    with_lines = {host.removesuffix("-receiver") for host in named}
    if idle := [name for name in more if name not in with_lines]:
        raise Contradiction(
            "cca",
            f"is sent only by {first}, so {idle[0]} sends nothing: write flows for {idle[0]}, or "
            f"remove {idle[0]}",
        )
    return (Iperf3Source("", first, groups, streams), *others)


def _resolved(
    source: TrafficSource, load: float | None, path: Topology, folder: Path
) -> TrafficSource:
    if not isinstance(source, WorkloadSource):
        return source
    points = NAMED.get(source.distribution) or _points_of_file(folder / source.distribution)
    if mean_bytes(points) <= 0:
        raise ValueError(f"{source.distribution}: its flows have no bytes")
    offered_bps = source.offered_bps if load is None else load * path.rate_bps
    return replace(source, sizes=points, offered_bps=offered_bps)


def _points_of_file(file: Path) -> Points:
    try:
        return read_points(read_file(file))
    except ConfigError as error:
        known = ", ".join(NAMED)
        raise ValueError(
            f"{error.problems[0]}: write one of {known}, or the name of a file"
        ) from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


LINE = Kind(
    "host, and what it sends", "as in the group grammar, or udp, http, workload, command", read_line
)
