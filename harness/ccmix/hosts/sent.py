"""Sends a program to a host for a moment, beside a campaign that may have the host."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ccmix.hosts.agent_host import AgentHost


@contextmanager
def sent(host: AgentHost, program: Path) -> Iterator[str]:
    """Gives the program's path there, in a folder of its own that is removed afterwards; its own path on this machine.

    Raises CommandError.
    """
    if host.is_this_machine:
        yield str(program)
        return
    folder = host.run(["mktemp", "-d", f"{host.temporary}/ccmix-XXXXXXXX"]).strip()
    try:
        yield host.put(program, f"{Path(folder).name}/{program.name}")
    finally:
        host.run(["rm", "-rf", "--", folder])
