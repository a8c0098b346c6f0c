"""Copies ccmix's programs to the hosts of a run, and records sockets and counters during traffic.

It records with ccmix-sockmon, or with ss and /proc if a host can't run that.
"""

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from ccmix.agent.deadline import Deadline
from ccmix.conditions.bpf_cca import CcaProgram, is_root, to_ask_about
from ccmix.files import open_to_append
from ccmix.hosts import CommandError
from ccmix.hosts.caps import output_bytes, processors_bytes
from ccmix.hosts.errors import HostLost
from ccmix.hosts.host import Process, RealHost
from ccmix.model import Command, ProbeReport, PschedulerFacts, Run, SeriesNames, run_files
from ccmix.probes import rtt_beside, sampler, sockets, sockmon
from ccmix.probes.sampler import SamplerReport, sampling


class RunLog:
    """Writes the log of a run: each line has the time in UTC, and is on disk immediately."""

    def __init__(self, file: Path) -> None:
        """Takes the log's file, which the first line creates."""
        self._file = file

    def __call__(self, text: str) -> None:
        """Appends a line with the present time to the log."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with open_to_append(self._file) as out:
            out.write(f"{now} {text}\n".encode(errors="replace"))


@dataclass(frozen=True)
class ToolFacts:
    """Says which tool made the traffic of a run between hosts: its version and its commands."""

    generator: str  # 'iperf3', 'pscheduler', or the kind of result that the user's command printed
    version: str  # '' if unknown
    commands: tuple[Command, ...]
    pscheduler: PschedulerFacts | None = None
    settled_after_s: float | None = None  # measured time of a run that ended because it had settled


class ProbeRefused(Exception):
    """Reports that a host can't run ccmix-sockmon; the message says why."""


class HostPrograms:
    """Copies ccmix's own programs to hosts, each once per connection, into a folder that ccmix's
    agent on the host removes at its end.
    """

    def __init__(
        self, iperf3: Path | None, sockmon: Path, rtt: Path, cca: Path | None = None
    ) -> None:
        """Takes the paths of the programs on this machine. `iperf3` may be None if the user's
        commands make all traffic, and `cca` (ccmix-cca) if no entry loads a CCA.
        """
        self._iperf3 = iperf3
        self._sockmon = sockmon
        self._rtt = rtt
        self._cca = cca
        # nothing is kept from a lost connection
        self._sent: WeakKeyDictionary[RealHost, dict[Path, str]] = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[RealHost, str | None] = WeakKeyDictionary()

    def iperf3_on(self, host: RealHost) -> str:
        """Returns the path of ccmix's patched iperf3 on the host. If iperf3 is not there yet, it is
        copied first. Raises CommandError.
        """
        assert self._iperf3
        return self._path_on(host, self._iperf3, "iperf3")

    def sockmon_on(self, host: RealHost) -> str:
        """Returns the path of ccmix-sockmon, which samples sockets, on the host. It is copied and
        tried the first time. Raises ProbeRefused if it does not work there, and HostLost.
        """
        if host not in self._refused:
            self._refused[host] = self._refusal(host)
        if reason := self._refused[host]:
            raise ProbeRefused(reason)
        return self._path_on(host, self._sockmon, "ccmix-sockmon")

    def rtt_on(self, host: RealHost) -> str:
        """Returns the path of ccmix-rtt, the RTT probe, on the host. It is copied first if it is
        not there yet. Raises CommandError.
        """
        return self._path_on(host, self._rtt, "ccmix-rtt")

    def cca_on(self, host: RealHost) -> CcaProgram | None:
        """Returns ccmix-cca, which loads CCAs as BPF programs, on the host. It is copied first if
        it is not there yet. None if this machine does not have the program. Raises CommandError.
        """
        return CcaProgram(host, self._path_on(host, self._cca, "ccmix-cca")) if self._cca else None

    def _refusal(self, host: RealHost) -> str | None:
        """Returns the reason why the host can't run ccmix-sockmon, which is tried there; None if it
        can. Raises HostLost.
        """
        try:
            binary = self._path_on(host, self._sockmon, "ccmix-sockmon")
        except HostLost:
            raise
        except CommandError as error:
            return error.reason
        return sockmon.refusal(host, [binary, "--sockets", "--counters", "--cpu"])

    def _path_on(self, host: RealHost, program: Path, name: str) -> str:
        """Returns the path of a program on the host. The program, a file of this machine, is copied
        first if it is not there yet; `name` is its file name there. Raises CommandError.
        """
        if host.is_this_machine:
            return str(program)
        sent = self._sent.setdefault(host, {})
        if program not in sent:
            sent[program] = host.put(program, name)
        return sent[program]


