"""Runs users' own commands: a src-cmd sends the traffic of a run, and a dst-cmd receives it.

Reads the results that a run keeps in its folder, and ends a command that has sent enough.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ccmix.agent.deadline import Deadline
from ccmix.archive.campaign import campaign_folder
from ccmix.files import open_file
from ccmix.generators.expected import prints_a_result
from ccmix.generators.pscheduler.ledger import CommandTasks
from ccmix.generators.results import (
    GeneratorError,
    GeneratorResult,
    read_json,
    read_pscheduler_run,
    read_result,
)
from ccmix.hosts.caps import KEPT_OUTPUT, Cap, result_bytes
from ccmix.hosts.host import ContainedProcess, RealHost
from ccmix.hosts.output_text import ending, exit_reason, shell
from ccmix.model import Traffic, run_files
from ccmix.units import format_bytes

LISTENS_WITHIN_S = 5.0  # a src-cmd may not need a dst-cmd that listens
BEGINNING = 4096  # characters that show whether an output is JSON
CAP_LOOKS_EACH_S = 0.05
_MARK = "ccmix ended this command"
_ENDED = re.compile(f"{_MARK} after (\\d+) bytes")
# sent_bytes() sets `sent`: the 9th number of the device's line in /proc/net/dev
# (net/core/net-procfs.c)
_SCRIPT = f"""\
device=$1 most=$2
shift 2
sent_bytes() {{
	while read -r name _ _ _ _ _ _ _ _ bytes _; do
		[ "$name" != "$device:" ] || sent=$bytes
	done </proc/net/dev
}}
sent=0
sent_bytes
first=$sent
"$@" &
command=$!
trap 'kill $command' TERM INT
while kill -0 $command 2>/dev/null; do
	sent_bytes
	if [ $((sent - first)) -ge "$most" ]; then
		kill $command
		wait $command
		echo "{_MARK} after $((sent - first)) bytes" >&2
		exit 1
	fi
	sleep {CAP_LOOKS_EACH_S}
