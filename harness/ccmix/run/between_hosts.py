"""Measures one run between hosts: sets their conditions, makes the traffic, and writes everything observed as raw
files.

The hosts are whatever the entry names: this machine, a namespace, a machine over SSH. Nothing is left on them: the
agent there takes back what is changed, whatever happens here.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.conditions import qdisc
from ccmix.conditions.bpf_cca import cca_with, to_ask_about
from ccmix.conditions.module_parameter import changed_parameter
from ccmix.conditions.pacing import device_to, paced_device, source_to
from ccmix.conditions.qdisc_counters import described_counters, qdisc_counters
from ccmix.conditions.state import differences, state_of
from ccmix.conditions.sysctl import OF_TCP, read_sysctls
from ccmix.conditions.user_commands import bracketed, failures
from ccmix.generators import command, iperf3
from ccmix.generators.capped import ending_at, raise_if_ended
from ccmix.generators.expected import may_queue_s
from ccmix.generators.path_steps import UDP_INTERVAL_S, PathSteps
from ccmix.generators.pscheduler.by_command import CommandTasks
from ccmix.generators.pscheduler.runs import Tasks
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.hosts.caps import OUTPUT, RESULT, UNKNOWN_S, output_bytes, result_bytes
from ccmix.hosts.errors import HostLost
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.model import (
    BpfCca,
    CaptureFacts,
    Command,
    Counters,
    Facts,
    HostFacts,
    HostPath,
    Iperf3Source,
    Measurement,
    PathSource,
    Run,
    run_files,
)
from ccmix.probes import sockets
from ccmix.probes.capture import CaptureReport, capturing
from ccmix.run import ping
from ccmix.run.by_pscheduler import scheduled
from ccmix.run.host_probes import Recording, Watched, recorded_hosts, refused
from ccmix.run.log import RunLog
from ccmix.run.programs import HostPrograms
from ccmix.run.tool_facts import ToolFacts
from ccmix.run.until_settled import ended_when_settled
from ccmix.terms import CCAS

PINGS, PING_INTERVAL_S, PING_WAITS_S = 2, 0.2, 2
GRO = re.compile(r"^(generic-receive-offload|large-receive-offload): (on|off)", re.MULTILINE)


@dataclass(frozen=True)
class Ends:
    """Holds the hosts of a run, connected; `dst` and `netem` are None if nothing is done there."""

    src: RealHost
    dst: RealHost | None
    netem: RealHost | None
    command_tasks: CommandTasks  # of pScheduler, that a src-cmd posts
    kept_src_command: ContainedProcess | None = None  # if it goes on from run to run
    tasks: Tasks | None = None  # pScheduler's, if that makes the traffic

    @property
    def by_role(self) -> dict[str, RealHost]:
        """Returns the hosts that measure; a host that is both ends counts once."""
        ends = {"src": self.src}
        if self.dst is not None and self.dst is not self.src:
            ends["dst"] = self.dst
        return ends


def measure(run: Run, ends: Ends, programs: HostPrograms, folder: Path) -> Measurement:
    """Measures a run; `folder` gets generators/ and logs/. Raises CommandError or GeneratorError."""
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
            for what, condition in _conditions(run, ends, programs, device, logs):
                conditions.enter_context(condition)
                log(f"set: {what}")
            ping_rtt_s = _ping(ends.src, path)
            offloads = _offloads(path, ends)
            counters_before = _counters(path, ends, device)
            ports_before = _ports(ends.src, addresses)
            watched = Watched(
                {"src": addresses, "dst": [source_to(ends.src, address) for address in addresses]}, device
            )
            traffic = _traffic(run, ends, programs, watched, folder, log)
            log("traffic has ended")
            counters_after = _counters(path, ends, device)
            bpf_ccas = _bpf_ccas(ends.src, path, programs)
        log("conditions taken back")
    except (CommandError, GeneratorError) as error:
        log(f"failed: {error}")
        raise
    left = [
        sentence
        for host, names in devices.items()
        for sentence in differences(host, before[host], state_of(host, names))
    ]
    diagnostics = failures(logs) + [f"left changed: {sentence}" for sentence in left]
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
    """Returns the devices that the run may change, which are compared before and after."""
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
    """Yields what the run changes, in order, each with its text for the log."""
    path = run.host_path
    if path.module_parameter:
        parameter = path.module_parameter
        what, cca = f"{parameter.path} to {parameter.value}", cca_with(ends.src, parameter)
        program = programs.cca_on(ends.src) if cca else None
        if cca and program:
            yield f"{what}, of the BPF program", program.changed(parameter, cca)
        else:
            yield what, changed_parameter(ends.src, parameter)
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


@dataclass(frozen=True)
class _TrafficRecord:
    """Holds what became known while the traffic ran; times are of the wall clock."""

    started_s: float
    ended_s: float
    tool: ToolFacts
    recording: Recording
    capture: CaptureFacts | None


def _traffic(
    run: Run, ends: Ends, programs: HostPrograms, watched: Watched, folder: Path, log: RunLog
) -> _TrafficRecord:
    """Makes the traffic with the probes beside it."""
    path, logs = run.host_path, folder / run_files.LOGS
    capture: CaptureReport | None = None
    most_bytes = output_bytes(run.traffic.seconds, run.traffic.interval_s)
    with ExitStack() as probes:
        for host in ends.by_role.values():
            probes.enter_context(host.outputs_capped(OUTPUT, most_bytes))
        by_pscheduler = probes.enter_context(scheduled(run, ends.tasks, log)) if ends.tasks else None
        if path.capture:
            capture = probes.enter_context(capturing(ends.src, path.capture, folder))
        recording = probes.enter_context(recorded_hosts(run, ends.by_role, programs, watched, logs))
        started_s = by_pscheduler.begins_s if by_pscheduler else time.time()
        log("traffic begins")
        if by_pscheduler:
            tool = by_pscheduler.finish(folder / run_files.GENERATORS)
        elif run.traffic.command:
            tool = _commands(run, run.traffic.command.line, ends, watched.device, folder)
        else:
            tool = _iperf3(run, ends, programs, watched.device, folder / run_files.GENERATORS)
        ended_s = time.time()
    captured = CaptureFacts(capture.counts, capture.complete, capture.bytes) if capture else None
    return _TrafficRecord(started_s, ended_s, tool, recording, captured)


def _commands(run: Run, src_line: str, ends: Ends, device: str, folder: Path) -> ToolFacts:
    path, logs = run.host_path, folder / run_files.LOGS
    commands = tuple(Command("", line) for line in (src_line, path.commands.dst) if line)
    takes_s = run.traffic.seconds
    expected_s = UNKNOWN_S if takes_s is None else takes_s + iperf3.ENDS_WITHIN_S + may_queue_s(src_line)
    longest_s = path.timeout_s or expected_s
    others = [host for host in (ends.dst, ends.netem) if host]
    if ends.kept_src_command:
        command.measure_for(ends.kept_src_command, run.traffic.total_s, logs, others, ends.command_tasks)
        return ToolFacts("other", "", commands)
    with ExitStack() as beside:
        if path.commands.dst and not path.commands.dst_once and ends.dst:
            beside.enter_context(command.running_dst_command(ends.dst, path.commands.dst, logs))
        with _ended_by_budget(path, logs / run_files.SRC_COMMAND_ERRORS):
            result = command.run_src_command(
                ends.src, src_line, longest_s, folder / run_files.GENERATORS, logs, others,
                ending_at(device, path.cap_bytes), tasks=ends.command_tasks, traffic=run.traffic,
            )  # fmt: skip
    version = (result.client or {}).get("start", {}).get("version", "")
    return ToolFacts(result.kind, str(version), commands)


@contextmanager
def _ended_by_budget(path: HostPath, errors: Path) -> Iterator[None]:
    """Says of a generator that failed since its run's budget was used up that this was why."""
    try:
        yield
    except (GeneratorError, CommandError):
        raise_if_ended(errors, path.cap_bytes)
        raise