# At this interval, values of sockets are worth the time for loading BPF programs.
OFTEN_S = 0.01
STARTS_WITHIN_S = 5


@dataclass(frozen=True)
class Watched:
    """Says what to record: by role ('src', 'dst') the remote addresses of a host's sockets, and the
    device through which src sends, whose queue is sampled.
    """

    addresses: Mapping[str, Sequence[str]]
    device: str


@dataclass
class Recording:
    """Holds what is needed to read the recorded samples later: their names, the hosts' clocks, and
    the probes' reports. It is complete when the probes have ended.
    """

    series: SeriesNames
    # by role: the time by which the host's clock is ahead of this machine's
    clocks_s: dict[str, float]
    reports: dict[str, ProbeReport] = field(default_factory=dict)
    diagnostics: list[str] = field(default_factory=list)


@contextmanager
def recorded_hosts(
    run: Run, by_role: Mapping[str, RealHost], programs: HostPrograms, watched: Watched, logs: Path
) -> Iterator[Recording]:
    """Records the hosts of a run until the context ends, into files in the folder `logs`. Yields
    what is needed to read these files later.

    On each host it samples TCP counters, the load of the processors, the run's processes, and the
    sockets that connect it with the other host. On the source it also samples the queue of the
    sending device, and pings the destination if the entry asks for it. Raises CommandError.

    by_role: the hosts by 'src' and 'dst'
    watched: the addresses of sockets, and the sending device
    """
    recording = Recording(
        series=SeriesNames(sockets={"": "sender"}, queues={f"/{watched.device}": "sender-queue"}),
        clocks_s={role: host.clock_ahead_s() for role, host in by_role.items()},
    )
    reports: dict[str, SamplerReport] = {}
    with ExitStack() as probes:
        for role, host in by_role.items():
            try:
                argv = [programs.sockmon_on(host), *_sockmon_options(run, role, host, watched)]
            except ProbeRefused as reason:
                recording.diagnostics.append(
                    f"{host.name}: sampled by ss and /proc instead of ccmix-sockmon: {reason}"
                )
                for name, command in _fallback_commands(role, watched).items():
                    most = processors_bytes if command is sampler.PROC_STAT else output_bytes
                    most_bytes = most(run.traffic.seconds, run.traffic.interval_s)
                    samples = sampling(
                        host, command, run.traffic.interval_s, logs / f"{name}.jsonl", most_bytes
                    )
                    reports[name] = probes.enter_context(samples)
            else:
                stream = (
                    run_files.SOCKMON_STREAM
                    if role == "src"
                    else run_files.SOCKMON_DESTINATION_STREAM
                )
                prefix = _bpf_prefix(run, host, programs, recording) if role == "src" else []
                output, errors = logs / stream, sockmon.errors_of(logs / stream)
                started = host.start(
                    [*prefix, *argv], stdout=output, stderr=errors, privileged=bool(prefix)
                )
                process = probes.enter_context(started)
                if prefix:
                    _wait_until_it_records(process, output)
        if probe := run.traffic.rtt_probe:
            src = by_role["src"]
            command = rtt_beside.argv(programs.rtt_on(src), probe, run.host_path.dst.address)
            output, errors = logs / run_files.RTT_SAMPLES, logs / run_files.RTT_ERRORS
            probes.enter_context(
                src.start(command, stdout=output, stderr=errors, privileged=refused(src, command))
            )
        yield recording
    recording.reports |= {name: ProbeReport(**asdict(report)) for name, report in reports.items()}


