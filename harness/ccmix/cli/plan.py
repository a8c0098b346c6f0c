"""`ccmix plan`: from a configuration to what would run."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from ccmix.cli.output import put
from ccmix.config import Overrides, load, select
from ccmix.plan import make_plan, span
from ccmix.report import plan_text

KEYS = ("entry", "condition", "dst", "iteration")


def plan(config: Path, overrides: Overrides, only: Sequence[str], seed: int, form: str) -> None:
    """Prints the plan. Raises ConfigError."""
    loaded = load(config, overrides=overrides)
    entries = select(loaded.entries, only, config)
    runs = make_plan(entries, seed)
    for notice in loaded.notices:
        click.echo(notice, err=True)
    if form == "json":
        rows = [{key: getattr(run, key) for key in KEYS} | {"seconds": run.seconds} for run in runs]
        put(json.dumps(rows) + "\n")
        return
    put(plan_text.render(entries, runs))
    click.echo(plan_text.total(span(runs)), err=True)
