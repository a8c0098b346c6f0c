"""`ccmix run`: makes the runs of an INI file, shows their progress, and prints the results."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.agent import left_journals
from ccmix.analysis.cost import cost
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.campaign import FILE, locked_folder
from ccmix.cli import cluster, lacking, options, output
from ccmix.cli.lab import warn_if_not_confined
from ccmix.cli.output import tell
from ccmix.cli.progress import run_interruptibly
from ccmix.cli.resume import resumed
from ccmix.config import Entry, load, read_text, select
from ccmix.doctor import kernel, this_machine
from ccmix.doctor.examine import ExaminedMachine
from ccmix.doctor.report import Status
from ccmix.failures import located
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import Hosts
from ccmix.index.target import sending
from ccmix.lab.spec import identify_kernel, identify_userland
from ccmix.model import HostPath, Run, Topology
from ccmix.model.results import CampaignOrigin, CampaignPlan
from ccmix.plan import campaign_plan, make_plan, named
from ccmix.run.campaign import Executor, LocalExecutor, check_finished, missing
from ccmix.run.host_probes import HostPrograms
from ccmix.run.hosts_machine import HostsMachine
from ccmix.run.machines import EmulationPrograms, LabMachine, Machine, MachineByPath, ThisMachine
from ccmix.temporary import temporary_place
from ccmix.tools import (
    ToolError,
    find_cca,
    find_iperf3,
    find_kernel,
    find_rtt,
    find_sockmon,
    find_userland,
    outdated,
)
from ccmix.version import version

if TYPE_CHECKING:
    Report = Callable[[Campaign, int], int]


@click.command("run")
@options.config
@options.outdir("Folder for the results")
@options.in_lab("Run in the lab: real Linux kernels in virtual time, as ordinary processes.")
@options.jobs
@options.only
@click.option(
    "--run",
    "named",
    metavar="NAME",
    multiple=True,
    help="Make only the run with this name in `ccmix plan`; may be given several times.",
)
@options.overrides
@options.resume
@options.executor
@options.shared
@options.of_order
@options.collected(options.RunOptions)
def run(given: options.RunOptions) -> None:
    """Run the entries of CONFIG, an INI file, and print the table of results.

    Without --lab, topologies are built in network namespaces of this machine, which needs root and
    a kernel with netem. At its end, the run undoes all changes; after a crash, `ccmix restore`
    undoes them.

    \b
    ccmix run my-test.ini --lab                 in the lab, on all cores
    ccmix run my-test.ini --lab --resume        continue after Ctrl-C or a crash
    ccmix run my-test.ini --lab --only mixed    only one entry
    ccmix run my-test.ini -i eth0 -H hosts.csv  to each host of a list
    ccmix run my-test.ini --lab --executor dask+tls://10.0.0.1:8786
    """
    sys.exit(run_campaign(given))


def run_campaign(given: options.RunOptions) -> int:
    """Makes the runs of `ccmix run`, prints their table and the path of the report.

    Returns the exit status. Raises the same errors as run_text.
    """
    return run_text(
        given,
        read_text(given.config),
        lambda campaign, skipped: _report_outcome(campaign, skipped, given.sentences),
    )


def run_text(given: options.RunOptions, ini: str, report: Report) -> int:
    """Plans and makes the runs of an INI file, whose text is `ini`; returns the exit status.

    At the end calls `report` with the campaign and the number of skipped runs, to print the
    outcome. Hosts stay connected and the campaign's folder stays locked until then.

    Raises ConfigError, ArchiveError, TemporaryFolderError, ToolError or GuestError before anything
    is started or written.
    """
    temporary_place()  # raises TemporaryFolderError now, not during the runs
    loaded = load(given.config, ini, given.overrides)
    entries = select(loaded.entries, given.only, given.config)
    runs = _selected_runs(make_plan(entries, given.seed), given)
    for notice in (*loaded.notices, *filter(None, [outdated()])):
        tell(notice)
    kernels = _lab_kernels(runs, given)
    # Other users read this description if they find a host locked
    with (
        locked_folder(given.folder),
        Hosts(f"ccmix run into {given.folder.resolve()}", tell=tell) as hosts,
    ):
        executor = _executor(runs, given, hosts, kernels)
        plan = campaign_plan(_origin(given, kernels), ini, entries, runs)
        campaign = _create_or_resume(given, plan)
        return _run_all_and_report(campaign, entries, executor, given, report)


def _run_all_and_report(
    campaign: Campaign,
    entries: Sequence[Entry],
    executor: Executor,
    given: options.RunOptions,
    report: Report,
) -> int:
    """Makes the runs that have no result yet, and calls `report`; returns the exit status.

    Damaged results are put aside first, so that their runs are repeated. After Ctrl-C, tells the
    user the command that continues.
    """
    from ccmix.report import plan_text  # noqa: PLC0415  # Polars is slow: not before the runs

    for sentence in check_finished(campaign):
        tell(sentence)
    runs = missing(campaign)
    size = f"{len(runs)} of {len(campaign.runs)} runs, {_traffic_time(runs)} of traffic"
    tell(f"{size}, {_where_runs_are_made(runs, given)}, into {campaign.outdir}")
    if runs and given.in_lab and not given.executor:
        tell(f"expected: {plan_text.cost(cost(runs, given.at_a_time))}")
    try:
        with sending(campaign.outdir, _entries_by_index_url(entries), tell):
            skipped = asyncio.run(run_interruptibly(campaign, runs, executor))
    except (KeyboardInterrupt, asyncio.CancelledError):
        again = [*sys.argv, *(() if given.resume else ("--resume",))]
        tell(f"interrupted: finished runs are kept; to continue: {shlex.join(again)}")
        return output.INTERRUPTED
    try:
        campaign.check()
        exit_status = report(campaign, skipped)
        campaign.check()
    except ArchiveError as error:
        tell(error)
        return output.BAD
    except KeyboardInterrupt:
        command = shlex.join([sys.argv[0], "report", str(campaign.outdir), "--format", "html"])
        tell(f"interrupted: finished runs are kept; their report: {command}")
        return output.INTERRUPTED
    return exit_status


def _selected_runs(runs: Sequence[Run], given: options.RunOptions) -> Sequence[Run]:
    """Returns the runs named by --run, or all runs.

    Raises ArchiveError for an unknown name, or if --lab is given for a run between real hosts.
    """
    try:
        selected = named(runs, given.named)
    except KeyError as error:
        raise ArchiveError(
            f"{given.config}: no run is called '{error.args[0]}': 'ccmix plan {given.config}' "
            "lists all runs"
        ) from error
    between_hosts = [run for run in selected if isinstance(run.path, HostPath)]
    if given.in_lab and between_hosts:
        raise ArchiveError(
            f"{given.config}: [{between_hosts[0].entry}] runs between hosts, not in the lab: "
            "leave --lab out, or select other entries with --only"
        )
    return selected


def _entries_by_index_url(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Returns the names of the entries whose runs go to an Elasticsearch server, by its URL."""
    by_url: dict[str, list[str]] = {}
    for entry in entries:
        if entry.index:
            by_url.setdefault(entry.index, []).append(entry.name)
    return by_url


