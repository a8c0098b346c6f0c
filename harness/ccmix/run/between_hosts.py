"""Measures one run between real hosts: changes their settings, makes the traffic, and records.

All observations are written as raw files. The entry names the hosts: this machine, a namespace, or
a machine over SSH. Nothing is left on them: the agent there undoes all changes, whatever happens
here.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from ccmix.conditions import qdisc
from ccmix.conditions.bpf_cca import cca_with, to_ask_about
from ccmix.conditions.host_changes import (
    bracketed,
    device_to,
    differences,
    failures,
    paced_device,
    source_to,
    state_of,
)
from ccmix.conditions.sysctl import OF_TCP, changed_parameter, read_sysctls
from ccmix.conditions.tc import described_counters, qdisc_counters
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.hosts.caps import OUTPUT, output_bytes
from ccmix.hosts.errors import HostLost
from ccmix.hosts.host import RealHost
from ccmix.model import (
    BpfCca,
    CaptureFacts,
    Counters,
    Facts,
    HostFacts,
    HostPath,
    Measurement,
    Run,
    run_files,
)
from ccmix.probes import sockets
from ccmix.probes.capture import CaptureReport, capturing
from ccmix.run import ping
from ccmix.run.host_probes import (
    HostPrograms,
    Recording,
    RunLog,
    ToolFacts,
    Watched,
    recorded_hosts,
)
from ccmix.run.host_traffic import Ends, run_commands, run_iperf3, scheduled
from ccmix.terms import CCAS

PINGS, PING_INTERVAL_S, PING_WAITS_S = 2, 0.2, 2
GRO = re.compile(r"^(generic-receive-offload|large-receive-offload): (on|off)", re.MULTILINE)


def measure(run: Run, ends: Ends, programs: HostPrograms, folder: Path) -> Measurement:
    """Measures a run between connected hosts. Returns the measurement: the facts that are not in
    raw files, such as versions, times and counters.

    ends: the connections to the source, the destination, and the host that emulates delay or loss
    programs: copies ccmix's programs to the hosts
    folder: gets the raw files, in generators/ (output of iperf3 or the user's commands) and logs/
        (samples of the probes)

    Raises CommandError or GeneratorError.
    """
    path = run.host_path
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    generators.mkdir()
    logs.mkdir()
    log = RunLog(logs / run_files.RUN_LOG)
    log(f"{run.name}: from {ends.src.name} to {path.dst.address}")
    addresses = _addresses(ends.src, path.dst.address)
    device = path.nic or device_to(ends.src, addresses[0])
    devices = _devices(path, ends, device)
    before = {host: state_of(host, names) for host, names in devices.items()}
    hosts = {role: _facts(host) for role, host in ends.by_role.items()}
    kernel_version = ends.src.read("/proc/sys/kernel/version").strip()
    sysctls = read_sysctls(ends.src, OF_TCP)
    ping_before_s = _ping(ends.src, path) if path.netem else ()
    try:
        with ExitStack() as conditions:
            for description, condition in _conditions(run, ends, programs, device, logs):
                conditions.enter_context(condition)
                log(f"set: {description}")
            ping_rtt_s = _ping(ends.src, path)
            offloads = _offloads(path, ends)
            counters_before = _counters(path, ends, device)
            ports_before = _ports(ends.src, addresses)
            watched = Watched(
                {"src": addresses, "dst": [source_to(ends.src, address) for address in addresses]},
                device,
            )
            traffic = _traffic(run, ends, programs, watched, folder, log)
            log("traffic has ended")
            counters_after = _counters(path, ends, device)
            bpf_ccas = _bpf_ccas(ends.src, path, programs)
        log("conditions taken back")
    except (CommandError, GeneratorError) as error:
        log(f"failed: {error}")
        raise
    left_changed = [
        sentence
        for host, names in devices.items()
        for sentence in differences(host, before[host], state_of(host, names))
    ]
    diagnostics = failures(logs) + [f"left changed: {sentence}" for sentence in left_changed]
    for sentence in diagnostics:
        log(sentence)
    return Measurement(
        facts=Facts(
            kernel=hosts["src"].kernel,
            kernel_version=kernel_version,
            iperf3=traffic.tool.version,
            sysctls=sysctls,
            commands=traffic.tool.commands,
            generator=traffic.tool.generator,
            hosts=hosts,
            device=device,
            capture=traffic.capture,
            probes=traffic.recording.reports,
            pscheduler=traffic.tool.pscheduler,
            offloads=offloads,
            sender_qdiscs={"src": described_counters(counters_after.qdiscs["sender-queue"])},
            bpf_ccas=bpf_ccas,
        ),
        started_s=traffic.started_s,
        ended_s=traffic.ended_s,
        ping_rtt_s={"src": ping_rtt_s} if ping_rtt_s else {},
        ping_before_s=ping_before_s,
        before=counters_before,
        after=counters_after,
        ports_before=ports_before,
        series=traffic.recording.series,
        settled_after_s=traffic.tool.settled_after_s,
        clocks_s=traffic.recording.clocks_s,
        diagnostics=(*diagnostics, *traffic.recording.diagnostics),
    )


def _devices(path: HostPath, ends: Ends, device: str) -> dict[RealHost, set[str]]:
    """Returns the network devices whose settings the run may change, by host. The settings are
    compared before and after the run, to notice a change that was not undone. `device` is the one
    through which the source sends.
    """
    devices: dict[RealHost, set[str]] = {ends.src: {device}}
    if path.profile_device:
        devices[ends.src].add(path.profile_device)
    if ends.dst:
        devices.setdefault(ends.dst, set())
    if ends.netem and path.netem_at:
        devices.setdefault(ends.netem, set()).update(path.netem_at.devices)
    return devices


def _conditions(
    run: Run, ends: Ends, programs: HostPrograms, device: str, logs: Path
) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """Yields the changes that the run's entry makes on the hosts, such as netem, pacing, and the
    user's commands. Each change is a pair: its description for the log, and a context that makes it
    and undoes it at the end. The contexts are entered in this order.

    device: the source's device, through which it sends
    logs: the folder for the output of the user's commands
    """
    path = run.host_path
    if path.module_parameter:
        parameter = path.module_parameter
        description = f"{parameter.path} to {parameter.value}"
        cca = cca_with(ends.src, parameter)
        program = programs.cca_on(ends.src) if cca else None
        if cca and program:
            yield f"{description}, of the BPF program", program.changed(parameter, cca)
        else:
            yield description, changed_parameter(ends.src, parameter)
    if path.netem and path.netem_at and ends.netem:
        place, data = path.netem_at, qdisc.netem_between_hosts(path.netem)
        yield (
            " ".join([place.data_device, *data]),
            qdisc.replaced_qdisc(ends.netem, place.data_device, data),
        )
        if place.ack_device:
            back = qdisc.netem(path.netem.delay_s)
            yield (
                " ".join([place.ack_device, *back]),
                qdisc.replaced_qdisc(ends.netem, place.ack_device, back),
            )
    if path.profile and path.profile_device:
        profile = qdisc.netem_between_hosts(path.profile)
        yield (
            " ".join([path.profile_device, *profile]),
            qdisc.replaced_qdisc(ends.src, path.profile_device, profile),
        )
    if path.commands.pre_src or path.commands.post_src:
        before, after = path.commands.pre_src, path.commands.post_src
        yield f"pre-src-cmd: {before}", bracketed(ends.src, "src-cmd", before, after, logs)
    if ends.dst and (path.commands.pre_dst or path.commands.post_dst):
        before, after = path.commands.pre_dst, path.commands.post_dst
        yield f"pre-dst-cmd: {before}", bracketed(ends.dst, "dst-cmd", before, after, logs)
    if run.traffic.pacing_bps is not None:
        yield f"pacing of {device}", paced_device(ends.src, device, run.traffic.pacing_bps)


@dataclass(frozen=True)
class _TrafficRecord:
    """Holds what was noted while the traffic ran; times are seconds of the wall clock."""

    started_s: float
    ended_s: float
    tool: ToolFacts
    recording: Recording
    capture: CaptureFacts | None


def _traffic(
    run: Run, ends: Ends, programs: HostPrograms, watched: Watched, folder: Path, log: RunLog
) -> _TrafficRecord:
    """Makes the traffic of a run with pScheduler, the user's command or iperf3. Meanwhile the
    probes record sockets and counters, and packets are captured if the entry asks for it.

    watched: the addresses and the device that the probes record
    folder: gets the raw files
    """
    path, logs = run.host_path, folder / run_files.LOGS
    capture: CaptureReport | None = None
    most_bytes = output_bytes(run.traffic.seconds, run.traffic.interval_s)
    with ExitStack() as probes:
        for host in ends.by_role.values():
            probes.enter_context(host.outputs_capped(OUTPUT, most_bytes))
        by_pscheduler = (
            probes.enter_context(scheduled(run, ends.tasks, log)) if ends.tasks else None
        )
        if path.capture:
            capture = probes.enter_context(capturing(ends.src, path.capture, folder))
        recording = probes.enter_context(recorded_hosts(run, ends.by_role, programs, watched, logs))
        started_s = by_pscheduler.begins_s if by_pscheduler else time.time()
        log("traffic begins")
        if by_pscheduler:
            tool = by_pscheduler.finish(folder / run_files.GENERATORS)
        elif run.traffic.command:
            tool = run_commands(run, run.traffic.command.line, ends, watched.device, folder)
        else:
            tool = run_iperf3(run, ends, programs, watched.device, folder / run_files.GENERATORS)
        ended_s = time.time()
    captured = CaptureFacts(capture.counts, capture.complete, capture.bytes) if capture else None
    return _TrafficRecord(started_s, ended_s, tool, recording, captured)


def _ports(src: RealHost, addresses: Sequence[str]) -> tuple[int, ...]:
    """Returns the local ports of connections from the source to the destination that exist before
    the traffic. Later they are left out, because they are not flows of the run.
    """
    lines = src.run(sockets.command_to(addresses)).splitlines()
    return tuple(socket.local_port for line in lines for socket in sockets.parse(line, CCAS))


def _addresses(host: RealHost, name: str) -> list[str]:
    """Returns the IP addresses that a host finds for a name, each once; for an address, the address
    itself.
    """
    rows = host.run(["getent", "ahosts", name]).split("\n")
    return list(dict.fromkeys(line.split()[0] for line in rows if line))


def _facts(host: RealHost) -> HostFacts:
    """Reads from a host the facts that identify it in the results: kernel, hostname, number of CPUs
    and default CCA.
    """
    return HostFacts(
        name=host.name,
        kernel=host.read("/proc/sys/kernel/osrelease").strip(),
        hostname=host.read("/proc/sys/kernel/hostname").strip(),
        cpus=int(host.run(["nproc"])),
        congestion_control=host.read("/proc/sys/net/ipv4/tcp_congestion_control").strip(),
    )


def _ping(src: RealHost, path: HostPath) -> tuple[float, ...]:
    """Pings the destination from the source before the traffic. Returns the round-trip times in
    seconds; empty if the destination does not answer pings.
    """
    argv = [
        "ping",
        "-n",
        "-c",
        str(PINGS),
        "-i",
        f"{PING_INTERVAL_S:g}",
        "-W",
        str(PING_WAITS_S),
        path.dst.address,
    ]
    try:
        answers = src.run(argv, timeout_s=60)
    except CommandError:
        return ()
    return ping.rtts_s(answers, src.name)


def _bpf_ccas(src: RealHost, path: HostPath, programs: HostPrograms) -> dict[str, BpfCca] | None:
    """Returns the CCAs that the source's kernel has as BPF programs, by name; ccmix-cca lists them.
    None if there are none, or if the login may not ask for them.
    """
    try:
        program = programs.cca_on(src) if to_ask_about(src, path) else None
        return (program.listed() or None) if program else None
    except HostLost:
        raise
    except CommandError:
        return None  # the code that watches them has reported it


def _offloads(path: HostPath, ends: Ends) -> dict[str, bool]:
    """Returns whether GRO and LRO are on at the devices where netem drops packets, by 'host device
    feature'. If they are on, netem gets several packets joined into one, and drops all of them
    together. Returns {} if netem drops nothing.
    """
    if not (path.netem and path.netem.loss and path.netem_at and ends.netem):
        return {}
    return {
        f"{ends.netem.name} {device} {name}": state == "on"
        for device in path.netem_at.devices
        for name, state in GRO.findall(ends.netem.run(["ethtool", "-k", device]))
    }


def _counters(path: HostPath, ends: Ends, device: str) -> Counters:
    """Reads counters of the kernel, which are compared before and after the traffic: those of the
    qdiscs of the sending device and of devices with netem, of TCP at source and destination, and of
    packets that the hosts dropped (softnet_stat).
    """
    qdiscs = {"sender-queue": qdisc_counters(ends.src, device)}
    if path.netem_at and ends.netem and path.netem:
        qdiscs["data-delay"] = qdisc_counters(ends.netem, path.netem_at.data_device)
        if path.netem_at.ack_device:
            qdiscs["ack-delay"] = qdisc_counters(ends.netem, path.netem_at.ack_device)
    if path.profile and path.profile_device:
        qdiscs["profile"] = qdisc_counters(ends.src, path.profile_device)
    return Counters(
        qdiscs=qdiscs,
        netstat={host.name: host.read("/proc/net/netstat") for host in ends.by_role.values()},
        softnet={host.name: host.read("/proc/net/softnet_stat") for host in ends.by_role.values()},
    )
