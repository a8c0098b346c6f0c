"""`ccmix plan`: its options and help."""

from pathlib import Path

import click

from ccmix.cli import options
from ccmix.config.overrides import Overrides


@click.command("plan", short_help="List what would run, where, in which order, and for how long.")
@options.config
@options.only
@options.hosts
@options.nic
@options.netem_at
@options.seed
@options.form("table", "json")
def plan(
    config: Path,
    only: tuple[str, ...],
    hosts: Path | None,
    nic: str | None,
    netem_at: str | None,
    seed: int,
    form: str,
) -> None:
    """Print what `ccmix run CONFIG` would run, in its order, and for how long. Nothing is started.

    Of each entry: its destinations, commands, and what will be set on which host; then its runs.

    \b
    ccmix plan my-test.ini
    ccmix plan my-test.ini --only mixed -i eth0 -H hosts.csv
    ccmix plan my-test.ini --format json
    """
    from ccmix.cli import plan as work  # noqa: PLC0415

    work.plan(config, Overrides(hosts, nic, netem_at), only, seed, form)
