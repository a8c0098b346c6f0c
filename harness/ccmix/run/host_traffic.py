"""Makes the traffic of a run between hosts with iperf3, the user's commands or pScheduler.

pScheduler also makes runs from a host on which ccmix has no shell.
"""

import json
import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.agent.deadline import Deadline
from ccmix.files import write_whole
from ccmix.generators import command, iperf3
from ccmix.generators.command import prefix_with_byte_limit, raise_if_ended, read_pscheduler_result
from ccmix.generators.expected import may_queue_s
from ccmix.generators.path_steps import UDP_INTERVAL_S, PathSteps
from ccmix.generators.pscheduler.ledger import CommandTasks
from ccmix.generators.pscheduler.runs import ScheduledRun, Tasks
from ccmix.generators.pscheduler.task import SLOT_S
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.hosts.caps import RESULT, UNKNOWN_S, result_bytes
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.model import (
    Command,
    Facts,
    HostPath,
    Iperf3Source,
    Measurement,
    PathSource,
    PschedulerClock,
    PschedulerFacts,
    Run,
    run_files,
)
from ccmix.run.host_probes import (
    HostPrograms,
    RunLog,
    ToolFacts,
    refused,
)
from ccmix.run.schedule import latest_end_s
from ccmix.run.until_settled import ended_when_settled

KERNEL = "unknown"  # pScheduler doesn't report it


@dataclass(frozen=True)
class Scheduled:
    """Holds a run that pScheduler has scheduled and is about to begin."""

    run: Run
    tasks: Tasks
    slot: ScheduledRun

    @property
    def begins_s(self) -> float:
        """Returns when the run begins, by this machine's wall clock."""
        return self.slot.begins_s

    def finish(self, generators: Path) -> ToolFacts:
        """Waits until pScheduler has the result of the run, and writes it into the folder
        `generators`. Returns the facts about the tool that made the traffic. Raises GeneratorError.
        """
        try:
            self.slot.finish(self.run.host_path.timeout_s)
            self.slot.record["clocks"] = self.tasks.clocks(self.slot)
        finally:
            if self.slot.record:
                write_whole(
                    generators / run_files.PSCHEDULER, json.dumps(self.slot.record), sync=False
                )
        record = self.slot.record
        result = read_pscheduler_result(generators)
        commands = tuple(Command("", text.partition("\n")[0]) for text in _diags(record["run"]))
        version = (result.client or {}).get("start", {}).get("version", "")
        return ToolFacts("pscheduler", str(version), commands, _facts(record))


def _facts(record: Mapping[str, Any]) -> PschedulerFacts:
    """Picks the facts to keep from pScheduler's record of a run: task, URL, times, participants and
    clocks. A value of an unexpected type is left out (None).
    """
    run = record["run"]

    def text(name: str) -> str | None:
        """Returns the value of this key as text; None if there is none."""
        value = run.get(name)
        return value if isinstance(value, str) else None

    participants, priority = run.get("participants"), run.get("priority")
    return PschedulerFacts(
        lead=record["lead"],
        task=json.dumps(record["task"]),
        clocks={host: _clock(clock) for host, clock in record["clocks"].items()},
        href=text("href"),
        start_time=text("start-time"),
        end_time=text("end-time"),
        participants=tuple(map(str, participants)) if isinstance(participants, list) else (),
        priority=priority if isinstance(priority, int) else None,
    )


def _clock(clock: Mapping[str, Any]) -> PschedulerClock:
    """Picks the facts to keep from pScheduler's report on the clock of a host. A value that is
    missing or of an unexpected type becomes None.
    """
    synchronized = clock.get("synchronized")

    def text(name: str) -> str | None:
        """Returns the value of this key as text; None if there is none."""
        return str(clock[name]) if name in clock else None

    def seconds(name: str) -> float | None:
        """Returns the value of this key if it is a finite number, and None otherwise."""
        value = clock.get(name)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    return PschedulerClock(
        time=text("time"),
        synchronized=synchronized if isinstance(synchronized, bool) else None,
        source=text("source"),
        reference=text("reference"),
        offset_s=seconds("offset"),
        ahead_s=seconds("ahead_s"),
        within_s=seconds("within_s"),
        error=text("error"),
    )


def _diags(run: dict[str, Any]) -> Iterator[str]:
    """Yields for each participant (host of the test) the diagnostic text in pScheduler's result.
    Its first line is the command of the tool that ran there.
    """
    for result in run["result-full"] or ():
        if isinstance(result, dict) and isinstance(result.get("diags"), str):
            yield result["diags"]


