"""`ccmix compare`: reports what differs between two campaigns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell
from ccmix.units import parse_percent

if TYPE_CHECKING:
    from ccmix.archive.packed import OpenedArchives


class Share(click.ParamType[float]):
    """Reads '10%' as a fraction."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            share = parse_percent(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not 0 < share < 1:
            self.fail(f"'{value}' is not between 0% and 100%", param, ctx)
        return share


@click.command("compare", short_help="Say what differs between two campaigns, and by how much.")
@click.argument("outdir_a", type=options.PathType(completes=options.ARCHIVES), metavar="A")
@click.argument("outdir_b", type=options.PathType(completes=options.ARCHIVES), metavar="B")
@options.form("table", "json", "csv", "html", "markdown", "svg")
@click.option("--margin", type=Share(), default="10%", show_default=True,
              help="Means are the same if their ratio is within 1 ± this.")  # fmt: skip
@options.output()
def compare(outdir_a: Path, outdir_b: Path, form: str, margin: float, output: Path | None) -> None:
    """Compare the campaigns in two folders, condition by condition, also of a real path with an emulated one.

    First what differs between their hosts and paths; then, for each condition that both have, the numbers side by side,
    their ratio with its 95% interval, and a verdict: the same within the margin, different (by how much), or can't tell
    (how many more runs would do).

    Where the file of B names unknown keys, its conditions that differ in these alone are one range: whether each result
    of A lies in it, by how much not, and which of these keys matters most.

    \b
    ccmix compare results/geneva results/geneva-in-the-lab --margin 5%
    ccmix compare results/a results/b --format html -o compare.html
    """
    put(compared(outdir_a, outdir_b, margin, form), output)


def compared(outdir_a: Path, outdir_b: Path, margin: float, form: str) -> str:
    """Returns what is printed. Raises ArchiveError."""
    from ccmix.archive.packed import opened

    named = outdir_a, outdir_b
    with opened(named) as archives:
        return _compared(archives, named, margin, form)


def _compared(archives: OpenedArchives, named: tuple[Path, Path], margin: float, form: str) -> str:
    from ccmix.analysis.results import load_results
    from ccmix.archive import ArchiveError
    from ccmix.charts.draw import svg
    from ccmix.compare import comparison_text, html, markdown
    from ccmix.compare.chart import specifications, stacked
    from ccmix.compare.csv_table import csv_table
    from ccmix.compare.verdicts import compare
    from ccmix.report.results_text import left_out

    a, b = archives.folders
    made_by = (_version(a), _version(b))
    results = load_results([a], numbers_only=True), load_results([b], numbers_only=True)
    for side in results:
        for sentence in left_out(side.unread):
            tell(archives.rename(sentence))
    comparison = compare(*results, margin, made_by)
    for why in comparison.unread:
        tell(archives.rename(f"left out of the distributions: {why}"))
    if form == "json":
        return json.dumps({"a": str(named[0]), "b": str(named[1])} | comparison.to_json(), indent=1) + "\n"
    names = a.resolve().name, b.resolve().name
    drawings = specifications(comparison, *names) if form in ("html", "svg") else []
    match form:
        case "html":
            return html.render(comparison, *names, *map(svg, drawings))
        case "svg" if not drawings:
            raise ArchiveError(f"{named[0]} and {named[1]} have no condition in common: there is nothing to draw")
        case "svg":
            return svg(stacked(drawings))
        case "csv":
            return csv_table(comparison)
        case "markdown":
            return markdown.render(comparison)
        case _:
            return comparison_text.render(comparison)


def _version(outdir: Path) -> str:
    from ccmix.archive import Campaign

    return Campaign.load(outdir).origin.ccmix or "unknown"
