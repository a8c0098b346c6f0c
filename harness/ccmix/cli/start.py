"""`ccmix run`: from a configuration to a campaign on disk, its progress, and its table."""

import asyncio
import contextlib
import importlib.metadata
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from ccmix.archive import ArchiveError, Campaign
from ccmix.conditions import journal
from ccmix.config import load, select
from ccmix.model import Run
from ccmix.plan import make_plan
from ccmix.progress import ProgressWatcher
from ccmix.report import text
from ccmix.report.html import write_report
from ccmix.report.results import load_results
from ccmix.run.campaign import Outcome, missing, run_all
from ccmix.run.machines import LabMachine, Machine, ThisMachine
from ccmix.tools import find_iperf3, find_kernel

GOOD, BAD, INTERRUPTED = 0, 1, 130


@dataclass(frozen=True)
class Options:
    """The options of `ccmix run`."""

    outdir: Path
    in_lab: bool
    jobs: int | None
    only: tuple[str, ...]
    resume: bool
    seed: int


def campaign(config: Path, options: Options) -> int:
    """Runs the campaign, prints its table and the path of its report; returns the exit status.

    Raises ConfigError, ArchiveError, ToolError or GuestError before anything is started or written.
    """
    runs = make_plan(select(load(config), options.only, config), options.seed)
    iperf3 = find_iperf3()
    machine: Machine = LabMachine(find_kernel(), iperf3) if options.in_lab else _this_machine(iperf3)
    jobs = (options.jobs or len(os.sched_getaffinity(0))) if options.in_lab else 1
    kept = _open(options, config, runs)
    left = missing(kept)

    console = Console(stderr=True)
    seconds = sum(run.seconds for run in left)
    where = f"in the lab, {jobs} at a time" if options.in_lab else "in namespaces of this machine"
    console.print(f"{len(left)} of {len(runs)} runs, {seconds:g} s of traffic, {where}, into {kept.outdir}")
    try:
        outcomes = asyncio.run(_interruptible(kept, left, machine, jobs, console))
    except KeyboardInterrupt:
        resume = f"ccmix run {config} -o {kept.outdir}{' --lab' if options.in_lab else ''} --resume"
        click.echo(f"interrupted: finished runs are kept; go on with: {resume}", err=True)
        return INTERRUPTED
    return _report(kept, outcomes)


def _this_machine(iperf3: Path) -> Machine:
    """Topologies in namespaces of this machine, after what a dead run left was put back."""
    for undo, reason in journal.restore():
        click.echo(f"left by a dead run: {undo.what}: {reason or 'restored'}", err=True)
    return ThisMachine(iperf3)


def _open(options: Options, config: Path, runs: Sequence[Run]) -> Campaign:
    ini = config.read_text(encoding="utf-8-sig")
    if options.resume and (options.outdir / "campaign.json").exists():
        kept = Campaign.load(options.outdir)
        if list(kept.runs) != list(runs):
            raise ArchiveError(
                f"{options.outdir}: was planned from another configuration, selection or seed, so it can't be resumed "
                f"with {config}: give the same ones, or another folder with -o"
            )
        return kept
    about = {
        "ccmix": importlib.metadata.version("ccmix"),
        "python": sys.version.split()[0],
        "command": sys.argv,
        "seed": options.seed,
        "lab": options.in_lab,
        "started_s": time.time(),
    }
    return Campaign.create(options.outdir, runs, ini, about)


async def _interruptible(
    kept: Campaign, left: Sequence[Run], machine: Machine, jobs: int, console: Console
) -> list[Outcome]:
    """Runs all with the progress display; SIGTERM is taken like Ctrl-C."""
    main = asyncio.current_task()
    assert main
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os.kill, os.getpid(), signal.SIGINT)
    watcher = ProgressWatcher(console, len(left))
    display = asyncio.create_task(watcher.display())
    try:
        return await run_all(kept, left, machine, min(jobs, len(left)), watcher)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await display


def _report(kept: Campaign, outcomes: Sequence[Outcome]) -> int:
    """The table on standard output and the path of the HTML report below it."""
    counts = {status: sum(outcome.status == status for outcome in outcomes) for status in ("valid", "failed")}
    not_valid = len(outcomes) - counts["valid"] - counts["failed"]
    click.echo(f"{counts['valid']} runs valid, {not_valid} not valid, {counts['failed']} failed", err=True)
    if any(True for _ in kept.finished()):
        results = load_results([kept.outdir])
        click.echo(text.render(results), nl=False)
        click.echo(write_report(results, kept.outdir / "report.html"))
    return GOOD if counts["valid"] == len(outcomes) else BAD
