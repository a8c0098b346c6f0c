"""Lines of traffic: `flows.short = h1 bbr:1`, what makes flows on which hosts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.conditions.layout import layout
from ccmix.config.groups import GROUP_RATE_BPS, GROUPS
from ccmix.config.ini import read_text as read_file
from ccmix.config.problems import ConfigError, Contradiction, nearest, quoted
from ccmix.config.senders import read_host_names
from ccmix.config.values import Kind, whole_number
from ccmix.config.words import settings
from ccmix.generators.distributions import NAMED, Points, mean_bytes, read_points
from ccmix.model import CommandFlows, Flows, HttpFlows, Iperf3Flows, Topology, UdpFlows, WorkloadFlows
from ccmix.model.traffic import DEFAULT_CCA
from ccmix.terms import CCAS
from ccmix.units import LEAST_RATE_BPS, MOST_RATE_BPS, SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

MOST_STREAMS = 128  # of iperf3 (MAX_STREAMS in iperf.h)
MOST_PARALLEL = 300  # processes of curl
MOST_REQUESTS = 1_000_000
MOST_FILE_BYTES = 2**40
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,23}", re.ASCII)
_UDP = re.compile(r"udp(?::(?P<streams>\d{1,3}))?@(?P<rate>\d{1,15}(?:\.\d{1,9})?)(?P<unit>[KMGTkmgt]?)", re.ASCII)
_LATE = re.compile(r"(?P<rest>.*)\+(?P<delay>[\d.]+(?:us|ms|s|m|min|h))", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Line:
    """What a line says before the path is known: `load` is a share of the bottleneck's rate."""

    hosts: tuple[str, ...]
    what: Iperf3Flows | UdpFlows | HttpFlows | WorkloadFlows | CommandFlows
    start_s: float = 0.0
    load: float | None = None


def read_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no name of flows: write a letter, then letters, digits, - and _")
    return text


def read_line(text: str) -> Line:
    """'h1 bbr:1+30s', 'h1 udp@100M', 'h1 http requests 5000 size 15kb', 'h1 workload web-search load 30%',
    'h1 command LINE'.
    """
    hosts, _, rest = text.partition(" ")
    names, rest = _hosts(hosts), rest.strip()
    kind = rest.partition(" ")[0]
    if not rest:
        raise ValueError("says nothing of its flows: write for instance h1 bbr:1")
    if kind == "command":
        return Line(names, CommandFlows(_command(rest)))
    if kind in ("http", "workload") or rest.startswith("udp"):
        rest, start_s = _start(rest)
        if kind == "http":
            return Line(names, _http(rest.split()[1:]), start_s)
        if kind == "workload":
            what, load = _workload(rest.split()[1:])
            return Line(names, what, start_s, load)
        if start_s != int(start_s):
            raise ValueError(f"begins after {start_s:g} s: iperf3 sends UDP for whole seconds, so write whole ones")
        return Line(names, _udp(rest), start_s)
    groups = GROUPS.read(rest)
    streams = sum(group.weight for group in groups)
    if streams > MOST_STREAMS:
        raise ValueError(f"has {streams} streams, the sum of its weights: iperf3 has {MOST_STREAMS} at most")
    return Line(names, Iperf3Flows(groups, streams))


def _hosts(text: str) -> tuple[str, ...]:
    """Also receivers, which have a name that no sender may have."""
    return (text,) if text.endswith("receiver") else read_host_names(text)


def _start(text: str) -> tuple[str, float]:
    """Without '+30s' at the end, and that in seconds."""
    match = _LATE.fullmatch(text)
    return (match["rest"].strip(), parse_time(match["delay"])) if match else (text, 0.0)


def _command(rest: str) -> str:
    line = rest.removeprefix("command").strip()
    if not line:
        raise ValueError("has no command: write for instance h1 command ./my-tool {dst}")
    return line


