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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from ccmix.agent import journal
from ccmix.archive import ArchiveError, Campaign
from ccmix.cli import status
from ccmix.cli.output import put
from ccmix.config import Entry, Overrides, load, read_text, select
from ccmix.doctor import kernel, this_machine
from ccmix.doctor.examine import ThisMachine as ThisHost
from ccmix.doctor.findings import Status
from ccmix.failures import located, naming
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import Hosts
from ccmix.index.beside import sending
from ccmix.model import HostPath, Run
from ccmix.plan import make_plan, named
from ccmix.progress import ProgressWatcher
from ccmix.run import machines
from ccmix.run.campaign import missing, run_all
from ccmix.run.hosts_machine import HostsMachine
from ccmix.run.machines import EachItsOwn, LabMachine, Machine, ThisMachine
from ccmix.run.programs import Programs
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon


@dataclass(frozen=True)
class Options:
    """The options of `ccmix run`."""

    outdir: Path
    in_lab: bool
    jobs: int | None
    only: tuple[str, ...]
    named: tuple[str, ...]
    resume: bool
    seed: int
    overrides: Overrides


def campaign(config: Path, options: Options) -> int:
    """Runs the campaign, prints its table and the path of its report; returns the exit status.

    Raises ConfigError, ArchiveError, ToolError or GuestError before anything is started or written.
    """
    ini = read_text(config)
    loaded = load(config, ini, options.overrides)
    entries = select(loaded.entries, options.only, config)
    runs = _selected(make_plan(entries, options.seed), options.named, config)
    for notice in loaded.notices:
        click.echo(notice, err=True)
    between_hosts = [run for run in runs if isinstance(run.path, HostPath)]
    if options.in_lab and between_hosts:
        name = between_hosts[0].entry
        raise ArchiveError(
            f"{config}: [{name}] runs between hosts, not in the lab: leave --lab out, or name others by --only"
        )
    jobs = (options.jobs or len(os.sched_getaffinity(0))) if options.in_lab else 1
    with _hosts(options) as hosts, ExitStack() as held:
        machine = _machine(runs, options, hosts)
        kept = _open(options, config, ini, runs)
        held.enter_context(kept.locked())
        left = missing(kept)
        size = f"{len(left)} of {len(runs)} runs, {_seconds(left)} of traffic"
        click.echo(f"{size}, {_place(left, options, jobs)}, into {kept.outdir}", err=True)
        try:
            with sending(kept.outdir, _indexed(entries), lambda line: click.echo(line, err=True)):
                skipped = asyncio.run(_interruptible(kept, left, machine, jobs))
        except (KeyboardInterrupt, asyncio.CancelledError):
            again = [*sys.argv, *(() if options.resume else ("--resume",))]
            click.echo(f"interrupted: finished runs are kept; go on with: {shlex.join(again)}", err=True)
            return status.INTERRUPTED
        try:
            return _report(kept, skipped)
        except KeyboardInterrupt:
            report = shlex.join([sys.argv[0], "report", str(kept.outdir), "--format", "html"])
            click.echo(f"interrupted: finished runs are kept; their report: {report}", err=True)
            return status.INTERRUPTED


def _selected(runs: Sequence[Run], names: Sequence[str], config: Path) -> Sequence[Run]:
    """Those named by --run, or all."""
    try:
        return named(runs, names)
    except KeyError as error:
        raise ArchiveError(f"{config}: no run is called '{error.args[0]}': ccmix plan {config} lists them") from error


