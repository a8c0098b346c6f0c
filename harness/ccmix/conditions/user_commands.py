"""Runs the user's commands before and after: pre-src-cmd and post-src-cmd, and so for dst and for the entry."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from ccmix.archive.replacing import write_whole
from ccmix.hosts import CommandError
from ccmix.hosts.host import RealHost
from ccmix.hosts.output_text import last_line
from ccmix.hosts.shell import shell, why

TIMEOUT_S = 600.0  # of each
AFTER_TIMEOUT_S = 30.0  # beyond that, for what ends it
STATUS, OUT_OF_TIME = "exit status ", "124"  # timeout(1)
NOTHING = ["true"]


@contextmanager
def bracketed(host: RealHost, name: str, before: str | None, after: str | None, logs: Path) -> Iterator[None]:
    """Runs `before`, and `after` when the context ends, also when `before` failed or this process dies.

    What `before` leaves in the background lives until then. Outputs are in `logs`. Raises CommandError where `before`
    fails; failures() reports how `after` fared.
    """
    with ExitStack() as ends:
        if after:
            file = logs / f"post-{name}.out"
            file.unlink(missing_ok=True)  # what an earlier campaign left, or others put there
            output = partial(write_whole, file, sync=False)
            changed = host.changed(
                f"post-{name}", NOTHING, _whatever_it_returns(after), False, TIMEOUT_S + AFTER_TIMEOUT_S, output
            )
            ends.enter_context(changed)
        if before:
            errors = logs / f"pre-{name}.err"
            process = ends.enter_context(host.start(shell(before), stdout=logs / f"pre-{name}.out", stderr=errors))
            if (status := process.wait(TIMEOUT_S)) != 0:
                raise CommandError(host.name, [f"pre-{name}", before], why(status, errors))
        yield


def failures(logs: Path) -> list[str]:
    """Returns a sentence for each post command in `logs` that had another exit status than 0."""
    sentences = []
    for output in sorted(logs.glob("post-*.out")):
        status = last_line(output).removeprefix(STATUS)
        if status != "0":
            sentences.append(
                f"{output.stem} failed: {'not ended in time' if status == OUT_OF_TIME else STATUS + status}"
            )
    return sentences


def _whatever_it_returns(line: str) -> list[str]:
    """Returns a command that succeeds whatever the line returns, and prints its exit status as the last line."""
    script = f'timeout -k 5 {TIMEOUT_S:.0f} sh -c "$1" 2>&1; echo "{STATUS}$?"'
    return ["sh", "-c", script, "sh", line]
