"""Records on the hosts of a run beside its traffic, by ccmix-sockmon, else by ss and from /proc."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.conditions.bpf_cca import is_root, to_ask_about
from ccmix.hosts import CommandError
from ccmix.hosts.caps import output_bytes, processors_bytes
from ccmix.hosts.errors import HostLost
from ccmix.hosts.host import Process, RealHost
from ccmix.model import ProbeReport, Run, SeriesNames, run_files
from ccmix.probes import processors, rtt_beside, sockets, sockmon
from ccmix.probes.sampler import SamplerReport, sampling
from ccmix.run.programs import HostPrograms, ProbeRefused

# So often, the values of sockets are worth the time that it takes to load BPF programs for them.
OFTEN_S = 0.01
STARTS_WITHIN_S = 5


@dataclass(frozen=True)
class Watched:
    """Describes what to watch: the other ends of the sockets of each host, by its role, and the sending device."""

    addresses: Mapping[str, Sequence[str]]
    device: str


@dataclass
class Recording:
    """Says what it takes to read the series that are recorded. It is complete when the probes have ended."""

    series: SeriesNames
    clocks_s: dict[str, float]  # by role: how far the host's clock is ahead of this machine's
    reports: dict[str, ProbeReport] = field(default_factory=dict)
    diagnostics: list[str] = field(default_factory=list)


@contextmanager
def recorded_hosts(
    run: Run, by_role: Mapping[str, RealHost], programs: HostPrograms, watched: Watched, logs: Path
) -> Iterator[Recording]:
    """Records until the context ends: on each host counters, processors, the run's processes and the sockets to the
    other one, on src also the sending device's queue. Raises CommandError.
    """
    recording = Recording(
        series=SeriesNames(sockets={"": "sender"}, queues={f"/{watched.device}": "sender-queue"}),
        clocks_s={role: host.clock_ahead_s() for role, host in by_role.items()},
    )
    reports: dict[str, SamplerReport] = {}
    with ExitStack() as probes:
        for role, host in by_role.items():
            try:
                argv = [programs.sockmon_on(host), *_what(run, role, host, watched)]
            except ProbeRefused as reason:
                recording.diagnostics.append(f"{host.name}: sampled by ss and /proc instead of ccmix-sockmon: {reason}")
                for name, command in _instead(role, watched).items():
                    most = processors_bytes if command is processors.COMMAND else output_bytes
                    most_bytes = most(run.traffic.seconds, run.traffic.interval_s)
                    samples = sampling(host, command, run.traffic.interval_s, logs / f"{name}.jsonl", most_bytes)
                    reports[name] = probes.enter_context(samples)
            else:
                stream = run_files.SOCKMON_STREAM if role == "src" else run_files.SOCKMON_DESTINATION_STREAM
                watches = _watches(run, host, programs, recording) if role == "src" else []
                output, errors = logs / stream, sockmon.errors_of(logs / stream)
                started = host.start([*watches, *argv], stdout=output, stderr=errors, privileged=bool(watches))
                process = probes.enter_context(started)
                if watches:
                    _wait_until_it_records(process, output)
        if probe := run.traffic.rtt_probe:
            src = by_role["src"]
            command = rtt_beside.argv(programs.rtt_on(src), probe, run.host_path.dst.address)
            output, errors = logs / run_files.RTT_SAMPLES, logs / run_files.RTT_ERRORS
            probes.enter_context(src.start(command, stdout=output, stderr=errors, privileged=refused(src, command)))
        yield recording
    recording.reports |= {name: ProbeReport(**asdict(report)) for name, report in reports.items()}


def _watches(run: Run, host: RealHost, programs: HostPrograms, recording: Recording) -> list[str]:
    """Returns the prefix of a probe's command that lets it read by BPF: states of CCAs, and values of sockets.

    It takes root. The prefix is empty where no CCA is a BPF program, unless root samples often. Where the states can't
    be read, `recording` gets the reason; values come by netlink then.
    """
    ccas = to_ask_about(host, run.host_path)
    wanted = ccas or (run.traffic.interval_s <= OFTEN_S and is_root(host))
    try:
        program = programs.cca_on(host) if wanted else None
        watches = program.watching() if program else []
        if watches:
            host.run([*watches, "true"], privileged=True)
    except HostLost:
        raise
    except CommandError as error:
        if ccas:
            recording.diagnostics.append(f"{host.name}: states of {' '.join(ccas)} are not recorded: {error.reason}")
        return []
    return watches


def _wait_until_it_records(process: Process, stream: Path) -> None:
    """Waits for the stream's header, since traffic begins then: a busy host takes 0.1 s to load BPF programs.

    A probe that fails is noticed at its end, like any other.
    """
    deadline = Deadline(STARTS_WITHIN_S)
    while not (stream.exists() and stream.stat().st_size) and not process.ended() and not deadline.expired:
        time.sleep(0.005)


def _what(run: Run, role: str, host: RealHost, watched: Watched) -> list[str]:
    cores = run.host_path.mpstat_cores
    cpu = "--cpu" if processors.every(cores) else f"--cpu={cores}"
    options = ["--counters", cpu, f"--tree={host.agent_pid}", "--threads", *sockmon.rates(run.traffic.interval_s)]
    # of a link-local address, without its device
    addresses = [address.partition("%")[0] for address in watched.addresses[role]]
    remotes = [f"--remote={address}" for address in addresses[: sockmon.MOST_REMOTES]]
    queue = [f"--queue={watched.device}"] if role == "src" else []
    return ["--sockets", *remotes, *queue, *options]


def refused(host: RealHost, command: Sequence[str]) -> bool:
    """Returns whether the login may not run a command of ccmix-rtt: some kernels let nobody but root ping."""
    try:
        host.run([command[0], "--duration=10ms", "--timeout=10ms", *command[1:]])
    except HostLost:
        raise
    except CommandError:
        return True
    return False


def _instead(role: str, watched: Watched) -> dict[str, Sequence[str]]:
    of_sockets = {"sockets": sockets.to(watched.addresses["src"])} if role == "src" else {}
    return {**of_sockets, f"processors-{role}": processors.COMMAND}
