"""What the user wrote to be run before and after: pre-src-cmd and post-src-cmd, and so for dst and for the entry."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ccmix.generators.command import shell
from ccmix.hosts import CommandError
from ccmix.hosts.host import RealHost

TIMEOUT_S = 600.0
NOTHING = ["true"]


@contextmanager
def bracketed(host: RealHost, name: str, before: str | None, after: str | None, logs: Path) -> Iterator[None]:
    """Runs `before`, and `after` when the context ends, also when `before` failed or this process dies.

    What `before` leaves in the background lives until then. Its outputs are in `logs`. Raises CommandError where
    `before` fails; the exit status of `after` is not looked at.
    """
    with ExitStack() as ends:
        if after:
            undo = _whatever_it_returns(after)
            output = (logs / f"post-{name}.out").write_text
            changed = host.changed(f"post-{name}", NOTHING, undo, False, undo_within_s=TIMEOUT_S, undone=output)
            ends.enter_context(changed)
        if before:
            errors = logs / f"pre-{name}.err"
            process = ends.enter_context(host.start(shell(before), stdout=logs / f"pre-{name}.out", stderr=errors))
            if (status := process.wait(TIMEOUT_S)) != 0:
                said = errors.read_text(errors="replace").strip().splitlines()
                why = f"exit status {status}{': ' + said[-1] if said else ''}"
                raise CommandError(host.name, [f"pre-{name}", before], why)
        yield


def _whatever_it_returns(line: str) -> list[str]:
    return ["sh", "-c", 'sh -c "$1" 2>&1; true', "sh", line]
