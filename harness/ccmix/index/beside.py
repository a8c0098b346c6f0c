"""`index = URL` in an entry: a process of its own beside the campaign, which sends runs as they finish.

A process, and the one that the scheduler thinks of last: making and sending documents must take no time from a
measurement, and whatever becomes of it fails no run. The archive is its only source, so it can be done again.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ccmix.agent.deadline import Deadline
from ccmix.index.target import PATIENCE, SECRETS
from ccmix.isolated import FOLDER, python_command
from ccmix.temporary import temporary_file

COMMAND = "from ccmix.cli import main; main()"
NICENESS = 19
PATIENCE_S = 60.0  # after the last run, with a server that takes nothing
MOST_WAIT_S = 600.0  # after the last run, even for a server that takes something now and then
ENDS_WITHIN_S = 10.0  # when the campaign was interrupted, or the wait is over


@dataclass(frozen=True)
class _SendingBeside:
    url: str
    process: "subprocess.Popen[bytes]"
    stderr: IO[bytes]

    def end(self) -> None:
        """Says that no run will follow."""
        assert self.process.stdin
        self.process.stdin.close()


@contextlib.contextmanager
def sending(outdir: Path, entries: Mapping[str, Sequence[str]], report: Callable[[str], None]) -> Iterator[None]:
    """Sends the entries of `outdir` to their URLs. At the end waits for the servers, for MOST_WAIT_S at most; reports
    what they did not take.

    Secrets are taken out of this process's environment, so that nothing else that it starts has them.
    """
    with contextlib.ExitStack() as files:
        running = [_start(outdir, url, names, files.enter_context(temporary_file())) for url, names in
                   entries.items()]  # fmt: skip
        if running:
            for name in SECRETS:
                os.environ.pop(name, None)
        try:
            yield
            for sender in running:
                sender.end()
            limit = Deadline(MOST_WAIT_S)
            late = [sender for sender in running if not _ended(sender, limit.remaining_s)]
            for sender in late:
                sender.process.terminate()
                _wait(sender, ENDS_WITHIN_S)
        except BaseException:
            for sender in running:
                sender.process.terminate()
            for sender in running:
                _wait(sender, ENDS_WITHIN_S)
            raise
        for sender in running:
            sender.stderr.seek(0)
            for line in sender.stderr.read().decode(errors="replace").splitlines():
                report(line)
            if sender.process.returncode:
                report(
                    f"not all is in {sender.url}: nothing is lost; 'ccmix index {outdir} --url {sender.url}' sends it"
                )


def _start(outdir: Path, url: str, entries: Sequence[str], stderr: IO[bytes]) -> _SendingBeside:
    only = [word for entry in entries for word in ("--only", entry)]
    command = ("index", outdir, "--url", url, *only, "--follow")
    argv = python_command(COMMAND, *command, python=sys.executable, folder=FOLDER, site=True)
    process = subprocess.Popen(
        ["nice", "-n", str(NICENESS), *argv], env={PATIENCE: str(PATIENCE_S)} | os.environ,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True,
    )  # fmt: skip
    return _SendingBeside(url, process, stderr)


def _ended(sender: _SendingBeside, seconds: float) -> bool:
    """Returns whether the process ended in time."""
    try:
        sender.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _wait(sender: _SendingBeside, seconds: float) -> None:
    if not _ended(sender, seconds):
        sender.process.kill()
        sender.process.wait()