done
wait $command
"""


@contextmanager
def running_dst_command(
    dst: RealHost, line: str, folder: Path, cap: Cap | None = None
) -> Iterator[ContainedProcess]:
    """Runs the user's dst-cmd (the shell line that receives the traffic) on the destination while
    the context lasts.

    The context begins when one of the command's processes listens on a port, or after 5 s, because
    a dst-cmd need not listen. At the end, all of its processes are ended. Its output goes into
    `folder`. `cap` limits the output of a dst-cmd that continues from run to run.

    Raises GeneratorError if the dst-cmd fails at once. If it ends at once with status 0, it has
    done its work.
    """
    errors = folder / "dst-cmd.err"
    with dst.start(shell(line), stdout=folder / "dst-cmd.out", stderr=errors, cap=cap) as process:
        deadline = Deadline(LISTENS_WITHIN_S)
        while not process.listening() and not deadline.expired:
            if process.ended() and (status := process.wait(0)) != 0:
                raise GeneratorError(f"dst-cmd on {dst.name} failed: {exit_reason(status, errors)}")
            if process.gone():
                break
            time.sleep(0.02)
        yield process


def run_src_command(
    src: RealHost,
    line: str,
    timeout_s: float,
    generators: Path,
    logs: Path,
    other_hosts: Sequence[RealHost],
    before: Sequence[str] = (),
    *,
    tasks: CommandTasks,
    traffic: Traffic,
) -> GeneratorResult:
    """Runs the user's src-cmd (the shell line that sends the traffic) until it ends, and returns
    its result. If the src-cmd is ended early, the task that it has posted at pScheduler is
    cancelled.

    generators, logs: folders for its output and its standard error
    before: the words of a command that runs the src-cmd's shell, such as a prefix that limits the
        bytes
    tasks: finds and cancels the task that the src-cmd posts
    traffic: the expected traffic, which limits the size of a result

    Raises GeneratorError if the src-cmd takes longer than timeout_s, or if its exit status or its
    result says that it failed. Raises HostLost if the connection to one of the `other_hosts` is
    lost, because their settings are then undone.
    """
    output, errors = generators / run_files.SRC_COMMAND_OUTPUT, logs / run_files.SRC_COMMAND_ERRORS
    with (
        src.start([*before, *shell(line)], stdout=output, stderr=errors) as process,
        tasks.watched(src, line, process, output),
    ):
        deadline = Deadline(timeout_s)
        while not process.ended() and not deadline.expired:
            _raise_if_lost(other_hosts)
            tasks.look()
            time.sleep(0.02)
        if not process.ended():
            raise GeneratorError(f"src-cmd on {src.name} has not ended after {timeout_s:g} s")
        status = process.wait(0)
    result = read_src_command_result(generators, traffic)
    if result.error:
        raise GeneratorError(f"src-cmd on {src.name}: {result.error}")
    if status != 0:
        raise GeneratorError(f"src-cmd on {src.name} failed: {exit_reason(status, errors)}")
    if (
        prints_a_result(line) and not output.stat().st_size
    ):  # as pScheduler 5.2 does when a run is missed
        raise GeneratorError(
            f"src-cmd on {src.name}: pscheduler printed no result: its run did not take place"
        )
    return result


@contextmanager
def kept_src_command(
    src: RealHost, line: str, tasks: CommandTasks, folder: Path
) -> Iterator[ContainedProcess]:
    """Starts a src-cmd (the user's command that sends the traffic) that continues from run to run,
    until the context ends. Its output goes into `folder`. `tasks` cancels the task that it posts at
    pScheduler.
    """
    output, errors = folder / run_files.SRC_COMMAND_OUTPUT, folder / run_files.SRC_COMMAND_ERRORS
    with (
        src.start(shell(line), stdout=output, stderr=errors, cap=KEPT_OUTPUT) as process,
        tasks.watched(src, line, process, output),
    ):
        yield process


def measure_for(
    process: ContainedProcess,
    seconds: float,
    logs: Path,
    other_hosts: Sequence[RealHost],
    tasks: CommandTasks,
) -> None:
    """Lets a src-cmd that continues from run to run send for the time of one run.

    Raises GeneratorError if the src-cmd ends, and HostLost if the connection to one of the other
    hosts is lost. `logs` is the folder of the run, and `tasks` finds the task that the src-cmd
    posts at pScheduler.
    """
    deadline = Deadline(seconds)
    while not deadline.expired:
        _raise_if_lost(other_hosts)
        tasks.look()
        if process.ended():
            raise GeneratorError(
                "the kept src-cmd has ended: "
                f"{exit_reason(process.wait(0), logs / run_files.SRC_COMMAND_ERRORS)}"
            )
        time.sleep(min(deadline.remaining_s, 0.1))


def _raise_if_lost(hosts: Sequence[RealHost]) -> None:
    """Raises HostLost if the connection to one of the hosts is lost."""
    for host in hosts:
        if host.lost:
            raise host.lost


def read_src_command_result(generators: Path, traffic: Traffic) -> GeneratorResult:
    """Reads the result from the output of a src-cmd (the user's command that sends the traffic).
    Its kind is 'other' if the output is not JSON, or if there is no output yet, as with a src-cmd
    that continues from run to run.

    generators: the run's folder with the outputs of traffic sources

    Raises GeneratorError if the output is longer than a result of this traffic can be, and
    ArchiveError if the output's file is a symbolic link.
    """
    most_bytes = result_bytes(traffic.streams, traffic.seconds, traffic.interval_s)
    try:
        with _open_raw_file(generators / run_files.SRC_COMMAND_OUTPUT) as text:
            if (size := os.fstat(text.fileno()).st_size) <= most_bytes:
                return read_result(text.read())
            if not text.read(BEGINNING).lstrip().startswith("{"):
                return GeneratorResult("other")
    except FileNotFoundError:
        return GeneratorResult("other")
    raise GeneratorError(
        f"src-cmd: its result has {format_bytes(size)}, but for such a run ccmix reads at most "
        f"{format_bytes(most_bytes)}: set the entry's duration and interval to those of the command"
    )


def read_pscheduler_result(generators: Path) -> GeneratorResult:
    """Reads the result of pScheduler's run from a file in `generators`, the run's folder with the
    outputs of traffic sources. Raises GeneratorError if the result can't be read, and ArchiveError
    if the file is a symbolic link.
    """
    try:
        with _open_raw_file(generators / run_files.PSCHEDULER) as text:
            record = read_json(text.read(), run_files.PSCHEDULER)
    except OSError as error:
        raise GeneratorError(f"{run_files.PSCHEDULER}: can't be read: {error}") from error
    try:
        return read_pscheduler_run(record["run"])
    except (LookupError, TypeError, AttributeError) as error:
        raise GeneratorError(
            f"{run_files.PSCHEDULER}: the result of the run is not understood: {error!r}"
        ) from error


def _open_raw_file(file: Path) -> IO[str]:
    """Opens a file for reading as text. Raises ArchiveError if it is a symbolic link or not a file,
    because a third-party archive could otherwise make ccmix read any file. Raises OSError, too.
    """
    return os.fdopen(open_file(campaign_folder(file.parents[1]), file), errors="replace")


def prefix_with_byte_limit(device: str, most_bytes: int | None) -> list[str]:
    """Returns the prefix of a command that ends it once the network device has sent `most_bytes`;
    an empty prefix for None.

    Headers, retransmissions and other traffic of the device count, too.
    """
    return [] if most_bytes is None else ["sh", "-c", _SCRIPT, "capped", device, str(most_bytes)]


def raise_if_ended(errors: Path, most_bytes: int | None) -> None:
    """Raises GeneratorError if a command was ended because its network device had sent
    `most_bytes`. The prefix of prefix_with_byte_limit() ends such a command, and says so in its
    standard error (the file `errors`). Does nothing if there was no limit (None).
    """
    if most_bytes is None or not errors.exists():
        return
    if ended := _ENDED.search(ending(errors)):
        sent, left = format_bytes(int(ended[1])), format_bytes(most_bytes)
        raise GeneratorError(
            f"rate-budget: the run was ended when it had sent {sent}, since {left} were left"
        )
