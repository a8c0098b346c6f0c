"""`ccmix import`: its options and help."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ccmix.cli import options
from ccmix.units import parse_rate, parse_time


class Quantity(click.ParamType[float]):
    """'88ms' or '10gbit' to an SI number."""

    name = "quantity"

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            quantity = self._parse(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not quantity:
            self.fail(f"'{value}' is nothing", param, ctx)
        return quantity


@click.command("import", short_help="Make an archive of what others measured, to be put beside.")
@click.argument("paths", type=options.PathType(), nargs=-1, required=True)
@click.option("-o", "--outdir", type=options.PathType(file_okay=False), required=True,
              help="A new folder for the archive.")  # fmt: skip
@click.option("--as", "kind", metavar="KIND", help="What the files are  [default: recognised by their content]")
@click.option("--entry", metavar="NAME",
              help="Of all runs; {dst}, {src}, {streams} are replaced  [default: of the table or folder]")  # fmt: skip
@click.option("--src", metavar="NAME", help="The sending host, where the files don't tell or to call it otherwise.")
@click.option("--dst", metavar="NAME", help="The receiving host, likewise.")
@click.option("--rtt", type=Quantity(parse_time), metavar="TIME", help="Base RTT of the path, such as 88ms.")
@click.option(
    "--rate", type=Quantity(parse_rate), metavar="RATE", help="Rate of the path's bottleneck, such as 10gbit."
)
@click.option("--cca", metavar="NAME", help="The CCA of runs for which the files tell none.")
@click.option("--setting", "settings", multiple=True, metavar="COLUMN",
              help="A column of tables that is a setting and no result; may be given several times.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what would be imported, and write nothing.")
def import_(
    paths: tuple[Path, ...],
    outdir: Path,
    kind: str | None,
    entry: str | None,
    src: str | None,
    dst: str | None,
    rtt: float | None,
    rate: float | None,
    cca: str | None,
    settings: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Put results that others measured into an archive, for report, compare and index.

    PATHS are files, or folders with such files: iperf3's JSON or text (-V), logs of ss, pScheduler's results and the
    messages of its archivers, output folders of the ESnet testing harness, tables as CSV. What a run of ccmix has and
    they have not stays empty, and the run's validity is unknown. Doing it again changes nothing.

    \b
    ccmix import bost-40g.csv -o results/bost-40g --src bost-dtn --dry-run
    ccmix import iperf3-logs/ -o results/geneva --dst geneva --rtt 88ms
    """
    from ccmix.cli import import_ as work  # noqa: PLC0415
    from ccmix.importing.found import Told  # noqa: PLC0415

    told = Told(entry, src, dst, rtt, rate, cca, settings)
    work.import_(work.Options(paths, outdir, kind, told, dry_run))
