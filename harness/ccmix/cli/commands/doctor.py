"""`ccmix doctor`: its options and help."""

import sys
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.config.overrides import Overrides


@click.command("doctor", short_help="Say whether hosts are fit for a test, and how to mend them.")
@click.argument("config", type=options.PathType(), required=False)
@options.only
@options.hosts
@options.nic
@options.netem_at
@options.outdir("Folder that the results would go to")
@click.option("--lab", "in_lab", is_flag=True, help="For runs in the lab, as with `ccmix run --lab`.")
@options.form("table", "json")
def doctor(
    config: Path | None,
    only: tuple[str, ...],
    hosts: Path | None,
    nic: str | None,
    netem_at: str | None,
    outdir: Path | None,
    in_lab: bool,
    form: str,
) -> None:
    """Say whether the hosts are fit for the entries of CONFIG; without CONFIG, what this machine could be used for.

    Each check is ok, warn, fail (an entry asks for it and can't have it) or unknown, with what was seen, why it matters
    and the command that mends it. Nothing is changed, and nothing but pings is sent.

    \b
    ccmix doctor
    ccmix doctor my-test.ini -i eth0 -H hosts.csv
    ccmix doctor my-test.ini --lab
    """
    from ccmix.cli import doctor as work  # noqa: PLC0415

    sys.exit(work.doctor(config, Overrides(hosts, nic, netem_at), outdir, only, in_lab, form))
