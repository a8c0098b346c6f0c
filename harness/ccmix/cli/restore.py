"""`ccmix restore`: what a run that died has left changed is put back, here or on other hosts."""

from collections.abc import Iterator, Sequence

import click

from ccmix.agent import journal
from ccmix.cli import status
from ccmix.hosts.address import parse_host
from ccmix.hosts.connect import connect


def restore(names: Sequence[str]) -> int:
    """Tells what was put back on these hosts or, without any, on this machine; returns the exit status.

    Raises BadParameter or ConnectError.
    """
    restored = list(_on_hosts(names) if names else _on_this_machine())
    for what, reason in restored:
        click.echo(f"{what}: {reason or 'restored'}", err=True)
    if not restored:
        click.echo("nothing to restore", err=True)
    return status.BAD if any(reason for _, reason in restored) else status.GOOD


def _on_this_machine() -> Iterator[tuple[str, str | None]]:
    """What was changed, and why it could not be put back, or None."""
    for undo, reason in journal.restore():
        yield undo.what, reason


def _on_hosts(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The same, by an agent on each host, which restores first of all."""
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
