"""Reads which traffic the hosts of an emulated path send, such as `flows.short = h1 bbr:1`.

A source of traffic is TCP from CCAs in the group grammar of the patched iperf3, UDP, HTTP, a
workload of flows of random sizes, or any command.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.conditions.layout import layout
from ccmix.config.ini import read_text as read_file
from ccmix.config.problems import ConfigError, Contradiction, nearest, quoted
from ccmix.config.senders import read_host_names
from ccmix.config.values import (
    Kind,
    Settings,
    read_bytes,
    read_part,
    settings,
    split_list,
    whole_number,
)
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
    parse_percent,
    parse_rate,
    parse_time,
)

_CCA_NAME = re.compile(r"[a-z0-9_]{1,15}", re.ASCII)  # the names that lab/build accepts


def _read_groups(text: str) -> tuple[Group, ...]:
    """Reads 'bbr:4@2.4G, cubic:1' as groups: streams with one CCA, a weight, and optionally a rate
    and a delayed start. Spaces around a group are allowed, although iperf3 does not accept them.
    """
    return tuple(_read_group(part.strip()) for part in text.split(","))


def _read_group(text: str) -> Group:
    """Reads one group, CCA[:WEIGHT][@RATE][+DELAY]. Raises ValueError with the reason if it is
    wrong.
    """
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
    """Raises ValueError if a text can't be a CCA's name. An unknown name is allowed, because users
    can add CCAs to the lab.
    """
    if not _CCA_NAME.fullmatch(cca):
        check_known([cca])


def check_known(ccas: Iterable[str]) -> None:
    """Raises ValueError for a CCA that is neither in Linux nor one of the BBR versions that ccmix
    brings.
    """
    for cca in ccas:
        if cca not in (DEFAULT_CCA, *CCAS):
            raise ValueError(f"{quoted(cca)} is not a known CCA" + nearest(cca, CCAS))


def _read_loaded(text: str) -> tuple[str, ...]:
    """Reads a comma-separated list of CCAs that ccmix loads into the kernel as BPF programs."""
    ccas = split_list(text)
    for cca in ccas:
        if cca not in BPF_CCAS:
            raise ValueError(
                f"{quoted(cca)} can't be loaded by ccmix-cca: write {' or '.join(BPF_CCAS)}, or "
                "both"
            )
    if len(set(ccas)) < len(ccas):
        raise ValueError("names a CCA twice")
    return ccas


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
_DELAYED = re.compile(r"(?P<rest>.*)\+(?P<delay>[\d.]+(?:us|ms|s|m|min|h))", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Line:
    """Holds the value of a key flows.NAME: the hosts that send, and what each of them sends.

    The value is read before the path is known. So `source` has no name and no host yet, and if it
    is a workload, no flow sizes. `source` is None for the value 'none': the hosts send nothing.
    `load` is set for a workload that sends a share of the bottleneck's rate.
    """

    hosts: tuple[str, ...]
    source: TrafficSource | None
    load: float | None = None


def read_name(text: str) -> str:
    """Reads the NAME of a key flows.NAME. Raises ValueError if it can't be a name."""
    if not _FLOWS_NAME.fullmatch(text):
        raise ValueError(
            f"{quoted(text)} is not a name for flows: write a letter, then letters, digits, - and _"
        )
    return text


def read_line(text: str) -> Line:
    """Reads the value of a key flows.NAME: hosts, and what each of them sends.

    Examples are 'h1 bbr:1+30s', 'h1 udp@100M', 'h1 http requests 5000 size 15kb', 'h1 workload
    web-search load 30%', 'h1 command LINE' and 'h1 none'. Raises ValueError.
    """
    hosts, _, rest = text.partition(" ")
    host_names, rest = _read_hosts(hosts), rest.strip()
    kind = rest.partition(" ")[0]
    if not rest:
        raise ValueError("does not say what its host sends: write for instance h1 bbr:1")
    if rest == "none":
        return Line(host_names, None)
    if kind == "command":
        return Line(host_names, CommandSource(*UNNAMED, _read_command(rest)))
    if kind in ("http", "workload") or rest.startswith("udp"):
        rest, start_s = _split_start(rest)
        if kind == "http":
            return Line(host_names, replace(_read_http(rest.split()[1:]), start_s=start_s))
        if kind == "workload":
            workload, load = _read_workload(rest.split()[1:])
            return Line(host_names, replace(workload, start_s=start_s), load)
        if start_s != int(start_s):
            raise ValueError(
                f"starts after {start_s:g} s, but iperf3 sends UDP only for whole seconds: write "
                "whole seconds"
            )
        return Line(host_names, replace(_read_udp(rest), start_s=start_s))
    groups = GROUPS.read(rest)
    streams = sum(group.weight for group in groups)
    if streams > MOST_STREAMS:
        raise ValueError(
            f"has {streams} streams (the sum of its weights), but iperf3 allows at most "
            f"{MOST_STREAMS}"
        )
    return Line(host_names, Iperf3Source(*UNNAMED, groups, streams))


