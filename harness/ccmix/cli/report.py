"""`ccmix report`: prints results of campaigns as a table, data or an HTML page, or draws charts.

Also prints the outcome at the end of `ccmix run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import click

from ccmix.analysis.counting import accept_findings, settling_summary
from ccmix.analysis.effects import Baseline, compare_with_baseline
from ccmix.analysis.results import Results, load_results
from ccmix.analysis.sharing import sharing
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.packed import opened
from ccmix.charts.choose import choose
from ccmix.charts.draw import write
from ccmix.charts.encodings import KINDS, Image, Kind
from ccmix.cli import options, output
from ccmix.cli.output import put, tell, without_collection
from ccmix.config.problems import about
from ccmix.config.values import LIMIT_NAMES
from ccmix.failures import naming
from ccmix.report import results_text
from ccmix.report.answer import answer
from ccmix.report.effects_text import range_sentences
from ccmix.report.heading import measured_paths, path_sentence
from ccmix.report.html import write_report
from ccmix.report.results_text import against_csv, against_html, against_table, left_out
from ccmix.run.campaign import missing


@dataclass(frozen=True)
class ReportOptions:
    """Holds the options of `ccmix report`.

    `against` is a baseline KEY=VALUE with which `metric` is compared; `charts` is the folder for
    charts. Without `kinds`, all suitable charts are drawn. `accept_limits` is a list of kinds of
    findings that leave a run valid.
    """

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


@click.command("report")
@options.outdirs(required=True)
@options.form("table", "json", "csv", "html")
@options.output(
    "Write to this file instead of standard output.  [default for html: OUTDIR/report.html; for "
    "NAME.zip: NAME-report.html]"
)
@click.option(
    "--rtt-buckets",
    is_flag=True,
    help="Pool the results of all base RTTs below 30 ms, and of all others.",
)
@click.option(
    "--against",
    metavar="KEY=VALUE",
    help="Compare with this value of a swept key, or with entry=NAME or group=NAME; paired by "
    "block.",
)
@click.option(
    "--metric",
    default="goodput_bps",
    show_default=True,
    help="The metric that --against compares (docs/reference/metrics.md).",
)
@click.option(
    "--accept-limits",
    default="",
    metavar="KIND,...",
    help="Judge the runs again: these kinds of findings leave a run valid, like the key "
    "accept-limits.",
)
@click.option(
    "--charts",
    type=options.PathType(file_okay=False),
    metavar="FOLDER",
    help="Instead, draw all suitable charts into this folder, and print their file names.",
)
@click.option(
    "--chart",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="Draw only charts of this kind, for all conditions; may be given several times.",
)
@click.option(
    "--image",
    type=click.Choice(get_args(Image)),
    default="svg",
    show_default=True,
    help="The format of --charts; json is Vega-Lite.",
)
@click.option(
    "--colours",
    type=click.Choice(get_args(options.Colours)),
    default="auto",
    show_default=True,
    help="The colour scale of heat maps from --charts.",
)
@options.collected(ReportOptions)
def report(given: ReportOptions) -> None:
    """Print the results of the campaigns in OUTDIRS: a row for each entry, condition and group.

    An OUTDIR may be a file from `ccmix archive pack`. The form html also shows a chart for each
    condition, and writes the charts as SVG into a folder next to the file.

    \b
    ccmix report results/a                               a table
    ccmix report results/a --format html                 results/a/report.html
    ccmix report results/a --against cca=cubic           which CCAs differ?
    ccmix report results/a --charts figures --image png  charts as files
    """
    try:
        accepted_limits = LIMIT_NAMES.read(given.accept_limits)
    except ValueError as error:
        raise click.BadParameter(
            about(given.accept_limits, error), param_hint="--accept-limits"
        ) from error
    if given.kinds and not given.charts:
        raise click.UsageError("--chart needs --charts FOLDER: give both")
    with without_collection(), opened(given.outdirs) as archives:
        is_page = given.form == "html" and not given.against and not given.charts
        loaded = load_results(archives.folders, numbers_only=not is_page, numbers_of_many=True)
        unread = tuple(map(archives.rename, loaded.unread))
        runs = tuple(
            replace(result, finished=accept_findings(result.finished, accepted_limits))
            for result in loaded.runs
        )
        results = replace(loaded, runs=runs, rtt_buckets=given.rtt_buckets, unread=unread)
        if given.charts:
            for file in _draw(results, given, given.charts):
                put(f"{file}\n")
        elif given.form == "html" and not given.against:
            _write_page(
                results, given.output or _default_page(given.outdirs[0], archives.folders[0])
            )
        else:
            _print_results(results, given)


def _default_page(outdir: Path, folder: Path) -> Path:
    """Returns the file for the HTML page if the user gives no --output.

    `outdir` is the path that the user named: a campaign's folder, which then gets the page, or a
    packed campaign. `folder` is where the campaign's files are, a temporary folder if it was
    packed; its page goes into the working folder.
    """
    return outdir / "report.html" if folder == outdir else Path(f"{folder.name}-report.html")


def _write_page(results: Results, page: Path) -> None:
    """Writes the HTML page, prints its path, and names runs that could not be read."""
    with naming(page):
        write_report(results, page)
    put(f"{page}\n")
    for warning in left_out(results.unread):
        tell(warning)


def _print_results(results: Results, given: ReportOptions) -> None:
    """Prints the results as a table, JSON or CSV, or their comparison with a baseline (--against).

    Then tells the user what is left out, and for a table also notes on its numbers.
    """
    if given.against:
        text = against_baseline(results, given.against, given.metric, given.form)
    elif given.form == "json":
        text = json.dumps([row.to_json() for row in results.rows], indent=1) + "\n"
    elif given.form == "csv":
        text = results_text.csv_table(results.rows, results.swept)
    else:
        text = results_text.render(results)
    put(text, given.output)
    notes = (
        results_text.notes(results)
        if given.form == "table"
        else results_text.left_out(results.unread)
    )
    for note in notes:
        tell(note)


def against_baseline(results: Results, baseline: str, metric: str, form: str) -> str:
    """Compares the results with a baseline such as 'cca=cubic', and returns the text to print.

    `metric` is the name of a metric in docs/reference/metrics.md; `form` is 'table', 'json', 'csv'
    or 'html'. Raises click.BadParameter if the results have no such baseline or metric.
    """
    key, equals, value = baseline.partition("=")
    if not equals:
        raise click.BadParameter(
            f"'{baseline}' is not KEY=VALUE, such as cca=cubic", param_hint="--against"
        )
    wanted_baseline = Baseline(key, value, metric)
    if metric not in wanted_baseline.metrics:
        raise click.BadParameter(
            f"'{metric}' is unknown: use one of {', '.join(wanted_baseline.metrics)}",
            param_hint="--metric",
        )
    try:
        comparisons = compare_with_baseline(
            wanted_baseline, ((result.outdir, result.finished) for result in results.runs)
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--against") from error
    if form == "json":
        rows = [row.to_json() | {"metric": metric, "seen": row.seen} for row in comparisons]
        return json.dumps(rows, indent=1) + "\n"
    return {"table": against_table, "csv": against_csv, "html": against_html}[form](
        wanted_baseline, comparisons
    )


def _draw(results: Results, given: ReportOptions, folder: Path) -> Iterator[Path]:
    """Draws charts of the results into the folder, and yields their files.

    If --chart names no kinds, draws all kinds, but only a limited number of charts for single
    conditions. Raises ArchiveError if no chart fits, and OSError.
    """
    if given.kinds:
        selection = choose(results, given.kinds, most=None, steps=given.colours)
    else:
        selection = choose(results, KINDS, steps=given.colours)
    if not selection.charts:
        raise ArchiveError(
            f"no chart of the kinds {', '.join(given.kinds or KINDS)} fits these results"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for chart in selection.charts:
        yield write(chart, folder, given.image)
    for sentence in selection.left_out:
        tell(sentence)


def count_runs(campaign: Campaign, skipped: int) -> tuple[Results | None, bool]:
    """Tells the user how many runs of the campaign are valid, not valid, failed or skipped.

    Returns the results of all finished runs, including those of earlier starts (None if no run is
    finished), and whether all runs are valid. `skipped` counts the runs that were not tried now.
    """
    without_result = len(missing(campaign))
    some_finished = without_result < len(campaign.runs)
    results = load_results([campaign.outdir], numbers_of_many=True) if some_finished else None
    valid = sum(result.valid for result in results.runs) if results else 0
    not_valid = len(campaign.runs) - without_result - valid
    skipped_too = f", {skipped} skipped" if skipped else ""
    noun = "run" if valid == 1 else "runs"
    tell(
        f"{valid} {noun} valid, {not_valid} not valid, {without_result - skipped} "
        f"failed{skipped_too}"
    )
    return results, valid == len(campaign.runs)


def report_outcome(campaign: Campaign, skipped: int, sentences: bool) -> int:
    """Prints the table of all runs of the campaign, writes its HTML report, and prints its path.

    Is called at the end of `ccmix run`; runs of earlier starts are included. `sentences` also
    prints the answer in sentences. Returns the exit status: 0 if all runs are valid.
    """
    results, all_valid = count_runs(campaign, skipped)
    if results:
        put(results_text.render(results))
        if sentences:
            put(_answer_text(results))
        if not_settled := settling_summary(
            [result.finished for result in results.runs if result.valid]
        ):
            tell(not_settled)
        campaign.check()  # a removed folder must not come back with the report as its only file
        with naming(campaign.outdir):
            page = write_report(results, campaign.outdir / "report.html")
        put(f"{page}\n")
    return output.GOOD if all_valid else output.BAD


def _answer_text(results: Results) -> str:
    """Returns the answer with which the HTML report begins, as plain text for the terminal.

    It says in sentences how the CCAs shared the path, and ends with a pointer to the report.
    """
    report_answer = answer(
        sharing([(result.outdir, result.finished) for result in results.runs]),
        ranges=range_sentences(results),
        paths=map(path_sentence, measured_paths(results)),
    )
    bullets = "".join(f"- {sentence}\n" for sentence in report_answer.bullets)
    return f"{report_answer.first}\n{bullets}For more, open the report:\n"
