"""`ccmix verify`: repeats the runs of an archive that the lab made, and compares bytes."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options, status
from ccmix.cli.output import put, tell
from ccmix.units import format_few

if TYPE_CHECKING:
    from ccmix.archive import Campaign
    from ccmix.compare.differences import Difference
    from ccmix.compare.repeated import Repetition
    from ccmix.model import Run

MOST_NAMED = 4  # files of a run that differ


@dataclass(frozen=True)
class VerifyOptions:
    """Holds the options of `ccmix verify`."""

    archive: Path
    sample: int | None
    jobs: int | None
    commands: bool
    outdir: Path | None


@click.command("verify", short_help="Repeat the runs of the lab in an archive, and compare them byte by byte.")
@click.argument("archive", type=options.PathType(completes=options.ARCHIVES))
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Repeat N runs, drawn at random  [default: all]")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Runs at the same time  [default: cores]")
@click.option("--commands", is_flag=True,
              help="Start the commands that the archive's runs name, too: only if you trust their author.")  # fmt: skip
@click.option("-o", "--outdir", type=options.PathType(file_okay=False),
              help="Keep the repeated runs in this new folder  [default: they are removed]")  # fmt: skip
@options.collected(VerifyOptions)
def verify(given: VerifyOptions) -> None:
    """Repeat the runs of ARCHIVE in the lab, and say whether each gives the same bytes.

    ARCHIVE is a folder that `ccmix run --lab` wrote, or a file that `ccmix archive pack` made of it. Whoever reads
    numbers in a paper checks them so. Where bytes differ, the settings and tools that differ are listed: with the same
    version of ccmix, the same kernel and the same userland no byte should differ.

    The exit status is 0 if all repeated runs are the same, 1 if one differs.

    \b
    ccmix verify demo.zip                 every run
    ccmix verify demo.zip --sample 3      three of them, in a fraction of the time
    """
    sys.exit(_verify(given))


def _verify(given: VerifyOptions) -> int:
    """Repeats the runs and prints the outcome of each; returns the exit status.

    Raises ArchiveError, UsageError or ToolError before anything is started.
    """
    import asyncio

    from ccmix.archive.packed import opened

    with opened([given.archive]) as archives, _outdir(given) as repeated_outdir:
        original, runs = _original(archives.folders[0], given)
        try:
            repeated = _repeat(original, runs, repeated_outdir, given)
        except (KeyboardInterrupt, asyncio.CancelledError):
            return status.INTERRUPTED
        return _compare(original, repeated)


@contextlib.contextmanager
def _outdir(given: VerifyOptions) -> Iterator[Path]:
    if given.outdir:
        yield given.outdir
        return
    from ccmix.temporary import temporary_folder

    with temporary_folder() as folder:
        yield folder


def _original(outdir: Path, given: VerifyOptions) -> tuple[Campaign, Sequence[Run]]:
    """Returns the campaign and those of its runs that are repeated.

    Raises ArchiveError if the lab did not make them, if none is finished, or if they are not what the archive's own INI
    text plans, which is checked like any other; UsageError if they start commands and --commands is not given.
    """
    from ccmix.archive import ArchiveError, Campaign, RunFolder
    from ccmix.model import CommandSource, HostPath

    campaign = Campaign.load(outdir)
    if not campaign.origin.lab:
        raise ArchiveError(f"{given.archive}: was not made in the lab: only the lab gives the same bytes twice")
    names = [run.name for run in campaign.runs if RunFolder.of(outdir, run).finished]
    if not names:
        raise ArchiveError(f"{given.archive}: has no finished run to repeat")
    if given.sample and given.sample < len(names):
        names = random.SystemRandom().sample(names, given.sample)
    drawn = set(names)
    finished = [result.run for result, _ in campaign.finished(lambda run: run.name in drawn)]
    planned = _planned(campaign)
    for run in finished:
        if run != planned.get(run.name) or isinstance(run.path, HostPath):
            raise ArchiveError(
                f"{given.archive}: {run.name}: is not what the archive's INI text plans for the lab with this version "
                "of ccmix, so it can't be repeated"
            )
    lines = [source.line for run in finished for source in run.traffic.sources if isinstance(source, CommandSource)]
    if lines and not given.commands:
        raise click.UsageError(
            f"{given.archive}: its runs start commands, which can read what you can read, such as {lines[0]!r}: give "
            "--commands if you trust their author"
        )
    if any(run.topology.host_root for run in finished):
        tell("its guests had the programs of the machine that made it (host-root = on), which this one may not have")
    return campaign, finished


def _planned(campaign: Campaign) -> dict[str, Run]:
    """Returns the runs that the campaign's INI text and seed give, by their names. Raises ArchiveError if this version
    of ccmix refuses the text.
    """
    from ccmix.archive import ArchiveError
    from ccmix.archive.campaign import FILE
    from ccmix.config import ConfigError, load
    from ccmix.plan import make_plan

    seed = campaign.origin.seed
    try:
        entries = load(campaign.outdir / FILE, campaign.ini).entries
    except ConfigError as error:
        raise ArchiveError(str(error)) from error
    return {run.name: run for run in make_plan(entries, options.DEFAULT_SEED if seed is None else seed)}


def _repeat(original: Campaign, runs: Sequence[Run], outdir: Path, given: VerifyOptions) -> Campaign:
    """Makes the runs again. Raises ArchiveError, UsageError or ToolError before anything is started."""
    import asyncio

    from ccmix.archive import Campaign
    from ccmix.cli import lab_kernels, lacking_ccas, lacking_parameters
    from ccmix.cli.running import emulation_programs, run_interruptibly, warn_if_not_confined
    from ccmix.run.executor import LocalExecutor
    from ccmix.run.machines import LabMachine
    from ccmix.tools import find_kernel

    machine = LabMachine(find_kernel(), emulation_programs(), lab_kernels.found(runs))
    lacking_ccas.refuse_in_lab(runs)
    lacking_parameters.refuse_in_lab(runs)
    warn_if_not_confined()
    repeated = Campaign.create(outdir, replace(original.plan, runs=tuple(runs), file_order=()))
    jobs = given.jobs or len(os.sched_getaffinity(0))
    tell(f"repeating {len(runs)} of {len(original.runs)} runs in the lab, {jobs} at a time")
    with repeated.locked():
        asyncio.run(run_interruptibly(repeated, runs, LocalExecutor(machine, jobs)))
    return repeated


def _compare(original: Campaign, repeated: Campaign) -> int:
    """Prints a line for each run, and what differs between both sides if bytes do; returns the exit status."""
    from ccmix.archive import RunFolder
    from ccmix.compare.repeated import compare_run

    same = 0
    for run in repeated.runs:
        if not RunFolder.of(repeated.outdir, run).finished:
            put(f"{run.name}: could not be repeated\n")
            continue
        outcome = compare_run(run, original.outdir, repeated.outdir)
        same += outcome.same
        put(f"{run.name}: {_outcome(outcome)}\n")
    put(f"{same} of {len(repeated.runs)} runs gave the same bytes\n")
    if same == len(repeated.runs):
        return status.GOOD
    for difference in _environment(original, repeated):
        tell(f"differs: {difference.what}: {_values(difference.a)} there, {_values(difference.b)} here")
    return status.BAD


def _outcome(outcome: Repetition) -> str:
    if outcome.same:
        return f"the same ({outcome.compared} files)"
    return f"differs in {format_few(outcome.differing, MOST_NAMED)}"


def _environment(original: Campaign, repeated: Campaign) -> list[Difference]:
    """Returns what differs between the runs there and their repetitions: versions of tools, kernels and settings."""
    from ccmix.analysis.results import load_results
    from ccmix.archive import RunFolder
    from ccmix.compare.differences import Difference, differences
    from ccmix.compare.matching import cells, match
    from ccmix.version import version

    if not any(RunFolder.of(repeated.outdir, run).finished for run in repeated.runs):
        return []
    there, here = (load_results([each.outdir], numbers_only=True) for each in (original, repeated))
    pairs = match(cells(there.runs), cells(here.runs)).pairs
    made_by = (original.origin.ccmix or "unknown",), (version().name,)
    versions = [Difference("ccmix", *made_by)] if made_by[0] != made_by[1] else []
    return [*versions, *differences(pairs, there, here)]


def _values(values: Sequence[str]) -> str:
    return " or ".join(values) or "nothing"
