"""`ccmix import`: results that others measured, into an archive."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ccmix.archive import ArchiveError
from ccmix.cli.output import put
from ccmix.failures import located
from ccmix.importing import runs, sources
from ccmix.importing.found import SourceError, Told
from ccmix.importing.pairs import paired
from ccmix.importing.text import writable
from ccmix.importing.write import same_import, write
from ccmix.units import format_rate

MOST_TOLD = 10  # of files that are left out


@dataclass(frozen=True)
class Options:
    """The options of `ccmix import`."""

    paths: tuple[Path, ...]
    outdir: Path
    kind: str | None
    told: Told
    dry_run: bool


def import_(options: Options) -> None:
    """Raises ArchiveError before anything is written."""
    try:
        _import(options)
    except SourceError as error:
        raise SourceError(writable(str(error))) from error
    except OSError as error:
        raise ArchiveError(located(error, options.outdir)) from error


def _import(options: Options) -> None:
    listing = sources.listing(options.paths, options.kind)
    _tell_left_out(listing.left_out)
    identity = _identity(listing, options)
    if not options.dry_run and same_import(options.outdir, identity):
        click.echo(f"{options.outdir}: has these results already: nothing to do", err=True)
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        reading = progress.add_task("reading", total=len(listing.sources))
        found = sources.read(listing.sources, options.told, lambda _: progress.advance(reading))
        planned = runs.plan(paired(found.found, options.told), options.told)
        _tell_notices(planned)
        if options.dry_run:
            progress.stop()
            _tell(planned)
            return
        _tell_left_out([f"{one.source}: {one.why}" for one in found.left_out])
        writing = progress.add_task("writing", total=len(planned))
        write(options.outdir, planned, options.told, identity, lambda: progress.advance(writing))
    counted = f"{_counted(len(planned), 'run')} from {_counted(len(listing.sources), 'file')}"
    click.echo(f"{counted}, into {options.outdir}", err=True)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _tell_left_out(reasons: Sequence[str]) -> None:
    for reason in reasons[:MOST_TOLD]:
        click.echo(f"left out: {writable(reason)}", err=True)
    if len(reasons) > MOST_TOLD:
        click.echo(f"left out: {len(reasons) - MOST_TOLD} more", err=True)


def _tell_notices(planned: Sequence[runs.Imported]) -> None:
    """Each once, however many runs have it."""
    for notice in dict.fromkeys(notice for one in planned for notice in one.found.notices):
        click.echo(writable(notice), err=True)


def _identity(listing: sources.Listing, options: Options) -> dict[str, Any]:
    """By which an import is known again."""
    told = {name: value for name, value in asdict(options.told).items() if value}
    return {
        "files": [{"name": source.name, "kind": source.kind, "sha256": source.digest} for source in listing.sources],
        "told": told | ({"settings": list(options.told.settings)} if options.told.settings else {}),
    }


def _tell(planned: list[runs.Imported]) -> None:
    """What would be imported, a line a run."""
    table = Table(box=None)
    for heading in ("entry", "condition", "src", "dst", "run", "goodput", "kind", "source"):
        table.add_column(heading, no_wrap=True)
    for one in planned:
        run = one.run
        goodput = format_rate(runs.goodput_bps(one.found))
        cells = (run.entry, run.condition_name, run.host_path.src, run.dst, str(run.iteration), goodput)
        table.add_row(*map(Text, (*cells, one.found.kind, one.found.source)))
    console = Console(color_system=None, width=10_000)
    with console.capture() as capture:
        console.print(table)
    put("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