def _traffic_time(runs: Sequence[Run]) -> str:
    """Returns how long the runs send: '600 s', or '600 s and 2 runs of unknown length'."""
    unknown = sum(run.seconds is None for run in runs)
    known_s = sum(run.seconds or 0.0 for run in runs)
    return f"{known_s:g} s" + (f" and {unknown} runs of unknown length" if unknown else "")


def _where_runs_are_made(runs: Sequence[Run], given: options.RunOptions) -> str:
    """Returns a phrase for the user, such as 'in the lab, 4 at a time' or 'between hosts'."""
    if given.executor:
        return f"in the lab, on {given.executor}"
    if given.in_lab:
        return f"in the lab, {given.at_a_time} at a time"
    places = {
        "between hosts" if isinstance(run.path, HostPath) else "in namespaces of this machine"
        for run in runs
    }
    return " and ".join(sorted(places)) or "nothing to do"


def _lab_kernels(runs: Sequence[Run], given: options.RunOptions) -> dict[str, Path]:
    """Returns the files of the lab's kernels that the runs use, by name; {} outside the lab.

    Raises UsageError if a kernel is missing or needs the lab, ToolError if there is no kernel at
    all.
    """
    if not given.in_lab:
        lacking.refuse_without_lab(runs)
        return {}
    return lacking.found_kernels(runs)


def _executor(
    runs: Sequence[Run], given: options.RunOptions, hosts: Hosts, kernels: Mapping[str, Path]
) -> Executor:
    """Returns the object that makes the runs: on a Dask cluster, or on this machine.

    `kernels` are the files of the lab's kernels by name. Raises UsageError, ClusterError, and the
    same errors as _machine().
    """

    if given.executor:
        return cluster.executor(runs, given, kernels)
    return LocalExecutor(_machine(runs, given, hosts, kernels), given.at_a_time)


