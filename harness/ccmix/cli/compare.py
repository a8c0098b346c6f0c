"""`ccmix compare` compares two campaigns; `ccmix twin` describes a measured path for emulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ccmix.analysis.results import load_results
from ccmix.archive import ArchiveError
from ccmix.archive.packed import OpenedArchives, opened
from ccmix.charts.draw import svg
from ccmix.cli import options
from ccmix.cli.output import put, tell
from ccmix.compare import verdicts
from ccmix.compare.charts import specifications, stacked
from ccmix.compare.formats import csv_table, html_page, markdown, terminal
from ccmix.report.results_text import left_out
from ccmix.twin.estimate import estimates_table
from ccmix.twin.ini import ini
from ccmix.twin.twin import twin_of
from ccmix.units import parse_percent


class Share(click.ParamType[float]):
    """Makes click read an option such as '10%' as a fraction between 0 and 1, here 0.1."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the fraction that a text such as '10%' means. A float is a fraction already,
        because click also passes values that were converted before.
        """
        if isinstance(value, float):
            return value
        try:
            share = parse_percent(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not 0 < share < 1:
            self.fail(f"'{value}' is not between 0% and 100%", param, ctx)
        return share


@click.command("compare")
@click.argument("outdir_a", type=options.PathType(completes=options.ARCHIVES), metavar="A")
@click.argument("outdir_b", type=options.PathType(completes=options.ARCHIVES), metavar="B")
@options.form("table", "json", "csv", "html", "markdown", "svg")
@click.option(
    "--margin",
    type=Share(),
    default="10%",
    show_default=True,
    help="Means count as the same if their ratio is within 1 ± this margin.",
)
@options.output()
def compare(outdir_a: Path, outdir_b: Path, form: str, margin: float, output: Path | None) -> None:
    """Compare the campaigns in two folders, condition by condition. One of them may be of a real
    path and the other of an emulated one.

    The output begins with the differences between their hosts and paths. For each condition that
    both have, it then shows the numbers side by side, their ratio with its 95% interval, and a
    verdict: the same within the margin, different (by how much), or can't tell (how many more runs
    would be enough).

    If the INI file of B names unknown keys, its conditions that differ only in these keys form one
    range. The output then says whether each result of A lies in that range, how far outside it
    lies, and which of the keys matters most.

    \b
    ccmix compare results/geneva results/geneva-in-the-lab --margin 5%
    ccmix compare results/a results/b --format html -o compare.html
    """
    put(compared(outdir_a, outdir_b, margin, form), output)


def compared(outdir_a: Path, outdir_b: Path, margin: float, form: str) -> str:
    """Compares the campaigns in two folders or packed files, and returns the text to print.

    `margin` is the fraction by which two means may differ and still count as the same; `form` is a
    value of --format. Raises ArchiveError.
    """
    named_paths = outdir_a, outdir_b
    with opened(named_paths) as archives:
        return _compare_opened(archives, named_paths, margin, form)


def _compare_opened(
    archives: OpenedArchives, named: tuple[Path, Path], margin: float, form: str
) -> str:
    """Compares two opened campaigns, and returns the text in the given form.

    `archives` has the folders of the campaigns (temporary folders for packed files), and `named`
    the paths that the user wrote. Tells the user which runs are left out because they can't be
    read.
    """
    folder_a, folder_b = archives.folders
    results = (
        load_results([folder_a], numbers_only=True),
        load_results([folder_b], numbers_only=True),
    )
    for side in results:
        for sentence in left_out(side.unread):
            tell(archives.rename(sentence))
    comparison = verdicts.compare(*results, margin)
    for why in comparison.unread:
        tell(archives.rename(f"left out of the distributions: {why}"))
    if form == "json":
        return (
            json.dumps(
                {"a": str(named[0]), "b": str(named[1])} | comparison.to_json(),
                indent=1,
            )
            + "\n"
        )
    campaign_names = folder_a.resolve().name, folder_b.resolve().name
    drawings = specifications(comparison, *campaign_names) if form in ("html", "svg") else []
    match form:
        case "html":
            return html_page(comparison, *campaign_names, *map(svg, drawings))
        case "svg" if not drawings:
            raise ArchiveError(
                f"{named[0]} and {named[1]}: nothing to draw: they have no condition in common"
            )
        case "svg":
            return svg(stacked(drawings))
        case "csv":
            return csv_table(comparison)
        case "markdown":
            return markdown(comparison)
        case _:
            return terminal(comparison)


@click.command("twin")
@options.outdirs(required=True)
@options.form("table", "json")
@click.option(
    "-o",
    "--output",
    type=options.PathType(dir_okay=False),
    metavar="TWIN.ini",
    help="Write an INI file with the twin as its topology and with the campaign's tests.",
)
def twin(outdirs: tuple[Path, ...], form: str, output: Path | None) -> None:
    """Estimate RTT, rate, buffer, loss and more of the paths of campaigns or of single runs. Each
    estimate has its 95% interval, or the reason why there is none.

    Runs of an entry of type path give the most estimates; other tests with iperf3 give some of
    them. A run is left out if its run.json or its series are damaged.

    \b
    ccmix twin results/geneva
    ccmix twin results/geneva -o geneva-twin.ini
    ccmix run geneva-twin.ini --lab
    """
    unread: list[str] = []
    with opened(outdirs) as archives:
        twins = twin_of(archives.folders, unread)
        for sentence in left_out(unread):
            tell(archives.rename(sentence))
    if form == "json":
        rows = [
            {
                "path": path_twin.name,
                "dst": path_twin.runs[0].run.dst,
                "estimates": [estimate.to_json() for estimate in path_twin.estimates],
            }
            for path_twin in twins
        ]
        put(json.dumps(rows, indent=1) + "\n")
    else:
        put(estimates_table(twins))
    if output:
        put(ini(twins), output)
        tell(f"{output}: run it with: ccmix run {output} --lab")
