"""`ccmix doctor`: from a configuration to what each of its hosts lacks."""

import socket
from pathlib import Path

import click

from ccmix.cli import status
from ccmix.cli.output import put
from ccmix.config import Overrides, load, select
from ccmix.doctor import text
from ccmix.doctor.checks import Options
from ccmix.doctor.examine import examine
from ccmix.doctor.report import failed
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import Hosts
from ccmix.model import HostPath
from ccmix.plan import make_plan


def doctor(
    config: Path | None, overrides: Overrides, outdir: Path | None, only: tuple[str, ...], in_lab: bool, form: str
) -> int:
    """Prints what was found; returns the exit status. Raises ConfigError.

    Hosts of entries are looked at by agents as their runs use them: with the same login, PATH and temporary folder.
    """
    runs = None
    if config:
        runs = make_plan(select(load(config, overrides=overrides).entries, only, config), 0)
        outdir = outdir or Path("results") / config.stem
    options = Options(runs, outdir, in_lab)
    if any(isinstance(run.path, HostPath) for run in runs or ()):
        with Hosts(f"ccmix doctor on {socket.gethostname()}", onlooker=True) as hosts:
            reports = examine(options, lambda name: hosts.get(parse_host(name)))
    else:
        reports = examine(options)
    if form == "json":
        put(text.to_json(reports) + "\n")
    else:
        put(text.render(reports))
        click.echo(text.summary(reports), err=True)
    return status.BAD if failed(reports) else status.GOOD
