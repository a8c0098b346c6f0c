"""Collects the needs of a plan's runs for each host. It is pure."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ccmix.model import HostPath, Run, Topology
from ccmix.model.group_grammar import DEFAULT_CCA

CONTROLLER = "localhost"
_CCA_OPTION = re.compile(r"(?:^|\s)(?:-C|--congestion)[ =]?([A-Za-z0-9_,:@.+-]+)")
_CCA_SYSCTL = re.compile(r"tcp_congestion_control\s*=\s*[\"']?([A-Za-z0-9_-]+)")
_WINDOW_OPTION = re.compile(r"(?:^|\s)(?:-w|--window)[ =]?(\d{1,9}(?:\.\d{1,6})?)([KMGkmg]?)\b")
_STREAMS_OPTION = re.compile(r"(?:^|\s)(?:-P|--parallel)[ =]?(\d{1,3})\b")
_WINDOW_BYTES = {
    "": 1,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
}  # as iperf3 reads them (unit_atoi in src/units.c)
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


@dataclass(frozen=True)
class Load:
    """Describes the traffic that one condition puts on a path."""

    streams: int
    flow_bps: float | None  # the limit of each flow; None if there is no limit
    rate_bps: (
        float | None
    )  # of netem or a profile on the path; None if all flows together have no limit
    added_rtt_s: float  # by netem and the profile, which are not yet set when the doctor looks


@dataclass(frozen=True)
class Sending:
    """Describes the traffic of a source to one destination, under all conditions."""

    path: HostPath
    loads: tuple[Load, ...]
    paced: bool  # by fq, on the sending device


@dataclass
class Needs:
    """Describes the runs' needs for one host. `root_for` has phrases for users; `windows_bytes` are
    socket buffers that a command sets.
    """

    ccas: set[str] = field(default_factory=set)
    lab_ccas: dict[str, set[str]] = field(
        default_factory=dict
    )  # of topologies, by the kernel of the lab
    sendings: list[Sending] = field(default_factory=list)
    receives: list[Sending] = field(default_factory=list)
    netem: dict[str, bool] = field(
        default_factory=dict
    )  # device, and whether packets are lost there
    topologies: list[Topology] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # for a shell there
    tools: dict[str, str] = field(default_factory=dict)  # program, and what needs it
    parameters: list[str] = field(default_factory=list)  # below /sys/module
    loads: set[str] = field(default_factory=set)  # CCAs, as BPF programs
    root_for: dict[str, str] = field(
        default_factory=dict
    )  # what needs it, and the capability that it takes
    capture_bytes: int = 0  # the largest
    all_captures_bytes: int = 0
    windows_bytes: int = 0
    runs: int = 0


def needs_of(runs: Sequence[Run]) -> dict[str, Needs]:
    """Returns the needs by the entries' names of hosts; the controller is always included."""
    needs_by_host: dict[str, Needs] = {CONTROLLER: Needs(runs=len(runs))}
    for run in runs:
        if isinstance(run.path, Topology):
            needs = needs_by_host[CONTROLLER]
            needs.topologies.append(run.path)
            needs.ccas |= _ccas(run, ())
            needs.lab_ccas.setdefault(run.path.kernel, set()).update(run.traffic.ccas)
            needs.tools["ccmix-iperf3"] = "entries on a topology"
        else:
            _between_hosts(run, run.path, needs_by_host)
    for needs in needs_by_host.values():
        needs.sendings = _merged(needs.sendings)
        needs.receives = _merged(needs.receives)
        needs.lines = list(dict.fromkeys(needs.lines))
        needs.parameters = list(dict.fromkeys(needs.parameters))
        needs.topologies = list(dict.fromkeys(needs.topologies))
    return needs_by_host


