"""`ccmix doctor`: from a configuration to what each of its hosts lacks."""

from pathlib import Path

import click

from ccmix.cli import status
from ccmix.config import load, select
from ccmix.doctor import text
from ccmix.doctor.checks import Options
from ccmix.doctor.examine import examine
from ccmix.doctor.report import failed
from ccmix.plan import make_plan


def doctor(config: Path | None, outdir: Path | None, only: tuple[str, ...], in_lab: bool, form: str) -> int:
    """Prints what was found; returns the exit status. Raises ConfigError."""
    runs = None
    if config:
        runs = make_plan(select(load(config), only, config), 0)
        outdir = outdir or Path("results") / config.stem
    reports = examine(Options(runs, outdir, in_lab))
    if form == "json":
        click.echo(text.to_json(reports))
    else:
        click.echo(text.render(reports), nl=False)
        click.echo(text.summary(reports), err=True)
    return status.BAD if failed(reports) else status.GOOD
