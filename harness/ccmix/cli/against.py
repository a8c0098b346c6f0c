"""`ccmix report --against KEY=VALUE`."""

import json

import click

from ccmix.analysis.against import Baseline, against
from ccmix.report.against import csv_table, html, render
from ccmix.report.results import Results


def compared(results: Results, baseline: str, metric: str, form: str) -> str:
    """What is printed. Raises click.BadParameter for a baseline or metric that there is not."""
    key, equals, value = baseline.partition("=")
    if not equals:
        raise click.BadParameter(f"'{baseline}' is not KEY=VALUE, such as cca=cubic", param_hint="--against")
    asked = Baseline(key, value, metric)
    if metric not in asked.metrics:
        raise click.BadParameter(f"'{metric}' is none of {', '.join(asked.metrics)}", param_hint="--metric")
    try:
        found = against(asked, ((result.outdir, result.run, result.summary) for result in results.runs))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--against") from error
    if form == "json":
        return json.dumps([one.to_json() | {"metric": metric, "seen": one.seen} for one in found], indent=1) + "\n"
    return {"table": render, "csv": csv_table, "html": html}[form](asked, found)