def _between_hosts(run: Run, path: HostPath, needs_by_host: dict[str, Needs]) -> None:
    if not run.has_shell:
        return  # pScheduler is asked instead
    src = needs_by_host.setdefault(path.src, Needs())
    commands = path.commands
    lines = [
        text for text in (commands.pre, commands.post, commands.pre_src, commands.post_src) if text
    ]
    lines += [run.traffic.command.line] if run.traffic.command else []
    src.lines += lines
    src.ccas |= _ccas(run, lines) - {*path.cca_load}
    src.loads |= {*path.cca_load}
    src.windows_bytes = max(src.windows_bytes, *map(window_bytes, lines), 0)
    sending = _sending(run, path)
    src.sendings.append(sending)
    src.tools |= dict.fromkeys(
        ("ping", "getent", "ip", "ss", "tc", "ethtool", "sysctl", "python3"), "every run"
    )
    _what_is_changed(run, path, src)
    if path.capture:
        src.tools |= dict.fromkeys(("tcpdump", "zstd", "prlimit"), "tcpdump")
        src.root_for["captures by tcpdump"] = "NET_RAW"
        src.capture_bytes = max(src.capture_bytes, path.capture.most_bytes)
        needs_by_host[CONTROLLER].all_captures_bytes += path.capture.most_bytes
    if run.traffic.by_iperf3:
        needs_by_host[CONTROLLER].tools["ccmix-iperf3"] = "entries without a src-cmd"
    if run.needs_dst_host:
        dst = needs_by_host.setdefault(path.dst.host, Needs())
        dst.lines += [text for text in (commands.pre_dst, commands.post_dst, commands.dst) if text]
        dst.windows_bytes = max(dst.windows_bytes, src.windows_bytes)
        dst.receives.append(sending)
        dst.tools |= dict.fromkeys(("ip", "ss", "sysctl", "python3"), "every run")
    if path.netem and path.netem_at:
        netem = needs_by_host.setdefault(path.netem_at.host, Needs())
        for device in (path.netem_at.data_device, path.netem_at.ack_device):
            if device:
                netem.netem[device] = netem.netem.get(device, False) or path.netem.loss is not None
        netem.tools |= dict.fromkeys(("ip", "tc", "ethtool"), "netem")
        netem.root_for["netem"] = "NET_ADMIN"


def _what_is_changed(run: Run, path: HostPath, src: Needs) -> None:
    if run.traffic.pacing_bps is not None:
        src.root_for["pacing by fq"] = "NET_ADMIN"
    if path.profile and path.profile_device:
        src.netem[path.profile_device] = (
            src.netem.get(path.profile_device, False) or path.profile.loss is not None
        )
        src.root_for["a profile"] = "NET_ADMIN"
    if path.cca_load:
        src.root_for["CCAs as BPF programs"] = ""
    if path.module_parameter and path.module_parameter.module not in {
        f"tcp_{cca}" for cca in path.cca_load
    }:
        src.parameters.append(path.module_parameter.path)
        src.root_for["module parameters"] = ""  # plain ownership of the files


def _ccas(run: Run, lines: Iterable[str]) -> set[str]:
    named = set(run.traffic.ccas)
    for text in lines:
        named |= set(_CCA_SYSCTL.findall(text))
        for groups in _CCA_OPTION.findall(text):
            named |= {re.split("[:@+]", group)[0] for group in groups.split(",")}
    return named - {DEFAULT_CCA, ""}


def window_bytes(text: str) -> int:
    """Returns the socket buffer that a command line asks for, as iperf3 does (-w 128M); 0 if it
    asks for none.
    """
    asked = [
        float(number) * _WINDOW_BYTES[unit.upper()] for number, unit in _WINDOW_OPTION.findall(text)
    ]
    return round(max(asked, default=0))


def programs_in(text: str) -> list[str]:
    """Returns the first programs of a shell line: for sudo, also the program that it starts. Empty
    if they can't be recognised.
    """
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return []
    words = [
        word
        for at, word in enumerate(words)
        if not all(_ASSIGNMENT.fullmatch(earlier) for earlier in words[: at + 1])
    ]
    programs = []
    while words and _PLAIN_WORD.fullmatch(words[0]):
        programs.append(words[0])
        if words[0] not in ("sudo", "exec", "nohup") or len(words) < 2 or words[1].startswith("-"):
            break
        words = words[1:]
    return programs


def _sending(run: Run, path: HostPath) -> Sending:
    traffic = run.traffic
    command = traffic.command.line if traffic.command else ""
    streams = traffic.streams or max(map(int, _STREAMS_OPTION.findall(command)), default=1)
    held = [group.pacing_bps for group in traffic.groups]
    of_groups = (
        max((rate for rate in held if rate is not None), default=None) if None not in held else None
    )
    flow_bps = _least(traffic.pacing_bps, of_groups)
    emulations = [emulation for emulation in (path.netem, path.profile) if emulation]
    added = (2 * path.netem.delay_s if path.netem else 0.0) + (
        path.profile.delay_s if path.profile else 0.0
    )
    rate_bps = _least(*(emulation.rate_bps for emulation in emulations))
    load = Load(max(1, streams), flow_bps, rate_bps, added)
    return Sending(path, (load,), traffic.pacing_bps is not None)


def _merged(sendings: Sequence[Sending]) -> list[Sending]:
    """Joins the sendings of each path into one."""
    ways: dict[tuple[str, str, str | None], Sending] = {}
    for sending in sendings:
        way = sending.path.src, sending.path.dst.address, sending.path.nic
        other = ways.setdefault(way, sending)
        loads = tuple(dict.fromkeys((*other.loads, *sending.loads)))
        ways[way] = Sending(other.path, loads, sending.paced or other.paced)
    return list(ways.values())


def _least(*rates: float | None) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)