def _machine(
    runs: Sequence[Run], given: options.RunOptions, hosts: Hosts, kernels: Mapping[str, Path]
) -> Machine:
    """Returns the object that makes single runs: in the lab, in namespaces, or between real hosts.

    Outside the lab, first undoes changes that a killed run has left on this machine. If runs are
    emulated in network namespaces, locks this machine against other campaigns.

    Raises ConnectError if another campaign has the lock, and UsageError if this machine can't
    emulate paths, or if a host lacks a CCA.
    """

    if given.in_lab:
        lacking.refuse_in_lab(runs)
        warn_if_not_confined()
        return LabMachine(find_kernel(), EmulationPrograms.find(), kernels)
    emulates = any(not isinstance(run.path, HostPath) for run in runs)
    if emulates:
        _check_emulation(runs)
    for undo, reason in left_journals.restore():
        tell(f"left by a dead run: {undo.what}: {reason or 'restored'}")
    namespaces_machine = hosts_machine = None
    if emulates:
        namespaces_machine = ThisMachine(EmulationPrograms.find())
        hosts.get(parse_host("localhost"))  # its agent has the lock
    if host_runs := [run for run in runs if isinstance(run.path, HostPath)]:
        hosts_machine = _hosts_machine(host_runs, given, hosts)
    lacking.refuse_on_hosts(runs, lambda name: hosts.get(parse_host(name)))
    return MachineByPath(namespaces_machine, hosts_machine)


def _hosts_machine(runs: Sequence[Run], given: options.RunOptions, hosts: Hosts) -> HostsMachine:
    """Connects to the hosts without which the runs are not possible, and returns the object that
    makes the runs.

    These hosts are the sources on which ccmix has a shell, and the hosts on which netem emulates
    the path. Connecting to a host may take as long as the largest connect-timeout of its runs.
    """

    cca_program = _cca_program(runs)
    connect_within_s: dict[str, float] = {}  # by the host's name
    for run in runs:
        path = run.host_path
        needed_hosts = [path.src] if run.has_shell else []
        needed_hosts += [path.netem_at.host] if path.netem_at else []
        for name in needed_hosts:
            connect_within_s[name] = max(connect_within_s.get(name, 0.0), path.connect_timeout_s)
    for name, within_s in connect_within_s.items():
        hosts.get(parse_host(name), within_s)
    needs_iperf3 = any(run.traffic.by_iperf3 for run in runs)
    programs = HostPrograms(
        find_iperf3() if needs_iperf3 else None, find_sockmon(), find_rtt(), cca_program
    )
    return HostsMachine(hosts, programs, given.folder, tell)


def _cca_program(runs: Sequence[Run]) -> Path | None:
    """Returns the path of ccmix-cca, the program that loads CCAs on hosts.

    If it is missing, returns None if no run loads a CCA, and otherwise raises ToolError.
    """
    try:
        return find_cca()
    except ToolError:
        if any(run.host_path.cca_load for run in runs):
            raise
        return None


def _check_emulation(runs: Sequence[Run]) -> None:
    """Checks before runs in network namespaces that this machine can emulate their paths.

    Raises UsageError if the user is not root, or if the kernel lacks a queue discipline or policer.
    """
    polices = any(isinstance(run.path, Topology) and run.path.policer for run in runs)
    needed = [*kernel.OF_A_TOPOLOGY, *(kernel.OF_A_POLICER if polices else ())]
    findings = [
        *this_machine.judge_namespaces(os.geteuid()),
        *kernel.judge_kernel(kernel.read_kernel(ExaminedMachine()), needed, emulated=True),
    ]
    lacks = [
        f"{finding.check}: {finding.seen}" for finding in findings if finding.status is Status.FAIL
    ]
    if lacks:
        raise click.UsageError(
            f"topologies can't be built on this machine ({'; '.join(lacks)}): give --lab, or run "
            "'ccmix doctor'"
        )


def _origin(given: options.RunOptions, kernels: Mapping[str, Path]) -> CampaignOrigin:
    """Returns the facts that the campaign records: versions, command line, seed, kernels.

    `kernels` are the files of the lab's kernels by name.
    """
    return CampaignOrigin(
        ccmix=version().name,
        python=sys.version.split()[0],
        command=tuple(sys.argv),
        seed=given.seed,
        lab=given.in_lab,
        started_s=time.time(),
        kernels=tuple(identify_kernel(name, file) for name, file in kernels.items()),
        userland_sha256=identify_userland(find_userland()).userland_sha256
        if given.in_lab
        else None,
    )


def _create_or_resume(given: options.RunOptions, plan: CampaignPlan) -> Campaign:
    """Writes the plan into the campaign's folder, or with --resume loads the campaign that is
    there. Raises ArchiveError.
    """
    if given.resume and (given.folder / FILE).exists():
        return resumed(given.folder, plan, given.config)
    if given.resume and any(given.folder.iterdir()):
        raise ArchiveError(
            f"{given.folder}: nothing to resume, because the folder has no {FILE}: give another "
            "folder"
        )
    try:
        return Campaign.create(given.folder, plan)
    except OSError as error:
        raise ArchiveError(f"{located(error, given.folder)}; nothing was started") from error


def _report_outcome(campaign: Campaign, skipped: int, sentences: bool) -> int:
    """Prints the outcome of the campaign; imports the slow modules for it only now."""
    from ccmix.cli.report import report_outcome  # noqa: PLC0415  # Polars is slow: not before the runs

    return report_outcome(campaign, skipped, sentences)
