"""`ccmix import`: makes an archive of third-party results, such as iperf3 logs and CSV tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ccmix.archive import ArchiveError
from ccmix.cli import options
from ccmix.cli.output import put, tell, without_collection
from ccmix.failures import Failure, located
from ccmix.importing import runs, sources
from ccmix.importing.experiments import join_ends, join_simultaneous_tests, without_copies
from ccmix.importing.values import LeftOut
from ccmix.importing.write import import_identity, origin_of_this_import, same_import, write
from ccmix.model.results import ImportOverrides
from ccmix.units import format_count, format_rate, parse_rate, parse_time

MOST_NAMED = 40  # lines about what is left out


@dataclass(frozen=True)
class ImportOptions:
    """Holds the options of `ccmix import`: `rtt` in seconds, `rate` in bit/s, None if not given.

    `kind` is the kind of all files (None: recognised by their content); `columns` renames the
    columns of a table; `name_pattern` says which values the files' names contain.
    """

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
    strict: bool = False
    dry_run: bool = False

    @property
    def overrides(self) -> ImportOverrides:
        """The options that set or replace values of the imported runs."""
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
    """Makes click read an option such as '88ms' or '10gbit' as a number in seconds or bit/s.

    `parse` reads the text, and raises ValueError for a wrong one.
    """

    name = "quantity"

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the number that the user wrote. Refuses zero, which no RTT and no rate can be."""
        try:
            quantity = self._parse(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not quantity:
            self.fail(f"'{value}' is zero", param, ctx)
        return quantity


@click.command("import")
@click.argument("paths", type=options.PathType(), nargs=-1, required=True)
@options.outdir("A new folder for the archive.", required=True)
@click.option(
    "--as",
    "kind",
    metavar="KIND",
    help="The kind of the files  [default: recognised by their content]",
)
@click.option(
    "--entry",
    metavar="NAME",
    help="The entry of all runs; {dst}, {src}, {streams} are replaced  [default: from the table or "
    "folder]",
)
@click.option(
    "--src",
    metavar="NAME",
    help="The sending host, if the files don't name it or if you rename it.",
)
@click.option("--dst", metavar="NAME", help="The receiving host, likewise.")
@click.option(
    "--rtt", type=Quantity(parse_time), metavar="TIME", help="Base RTT of the path, such as 88ms."
)
@click.option(
    "--rate",
    type=Quantity(parse_rate),
    metavar="RATE",
    help="Rate of the path's bottleneck, such as 10gbit.",
)
@click.option("--cca", metavar="NAME", help="The CCA of runs whose files name no CCA.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="COLUMN",
    help="A table column that is a setting, not a result; may be given several times.",
)
@click.option(
    "--columns",
    metavar="LIST",
    help="Names for a table's columns: 'THEIRS=OURS,...', or 'OURS,...' if rows have no header.",
)
@click.option(
    "--name-pattern",
    metavar="PATTERN",
    help="The fields in names of files, such as '{rate}_{rtt}_{iteration}_{cca}.json'.",
)
@click.option("--strict", is_flag=True, help="Import all or nothing: fail if anything is left out.")
@click.option("--dry-run", is_flag=True, help="List what would be imported, and write nothing.")
@options.collected(ImportOptions)
def import_(given: ImportOptions) -> None:
    """Put third-party results into an archive, for `report`, `compare` and `index`.

    PATHS are files, or folders with such files: JSON or text (-V) of iperf3, logs of ss, results of
    pScheduler and messages of its archivers, output folders of the ESnet testing harness, and CSV
    tables. Values that the files lack stay empty, and the validity of the runs is unknown. The same
    command again changes nothing.

    \b
    ccmix import bost-40g.csv -o results/bost-40g --src bost-dtn --dry-run
    ccmix import iperf3-logs/ -o results/geneva --dst geneva --rtt 88ms
    ccmix import logs/ -o results/logs --name-pattern '{rate}_{rtt}_{cca}.txt'
    """
    import_into_archive(given)


def import_into_archive(given: ImportOptions) -> None:
    """Imports the files into an archive, and turns errors into messages that name the file.

    Raises SourceError for wrong options, ArchiveError before anything is written, and Failure if
    nothing can be imported.
    """
    try:
        with without_collection():
            _import(given)
    except OSError as error:
        raise ArchiveError(located(error, given.outdir)) from error


def _import(given: ImportOptions) -> None:
    """Finds the files, reads them, plans the runs of the archive, and writes it (unless --dry-run).

    Results that several files contain are imported once. Does nothing if the archive already has
    them. Raises Failure if there is no result, or if one is left out in spite of --strict.
    """
    overrides = given.overrides
    listing = sources.listing(
        given.paths, given.kind or ("table" if given.columns is not None else None)
    )
    identity = import_identity(listing, overrides)
    if not given.dry_run and same_import(given.outdir, identity):
        tell(f"{given.outdir}: already has these results: nothing to do")
        return
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        reading = progress.add_task("reading", total=len(listing.sources))
        read = sources.read(listing.sources, overrides, lambda _: progress.advance(reading))
        kept, copies = without_copies(read.runs)
        left_out = [*listing.left_out, *read.left_out, *copies]
        _name_left_out(left_out)
        if not kept:
            raise Failure("nothing to import: there is no result of a known kind")
        if given.strict and left_out:
            raise Failure(f"--strict: {format_count(len(left_out), 'thing')} left out")
        planned = runs.plan(join_simultaneous_tests(join_ends(kept, overrides)), overrides)
        _print_diagnostics(planned)
        if given.dry_run:
            progress.stop()
            _print_planned(planned)
            return
        writing_task = progress.add_task("writing", total=len(planned))
        origin = origin_of_this_import(identity)
        write(
            given.outdir,
            planned,
            overrides,
            origin,
            lambda count: progress.advance(writing_task, count),
        )
    counts = (
        f"{format_count(len(planned), 'run')} from {format_count(len(listing.sources), 'file')}"
    )
    tell(f"{counts}, into {given.outdir}")


def _name_left_out(left_out: Sequence[LeftOut]) -> None:
    """Tells the user what is left out and why, in a line for each reason and ending of names."""
    names: dict[tuple[str, str], list[str]] = {}
    for item in left_out:
        ending = PurePath(item.source.partition(":")[0]).suffix
        names.setdefault((item.why, ending), []).append(item.source)
    for (why, ending), (first, *more) in list(names.items())[:MOST_NAMED]:
        others = f" and {len(more)} more{ending and ' '}{ending}" if more else ""
        tell(f"left out: {first}{others}: {why}")
    if rest := sum(map(len, list(names.values())[MOST_NAMED:])):
        tell(f"left out: {rest} more")


def _print_diagnostics(planned: Sequence[runs.Imported]) -> None:
    """Tells the user what the importers noticed about the files; each message once for all runs."""
    for diagnostic in dict.fromkeys(
        diagnostic for run in planned for diagnostic in run.foreign.diagnostics
    ):
        tell(diagnostic)


def _print_planned(planned: list[runs.Imported]) -> None:
    """Prints a table of the runs that --dry-run would import, a line for each run."""
    table = Table(box=None)
    for heading in ("entry", "condition", "src", "dst", "run", "goodput", "kind", "source"):
        table.add_column(heading, no_wrap=True)
    for imported in planned:
        run = imported.run
        goodput = format_rate(imported.foreign.goodput_bps)
        cells = (
            run.entry,
            run.condition_name,
            run.host_path.src,
            run.dst,
            str(run.iteration),
            goodput,
        )
        table.add_row(*map(Text, (*cells, imported.foreign.kind, imported.foreign.source)))
    console = Console(color_system=None, width=10_000)
    with console.capture() as capture:
        console.print(table)
    put("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