def _read_hosts(text: str) -> tuple[str, ...]:
    """Reads the hosts that send: 'h1', or a range 'h1..h50'. A command may also run on a receiver,
    whose name no sender can have.
    """
    return (text,) if text.endswith("receiver") else read_host_names(text)


def _split_start(text: str) -> tuple[str, float]:
    """Splits a delayed start such as '+30s' off the end of a source's text. Returns the text before
    it, and the delay in seconds (0 without one).
    """
    match = _DELAYED.fullmatch(text)
    return (match["rest"].strip(), parse_time(match["delay"])) if match else (text, 0.0)


def _read_command(rest: str) -> str:
    """Returns the shell line after the word 'command'. Raises ValueError if it is empty."""
    line = rest.removeprefix("command").strip()
    if not line:
        raise ValueError("has no command: write for instance h1 command ./my-tool {dst}")
    return line


def _read_udp(text: str) -> UdpSource:
    """Reads 'udp[:STREAMS]@RATE', such as 'udp:2@100M', with RATE in bit/s."""
    match = _UDP.fullmatch(text)
    if not match:
        raise ValueError(
            f"{quoted(text)} is not udp[:STREAMS]@RATE[+DELAY]: write for instance udp@100M"
        )
    rate_bps = float(match["rate"]) * RATE_UNITS_BPS[match["unit"].upper()]
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("has a UDP rate below 1K or above 1000T (bit/s)")
    return UdpSource(
        *UNNAMED, rate_bps, whole_number(1, MOST_STREAMS).read(match["streams"] or "1")
    )


def _read_cca(text: str) -> str:
    """Reads a CCA's name. Raises ValueError if it can't be one."""
    check_name(text)
    return text


def _read_http(words: Sequence[str]) -> HttpSource:
    """Reads the words after 'http', such as 'requests 5000 size 15kb parallel 4 cca bbr'."""
    given = settings(words, ("requests", "size", "parallel", "cca"))
    if missing := [name for name in ("requests", "size") if name not in given]:
        raise ValueError(f"has no {missing[0]}: write for instance http requests 5000 size 15kb")
    requests = read_part(given["requests"], whole_number(1, MOST_REQUESTS).read, "requests")
    return HttpSource(
        *UNNAMED,
        requests=requests,
        size_bytes=read_part(given["size"], _read_file_size, "size"),
        parallel=read_part(
            given.get("parallel", "1"),
            whole_number(1, min(MOST_PARALLEL, requests)).read,
            "parallel",
        ),
        cca=_read_cca(given.get("cca", DEFAULT_CCA)),
    )


def _read_file_size(text: str) -> int:
    """Reads the size of the file that each HTTP request fetches, such as '15kb', in bytes."""
    return round(read_bytes(text, "15kb, 1mb", "1tib", MOST_FILE_BYTES))


def _read_workload(words: Sequence[str]) -> tuple[WorkloadSource, float | None]:
    """Reads the words after 'workload', such as 'web-search load 30%': a distribution of flow sizes
    (its name, or a file), and the offered traffic as a load or a rate.

    Returns the workload, and the load as a share of the bottleneck's rate. The load is None if a
    rate in bit/s is given; otherwise the workload's rate stays 0 until the path is known.
    """
    if not words:
        raise ValueError(f"names no distribution: use one of {', '.join(NAMED)}, or a file")
    given = settings(words[1:], ("load", "rate", "cca"))
    if ("load" in given) == ("rate" in given):
        raise ValueError(
            "needs either load (a share of the bottleneck's rate) or rate: write for instance "
            "load 30%"
        )
    load = read_part(given["load"], parse_percent, "load") if "load" in given else None
    if load == 0:
        raise ValueError("has a load of 0%: write for instance load 30%")
    offered_bps = read_part(given["rate"], parse_rate, "rate") if "rate" in given else 0.0
    return WorkloadSource(
        *UNNAMED, words[0], (), offered_bps, _read_cca(given.get("cca", DEFAULT_CCA))
    ), load


