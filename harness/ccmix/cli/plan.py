"""`ccmix plan`: prints what a configuration would run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.config import Overrides

KEYS = ("entry", "condition", "dst", "iteration")


@click.command("plan", short_help="List what would run, where, in which order, and for how long.")
@options.config
@options.only
@options.overrides
@options.of_order
@options.form("table", "json")
def plan(config: Path, only: tuple[str, ...], overrides: Overrides, seed: int, form: str) -> None:
    """Print what `ccmix run CONFIG` would run, in its order, and for how long. Nothing is started.

    Of each entry: its destinations, commands, and what will be set on which host; then its runs.

    \b
    ccmix plan my-test.ini
    ccmix plan my-test.ini --only mixed -i eth0 -H hosts.csv
    ccmix plan my-test.ini --format json
    """
    from ccmix.analysis.lengths import warnings
    from ccmix.analysis.validity.foreseen import unknown_for_sure
    from ccmix.cli import lacking_ccas, lacking_parameters
    from ccmix.cli.lab_kernels import refuse_unknown
    from ccmix.config import load, select
    from ccmix.plan import make_plan, span
    from ccmix.report import plan_text

    loaded = load(config, overrides=overrides)
    entries = select(loaded.entries, only, config)
    runs = make_plan(entries, seed)
    for notice in loaded.notices:
        tell(notice)
    refuse_unknown(runs)
    for lacking in (lacking_ccas, lacking_parameters):
        if warning := lacking.warn_of_lab(runs):
            tell(warning)
    if form == "json":
        rows = [{key: getattr(run, key) for key in KEYS} | {"seconds": run.seconds or 0.0} for run in runs]
        put(json.dumps(rows) + "\n")
        return
    put(plan_text.render(entries, runs))
    for warning in (*unknown_for_sure(runs), *warnings(runs)):
        tell(warning)
    tell(plan_text.total(span(runs)))
    tell(plan_text.to_write(runs))
