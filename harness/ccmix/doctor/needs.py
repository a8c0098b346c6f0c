"""Collects what the planned runs need on each host, for the checks of `ccmix doctor`."""

import itertools
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
    """Describes the traffic of one condition (a combination of swept values) on a path."""

    streams: int
    flow_bps: float | None  # the limit of each flow; None if there is no limit
    # Of all flows together, set by netem on the path or in a profile at the source; None: no limit
    rate_bps: float | None
    added_rtt_s: float  # by netem and the profile, which are not yet set when the doctor looks


@dataclass(frozen=True)
class Sending:
    """Describes the traffic from a source to one destination, under all conditions."""

    path: HostPath
    loads: tuple[Load, ...]
    paced: bool  # by fq, on the sending device


@dataclass
class Needs:
    """Describes what the runs need on one host; checks compare it with what the host has.

    `sendings` is the traffic that the host sends, `receives` the traffic to it. `windows_bytes` is
    the largest socket buffer that a command sets.
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
    )  # actions that need root, in words for users, each with its capability ('': only root)
    capture_bytes: int = 0  # the largest
    all_captures_bytes: int = 0
    windows_bytes: int = 0
    runs: int = 0


def needs_of(runs: Sequence[Run]) -> dict[str, Needs]:
    """Returns the needs of the runs on each host, by the host's name in the entries.

    'localhost', the machine on which ccmix itself runs, is always included.
    """
    needs_by_host: dict[str, Needs] = {CONTROLLER: Needs(runs=len(runs))}
    for run in runs:
        if isinstance(run.path, Topology):
            needs = needs_by_host[CONTROLLER]
            needs.topologies.append(run.path)
            needs.ccas |= _named_ccas(run, ())
            needs.lab_ccas.setdefault(run.path.kernel, set()).update(run.traffic.ccas)
            needs.tools["ccmix-iperf3"] = "entries on a topology"
        else:
            _add_run_between_hosts(run, run.path, needs_by_host)
    for needs in needs_by_host.values():
        needs.sendings = _merged_by_path(needs.sendings)
        needs.receives = _merged_by_path(needs.receives)
        needs.lines = list(dict.fromkeys(needs.lines))
        needs.parameters = list(dict.fromkeys(needs.parameters))
        needs.topologies = list(dict.fromkeys(needs.topologies))
    return needs_by_host


def _add_run_between_hosts(run: Run, path: HostPath, needs_by_host: dict[str, Needs]) -> None:
    """Adds what a run between real hosts needs at its source, its destination and netem's host.

    Adds nothing for a run on whose source ccmix has no shell: pScheduler's servers are asked about
    such a run instead.
    """
    if not run.has_shell:
        return
    src_needs = needs_by_host.setdefault(path.src, Needs())
    commands = path.commands
    lines = [
        text for text in (commands.pre, commands.post, commands.pre_src, commands.post_src) if text
    ]
    lines += [run.traffic.command.line] if run.traffic.command else []
    src_needs.lines += lines
    src_needs.ccas |= _named_ccas(run, lines) - {*path.cca_load}
    src_needs.loads |= {*path.cca_load}
    src_needs.windows_bytes = max(src_needs.windows_bytes, *map(window_bytes, lines), 0)
    sending = _sending_of_run(run, path)
    src_needs.sendings.append(sending)
    src_needs.tools |= dict.fromkeys(
        ("ping", "getent", "ip", "ss", "tc", "ethtool", "sysctl", "python3"), "every run"
    )
    _add_changes_at_source(run, path, src_needs)
    if path.capture:
        src_needs.tools |= dict.fromkeys(("tcpdump", "zstd", "prlimit"), "tcpdump")
        src_needs.root_for["captures by tcpdump"] = "NET_RAW"
        src_needs.capture_bytes = max(src_needs.capture_bytes, path.capture.most_bytes)
        needs_by_host[CONTROLLER].all_captures_bytes += path.capture.most_bytes
    if run.traffic.by_iperf3:
        needs_by_host[CONTROLLER].tools["ccmix-iperf3"] = "entries without a src-cmd"
    if run.needs_dst_host:
        dst_needs = needs_by_host.setdefault(path.dst.host, Needs())
        dst_needs.lines += [
            text for text in (commands.pre_dst, commands.post_dst, commands.dst) if text
        ]
        dst_needs.windows_bytes = max(dst_needs.windows_bytes, src_needs.windows_bytes)
        dst_needs.receives.append(sending)
        dst_needs.tools |= dict.fromkeys(("ip", "ss", "sysctl", "python3"), "every run")
    if path.netem and path.netem_at:
        netem_needs = needs_by_host.setdefault(path.netem_at.host, Needs())
        for device in (path.netem_at.data_device, path.netem_at.ack_device):
            if device:
                netem_needs.netem[device] = (
                    netem_needs.netem.get(device, False) or path.netem.loss is not None
                )
        netem_needs.tools |= dict.fromkeys(("ip", "tc", "ethtool"), "netem")
        netem_needs.root_for["netem"] = "NET_ADMIN"


def _add_changes_at_source(run: Run, path: HostPath, src_needs: Needs) -> None:
    """Adds the changes that a run makes on its source (pacing, profile, CCAs, module parameter),
    each with the capability that it needs.
    """
    if run.traffic.pacing_bps is not None:
        src_needs.root_for["pacing by fq"] = "NET_ADMIN"
    if path.profile and path.profile_device:
        src_needs.netem[path.profile_device] = (
            src_needs.netem.get(path.profile_device, False) or path.profile.loss is not None
        )
        src_needs.root_for["a profile"] = "NET_ADMIN"
    if path.cca_load:
        src_needs.root_for["CCAs as BPF programs"] = ""
    if path.module_parameter and path.module_parameter.module not in {
        f"tcp_{cca}" for cca in path.cca_load
    }:
        src_needs.parameters.append(path.module_parameter.path)
        src_needs.root_for["module parameters"] = ""  # plain ownership of the files


def _named_ccas(run: Run, lines: Iterable[str]) -> set[str]:
    """Returns the CCAs that a run uses: those of its entry, and those that its command `lines` name
    in an option (-C) or in the sysctl tcp_congestion_control.
    """
    named = set(run.traffic.ccas)
    for text in lines:
        named |= set(_CCA_SYSCTL.findall(text))
        for groups in _CCA_OPTION.findall(text):
            named |= {re.split("[:@+]", group)[0] for group in groups.split(",")}
    return named - {DEFAULT_CCA, ""}


def window_bytes(text: str) -> int:
    """Returns the largest socket buffer that a command line asks iperf3 for, as with -w 128M.

    0 if it asks for none.
    """
    windows = [
        float(number) * _WINDOW_BYTES[unit.upper()] for number, unit in _WINDOW_OPTION.findall(text)
    ]
    return round(max(windows, default=0))


def programs_in(text: str) -> list[str]:
    """Returns the programs that a shell line starts first: ['sudo', 'tc'] for 'sudo tc qdisc'.

    Assignments of variables before them are skipped. Empty if they can't be recognised.
    """
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return []
    words = list(itertools.dropwhile(_ASSIGNMENT.fullmatch, words))
    programs = []
    while words and _PLAIN_WORD.fullmatch(words[0]):
        programs.append(words[0])
        if words[0] not in ("sudo", "exec", "nohup") or len(words) < 2 or words[1].startswith("-"):
            break
        words = words[1:]
    return programs


def _sending_of_run(run: Run, path: HostPath) -> Sending:
    """Returns the traffic of one run: streams, rate limits, and the round-trip time added to it."""
    traffic = run.traffic
    command = traffic.command.line if traffic.command else ""
    streams = traffic.streams or max(map(int, _STREAMS_OPTION.findall(command)), default=1)
    group_rates_bps = [group.pacing_bps for group in traffic.groups]
    groups_bps = None  # no limit, if any group has none
    if None not in group_rates_bps:
        groups_bps = max((rate for rate in group_rates_bps if rate is not None), default=None)
    flow_bps = _smallest_known(traffic.pacing_bps, groups_bps)
    emulations = [emulation for emulation in (path.netem, path.profile) if emulation]
    added_rtt_s = (2 * path.netem.delay_s if path.netem else 0.0) + (
        path.profile.delay_s if path.profile else 0.0
    )
    rate_bps = _smallest_known(*(emulation.rate_bps for emulation in emulations))
    load = Load(max(1, streams), flow_bps, rate_bps, added_rtt_s)
    return Sending(path, (load,), traffic.pacing_bps is not None)


def _merged_by_path(sendings: Sequence[Sending]) -> list[Sending]:
    """Joins the traffic of all runs with the same source, destination and NIC into one Sending."""
    by_path: dict[tuple[str, str, str | None], Sending] = {}
    for sending in sendings:
        path = sending.path.src, sending.path.dst.address, sending.path.nic
        earlier = by_path.setdefault(path, sending)
        loads = tuple(dict.fromkeys((*earlier.loads, *sending.loads)))
        by_path[path] = Sending(earlier.path, loads, sending.paced or earlier.paced)
    return list(by_path.values())


def _smallest_known(*rates: float | None) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)
