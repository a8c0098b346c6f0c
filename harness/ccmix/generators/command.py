"""The user's own commands: a src-cmd that makes the traffic, beside it a dst-cmd that takes it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ccmix.generators.expected import prints_a_result
from ccmix.generators.results import GeneratorError, Result, read_result
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.hosts.words import last_line

OUTPUT_FILE = "src-cmd.out"  # in the run's generators/
LISTENS_WITHIN_S = 5.0  # a dst-cmd that never listens is none that the src-cmd talks to
MOST_BYTES = 256 * 2**20  # of an output that is read for its result


def shell(line: str) -> list[str]:
    """The argument list for a line that the user wrote for a shell."""
    return ["sh", "-c", line]


@contextmanager
def running_dst_command(dst: RealHost, line: str, folder: Path) -> Iterator[ContainedProcess]:
    """The dst-cmd from when one of its processes listens until the context ends; then all of them are ended.

    Raises GeneratorError where it fails at once. One that has ended in order has done what it had to.
    """
    errors = folder / "dst-cmd.err"
    with dst.start(shell(line), stdout=folder / "dst-cmd.out", stderr=errors) as process:
        deadline = time.monotonic() + LISTENS_WITHIN_S
        while not process.listening() and time.monotonic() < deadline:
            if process.ended() and (status := process.wait(0)) != 0:
                raise GeneratorError(f"dst-cmd on {dst.name} failed: {why(status, errors)}")
            if process.gone():
                break
            time.sleep(0.02)
        yield process


def run_src_command(
    src: RealHost, line: str, timeout_s: float, generators: Path, logs: Path, others: Sequence[RealHost]
) -> Result:
    """Runs the src-cmd to its end. Raises GeneratorError where its exit status or its result says that it failed.

    Raises HostLost as soon as the connection to one of the `others` is lost, since what was set there is gone.
    """
    output, errors = generators / OUTPUT_FILE, logs / "src-cmd.err"
    with src.start(shell(line), stdout=output, stderr=errors) as process:
        deadline = time.monotonic() + timeout_s
        while not process.ended() and time.monotonic() < deadline:
            _raise_lost(others)
            time.sleep(0.02)
        if not process.ended():
            raise GeneratorError(f"src-cmd on {src.name} has not ended after {timeout_s:g} s")
        status = process.wait(0)
    result = result_of(generators)
    if result.error:
        raise GeneratorError(f"src-cmd on {src.name}: {result.error}")
    if status != 0:
        raise GeneratorError(f"src-cmd on {src.name} failed: {why(status, errors)}")
    if prints_a_result(line) and not output.stat().st_size:  # as pScheduler 5.2 does when a run is missed
        raise GeneratorError(f"src-cmd on {src.name}: pscheduler printed no result: its run did not take place")
    return result


def kept_src_command(src: RealHost, line: str, folder: Path) -> AbstractContextManager[ContainedProcess]:
    """A src-cmd that goes on from run to run, until the context ends."""
    return src.start(shell(line), stdout=folder / "src-cmd.out", stderr=folder / "src-cmd.err")


def measure_for(process: ContainedProcess, seconds: float, logs: Path, others: Sequence[RealHost]) -> None:
    """Lets a kept src-cmd go on for the time of a run. Raises GeneratorError where it ends, HostLost as above."""
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        _raise_lost(others)
        if process.ended():
            raise GeneratorError(f"the kept src-cmd has ended: {why(process.wait(0), logs / 'src-cmd.err')}")
        time.sleep(min(left_s, 0.1))


def _raise_lost(hosts: Sequence[RealHost]) -> None:
    for host in hosts:
        if host.lost:
            raise host.lost


def result_of(generators: Path) -> Result:
    """What a src-cmd that ran before has said; one that is kept has not said it yet."""
    output = generators / OUTPUT_FILE
    if not output.exists() or output.stat().st_size > MOST_BYTES:
        return Result("other")
    return read_result(output.read_text(errors="replace"))


def why(status: int, errors: Path) -> str:
    """The exit status of a command, and the last line of its standard error."""
    said = last_line(errors)
    return f"exit status {status}{': ' + said if said else ''}"
