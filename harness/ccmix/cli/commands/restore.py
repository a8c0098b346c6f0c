"""`ccmix restore`: its options and help."""

import sys

import click


@click.command("restore", short_help="Put back what a run that died has left changed on a host.")
@click.argument("hosts", nargs=-1)
def restore(hosts: tuple[str, ...]) -> None:
    """Put back what a run that died has left changed on this machine, or on HOSTS.

    A host is netns:NAME, or what ssh takes: [USER@]HOST. Runs write the undo of each change to the disk of the host
    before they make it; after a reboot there is nothing to undo.

    \b
    ccmix restore
    ccmix restore dtn@dtn1.example.org netns:lab
    """
    from ccmix.cli import restore as work  # noqa: PLC0415

    sys.exit(work.restore(hosts))
