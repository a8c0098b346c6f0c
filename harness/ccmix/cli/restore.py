"""`ccmix restore`: what a run that died has left changed is put back, here or on other hosts."""

from collections.abc import Iterator, Sequence

import click

from ccmix.agent import journal
from ccmix.hosts.address import parse_host
from ccmix.hosts.connect import connect


def on_this_machine() -> Iterator[tuple[str, str | None]]:
    """What was changed, and why it could not be put back, or None."""
    for undo, reason in journal.restore():
        yield undo.what, reason


def on_hosts(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The same, by an agent on each host, which restores first of all. Raises BadParameter or ConnectError."""
    try:
        addresses = [parse_host(name) for name in names]
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    for address in addresses:
        host = connect(address, "ccmix restore")
        try:
            yield from host.hello["restored"]
        finally:
            host.close()
