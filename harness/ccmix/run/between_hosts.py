"""One run between hosts: their conditions set, the traffic made, everything observed written as raw files.

The hosts are whatever the entry names: this machine, a namespace, a machine over SSH. Nothing is left on them: what is
changed is taken back by the agent there, whatever happens here.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.conditions import qdisc
from ccmix.conditions.module_parameter import changed_parameter
from ccmix.conditions.pacing import device_to, paced_device
from ccmix.conditions.state import differences, state_of
from ccmix.conditions.sysctl import OF_TCP, read_sysctls
from ccmix.conditions.user_commands import bracketed, failures
from ccmix.generators import command, iperf3
from ccmix.generators.expected import may_queue_s
from ccmix.generators.pscheduler.runs import Tasks
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.model import HostPath, Run
from ccmix.probes import sockets
from ccmix.probes.capture import CaptureReport, capturing
from ccmix.run.by_pscheduler import scheduled
from ccmix.run.host_probes import Watched, recording
from ccmix.run.log import RunLog
from ccmix.run.programs import Programs
from ccmix.terms import CCAS

PINGS, PING_INTERVAL_S, PING_WAITS_S = 2, 0.2, 2
LONGEST_UNKNOWN_S = 3600.0  # of a command of which nothing tells how long it takes
GRO = re.compile(r"^(generic-receive-offload|large-receive-offload): (on|off)", re.MULTILINE)


@dataclass(frozen=True)
class Ends:
    """The hosts of a run, connected; `dst` and `netem` are None where nothing is done there."""

    src: RealHost
    dst: RealHost | None
    netem: RealHost | None
    kept_src_command: ContainedProcess | None = None  # where it goes on from run to run
    tasks: Tasks | None = None  # pScheduler's, where that makes the traffic

    @property
    def by_role(self) -> dict[str, RealHost]:
        """Those that measure; one that is both ends counts once."""
        ends = {"src": self.src}
        if self.dst is not None and self.dst is not self.src:
            ends["dst"] = self.dst
        return ends


def measure(run: Run, ends: Ends, programs: Programs, folder: Path) -> list[str]:
    """Measures a run; `folder` gets generators/, logs/ and facts.json. Returns what was noticed.

    Raises CommandError or GeneratorError.
    """
    path = run.host_path
    generators, logs = folder / "generators", folder / "logs"
    generators.mkdir()
    logs.mkdir()
    log = RunLog(logs / "run.log")
    log(f"{run.name}: from {ends.src.name} to {path.dst.address}")
    addresses = _addresses(ends.src, path.dst.address)
    device = path.nic or device_to(ends.src, addresses[0])
    devices = _devices(path, ends, device)
    before = {host: state_of(host, names) for host, names in devices.items()}
    hosts = {role: {"name": host.name} | _facts(host) for role, host in ends.by_role.items()}
    facts: dict[str, Any] = {
        "kernel": hosts["src"]["kernel"],
        "kernel_version": ends.src.read("/proc/sys/kernel/version").strip(),
        "hosts": hosts,
        "device": device,
        "sysctls": read_sysctls(ends.src, OF_TCP),
        "ping_before_s": _ping(ends.src, path) if path.netem else [],
    }
    try:
        with ExitStack() as conditions:
            for what, condition in _conditions(run, ends, device, logs):
                conditions.enter_context(condition)
                log(f"set: {what}")
            facts["ping_rtt_s"] = _ping(ends.src, path)
            facts["offloads"] = _offloads(path, ends)
            facts["before"] = _counters(path, ends, device)
            facts["ports_before"] = _ports(ends.src, addresses)
            facts |= _traffic(run, ends, programs, Watched(addresses, device), folder, log)
            log("traffic has ended")
            facts["after"] = _counters(path, ends, device)
        log("conditions taken back")
    except (CommandError, GeneratorError) as error:
        log(f"failed: {error}")
        raise
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))
    left = [
        sentence
        for host, names in devices.items()
        for sentence in differences(host, before[host], state_of(host, names))
    ]
    notices = failures(logs) + [f"left changed: {sentence}" for sentence in left]
    for sentence in notices:
        log(sentence)
    return notices


def _devices(path: HostPath, ends: Ends, device: str) -> dict[RealHost, set[str]]:
    """What the run may change, and looks at before and after."""
    devices: dict[RealHost, set[str]] = {ends.src: {device}}
    if path.profile_device:
        devices[ends.src].add(path.profile_device)
    if ends.dst:
        devices.setdefault(ends.dst, set())
    if ends.netem and path.netem_at:
        devices.setdefault(ends.netem, set()).update(path.netem_at.devices)
    return devices


def _conditions(run: Run, ends: Ends, device: str, logs: Path) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """What the run changes, in order, with what it is for the log."""
    path = run.host_path
    if path.module_parameter:
        parameter = path.module_parameter
        yield f"{parameter.path} to {parameter.value}", changed_parameter(ends.src, parameter)
    if path.netem and path.netem_at and ends.netem:
        place, data = path.netem_at, qdisc.netem_between_hosts(path.netem)
        yield " ".join([place.data_device, *data]), qdisc.replaced_qdisc(ends.netem, place.data_device, data)
        if place.ack_device:
            back = qdisc.netem(path.netem.delay_s)
            yield " ".join([place.ack_device, *back]), qdisc.replaced_qdisc(ends.netem, place.ack_device, back)
    if path.profile and path.profile_device:
        profile = qdisc.netem_between_hosts(path.profile)
        yield " ".join([path.profile_device, *profile]), qdisc.replaced_qdisc(ends.src, path.profile_device, profile)
    if path.commands.pre_src or path.commands.post_src:
        before, after = path.commands.pre_src, path.commands.post_src
        yield f"pre-src-cmd: {before}", bracketed(ends.src, "src-cmd", before, after, logs)
    if ends.dst and (path.commands.pre_dst or path.commands.post_dst):
        before, after = path.commands.pre_dst, path.commands.post_dst
        yield f"pre-dst-cmd: {before}", bracketed(ends.dst, "dst-cmd", before, after, logs)
    if run.traffic.pacing_bps is not None:
        yield f"pacing of {device}", paced_device(ends.src, device, run.traffic.pacing_bps)


def _traffic(run: Run, ends: Ends, programs: Programs, watched: Watched, folder: Path, log: RunLog) -> dict[str, Any]:
    """The traffic with the probes beside it; the facts that come of it."""
    path, logs = run.host_path, folder / "logs"
    facts: dict[str, Any] = {}
    capture: CaptureReport | None = None
    with ExitStack() as probes:
        by_pscheduler = probes.enter_context(scheduled(run, ends.tasks, log)) if ends.tasks else None
        if path.capture:
            capture = probes.enter_context(capturing(ends.src, path.capture, folder))
        recorded = probes.enter_context(recording(run, ends.by_role, programs, watched, logs))
        facts["started_s"] = by_pscheduler.begins_s if by_pscheduler else time.time()
        log("traffic begins")
        if by_pscheduler:
            facts |= by_pscheduler.finish(folder / "generators")
        elif path.commands.src:
            facts |= _commands(run, path.commands.src, ends, folder)
        else:
            facts |= _iperf3(run, ends, programs, folder / "generators")
        facts["ended_s"] = time.time()
    if capture:
        facts["capture"] = {"packets": capture.counts, "complete": capture.complete, "bytes": capture.bytes}
    return facts | recorded


def _commands(run: Run, src_line: str, ends: Ends, folder: Path) -> dict[str, Any]:
    path, logs = run.host_path, folder / "logs"
    expected_s = run.traffic.seconds + iperf3.ENDS_WITHIN_S + may_queue_s(src_line)
    longest_s = path.timeout_s or (expected_s if run.traffic.seconds else LONGEST_UNKNOWN_S)
    others = [host for host in (ends.dst, ends.netem) if host]
    if ends.kept_src_command:
        command.measure_for(ends.kept_src_command, run.traffic.seconds, logs, others)
        return {"commands": [src_line, path.commands.dst], "iperf3": "", "generator": "other"}
    with ExitStack() as beside:
        if path.commands.dst and not path.commands.dst_once and ends.dst:
            beside.enter_context(command.running_dst_command(ends.dst, path.commands.dst, logs))
        result = command.run_src_command(ends.src, src_line, longest_s, folder / "generators", logs, others)
    version = (result.client or {}).get("start", {}).get("version", "")
    return {"commands": [src_line, path.commands.dst], "iperf3": str(version), "generator": result.kind}


def _iperf3(run: Run, ends: Ends, programs: Programs, generators: Path) -> dict[str, Any]:
    path = run.host_path
    on_src = programs.iperf3_on(ends.src)
    version = ends.src.run([on_src, "--version"]).splitlines()[0]
    two = iperf3.Ends(
        ends.src,
        on_src,
        ends.dst,
        programs.iperf3_on(ends.dst) if ends.dst else "",
        path.dst.address,
        path.port,
    )
    if ends.dst and ends.dst.run(["ss", "-t", "-l", "-n", "-H", f"sport = :{path.port}"]).strip():
        raise GeneratorError(
            f"{ends.dst.name}: something listens on port {path.port} already: set another port, or server = running"
        )
    longest_s = path.timeout_s or iperf3.longest_s(run.traffic, 1.0)
    commands = iperf3.run_test(two, run.traffic, longest_s, generators)
    return {"commands": commands, "iperf3": version, "generator": "iperf3"}


def _ports(src: RealHost, addresses: Sequence[str]) -> list[int]:
    """Of the source's connections to the destination that are there already, and none of the run's."""
    return [socket.local_port for socket in sockets.parse(src.run(sockets.to(addresses)), CCAS)]


def _addresses(host: RealHost, name: str) -> list[str]:
    """Every address that the host finds for the name; the name itself where it is an address."""
    found = host.run(["getent", "ahosts", name]).split("\n")
    return list(dict.fromkeys(line.split()[0] for line in found if line))


def _facts(host: RealHost) -> dict[str, Any]:
    return {
        "kernel": host.read("/proc/sys/kernel/osrelease").strip(),
        "hostname": host.read("/proc/sys/kernel/hostname").strip(),
        "cpus": host.run(["nproc"]).strip(),
        "congestion_control": host.read("/proc/sys/net/ipv4/tcp_congestion_control").strip(),
    }


def _ping(src: RealHost, path: HostPath) -> list[float]:
    """Round-trip times in seconds before the traffic; none where the destination doesn't answer pings."""
    argv = ["ping", "-n", "-c", str(PINGS), "-i", f"{PING_INTERVAL_S:g}", "-W", str(PING_WAITS_S), path.dst.address]
    try:
        words = src.run(argv, timeout_s=60).split()
    except CommandError:
        return []
    return [float(word.removeprefix("time=")) / 1e3 for word in words if word.startswith("time=")]


def _offloads(path: HostPath, ends: Ends) -> dict[str, bool]:
    """What could make one packet of many before netem sees them."""
    if not (path.netem and path.netem.loss and path.netem_at and ends.netem):
        return {}
    return {
        f"{ends.netem.name} {device} {name}": state == "on"
        for device in path.netem_at.devices
        for name, state in GRO.findall(ends.netem.run(["ethtool", "-k", device]))
    }


def _counters(path: HostPath, ends: Ends, device: str) -> dict[str, Any]:
    """Qdisc statistics of the sender's queue and of netem, TCP counters of both ends, their softnet drops."""
    qdiscs = {"sender-queue": qdisc.qdiscs(ends.src, device)}
    if path.netem_at and ends.netem and path.netem:
        qdiscs["data-delay"] = qdisc.qdiscs(ends.netem, path.netem_at.data_device)
        if path.netem_at.ack_device:
            qdiscs["ack-delay"] = qdisc.qdiscs(ends.netem, path.netem_at.ack_device)
    return {
        "qdiscs": qdiscs,
        "netstat": {host.name: host.read("/proc/net/netstat") for host in ends.by_role.values()},
        "softnet": {host.name: host.read("/proc/net/softnet_stat") for host in ends.by_role.values()},
    }
