"""`ccmix run`: from a configuration to a campaign on disk, its progress, and its table."""

import asyncio
import contextlib
import importlib.metadata
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from ccmix.agent import journal
from ccmix.archive import ArchiveError, Campaign
from ccmix.cli import status
from ccmix.config import Overrides, load, read_text, select
from ccmix.model import Run
from ccmix.plan import make_plan
from ccmix.progress import ProgressWatcher
from ccmix.report import text
from ccmix.report.html import write_report
from ccmix.report.results import load_results
from ccmix.run.campaign import missing, run_all
from ccmix.run.machines import LabMachine, Machine, ThisMachine
from ccmix.tools import find_iperf3, find_kernel


@dataclass(frozen=True)
class Options:
    """The options of `ccmix run`."""

    outdir: Path
    in_lab: bool
    jobs: int | None
    only: tuple[str, ...]
    resume: bool
    seed: int
    overrides: Overrides


def campaign(config: Path, options: Options) -> int:
    """Runs the campaign, prints its table and the path of its report; returns the exit status.

    Raises ConfigError, ArchiveError, ToolError or GuestError before anything is started or written.
    """
    ini = read_text(config)
    loaded = load(config, ini, options.overrides)
    runs = make_plan(select(loaded.entries, options.only, config), options.seed)
    for notice in loaded.notices:
        click.echo(notice, err=True)
    iperf3 = find_iperf3()
    machine: Machine = LabMachine(find_kernel(), iperf3) if options.in_lab else _this_machine(iperf3)
    jobs = (options.jobs or len(os.sched_getaffinity(0))) if options.in_lab else 1
    kept = _open(options, config, ini, runs)
    with kept.locked():
        left = missing(kept)
        seconds = sum(run.seconds for run in left)
        where = f"in the lab, {jobs} at a time" if options.in_lab else "in namespaces of this machine"
        click.echo(f"{len(left)} of {len(runs)} runs, {seconds:g} s of traffic, {where}, into {kept.outdir}", err=True)
        try:
            asyncio.run(_interruptible(kept, left, machine, jobs))
        except (KeyboardInterrupt, asyncio.CancelledError):
            again = [*sys.argv, *(() if options.resume else ("--resume",))]
            click.echo(f"interrupted: finished runs are kept; go on with: {shlex.join(again)}", err=True)
            return status.INTERRUPTED
        return _report(kept)


def _this_machine(iperf3: Path) -> Machine:
    """Topologies in namespaces of this machine, after what a dead run left was put back."""
    for undo, reason in journal.restore():
        click.echo(f"left by a dead run: {undo.what}: {reason or 'restored'}", err=True)
    return ThisMachine(iperf3)


def _open(options: Options, config: Path, ini: str, runs: Sequence[Run]) -> Campaign:
    if options.resume and (options.outdir / "campaign.json").exists():
        kept = Campaign.load(options.outdir)
        if list(kept.runs) != list(runs):
            raise ArchiveError(
                f"{options.outdir}: was planned from another configuration, selection or seed, so it can't be resumed "
                f"with {config}: give the same ones, or another folder with -o"
            )
        if kept.about.get("lab") != options.in_lab:
            raise ArchiveError(f"{options.outdir}: was begun {'without' if options.in_lab else 'with'} --lab: so go on")
        return kept
    about = {
        "ccmix": importlib.metadata.version("ccmix"),
        "python": sys.version.split()[0],
        "command": sys.argv,
        "seed": options.seed,
        "lab": options.in_lab,
        "started_s": time.time(),
    }
    try:
        return Campaign.create(options.outdir, runs, ini, about)
    except OSError as error:
        raise ArchiveError(f"{options.outdir}: can't be written: {error.strerror}") from error


async def _interruptible(kept: Campaign, left: Sequence[Run], machine: Machine, jobs: int) -> None:
    """Runs all with the progress display; SIGTERM and SIGHUP are taken like Ctrl-C, also where that is ignored."""
    main = asyncio.current_task()
    assert main
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signal_number, main.cancel)
    watcher = ProgressWatcher(Console(stderr=True), len(left))
    display = asyncio.create_task(watcher.display())
    try:
        await run_all(kept, left, machine, min(jobs, len(left)), watcher)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await display


def _report(kept: Campaign) -> int:
    """Of all runs of the campaign, also those of earlier starts: the table and, last, the path of the HTML report."""
    failed = len(missing(kept))
    results = load_results([kept.outdir]) if failed < len(kept.runs) else None
    valid = sum(result.valid for result in results.runs) if results else 0
    not_valid = len(kept.runs) - failed - valid
    click.echo(f"{valid} runs valid, {not_valid} not valid, {failed} failed", err=True)
    if results:
        page = write_report(results, kept.outdir / "report.html")
        click.echo(f"{text.render(results)}{page}")
    return status.GOOD if valid == len(kept.runs) else status.BAD