def _indexed(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Names of the entries that name an Elasticsearch, by its URL."""
    by_url: dict[str, list[str]] = {}
    for entry in entries:
        if entry.index:
            by_url.setdefault(entry.index, []).append(entry.name)
    return by_url


def _seconds(left: Sequence[Run]) -> str:
    unknown = sum(run.seconds == 0 for run in left)
    return f"{sum(run.seconds for run in left):g} s" + (f" and {unknown} runs of unknown length" if unknown else "")


def _place(left: Sequence[Run], options: Options, jobs: int) -> str:
    if options.in_lab:
        return f"in the lab, {jobs} at a time"
    places = {"between hosts" if isinstance(run.path, HostPath) else "in namespaces of this machine" for run in left}
    return " and ".join(sorted(places)) or "nothing to do"


def _hosts(options: Options) -> Hosts:
    """The connections of this campaign, by whose description others learn who has a host."""
    return Hosts(f"ccmix run into {options.outdir.resolve()}")


def _machine(runs: Sequence[Run], options: Options, hosts: Hosts) -> Machine:
    """Unless all is done in the lab: after what a dead run left on this machine was put back, and with the lock of this
    machine where it emulates. Raises ConnectError where another campaign has it, UsageError where it can't emulate.
    """
    emulated = between_hosts = None
    if options.in_lab:
        return LabMachine(find_kernel(), machines.Programs(find_iperf3(), find_sockmon(), find_rtt()))
    emulates = any(not isinstance(run.path, HostPath) for run in runs)
    if emulates:
        _check_emulation()
    for undo, reason in journal.restore():
        click.echo(f"left by a dead run: {undo.what}: {reason or 'restored'}", err=True)
    if emulates:
        emulated = ThisMachine(machines.Programs(find_iperf3(), find_sockmon(), find_rtt()))
        hosts.get(parse_host("localhost"))  # its agent has the lock
    if paths := [run.path for run in runs if isinstance(run.path, HostPath)]:
        for name in dict.fromkeys(
            [*(path.src for path in paths if path.has_shell), *(path.netem_at.host for path in paths if path.netem_at)]
        ):
            hosts.get(parse_host(name))  # without these no run would be made
        needed = any(not path.commands.src and not path.task for path in paths)
        programs = Programs(find_iperf3() if needed else None, find_sockmon(), find_rtt())
        between_hosts = HostsMachine(hosts, programs, options.outdir)
    return EachItsOwn(emulated, between_hosts)


def _check_emulation() -> None:
    """Raises UsageError where this user, or this machine's kernel, can't build a topology."""
    found = [
        *this_machine.judge_namespaces(os.geteuid()),
        *kernel.judge_kernel(kernel.read_kernel(ThisHost()), kernel.QDISCS, emulated=True),
    ]
    lacks = [f"{finding.check}: {finding.seen}" for finding in found if finding.status is Status.FAIL]
    if lacks:
        raise click.UsageError(
            f"topologies can't be built on this machine ({'; '.join(lacks)}): give --lab, or see 'ccmix doctor'"
        )


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
    if options.resume and options.outdir.exists() and any(options.outdir.iterdir()):
        raise ArchiveError(
            f"{options.outdir}: has no campaign.json, so there is nothing to go on with: give another folder"
        )
    try:
        return Campaign.create(options.outdir, runs, ini, about)
    except OSError as error:
        raise ArchiveError(f"{located(error, options.outdir)}; nothing was started") from error


async def _interruptible(kept: Campaign, left: Sequence[Run], machine: Machine, jobs: int) -> int:
    """Runs all with the progress display; SIGTERM and SIGHUP are taken like Ctrl-C, also where that is ignored.

    Returns how many were skipped.
    """
    main = asyncio.current_task()
    assert main
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signal_number, _cancel, main)
    watcher = ProgressWatcher(Console(stderr=True), left)
    display = asyncio.create_task(watcher.display())
    try:
        await run_all(kept, left, machine, min(jobs, len(left)), watcher)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await display
    return watcher.skipped


def _cancel(main: asyncio.Task[int]) -> None:
    click.echo("interrupted: ending what runs, and putting back what was changed ...", err=True)
    main.cancel()


def _report(kept: Campaign, skipped: int) -> int:
    """Of all runs of the campaign, also those of earlier starts: the table and, last, the path of the HTML report."""
    from ccmix.report import text  # noqa: PLC0415  # slow to import, and the guests are not to wait for it
    from ccmix.report.html import write_report  # noqa: PLC0415
    from ccmix.report.results import load_results  # noqa: PLC0415

    without_result = len(missing(kept))
    results = load_results([kept.outdir]) if without_result < len(kept.runs) else None
    valid = sum(result.valid for result in results.runs) if results else 0
    not_valid = len(kept.runs) - without_result - valid
    told = f", {skipped} skipped" if skipped else ""
    click.echo(f"{valid} runs valid, {not_valid} not valid, {without_result - skipped} failed{told}", err=True)
    if results:
        put(text.render(results))
        with naming(kept.outdir):
            page = write_report(results, kept.outdir / "report.html")
        put(f"{page}\n")
    return status.GOOD if valid == len(kept.runs) else status.BAD
