"""`ccmix report`: its options and help."""

from pathlib import Path
from typing import get_args

import click

from ccmix.charts.chart import KINDS, Image, Kind
from ccmix.cli import options


@click.command("report", short_help="Print results as a table, JSON, CSV or HTML, or draw charts.")
@click.argument("outdirs", type=options.PathType(), nargs=-1, required=True)
@options.form("table", "json", "csv", "html")
@options.output("Write to this file instead of standard output; html: [default: OUTDIR/report.html]")
@click.option("--rtt-buckets", is_flag=True, help="Pool all base RTTs below 30 ms, and all others.")
@click.option("--against", metavar="KEY=VALUE",
              help="Compare with this one, paired by block: of a swept key, or entry=NAME, or group=NAME.")  # fmt: skip
@click.option("--metric", default="goodput_bps", show_default=True, help="What --against compares (docs/metrics.md).")
@click.option("--charts", "charts_folder", type=options.PathType(file_okay=False), metavar="FOLDER",
              help="Draw the charts that fit into this folder instead, and print their files.")  # fmt: skip
@click.option("--chart", "kinds", type=click.Choice(KINDS), multiple=True,
              help="Only charts of this kind, of all conditions; may be given several times.")  # fmt: skip
@click.option("--image", type=click.Choice(get_args(Image)), default="svg", show_default=True,
              help="What --charts writes; json: Vega-Lite.")  # fmt: skip
@click.option("--colours", type=click.Choice(get_args(options.Colours)), default="auto", show_default=True,
              help="Steps of the colours in heat maps that --charts writes.")  # fmt: skip
def report(
    outdirs: tuple[Path, ...],
    form: str,
    output: Path | None,
    rtt_buckets: bool,
    against: str | None,
    metric: str,
    charts_folder: Path | None,
    kinds: tuple[Kind, ...],
    image: Image,
    colours: options.Colours,
) -> None:
    """Print the results of the campaigns in OUTDIRS: a row per entry, condition and group.

    html also has a chart for each condition, and writes them as SVG into a folder beside the file.

    \b
    ccmix report results/a                               a table
    ccmix report results/a --format html                 results/a/report.html
    ccmix report results/a --against cca=cubic           who differs from CUBIC?
    ccmix report results/a --charts figures --image png  charts as files
    """
    from ccmix.cli import report as work  # noqa: PLC0415

    work.report(
        work.Options(
            outdirs, form, output, rtt_buckets, against, metric, charts_folder, kinds, image, colours,
        )
    )  # fmt: skip
