"""Runs the user's own commands: a src-cmd that makes the traffic, beside it a dst-cmd that takes it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.generators.expected import prints_a_result
from ccmix.generators.kept_results import of_src_command
from ccmix.generators.pscheduler.by_command import CommandTasks
from ccmix.generators.results import GeneratorError, GeneratorResult
from ccmix.hosts.caps import KEPT_OUTPUT, Cap
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.hosts.shell import shell, why
from ccmix.model import Traffic, run_files

LISTENS_WITHIN_S = 5.0  # a dst-cmd that never listens is none that the src-cmd talks to


@contextmanager
def running_dst_command(dst: RealHost, line: str, folder: Path, cap: Cap | None = None) -> Iterator[ContainedProcess]:
    """Runs the dst-cmd until the context ends, which begins when one of its processes listens; then all of them are
    ended. `cap` is that of its outputs, if it lasts longer than a run.

    Raises GeneratorError if it fails at once. A dst-cmd that has ended with status 0 has done its work.
    """
    errors = folder / "dst-cmd.err"
    with dst.start(shell(line), stdout=folder / "dst-cmd.out", stderr=errors, cap=cap) as process:
        deadline = Deadline(LISTENS_WITHIN_S)
        while not process.listening() and not deadline.expired:
            if process.ended() and (status := process.wait(0)) != 0:
                raise GeneratorError(f"dst-cmd on {dst.name} failed: {why(status, errors)}")
            if process.gone():
                break
            time.sleep(0.02)
        yield process


def run_src_command(
    src: RealHost, line: str, timeout_s: float, generators: Path, logs: Path, others: Sequence[RealHost],
    before: Sequence[str] = (), *, tasks: CommandTasks, traffic: Traffic,
) -> GeneratorResult:  # fmt: skip
    """Runs the src-cmd to its end; `before` is what runs its shell. A task that it posts at pScheduler is cancelled if
    the command is ended before that.

    Raises GeneratorError if its exit status or its result says that it failed, and HostLost as soon as the connection
    to one of the `others` is lost, since what was set there is gone.
    """
    output, errors = generators / run_files.SRC_COMMAND_OUTPUT, logs / run_files.SRC_COMMAND_ERRORS
    with (
        src.start([*before, *shell(line)], stdout=output, stderr=errors) as process,
        tasks.watched(src, line, process, output),
    ):
        deadline = Deadline(timeout_s)
        while not process.ended() and not deadline.expired:
            _raise_lost(others)
            tasks.look()
            time.sleep(0.02)
        if not process.ended():
            raise GeneratorError(f"src-cmd on {src.name} has not ended after {timeout_s:g} s")
        status = process.wait(0)
    result = of_src_command(generators, traffic)
    if result.error:
        raise GeneratorError(f"src-cmd on {src.name}: {result.error}")
    if status != 0:
        raise GeneratorError(f"src-cmd on {src.name} failed: {why(status, errors)}")
    if prints_a_result(line) and not output.stat().st_size:  # as pScheduler 5.2 does when a run is missed
        raise GeneratorError(f"src-cmd on {src.name}: pscheduler printed no result: its run did not take place")
    return result


@contextmanager
def kept_src_command(src: RealHost, line: str, tasks: CommandTasks, folder: Path) -> Iterator[ContainedProcess]:
    """Starts a src-cmd that goes on from run to run, until the context ends."""
    output, errors = folder / run_files.SRC_COMMAND_OUTPUT, folder / run_files.SRC_COMMAND_ERRORS
    with (
        src.start(shell(line), stdout=output, stderr=errors, cap=KEPT_OUTPUT) as process,
        tasks.watched(src, line, process, output),
    ):
        yield process


def measure_for(
    process: ContainedProcess, seconds: float, logs: Path, others: Sequence[RealHost], tasks: CommandTasks
) -> None:
    """Lets a kept src-cmd go on for the time of a run. Raises GeneratorError if it ends, HostLost as above."""
    deadline = Deadline(seconds)
    while not deadline.expired:
        _raise_lost(others)
        tasks.look()
        if process.ended():
            raise GeneratorError(
                f"the kept src-cmd has ended: {why(process.wait(0), logs / run_files.SRC_COMMAND_ERRORS)}"
            )
        time.sleep(min(deadline.remaining_s, 0.1))


def _raise_lost(hosts: Sequence[RealHost]) -> None:
    for host in hosts:
        if host.lost:
            raise host.lost
