"""`ccmix archive`: packs a campaign into one file, and restores it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.archive.packed import Progress

MOST_NAMED = 5  # of what is left out


@click.group("archive", short_help="Pack a campaign into one file, and restore it.")
def archive() -> None:
    """Pack a campaign into one file, to be mailed and cited; report, compare and index read such a file as it is.

    \b
    ccmix archive pack results/geneva      results/geneva.zip
    ccmix archive unpack geneva.zip        results/geneva
    """


@archive.command("pack", short_help="Make one file of a campaign.")
@click.argument("outdir", type=options.PathType(completes=options.ARCHIVES[1:], file_okay=False))
@options.output("The file to write  [default: OUTDIR.zip]")
@click.option("--no-raw", is_flag=True,
              help="Leave out the report and raw files: logs, captures, generators' own.")  # fmt: skip
def archive_pack(outdir: Path, output: Path | None, no_raw: bool) -> None:
    """Pack the finished runs of the campaign in OUTDIR into one ZIP file, and print its name.

    The same campaign gives the same bytes, so the SHA-256 that is printed can be cited. Packing it again changes
    nothing. Unfinished runs and files that do not belong to the campaign are left out and listed.

    \b
    ccmix archive pack results/geneva
    ccmix archive pack results/geneva -o geneva-2026.zip --no-raw
    """
    import hashlib

    from ccmix.archive import packed
    from ccmix.units import format_bytes

    named = outdir.resolve() if outdir.name in ("", "..") else outdir
    file = output or Path(f"{named}{packed.SUFFIX}")
    with _progress("packing") as progress:
        packing = packed.pack(outdir, file, not no_raw, progress)
    for sentence in packing.damaged:
        tell(f"packed as it is: {sentence}: 'ccmix run --resume' makes the run again")
    _name_left_out("unfinished: 'ccmix run --resume' makes them", packing.unfinished)
    _name_left_out("no part of the campaign", packing.foreign)
    with file.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    size = format_bytes(file.stat().st_size)
    tell(f"{packing.runs} of {packing.planned} runs in {packing.files} files, {size}, SHA-256 {digest}")
    put(f"{file}\n")


@archive.command("unpack", short_help="Restore a campaign from its file.")
@click.argument("file", type=options.PathType(completes=options.ARCHIVES[:1], dir_okay=False))
@options.outdir("A new folder for the campaign.")
def archive_unpack(file: Path, outdir: Path | None) -> None:
    """Restore the folder of a packed campaign, byte for byte, and print its name.

    The report is made again. Files that ccmix does not write are left out and listed.

    \b
    ccmix archive unpack geneva.zip                results/geneva
    ccmix archive unpack geneva.zip -o /tmp/geneva
    """
    from ccmix.archive import RunFolder, packed
    from ccmix.archive.members import REPORT, is_report

    target = outdir or Path("results", packed.folder_name(file))
    left_out: list[str] = []
    with _progress("unpacking") as progress:
        campaign = packed.unpack(file, target, progress, left_out.append)
    _name_left_out("no part of the campaign", [name for name in left_out if not is_report(name)])
    finished = sum(RunFolder.of(target, run).finished for run in campaign.runs)
    tell(f"{finished} of {len(campaign.runs)} runs")
    if REPORT in left_out and finished:
        _make_report(target)
    put(f"{target}\n")


def _make_report(outdir: Path) -> None:
    from ccmix.analysis.results import load_results
    from ccmix.archive.members import REPORT
    from ccmix.failures import naming
    from ccmix.report.html import write_report

    with naming(outdir):
        write_report(load_results([outdir], numbers_of_many=True), outdir / REPORT)


@contextlib.contextmanager
def _progress(action: str) -> Iterator[Progress]:
    """Shows a bar on a terminal, which disappears in the end."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn(action), progress.BarColumn(), progress.DownloadColumn(), progress.TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(action, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _name_left_out(why: str, names: Sequence[str]) -> None:
    from ccmix.hosts.output_text import printable

    for name in names[:MOST_NAMED]:
        tell(f"left out ({why}): {printable(name)}")
    if len(names) > MOST_NAMED:
        tell(f"left out ({why}): {len(names) - MOST_NAMED} more")
