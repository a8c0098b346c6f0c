"""`ccmix import`: makes an archive of results that others measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ccmix.cli import options
from ccmix.cli.collection import without_collection
from ccmix.cli.output import put, tell
from ccmix.units import format_count, format_rate, parse_rate, parse_time

if TYPE_CHECKING:
    from ccmix.importing import runs
    from ccmix.model.results import ImportOverrides

MOST_NAMED = 10  # of files that are left out


@dataclass(frozen=True)
class ImportOptions:
    """Holds the options of `ccmix import`. RTT in seconds, rate in bit/s."""

    paths: tuple[Path, ...]
    outdir: Path
    kind: str | None = None
    entry: str | None = None
    src: str | None = None
    dst: str | None = None
    rtt: float | None = None
    rate: float | None = None
    cca: str | None = None
    settings: tuple[str, ...] = ()
    columns: str | None = None
    name_pattern: str | None = None
    dry_run: bool = False

    @property
    def overrides(self) -> ImportOverrides:
        from ccmix.model.results import ImportOverrides

        return ImportOverrides(
            self.entry,
            self.src,
            self.dst,
            self.rtt,
            self.rate,
            self.cca,
            self.settings,
            self.columns,
            self.name_pattern,
        )


class Quantity(click.ParamType[float]):
    """Reads '88ms' or '10gbit' as an SI number."""

    name = "quantity"

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            quantity = self._parse(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not quantity:
            self.fail(f"'{value}' is zero", param, ctx)
        return quantity


@click.command("import", short_help="Make an archive of what others measured.")
@click.argument("paths", type=options.PathType(), nargs=-1, required=True)
@options.outdir("A new folder for the archive.", required=True)
@click.option("--as", "kind", metavar="KIND", help="What the files are  [default: recognised by their content]")
@click.option("--entry", metavar="NAME",
              help="The entry of all runs; {dst}, {src}, {streams} are replaced  [default: of the table or folder]",
)  # fmt: skip
@click.option("--src", metavar="NAME", help="The sending host, if the files don't name it or to rename it.")
@click.option("--dst", metavar="NAME", help="The receiving host, likewise.")
@click.option("--rtt", type=Quantity(parse_time), metavar="TIME", help="Base RTT of the path, such as 88ms.")
@click.option(
    "--rate", type=Quantity(parse_rate), metavar="RATE", help="Rate of the path's bottleneck, such as 10gbit."
)
@click.option("--cca", metavar="NAME", help="The CCA of runs for which the files name none.")
@click.option("--setting", "settings", multiple=True, metavar="COLUMN",
              help="A column of tables that is a setting and not a result; may be given several times.")  # fmt: skip
@click.option("--columns", metavar="LIST",
              help="Other names of a table's columns: 'THEIRS=OURS,...', or 'OURS,...' of rows without a header.",
)  # fmt: skip
@click.option("--name-pattern", metavar="PATTERN",
              help="What the names of files say, such as '{rate}_{rtt}_{iteration}_{cca}.json'.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what would be imported, and write nothing.")
@options.collected(ImportOptions)
def import_(given: ImportOptions) -> None:
    """Put results that others measured into an archive, for report, compare and index.

    PATHS are files, or folders with such files: iperf3's JSON or text (-V), logs of ss, pScheduler's results and the
    messages of its archivers, output folders of the ESnet testing harness, tables as CSV. What they lack
    stays empty, and the validity of the run is unknown. The same command again changes nothing.

    \b
    ccmix import bost-40g.csv -o results/bost-40g --src bost-dtn --dry-run
    ccmix import iperf3-logs/ -o results/geneva --dst geneva --rtt 88ms
    ccmix import logs/ -o results/logs --name-pattern '{rate}_{rtt}_{cca}.txt'
    """
    import_into_archive(given)


def import_into_archive(given: ImportOptions) -> None:
    """Imports what the options say. Raises ArchiveError before anything is written."""
    from ccmix.archive import ArchiveError
    from ccmix.failures import located
    from ccmix.importing.foreign_run import SourceError
    from ccmix.importing.foreign_text import writable

    try:
        with without_collection():
            _import(given)
    except SourceError as error:
        raise SourceError(writable(str(error))) from error
    except OSError as error:
        raise ArchiveError(located(error, given.outdir)) from error


def _import(given: ImportOptions) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from ccmix.importing import runs, sources
    from ccmix.importing.pairs import paired, without_copies
    from ccmix.importing.together import together
    from ccmix.importing.write import import_identity, origin_of_this_import, same_import, write

    overrides = given.overrides
    listing = sources.listing(given.paths, given.kind or ("table" if given.columns is not None else None))
    _name_left_out(listing.left_out)
    identity = import_identity(listing, overrides)
    if not given.dry_run and same_import(given.outdir, identity):
        tell(f"{given.outdir}: has these results already: nothing to do")
        return
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        reading = progress.add_task("reading", total=len(listing.sources))
        read = sources.read(listing.sources, overrides, lambda _: progress.advance(reading))
        kept, copies = without_copies(read.runs)
        planned = runs.plan(together(paired(kept, overrides)), overrides)
        _print_diagnostics(planned)
        _name_left_out([f"{source.source}: {source.why}" for source in (*read.left_out, *copies)])
        if given.dry_run:
            progress.stop()
            _list(planned)
            return
        writing = progress.add_task("writing", total=len(planned))
        origin = origin_of_this_import(identity)
        write(given.outdir, planned, overrides, origin, lambda count: progress.advance(writing, count))
    counted = f"{format_count(len(planned), 'run')} from {format_count(len(listing.sources), 'file')}"
    tell(f"{counted}, into {given.outdir}")


def _name_left_out(reasons: Sequence[str]) -> None:
    from ccmix.importing.foreign_text import writable

    for reason in reasons[:MOST_NAMED]:
        tell(f"left out: {writable(reason)}")
    if len(reasons) > MOST_NAMED:
        tell(f"left out: {len(reasons) - MOST_NAMED} more")


def _print_diagnostics(planned: Sequence[runs.Imported]) -> None:
    """Prints each once, however many runs have it."""
    from ccmix.importing.foreign_text import writable

    for diagnostic in dict.fromkeys(diagnostic for run in planned for diagnostic in run.foreign.diagnostics):
        tell(writable(diagnostic))


def _list(planned: list[runs.Imported]) -> None:
    """Prints what would be imported, a line for each run."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ccmix.importing import runs

    table = Table(box=None)
    for heading in ("entry", "condition", "src", "dst", "run", "goodput", "kind", "source"):
        table.add_column(heading, no_wrap=True)
    for imported in planned:
        run = imported.run
        goodput = format_rate(runs.goodput_bps(imported.foreign))
        cells = (run.entry, run.condition_name, run.host_path.src, run.dst, str(run.iteration), goodput)
        table.add_row(*map(Text, (*cells, imported.foreign.kind, imported.foreign.source)))
    console = Console(color_system=None, width=10_000)
    with console.capture() as capture:
        console.print(table)
    put("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