@contextmanager
def scheduled(run: Run, tasks: Tasks, log: RunLog) -> Iterator[Scheduled]:
    """Schedules the run with pScheduler, so that it ends within the entry's time window. The
    context begins shortly before the run. If the context fails, pScheduler's task is cancelled.
    """
    window = run.host_path.time_window
    latest_s = latest_end_s(window, time.time()) - run.traffic.total_s - SLOT_S if window else None
    with tasks.slot(run, latest_s, log) as slot:
        yield Scheduled(run, tasks, slot)


def measure_unseen(run: Run, tasks: Tasks, folder: Path) -> Measurement:
    """Measures a run that pScheduler makes between hosts to which ccmix can't log in. All results
    are from pScheduler's report, which is written to `folder`. `tasks` posts pScheduler's tasks.
    Raises GeneratorError.
    """
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    generators.mkdir()
    logs.mkdir()
    log = RunLog(logs / run_files.RUN_LOG)
    log(f"{run.name}: by pScheduler")
    try:
        with scheduled(run, tasks, log) as slot:
            started_s, tool = slot.begins_s, slot.finish(generators)
    except GeneratorError as error:
        log(f"failed: {error}")
        raise
    facts = Facts(
        kernel=KERNEL,
        iperf3=tool.version,
        commands=tool.commands,
        generator=tool.generator,
        hosts={},
        pscheduler=tool.pscheduler,
        offloads={},
    )
    return Measurement(facts=facts, started_s=started_s, ended_s=time.time(), ping_rtt_s={})


def is_this_machine(name: str) -> bool:
    """Returns whether a host name means this machine. It does if a socket can bind to one of the
    name's addresses.
    """
    try:
        candidates = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in candidates:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False


@dataclass(frozen=True)
class Ends:
    """Holds the connected hosts of a run: source, destination, and the one that emulates delay or
    loss with netem. `dst` and `netem` are None if ccmix runs nothing there.
    """

    src: RealHost
    dst: RealHost | None
    netem: RealHost | None
    command_tasks: CommandTasks  # tasks of pScheduler that a src-cmd posts
    kept_src_command: ContainedProcess | None = None  # if it continues from run to run
    tasks: Tasks | None = None  # pScheduler's, if that makes the traffic

    @property
    def by_role(self) -> dict[str, RealHost]:
        """Returns the hosts on which probes run, by 'src' and 'dst'. A host that is both source and
        destination is only 'src'.
        """
        ends = {"src": self.src}
        if self.dst is not None and self.dst is not self.src:
            ends["dst"] = self.dst
        return ends


def run_commands(run: Run, src_line: str, ends: Ends, device: str, folder: Path) -> ToolFacts:
    """Makes the traffic of a run with the user's commands: the src-cmd `src_line`, and the dst-cmd
    on the destination if the entry has one. If the src-cmd continues from run to run, only waits
    for the run's time while it sends.

    ends: the connected hosts
    device: the source's sending device. If the entry has a budget of bytes, this device's counter
        says when it is used up, and the src-cmd is ended.
    folder: gets the outputs and logs

    Raises GeneratorError or CommandError.
    """
    path, logs = run.host_path, folder / run_files.LOGS
    commands = tuple(Command("", line) for line in (src_line, path.commands.dst) if line)
    takes_s = run.traffic.seconds
    expected_s = (
        UNKNOWN_S if takes_s is None else takes_s + iperf3.ENDS_WITHIN_S + may_queue_s(src_line)
    )
    longest_s = path.timeout_s or expected_s
    others = [host for host in (ends.dst, ends.netem) if host]
    if ends.kept_src_command:
        command.measure_for(
            ends.kept_src_command, run.traffic.total_s, logs, others, ends.command_tasks
        )
        return ToolFacts("other", "", commands)
    with ExitStack() as dst_command:
        if path.commands.dst and not path.commands.dst_once and ends.dst:
            dst_command.enter_context(
                command.running_dst_command(ends.dst, path.commands.dst, logs)
            )
        with _ended_by_budget(path, logs / run_files.SRC_COMMAND_ERRORS):
            result = command.run_src_command(
                ends.src,
                src_line,
                longest_s,
                folder / run_files.GENERATORS,
                logs,
                others,
                prefix_with_byte_limit(device, path.cap_bytes),
                tasks=ends.command_tasks,
                traffic=run.traffic,
            )
    version = (result.client or {}).get("start", {}).get("version", "")
    return ToolFacts(result.kind, str(version), commands)


