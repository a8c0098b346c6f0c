"""`ccmix compare`: its options and help."""

from pathlib import Path
from typing import Any

import click

from ccmix.cli import options
from ccmix.cli.output import put
from ccmix.units import parse_percent


class Share(click.ParamType[float]):
    """'10%' to a fraction."""

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
@click.argument("outdir_a", type=options.PathType(), metavar="A")
@click.argument("outdir_b", type=options.PathType(), metavar="B")
@options.form("table", "json", "html", "markdown", "svg")
@click.option("--margin", type=Share(), default="10%", show_default=True,
              help="Means whose ratio is within 1 ± this are the same.")  # fmt: skip
@options.output()
def compare(outdir_a: Path, outdir_b: Path, form: str, margin: float, output: Path | None) -> None:
    """Compare the campaigns in two folders, condition by condition, also of a real path with an emulated one.

    First what differs between their hosts and paths; then, for each condition that both have, the numbers side by side,
    their ratio with its 95% interval, and a verdict: the same within the margin, different (by how much), or can't tell
    (how many more runs would do).

    \b
    ccmix compare results/geneva results/geneva-in-the-lab --margin 5%
    ccmix compare results/a results/b --format html -o compare.html
    """
    from ccmix.cli import compare as work  # noqa: PLC0415

    put(work.compared(work.Options(outdir_a, outdir_b, margin, form)), output)