def _bpf_prefix(
    run: Run, host: RealHost, programs: HostPrograms, recording: Recording
) -> list[str]:
    """Returns the words to put before ccmix-sockmon's command, so that BPF programs give it the
    inner states of CCAs and the values of sockets. This needs root.

    Returns [] if it is not worth the time for loading them: no CCA is a BPF program, and sockets
    are sampled less often than every 10 ms or not by root. Also returns [] if it does not work.
    Then a diagnostic is added to `recording`, and netlink gives the values of sockets.
    """
    ccas = to_ask_about(host, run.host_path)
    wanted = ccas or (run.traffic.interval_s <= OFTEN_S and is_root(host))
    try:
        program = programs.cca_on(host) if wanted else None
        prefix = program.watching() if program else []
        if prefix:
            host.run([*prefix, "true"], privileged=True)
    except HostLost:
        raise
    except CommandError as error:
        used = run.traffic.ccas  # none are known of commands, which may use any
        if missed := [cca for cca in ccas if cca in used or not used]:
            recording.diagnostics.append(
                f"{host.name}: states of {' '.join(missed)} are not recorded: {error.reason}"
            )
        return []
    return prefix


def _wait_until_it_records(process: Process, stream: Path) -> None:
    """Waits until a probe has begun to record, so that the traffic does not begin earlier: the
    probe has then written the header of its output (the file `stream`). A busy host takes 0.1 s to
    load BPF programs.

    If the probe fails, this raises no error, because the failure is noticed when the probe ends.
    """
    deadline = Deadline(STARTS_WITHIN_S)
    while (
        not (stream.exists() and stream.stat().st_size)
        and not process.ended()
        and not deadline.expired
    ):
        time.sleep(0.005)


def _sockmon_options(run: Run, role: str, host: RealHost, watched: Watched) -> list[str]:
    """Returns the options of ccmix-sockmon: what it samples on this host, and how often. `role` is
    'src' or 'dst', and `watched` has the addresses of sockets to sample and the sending device.
    """
    cores = run.host_path.mpstat_cores
    cpu = "--cpu" if sampler.are_all_cores(cores) else f"--cpu={cores}"
    options = [
        "--counters",
        cpu,
        f"--tree={host.agent_pid}",
        "--threads",
        *sockmon.rates(run.traffic.interval_s),
    ]
    # of a link-local address, without its device
    addresses = [address.partition("%")[0] for address in watched.addresses[role]]
    remotes = [f"--remote={address}" for address in addresses[: sockmon.MOST_REMOTES]]
    queue = [f"--queue={watched.device}"] if role == "src" else []
    return ["--sockets", *remotes, *queue, *options]


def refused(host: RealHost, command: Sequence[str]) -> bool:
    """Returns whether a command of ccmix-rtt, which pings, must run as root: some kernels let only
    root send pings. The command is tried with a single short ping.
    """
    try:
        host.run([command[0], "--duration=10ms", "--timeout=10ms", *command[1:]])
    except HostLost:
        raise
    except CommandError:
        return True
    return False


def _fallback_commands(role: str, watched: Watched) -> dict[str, Sequence[str]]:
    """Returns the commands that sample a host which can't run ccmix-sockmon: ss for the sockets, if
    the host is the source, and a command that reads /proc/stat. The keys are the names of the files
    for the commands' outputs.
    """
    of_sockets = {"sockets": sockets.command_to(watched.addresses["src"])} if role == "src" else {}
    return {**of_sockets, f"processors-{role}": sampler.PROC_STAT}
