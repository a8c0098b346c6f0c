"""`index = URL` in an entry: a process of its own beside the campaign, which sends runs as they finish.

A process, and the one that the scheduler thinks of last: making and sending documents must take no time from a
measurement, and whatever becomes of it fails no run. The archive is its only source, so it can be done again.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ccmix.index.target import PATIENCE, SECRETS

COMMAND = "from ccmix.cli import main; main()"
NICENESS = 19
PATIENCE_S = 60.0  # after the last run, with a server that takes nothing
ENDS_WITHIN_S = 10.0  # when the campaign was interrupted


@dataclass(frozen=True)
class _Sending:
    url: str
    process: "subprocess.Popen[bytes]"
    said: IO[bytes]

    def end(self) -> None:
        """No run will follow."""
        assert self.process.stdin
        self.process.stdin.close()


@contextlib.contextmanager
def sending(outdir: Path, entries: Mapping[str, Sequence[str]], tell: Callable[[str], None]) -> Iterator[None]:
    """The entries of `outdir`, by the URL that they name. At the end waits for what the servers take; tells the rest.

    Secrets are taken out of this process's environment, so that nothing else that it starts has them.
    """
    with contextlib.ExitStack() as files:
        running = [_start(outdir, url, names, files.enter_context(tempfile.TemporaryFile())) for url, names in
                   entries.items()]  # fmt: skip
        if running:
            for name in SECRETS:
                os.environ.pop(name, None)
        try:
            yield
            for one in running:
                one.end()
            for one in running:
                one.process.wait()
        except BaseException:
            for one in running:
                one.process.terminate()
            for one in running:
                _wait(one, ENDS_WITHIN_S)
            raise
        for one in running:
            one.said.seek(0)
            for line in one.said.read().decode(errors="replace").splitlines():
                tell(line)
            if one.process.returncode:
                tell(f"not all is in {one.url}: nothing is lost; 'ccmix index {outdir} --url {one.url}' sends it")


def _start(outdir: Path, url: str, entries: Sequence[str], said: IO[bytes]) -> _Sending:
    only = [word for entry in entries for word in ("--only", entry)]
    argv = [sys.executable, "-c", COMMAND, "index", str(outdir), "--url", url, *only]
    process = subprocess.Popen(
        ["nice", "-n", str(NICENESS), *argv, "--follow"], env={PATIENCE: str(PATIENCE_S)} | os.environ,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
    )  # fmt: skip
    return _Sending(url, process, said)


def _wait(one: _Sending, seconds: float) -> None:
    try:
        one.process.wait(seconds)
    except subprocess.TimeoutExpired:
        one.process.kill()
        one.process.wait()
