"""`ccmix archive` packs a campaign (all runs of an INI file) into one file, and unpacks it.

`ccmix verify` repeats the runs of an archive from the lab, and compares the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich import progress
from rich.console import Console

from ccmix.analysis.results import load_results
from ccmix.archive import ArchiveError, Campaign, RunFolder, packed
from ccmix.archive.campaign import FILE, locked_folder
from ccmix.archive.members import REPORT, is_report
from ccmix.archive.packed import Progress, opened
from ccmix.cli import lacking, options, output
from ccmix.cli.lab import warn_if_not_confined
from ccmix.cli.output import put, tell
from ccmix.cli.progress import run_interruptibly
from ccmix.compare.cells import cells
from ccmix.compare.differences import Difference, differences
from ccmix.compare.matching import match
from ccmix.compare.repeated import Repetition, compare_run, unequal
from ccmix.config import ConfigError, load
from ccmix.failures import naming
from ccmix.lab.limits import guests_at_a_time
from ccmix.model import CommandSource, HostPath, Run
from ccmix.model.results import CampaignPlan
from ccmix.plan import campaign_plan, make_plan
from ccmix.report.html import write_report
from ccmix.run.campaign import LocalExecutor, missing
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.temporary import temporary_folder
from ccmix.tools import find_kernel
from ccmix.units import format_bytes, format_count, format_few

MOST_LEFT_OUT = 5  # lines about files that are left out


@click.group("archive")
def archive() -> None:
    """Pack a campaign into one file, which can be mailed and cited. `report`, `compare` and `index`
    read such a file directly.

    \b
    ccmix archive pack results/geneva      results/geneva.zip
    ccmix archive unpack geneva.zip        results/geneva
    """


@archive.command("pack", short_help="Pack a campaign into one file.")
@click.argument("outdir", type=options.PathType(completes=options.ARCHIVES[1:], file_okay=False))
@options.output("The file to write  [default: OUTDIR.zip]")
@click.option(
    "--no-raw",
    is_flag=True,
    help="Leave out the report and raw files: logs, captures and output of traffic generators.",
)
def archive_pack(outdir: Path, output: Path | None, no_raw: bool) -> None:
    """Pack the finished runs of the campaign in OUTDIR into one ZIP file, and print its name.

    The same campaign always gives the same bytes, so you can cite the SHA-256 that is printed.
    Packing it again changes nothing. Unfinished runs and files that do not belong to the campaign
    are left out and listed.

    \b
    ccmix archive pack results/geneva
    ccmix archive pack results/geneva -o geneva-2026.zip --no-raw
    """
    named = outdir.resolve() if outdir.name in ("", "..") else outdir
    file = output or Path(f"{named}{packed.SUFFIX}")
    with _progress_bar("packing") as progress:
        packing = packed.pack(outdir, file, not no_raw, progress)
    for sentence in packing.damaged:
        tell(f"packed although damaged: {sentence}: 'ccmix run --resume' repeats the run")
    _name_left_out("unfinished: 'ccmix run --resume' makes them", packing.unfinished)
    _name_left_out("not part of the campaign", packing.foreign)
    with file.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    size = format_bytes(file.stat().st_size)
    tell(
        f"{packing.runs} of {packing.planned} runs in {packing.files} files, {size}, SHA-256 "
        f"{digest}"
    )
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
    target = outdir or Path("results", packed.folder_name(file))
    left_out: list[str] = []
    with _progress_bar("unpacking") as progress:
        campaign = packed.unpack(file, target, progress, left_out.append)
    _name_left_out("not part of the campaign", [name for name in left_out if not is_report(name)])
    finished = sum(RunFolder.of(target, run).finished for run in campaign.runs)
    tell(f"{finished} of {len(campaign.runs)} runs")
    if REPORT in left_out and finished:
        _write_report(target)
    put(f"{target}\n")


def _write_report(outdir: Path) -> None:
    """Writes report.html into the folder of an unpacked campaign; packed files don't contain it."""
    with naming(outdir):
        write_report(load_results([outdir], numbers_of_many=True), outdir / REPORT)