def named_sources(settings: Settings, path: Topology, folder: Path) -> tuple[TrafficSource, ...]:
    """Returns the traffic sources of all keys flows.NAME, one for each host that sends.

    `folder` is the folder of the INI file; names of files with distributions are relative to it.
    Raises Contradiction for a host that is not on the path, or a distribution that can't be read.
    """
    sources: list[TrafficSource] = []
    hosts = [sender.name for sender in path.senders]
    receivers = layout(path).receivers
    for key, member in settings.items():
        if key.startswith("flows."):
            line: Line = member.value
            for host in line.hosts:
                known = [*hosts, *receivers] if isinstance(line.source, CommandSource) else hosts
                if host not in known:
                    raise Contradiction(
                        key, f"{quoted(host)} is not a host of the path{nearest(host, known)}"
                    )
                if line.source is None:
                    continue
                try:
                    source = _with_path_values(line.source, line.load, path, folder)
                except ValueError as error:
                    raise Contradiction(key, str(error)) from None
                sources.append(replace(source, name=member.name, host=host))
    return tuple(sources)


def path_steps_with_cross_traffic(
    cross_traffic: Sequence[TrafficSource], path: Topology, max_rate_bps: float
) -> tuple[TrafficSource, ...]:
    """Returns the traffic of an entry of type path: the steps that measure the path (a fixed
    sequence of probing traffic, sent by its first sender at up to `max_rate_bps`), then the cross
    traffic.

    Raises Contradiction for cross traffic that has the steps' name or starts later than the steps.
    """
    for source in cross_traffic:
        key = f"flows.{source.name}"
        if source.name == STEPS:
            raise Contradiction(
                key, "has the same name as the steps that measure the path: choose another name"
            )
        if source.start_s:
            raise Contradiction(
                key, "starts later than the steps that measure the path: remove its delay"
            )
    return (PathSource(STEPS, path.senders[0].name, max_rate_bps), *cross_traffic)


def hosts_with_flows(settings: Settings) -> set[str]:
    """Returns the hosts in the keys flows.NAME, including those that send nothing ('h1 none')."""
    return {
        host
        for key, named in settings.items()
        if key.startswith("flows.")
        for host in named.value.hosts
    }


def test_with_cross_traffic(
    cross_traffic: Sequence[TrafficSource],
    path: Topology,
    groups: tuple[Group, ...],
    streams: int,
    flow_hosts: Collection[str],
) -> tuple[TrafficSource, ...]:
    """Returns the iperf3 test that the keys cca and streams describe, sent by the path's first
    sender, then the cross traffic.

    `flow_hosts` are the hosts in the keys flows.NAME. Raises Contradiction for cross traffic that
    is an iperf3 test or has the name of a group of the test, and for a host without any traffic.
    """
    first, *other_senders = (sender.name for sender in path.senders)
    for source in cross_traffic:
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
    sending_hosts = {host.removesuffix("-receiver") for host in flow_hosts}
    if idle := [name for name in other_senders if name not in sending_hosts]:
        raise Contradiction(
            "cca",
            f"is sent only by {first}, so {idle[0]} sends nothing: write flows for {idle[0]}, or "
            f"remove {idle[0]}",
        )
    return (Iperf3Source("", first, groups, streams), *cross_traffic)


def _with_path_values(
    source: TrafficSource, load: float | None, path: Topology, folder: Path
) -> TrafficSource:
    """Returns a workload with the sizes of its flows and its offered rate; other sources unchanged.

    The sizes are points of the distribution that the workload names (built in, or a file relative
    to `folder`). The rate follows from `load`, a share of the bottleneck's rate (None: the workload
    has its rate). Raises ValueError if the distribution is unknown or all of its flows are empty.
    """
    if not isinstance(source, WorkloadSource):
        return source
    points = NAMED.get(source.distribution) or _read_distribution_file(folder / source.distribution)
    if mean_bytes(points) <= 0:
        raise ValueError(f"{source.distribution}: its flows have no bytes")
    offered_bps = source.offered_bps if load is None else load * path.rate_bps
    return replace(source, sizes=points, offered_bps=offered_bps)


def _read_distribution_file(file: Path) -> Points:
    """Reads a file of flow sizes and their cumulative shares. Raises ValueError, which lists the
    built-in distributions if there is no such file.
    """
    try:
        return read_points(read_file(file, regular=True))
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
