"""`ccmix restore`: puts back what a run that died has left changed, here or on other hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from ccmix.cli import status
from ccmix.cli.output import tell


@click.command("restore", short_help="Put back what a run that died has left changed on a host.")
@click.argument("hosts", nargs=-1)
def restore(hosts: tuple[str, ...]) -> None:
    """Put back what a run that died has left changed on this machine, or on HOSTS.

    A host is netns:NAME, or what ssh takes: [USER@]HOST. Runs write the undo of each change to the disk of the host
    before they make it; after a reboot there is nothing to undo. Without HOSTS, tasks of pScheduler are cancelled, too,
    that a campaign of this machine has left.

    \b
    ccmix restore
    ccmix restore dtn@dtn1.example.org netns:lab
    """
    sys.exit(_restore(hosts))


def _restore(names: Sequence[str]) -> int:
    """Restores these hosts or, without any, this machine, and prints each change; returns the exit status.

    Raises BadParameter or ConnectError.
    """
    restored = list(_on_hosts(names) if names else _on_this_machine())
    cancelled = [] if names else list(_tasks())
    for what, reason in restored:
        tell(f"{what}: {reason or 'restored'}")
    for what, reason in cancelled:
        tell(f"{what}: {reason or 'cancelled'}")
    if not restored and not cancelled:
        tell("nothing to restore")
    return status.BAD if any(reason for _, reason in (*restored, *cancelled)) else status.GOOD


def _on_this_machine() -> Iterator[tuple[str, str | None]]:
    """Yields each change, and why it could not be put back, or None."""
    from ccmix.agent import journal

    for undo, reason in journal.restore():
        yield undo.what, reason


def _tasks() -> Iterator[tuple[str, str | None]]:
    """Yields each task of pScheduler that a campaign of this machine has left, and why it could not be cancelled."""
    from ccmix.generators.pscheduler.ledger import cancel_left

    yield from cancel_left()


def _on_hosts(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yields the same; an agent on each host restores as soon as it starts."""
    from ccmix.hosts.address import parse_host
    from ccmix.hosts.connect import connect

    try:
        addresses = [parse_host(name) for name in names]
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    for address in addresses:
        host = connect(address, "ccmix restore", tell=tell)
        try:
            yield from host.hello["restored"]
        finally:
            host.close()