@contextlib.contextmanager
def _progress_bar(action: str) -> Iterator[Progress]:
    """Shows a progress bar while the context lasts, if standard error is a terminal.

    Yields a function that moves the bar: it gets the bytes that are done and the bytes in all.
    `action` is the label, such as 'packing'.
    """
    columns = (
        progress.TextColumn(action),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with progress.Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(action, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _name_left_out(why: str, names: Sequence[str]) -> None:
    """Tells the user which files are not packed or unpacked: a line for each of the first files,
    and then the number of the others. `why` is the reason, which all of these files share.
    """
    for name in names[:MOST_LEFT_OUT]:
        tell(f"left out ({why}): {name}")
    if len(names) > MOST_LEFT_OUT:
        tell(f"left out ({why}): {len(names) - MOST_LEFT_OUT} more")


MOST_DIFFERING = 4  # differing files that are named for a run
MOST_PROBLEMS = 20  # missing runs that are named


@dataclass(frozen=True)
class VerifyOptions:
    """Holds the options of `ccmix verify`.

    `sample` is the number of runs to repeat (None: all); `jobs` is the number of simultaneous runs
    (None: one for each core); `commands` allows runs that start commands; without `outdir`, the
    repeated runs are removed at the end.
    """

    archive: Path
    sample: int | None
    jobs: int | None
    commands: bool
    outdir: Path | None


@click.command("verify")
@click.argument("archive", type=options.PathType(completes=options.ARCHIVES))
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Repeat N runs, drawn at random  [default: all]",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Simultaneous runs  [default: number of cores]"
)
@click.option(
    "--commands",
    is_flag=True,
    help="Also start the commands that the archive's runs name: only if you trust their author.",
)
@click.option(
    "-o",
    "--outdir",
    type=options.PathType(file_okay=False),
    help="Keep the repeated runs in this new folder  [default: remove them]",
)
@options.collected(VerifyOptions)
def verify(given: VerifyOptions) -> None:
    """Repeat the runs of ARCHIVE in the lab, and say whether each gives the same bytes.

    ARCHIVE is a folder that `ccmix run --lab` wrote, or its packed file from `ccmix archive pack`.
    In this way readers of a paper can check its numbers. Files, runs and settings that differ, are
    missing or are not in the repetition are listed, and also what can't be checked. No byte should
    differ if the version of ccmix, the kernel and the userland are the same.

    The exit status is 0 if all repeated runs are the same and no planned run is missing, otherwise
    1.

    \b
    ccmix verify demo.zip                 every run
    ccmix verify demo.zip --sample 3      three runs, in a fraction of the time
    """
    sys.exit(_verify(given))


def _verify(given: VerifyOptions) -> int:
    """Repeats runs of an archive in the lab, and prints for each whether it gave the same bytes.

    Returns the exit status of `ccmix verify`. Raises ArchiveError, UsageError or ToolError before
    anything is started.
    """

    with opened([given.archive]) as archives, _folder_for_repeated_runs(given) as repeated_outdir:
        original, runs, planned = _campaign_and_runs(archives.folders[0], given)
        problems = _problems_of_plan(original, planned)
        try:
            repeated = _repeat(original, runs, repeated_outdir, given)
        except (KeyboardInterrupt, asyncio.CancelledError):
            return output.INTERRUPTED
        return _compare(original, repeated, problems)


@contextlib.contextmanager
def _folder_for_repeated_runs(given: VerifyOptions) -> Iterator[Path]:
    """Yields the folder of --outdir, or a temporary folder that is removed at the end."""
    if given.outdir:
        yield given.outdir
        return

    with temporary_folder() as folder:
        yield folder


def _campaign_and_runs(
    outdir: Path, given: VerifyOptions
) -> tuple[Campaign, Sequence[Run], CampaignPlan]:
    """Loads the archived campaign, and returns it with the finished runs that are to be repeated
    and the plan that this version of ccmix makes of the archive's INI text.

    With --sample, these are drawn at random. An archive may come from anybody, so its runs are only
    started if this version of ccmix plans the same runs from the archive's INI text.

    Raises ArchiveError if the campaign was not made in the lab, has no finished run, or has a run
    that differs from that plan, and UsageError if runs start commands without --commands.
    """
    campaign = Campaign.load(outdir)
    if not campaign.origin.lab:
        raise ArchiveError(
            f"{given.archive}: was not made in the lab, and only runs in the lab can be repeated "
            "exactly"
        )
    chosen_names = [run.name for run in campaign.runs if RunFolder.of(outdir, run).finished]
    if not chosen_names:
        raise ArchiveError(f"{given.archive}: has no finished run to repeat")
    if given.sample and given.sample < len(chosen_names):
        chosen_names = random.SystemRandom().sample(chosen_names, given.sample)
    chosen = set(chosen_names)
    finished = [result.run for result, _ in campaign.finished(lambda run: run.name in chosen)]
    planned = _plan_now(campaign)
    planned_now = {run.name: run for run in planned.runs}
    for run in finished:
        if run != planned_now.get(run.name) or isinstance(run.path, HostPath):
            raise ArchiveError(
                f"{given.archive}: {run.name}: can't be repeated: this version of ccmix plans "
                "another run from the archive's INI text"
            )
    command_lines = [
        source.line
        for run in finished
        for source in run.traffic.sources
        if isinstance(source, CommandSource)
    ]
    if command_lines and not given.commands:
        raise click.UsageError(
            f"{given.archive}: its runs start commands, which can read all files that you can "
            f"read, such as {command_lines[0]!r}: give --commands if you trust their author"
        )
    if any(run.topology.host_root for run in finished):
        tell(
            "the original guests used programs of their host (host-root = on), which may be "
            "missing or different on this machine"
        )
    return campaign, finished, planned


def _plan_now(campaign: Campaign) -> CampaignPlan:
    """Plans the archive's INI text with the campaign's seed, as `ccmix run` would do it now, but
    only the runs that the archive's plan has. Raises ArchiveError if this version of ccmix refuses
    the text.
    """
    origin, names = campaign.origin, {run.name for run in campaign.runs}
    try:
        entries = load(campaign.outdir / FILE, campaign.ini).entries
    except ConfigError as error:
        raise ArchiveError(str(error)) from error
    runs = make_plan(entries, options.DEFAULT_SEED if origin.seed is None else origin.seed)
    return campaign_plan(origin, campaign.ini, entries, [run for run in runs if run.name in names])


def _problems_of_plan(campaign: Campaign, planned: CampaignPlan) -> list[str]:
    """Returns a sentence for each part of the plan that differs from `planned`, the plan of the
    archive's INI text, and for each planned run that is missing in the archive.
    """
    differing = unequal(campaign.plan, planned)
    return [
        *(f"{FILE}: {name}: differs from its INI text" for name in differing),
        *(f"{run.name}: is missing in the archive" for run in missing(campaign)),
    ]


def _repeat(
    original: Campaign, runs: Sequence[Run], outdir: Path, given: VerifyOptions
) -> Campaign:
    """Makes the `runs` of the `original` campaign again, in the lab, as a new campaign in `outdir`.

    Returns the new campaign. Raises ArchiveError, UsageError or ToolError before anything is
    started.
    """

    machine = LabMachine(find_kernel(), EmulationPrograms.find(), lacking.found_kernels(runs))
    lacking.refuse_in_lab(runs)
    warn_if_not_confined()
    jobs = given.jobs or guests_at_a_time()
    tell(f"repeating {len(runs)} of {len(original.runs)} runs in the lab, {jobs} at a time")
    with locked_folder(outdir):
        repeated = Campaign.create(outdir, replace(original.plan, runs=tuple(runs), file_order=()))
        asyncio.run(run_interruptibly(repeated, runs, LocalExecutor(machine, jobs)))
    return repeated


def _compare(original: Campaign, repeated: Campaign, problems: Sequence[str]) -> int:
    """Prints for each repeated run whether its files have the same bytes as those of the original
    run, then the `problems` of the archive's plan, differing tools, and what was not checked.

    Returns the exit status of `ccmix verify`.
    """

    same_count = 0
    unchecked_files = 0
    for run in repeated.runs:
        if not RunFolder.of(repeated.outdir, run).finished:
            put(f"{run.name}: could not be repeated\n")
            continue
        outcome = compare_run(run, original.outdir, repeated.outdir)
        same_count += outcome.same
        unchecked_files += len(outcome.unchecked)
        put(f"{run.name}: {_outcome_text(outcome)}\n")
    for sentence in problems[:MOST_PROBLEMS]:
        put(f"{sentence}\n")
    if len(problems) > MOST_PROBLEMS:
        put(f"and {len(problems) - MOST_PROBLEMS} more runs are missing\n")
    put(f"{same_count} of {len(repeated.runs)} runs gave the same bytes\n")
    for difference in _environment_differences(original, repeated):
        tell(
            f"differs: {difference.what}: {_values_text(difference.a)} in the archive, "
            f"{_values_text(difference.b)} here"
        )
    finished = len(original.runs) - len(missing(original))
    tell(
        f"not checked: {format_count(finished - len(repeated.runs), 'run')} left out by --sample, "
        f"{format_count(unchecked_files, 'raw file')} that the archive does not have, and "
        "when, where, by whom and by which command the runs were made"
    )
    is_same = same_count == len(repeated.runs) and not problems
    return output.GOOD if is_same else output.BAD


def _outcome_text(outcome: Repetition) -> str:
    """Says how a repetition compares: 'the same (12 files)' or 'differs in run.json, ...'."""
    if outcome.same:
        return f"the same ({outcome.compared} files)"
    lists = {
        "differs in": outcome.differing,
        "lacks": outcome.missing,
        "has in addition": outcome.extra,
    }
    return ", ".join(
        f"{word} {format_few(names, MOST_DIFFERING)}" for word, names in lists.items() if names
    )


def _environment_differences(original: Campaign, repeated: Campaign) -> list[Difference]:
    """Returns the settings, kernels and tool versions that differ between the archive and now.

    These differences may explain why bytes differ. Empty if no run could be repeated.
    """

    if not any(RunFolder.of(repeated.outdir, run).finished for run in repeated.runs):
        return []
    archived, repeated_here = (
        load_results([campaign.outdir], numbers_only=True) for campaign in (original, repeated)
    )
    pairs = match(cells(archived.runs), cells(repeated_here.runs)).pairs  # of equal conditions
    return differences(pairs, archived, repeated_here)


def _values_text(values: Sequence[str]) -> str:
    """Joins the values that a setting has in the runs of one campaign, such as '6.1 or 6.12'.

    Returns 'nothing' if the campaign does not have the setting.
    """
    return " or ".join(values) or "nothing"
