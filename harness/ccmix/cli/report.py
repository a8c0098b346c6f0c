"""`ccmix report`: prints the results of campaigns as a table, data or a page, or draws charts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from ccmix.charts.chart import KINDS, Image, Kind
from ccmix.cli import options
from ccmix.cli.collection import without_collection
from ccmix.cli.output import put, tell
from ccmix.failures import naming

if TYPE_CHECKING:
    from ccmix.analysis.results import Results


@dataclass(frozen=True)
class ReportOptions:
    """Holds the options of `ccmix report`; without `kinds`, all charts that fit are drawn."""

    outdirs: tuple[Path, ...]
    form: str
    output: Path | None
    rtt_buckets: bool
    against: str | None
    metric: str
    charts: Path | None
    kinds: tuple[Kind, ...]
    accept_limits: str
    image: Image
    colours: options.Colours


@click.command("report", short_help="Print results as a table, JSON, CSV or HTML, or draw charts.")
@options.outdirs(required=True)
@options.form("table", "json", "csv", "html")
@options.output(
    "Write to this file instead of standard output; html: [default: OUTDIR/report.html; of NAME.zip: NAME-report.html]"
)
@click.option("--rtt-buckets", is_flag=True, help="Pool all base RTTs below 30 ms, and all others.")
@click.option("--against", metavar="KEY=VALUE",
              help="Compare with this value of a swept key, or entry=NAME, or group=NAME; paired by block.",
)  # fmt: skip
@click.option(
    "--metric", default="goodput_bps", show_default=True, help="What --against compares (docs/reference/metrics.md)."
)
@click.option("--accept-limits", default="", metavar="KIND,...",
              help="Judge again: findings of these kinds leave a run valid, as by the key accept-limits.")  # fmt: skip
@click.option("--charts", type=options.PathType(file_okay=False), metavar="FOLDER",
              help="Draw the charts that fit into this folder instead, and print their files.")  # fmt: skip
@click.option("--chart", "kinds", type=click.Choice(KINDS), multiple=True,
              help="Only charts of this kind, of all conditions; may be given several times.")  # fmt: skip
@click.option("--image", type=click.Choice(get_args(Image)), default="svg", show_default=True,
              help="What --charts writes; json: Vega-Lite.")  # fmt: skip
@click.option("--colours", type=click.Choice(get_args(options.Colours)), default="auto", show_default=True,
              help="Steps of the colours in heat maps that --charts writes.")  # fmt: skip
@options.collected(ReportOptions)
def report(given: ReportOptions) -> None:
    """Print the results of the campaigns in OUTDIRS: a row per entry, condition and group.

    An OUTDIR may be a file of `ccmix archive pack`. html also has a chart for each condition, and writes them as SVG
    into a folder beside the file.

    \b
    ccmix report results/a                               a table
    ccmix report results/a --format html                 results/a/report.html
    ccmix report results/a --against cca=cubic           who differs from CUBIC?
    ccmix report results/a --charts figures --image png  charts as files
    """
    from ccmix.analysis.counting import accepting
    from ccmix.analysis.results import load_results
    from ccmix.archive.packed import opened
    from ccmix.config.values import LIMIT_NAMES

    try:
        accepted = LIMIT_NAMES.read(given.accept_limits)
    except ValueError as error:
        raise click.BadParameter(f"'{given.accept_limits}' {error}", param_hint="--accept-limits") from error
    if given.kinds and not given.charts:
        raise click.UsageError("--chart names a kind for --charts FOLDER: give that, too")
    with without_collection(), opened(given.outdirs) as archives:
        is_page = given.form == "html" and not given.against and not given.charts
        loaded = load_results(archives.folders, numbers_only=not is_page, numbers_of_many=True)
        unread = tuple(map(archives.rename, loaded.unread))
        runs = tuple(replace(result, finished=accepting(result.finished, accepted)) for result in loaded.runs)
        results = replace(loaded, runs=runs, rtt_buckets=given.rtt_buckets, unread=unread)
        if given.charts:
            for file in _draw(results, given, given.charts):
                put(f"{file}\n")
        elif given.form == "html" and not given.against:
            _write_page(results, given.output or _default_page(given.outdirs[0], archives.folders[0]))
        else:
            _put_text(results, given)


def _default_page(outdir: Path, folder: Path) -> Path:
    """Returns the page's place: in the campaign's folder, for a packed file in the working folder."""
    return outdir / "report.html" if folder == outdir else Path(f"{folder.name}-report.html")


def _write_page(results: Results, page: Path) -> None:
    from ccmix.report.html import write_report
    from ccmix.report.results_text import left_out

    with naming(page):
        write_report(results, page)
    put(f"{page}\n")
    for sentence in left_out(results.unread):
        tell(sentence)


def _put_text(results: Results, given: ReportOptions) -> None:
    from ccmix.report import results_text

    if given.against:
        text = against_baseline(results, given.against, given.metric, given.form)
    elif given.form == "json":
        text = json.dumps([row.to_json() for row in results.rows], indent=1) + "\n"
    elif given.form == "csv":
        text = results_text.csv_table(results.rows, results.swept)
    else:
        text = results_text.render(results)
    put(text, given.output)
    sentences = results_text.notes(results) if given.form == "table" else results_text.left_out(results.unread)
    for sentence in sentences:
        tell(sentence)


def against_baseline(results: Results, baseline: str, metric: str, form: str) -> str:
    """Returns what is printed. Raises click.BadParameter if the results have no such baseline or metric."""
    from ccmix.analysis.against import Baseline, against
    from ccmix.report.against import csv_table, html, render

    key, equals, value = baseline.partition("=")
    if not equals:
        raise click.BadParameter(f"'{baseline}' is not KEY=VALUE, such as cca=cubic", param_hint="--against")
    asked = Baseline(key, value, metric)
    if metric not in asked.metrics:
        raise click.BadParameter(f"'{metric}' is none of {', '.join(asked.metrics)}", param_hint="--metric")
    try:
        compared = against(asked, ((result.outdir, result.finished) for result in results.runs))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--against") from error
    if form == "json":
        rows = [row.to_json() | {"metric": metric, "seen": row.seen} for row in compared]
        return json.dumps(rows, indent=1) + "\n"
    return {"table": render, "csv": csv_table, "html": html}[form](asked, compared)


def _draw(results: Results, given: ReportOptions, folder: Path) -> Iterator[Path]:
    """Draws into the folder, which is made; charts of single conditions are limited unless their kind is named.

    Raises ArchiveError and OSError.
    """
    from ccmix.archive import ArchiveError
    from ccmix.charts.choose import choose
    from ccmix.charts.draw import write

    if given.kinds:
        chosen = choose(results, given.kinds, most=None, steps=given.colours)
    else:
        chosen = choose(results, KINDS, steps=given.colours)
    if not chosen.charts:
        raise ArchiveError(f"no chart fits these results of the kinds {', '.join(given.kinds or KINDS)}")
    folder.mkdir(parents=True, exist_ok=True)
    for chart in chosen.charts:
        yield write(chart, folder, given.image)
    for sentence in chosen.left_out:
        tell(sentence)