@contextmanager
def _ended_by_budget(path: HostPath, errors: Path) -> Iterator[None]:
    """Gives a better error for a command that fails in the context because ccmix has ended it at
    the limit of the entry's budget of bytes: a GeneratorError that says so. `errors` is the file
    with the command's standard error.
    """
    try:
        yield
    except (GeneratorError, CommandError):
        raise_if_ended(errors, path.cap_bytes)
        raise


def run_iperf3(
    run: Run, ends: Ends, programs: HostPrograms, device: str, generators: Path
) -> ToolFacts:
    """Makes the traffic of a run with iperf3. If ccmix has a shell on the destination, it starts
    iperf3's server there; otherwise a server must run already.

    device: the source's sending device. If the entry has a budget of bytes, this device's counter
        says when it is used up, and the test is ended.
    generators: the folder for iperf3's output

    Raises CommandError or GeneratorError, for example if the port is in use.
    """
    path = run.host_path
    src_iperf3 = programs.iperf3_on(ends.src)
    version = ends.src.run([src_iperf3, "--version"]).splitlines()[0]
    iperf3_ends = iperf3.Iperf3Ends(
        ends.src,
        src_iperf3,
        ends.dst,
        programs.iperf3_on(ends.dst) if ends.dst else "",
        path.dst.address,
        path.port,
    )
    if ends.dst and ends.dst.run(["ss", "-t", "-l", "-n", "-H", f"sport = :{path.port}"]).strip():
        raise GeneratorError(
            f"{ends.dst.name}: something listens on port {path.port} already: set another port, "
            "or server = running"
        )
    if run.traffic.steps:
        commands = _run_steps(run, iperf3_ends, run.traffic.steps, ends, programs, generators)
        return ToolFacts("iperf3", version, commands)
    longest_s = path.timeout_s or iperf3.longest_s(run.traffic, 1.0, run.traffic.streams or 1)
    settled_after_s: float | None = None

    def watch(test: iperf3.Iperf3Test) -> None:
        """Ends the test early once its goodput no longer changes."""
        nonlocal settled_after_s
        assert isinstance(run.traffic.test, Iperf3Source)
        settled_after_s = ended_when_settled(run, [(run.traffic.test, test)], Deadline(0))

    settles = run.traffic.at_most_s is not None
    most_bytes = result_bytes(
        run.traffic.streams, run.traffic.total_s, run.traffic.goodput_interval_s
    )
    with ExitStack() as capped:
        capped.enter_context(
            _ended_by_budget(path, generators / run_files.iperf3_errors(iperf3.LABEL))
        )
        for host in ends.by_role.values():
            capped.enter_context(host.outputs_capped(RESULT, most_bytes))
        commands = iperf3.run_test(
            iperf3_ends,
            run.traffic,
            longest_s,
            generators,
            prefix_with_byte_limit(device, path.cap_bytes),
            f"{ends.src.temporary}/iperf3.pid" if settles else None,
            watch if settles else None,
        )
    return ToolFacts("iperf3", version, commands, settled_after_s=settled_after_s)


def _run_steps(
    run: Run,
    iperf3_ends: iperf3.Iperf3Ends,
    steps: PathSource,
    ends: Ends,
    programs: HostPrograms,
    generators: Path,
) -> tuple[Command, ...]:
    """Measures the properties of the path (rate, buffer and others) in several short steps with
    iperf3 and ccmix-rtt. Returns the commands that were run on both ends. Results go into the
    folder `generators`.
    """

    def start_rtt(
        options: Sequence[str], *, stdout: Path, stderr: Path
    ) -> AbstractContextManager[ContainedProcess]:
        """Starts ccmix-rtt on the source, as root if the login must not send pings."""
        program, destination = programs.rtt_on(ends.src), ("--", run.host_path.dst.address)
        privileged = refused(ends.src, [program, *destination])
        return ends.src.start(
            [program, *options, *destination], stdout=stdout, stderr=stderr, privileged=privileged
        )

    total_s = run.traffic.total_s
    pid_file = f"{ends.src.temporary}/iperf3.pid"
    path_steps = PathSteps(
        iperf3_ends, start_rtt, steps.most_bps, total_s, generators, steps.label, pid_file
    )
    most_bytes = result_bytes(1, total_s, UDP_INTERVAL_S)
    with ExitStack() as capped:
        for host in ends.by_role.values():
            capped.enter_context(host.outputs_capped(RESULT, most_bytes))
        path_steps.finish(Deadline(total_s))
    return path_steps.commands
