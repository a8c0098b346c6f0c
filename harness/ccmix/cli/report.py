"""`ccmix report`: the results of campaigns as a table, data, a page or charts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ccmix.charts.chart import Image, Kind
from ccmix.cli.options import Colours
from ccmix.cli.output import put
from ccmix.failures import naming
from ccmix.report import text
from ccmix.report.results import load_results


@dataclass(frozen=True)
class Options:
    """The options of `ccmix report`."""

    outdirs: Sequence[Path]
    form: str
    output: Path | None
    rtt_buckets: bool
    against: str | None
    metric: str
    charts: Path | None
    kinds: Sequence[Kind]
    image: Image
    colours: Colours


def report(options: Options) -> None:
    """Prints what is asked for, or writes it and prints the files. Raises ArchiveError, BadParameter and OSError."""
    results = replace(load_results(options.outdirs), rtt_buckets=options.rtt_buckets)
    if options.charts:
        from ccmix.cli import charts  # noqa: PLC0415

        for file in charts.drawn(
            results, charts.Options(options.charts, options.kinds, options.image, options.colours)
        ):
            put(f"{file}\n")
        return
    if options.against:
        from ccmix.cli.against import compared  # noqa: PLC0415

        written = compared(results, options.against, options.metric, options.form)
    elif options.form == "html":
        from ccmix.report.html import write_report  # noqa: PLC0415

        page = options.output or options.outdirs[0] / "report.html"
        with naming(page):
            write_report(results, page)
        put(f"{page}\n")
        return
    elif options.form == "json":
        written = json.dumps([row.to_json() for row in results.rows], indent=1) + "\n"
    elif options.form == "csv":
        written = text.csv_table(results.rows, results.swept)
    else:
        written = text.render(results)
    put(written, options.output)
    for sentence in text.notes(results) if options.form == "table" else ():
        click.echo(sentence, err=True)
