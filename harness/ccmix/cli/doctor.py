"""`ccmix doctor`: examines the hosts of a configuration, and reports what each of them lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options, status
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.config import Overrides


@click.command("doctor", short_help="Say whether hosts are fit for a test, and how to mend them.")
@click.argument("config", type=options.PathType(completes=options.INI), required=False)
@options.only
@options.overrides
@options.outdir("Folder that the results would go to")
@options.in_lab("Check for runs in the lab, as with `ccmix run --lab`.")
@options.form("table", "json")
def doctor(
    config: Path | None, only: tuple[str, ...], overrides: Overrides, outdir: Path | None, in_lab: bool, form: str
) -> None:
    """Say whether the hosts are fit for the entries of CONFIG; without CONFIG, what this machine could be used for.

    Each check is ok, warn, fail (an entry asks for it and can't have it) or unknown, with what was seen, why it matters
    and the command that mends it. Nothing is changed, and nothing but pings is sent.

    \b
    ccmix doctor
    ccmix doctor my-test.ini -i eth0 -H hosts.csv
    ccmix doctor my-test.ini --lab
    """
    sys.exit(_examine(config, overrides, outdir, only, in_lab, form))


def _examine(
    config: Path | None, overrides: Overrides, outdir: Path | None, only: tuple[str, ...], in_lab: bool, form: str
) -> int:
    """Prints the report; returns the exit status. Raises ConfigError.

    Agents look at hosts of entries in the way that runs use them: with the same login, PATH and temporary folder.
    """
    import socket

    from ccmix.config import load, select
    from ccmix.doctor import report_text
    from ccmix.doctor.checks import DoctorOptions
    from ccmix.doctor.examine import examine
    from ccmix.doctor.report import failed
    from ccmix.hosts.address import parse_host
    from ccmix.hosts.pool import Hosts
    from ccmix.model import HostPath
    from ccmix.plan import make_plan
    from ccmix.tools import outdated

    if old := outdated():
        tell(old)
    runs = None
    if config:
        runs = make_plan(select(load(config, overrides=overrides).entries, only, config), 0)
        outdir = outdir or Path("results") / config.stem
    options = DoctorOptions(runs, outdir, in_lab)
    if any(isinstance(run.path, HostPath) for run in runs or ()):
        with Hosts(f"ccmix doctor on {socket.gethostname()}", onlooker=True, tell=tell) as hosts:
            reports = examine(options, lambda name: hosts.get(parse_host(name)))
    else:
        reports = examine(options)
    if form == "json":
        put(report_text.to_json(reports) + "\n")
    else:
        put(report_text.render(reports))
        tell(report_text.summary(reports))
    return status.BAD if failed(reports) else status.GOOD