def _udp(text: str) -> UdpFlows:
    match = _UDP.fullmatch(text)
    if not match:
        raise ValueError(f"has {quoted(text)}, which is no udp[:STREAMS]@RATE[+DELAY], such as udp@100M")
    rate_bps = float(match["rate"]) * GROUP_RATE_BPS[match["unit"].upper()]
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("has a rate of UDP that is not from 1K to 1000T")
    return UdpFlows(rate_bps, whole_number(1, MOST_STREAMS).read(match["streams"] or "1"))


def _cca(text: str) -> str:
    if text not in (DEFAULT_CCA, *CCAS):
        raise ValueError(f"has the unknown CCA {quoted(text)}{nearest(text, CCAS)}")
    return text


def _http(words: Sequence[str]) -> HttpFlows:
    given = settings(words, ("requests", "size", "parallel", "cca"))
    if missing := [name for name in ("requests", "size") if name not in given]:
        raise ValueError(f"has no {missing[0]}: write for instance http requests 5000 size 15kb")
    requests = _of("requests", given["requests"], whole_number(1, MOST_REQUESTS).read)
    return HttpFlows(
        requests=requests,
        size_bytes=_of("size", given["size"], _file_size),
        parallel=_of("parallel", given.get("parallel", "1"), whole_number(1, min(MOST_PARALLEL, requests)).read),
        http_cca=_cca(given.get("cca", DEFAULT_CCA)),
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


def _workload(words: Sequence[str]) -> tuple[WorkloadFlows, float | None]:
    if not words:
        raise ValueError(f"names no distribution: use one of {', '.join(NAMED)}, or a file")
    given = settings(words[1:], ("load", "rate", "cca"))
    if ("load" in given) == ("rate" in given):
        raise ValueError("needs either load, a share of the bottleneck's rate, or rate: write for instance load 30%")
    load = _of("load", given["load"], parse_percent) if "load" in given else None
    if load == 0:
        raise ValueError("has a load of 0%")
    offered_bps = _of("rate", given["rate"], parse_rate) if "rate" in given else 0.0
    return WorkloadFlows(words[0], (), offered_bps, _cca(given.get("cca", DEFAULT_CCA))), load


def flows_of(settings: Mapping[str, Any], path: Topology, folder: Path) -> tuple[Flows, ...]:
    """Those of all lines, one for each host. Raises Contradiction for a host that the path has not, or a wrong file."""
    found: list[Flows] = []
    hosts = [sender.name for sender in path.senders]
    receivers = layout(path).receivers
    for key, line in settings.items():
        if key.startswith("flows."):
            for host in line.hosts:
                known = [*hosts, *receivers] if isinstance(line.what, CommandFlows) else hosts
                if host not in known:
                    raise Contradiction(key, f"is of the host {quoted(host)}{nearest(host, known)}")
                try:
                    what = _resolved(line, path, folder)
                except ValueError as error:
                    raise Contradiction(key, str(error)) from None
                found.append(Flows(key.removeprefix("flows."), host, what, line.start_s))
    return tuple(found)


def _resolved(line: Line, path: Topology, folder: Path) -> Any:
    if not isinstance(line.what, WorkloadFlows):
        return line.what
    points = NAMED.get(line.what.distribution) or _points_of_file(folder / line.what.distribution)
    offered_bps = line.what.offered_bps if line.load is None else line.load * path.rate_bps
    if mean_bytes(points) <= 0:
        raise ValueError(f"{line.what.distribution}: its flows have no bytes")
    return WorkloadFlows(line.what.distribution, points, offered_bps, line.what.workload_cca)


def _points_of_file(file: Path) -> Points:
    try:
        return read_points(read_file(file))
    except ConfigError as error:
        known = ", ".join(NAMED)
        raise ValueError(f"{error.problems[0]}: a distribution is one of {known}, or a file") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


LINE = Kind("host, and what it sends", "as in the group grammar, or udp, http, workload, command", read_line)