def _iperf3(run: Run, ends: Ends, programs: HostPrograms, device: str, generators: Path) -> ToolFacts:
    path = run.host_path
    on_src = programs.iperf3_on(ends.src)
    version = ends.src.run([on_src, "--version"]).splitlines()[0]
    two = iperf3.Iperf3Ends(
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
    if run.traffic.steps:
        commands = _steps(run, two, run.traffic.steps, ends, programs, generators)
        return ToolFacts("iperf3", version, commands)
    longest_s = path.timeout_s or iperf3.longest_s(run.traffic, 1.0, run.traffic.streams or 1)
    settled_after_s: float | None = None

    def watch(test: iperf3.Iperf3Test) -> None:
        nonlocal settled_after_s
        assert isinstance(run.traffic.test, Iperf3Source)
        settled_after_s = ended_when_settled(run, [(run.traffic.test, test)], Deadline(0))

    settles = run.traffic.at_most_s is not None
    most_bytes = result_bytes(run.traffic.streams, run.traffic.total_s, run.traffic.goodput_interval_s)
    with ExitStack() as capped:
        capped.enter_context(_ended_by_budget(path, generators / run_files.iperf3_errors(iperf3.LABEL)))
        for host in ends.by_role.values():
            capped.enter_context(host.outputs_capped(RESULT, most_bytes))
        commands = iperf3.run_test(
            two, run.traffic, longest_s, generators, ending_at(device, path.cap_bytes),
            f"{ends.src.temporary}/iperf3.pid" if settles else None, watch if settles else None,
        )  # fmt: skip
    return ToolFacts("iperf3", version, commands, settled_after_s=settled_after_s)


def _steps(
    run: Run, two: iperf3.Iperf3Ends, steps: PathSource, ends: Ends, programs: HostPrograms, generators: Path
) -> tuple[Command, ...]:
    """Makes the steps that measure the path; returns the commands of both ends."""

    def ask(options: Sequence[str], *, stdout: Path, stderr: Path) -> AbstractContextManager[ContainedProcess]:
        program, to = programs.rtt_on(ends.src), ("--", run.host_path.dst.address)
        privileged = refused(ends.src, [program, *to])
        return ends.src.start([program, *options, *to], stdout=stdout, stderr=stderr, privileged=privileged)

    total_s = run.traffic.total_s
    pid_file = f"{ends.src.temporary}/iperf3.pid"
    made = PathSteps(two, ask, steps.most_bps, total_s, generators, steps.label, pid_file)
    most_bytes = result_bytes(1, total_s, UDP_INTERVAL_S)
    with ExitStack() as capped:
        for host in ends.by_role.values():
            capped.enter_context(host.outputs_capped(RESULT, most_bytes))
        made.finish(Deadline(total_s))
    return made.commands


def _ports(src: RealHost, addresses: Sequence[str]) -> tuple[int, ...]:
    """Returns the source's ports of connections to the destination that exist already, and are none of the run's."""
    lines = src.run(sockets.to(addresses)).splitlines()
    return tuple(socket.local_port for line in lines for socket in sockets.parse(line, CCAS))


def _addresses(host: RealHost, name: str) -> list[str]:
    """Returns every address that the host finds for the name; the name itself if it is an address."""
    rows = host.run(["getent", "ahosts", name]).split("\n")
    return list(dict.fromkeys(line.split()[0] for line in rows if line))


def _facts(host: RealHost) -> HostFacts:
    return HostFacts(
        name=host.name,
        kernel=host.read("/proc/sys/kernel/osrelease").strip(),
        hostname=host.read("/proc/sys/kernel/hostname").strip(),
        cpus=int(host.run(["nproc"])),
        congestion_control=host.read("/proc/sys/net/ipv4/tcp_congestion_control").strip(),
    )


def _ping(src: RealHost, path: HostPath) -> tuple[float, ...]:
    """Returns round-trip times in seconds before the traffic; none if the destination doesn't answer pings."""
    argv = ["ping", "-n", "-c", str(PINGS), "-i", f"{PING_INTERVAL_S:g}", "-W", str(PING_WAITS_S), path.dst.address]
    try:
        answers = src.run(argv, timeout_s=60)
    except CommandError:
        return ()
    return ping.rtts_s(answers, src.name)


def _bpf_ccas(src: RealHost, path: HostPath, programs: HostPrograms) -> dict[str, BpfCca] | None:
    """Returns the CCAs that the sender has as BPF programs; None if it has none, or does not say."""
    try:
        program = programs.cca_on(src) if to_ask_about(src, path) else None
        return (program.listed() or None) if program else None
    except HostLost:
        raise
    except CommandError:
        return None  # what watches them has reported it


def _offloads(path: HostPath, ends: Ends) -> dict[str, bool]:
    """Returns the offloads that could join packets before netem sees them."""
    if not (path.netem and path.netem.loss and path.netem_at and ends.netem):
        return {}
    return {
        f"{ends.netem.name} {device} {name}": state == "on"
        for device in path.netem_at.devices
        for name, state in GRO.findall(ends.netem.run(["ethtool", "-k", device]))
    }


def _counters(path: HostPath, ends: Ends, device: str) -> Counters:
    """Reads qdisc statistics of the sender's queue and of netem, TCP counters of both ends, and their softnet drops."""
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
