"""Runs the user's own commands: a src-cmd that makes the traffic, beside it a dst-cmd that takes it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.generators.expected import prints_a_result
from ccmix.generators.pscheduler.by_command import CommandTasks
from ccmix.generators.results import GeneratorError, GeneratorResult, read_result
from ccmix.hosts.caps import KEPT_OUTPUT, Cap, result_bytes
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.hosts.shell import shell, why
from ccmix.model import Traffic, run_files
from ccmix.units import format_bytes

LONGEST_UNKNOWN_S = 3600.0  # of a command whose duration is not known
BEGINNING = 4096  # characters that show whether an output is JSON
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
    result = result_of(generators, traffic)
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


def result_of(generators: Path, traffic: Traffic) -> GeneratorResult:
    """Returns the result that a src-cmd printed; a kept one has not printed it yet. What is no JSON is no result.

    Raises GeneratorError if it is longer than a result of this traffic can be.
    """
    output = generators / run_files.SRC_COMMAND_OUTPUT
    if not output.exists():
        return GeneratorResult("other")
    seconds = LONGEST_UNKNOWN_S if traffic.seconds is None else traffic.seconds
    most_bytes = result_bytes(traffic.streams, seconds, traffic.interval_s)
    if (size := output.stat().st_size) <= most_bytes:
        return read_result(output.read_text(errors="replace"))
    with output.open(errors="replace") as text:
        if not text.read(BEGINNING).lstrip().startswith("{"):
            return GeneratorResult("other")
    raise GeneratorError(
        f"src-cmd: its result has {format_bytes(size)}, more than the {format_bytes(most_bytes)} that ccmix reads of "
        "such a run: set the duration and the interval of the entry to those of the command"
    )
