"""`ccmix run`: makes the runs of a configuration, shows their progress, and prints their table."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options, status
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.analysis.results import Results
    from ccmix.archive import Campaign
    from ccmix.config import Entry, Overrides
    from ccmix.hosts.pool import Hosts
    from ccmix.model import Run
    from ccmix.model.results import CampaignOrigin, CampaignPlan
    from ccmix.run.executor import Executor
    from ccmix.run.hosts_machine import HostsMachine
    from ccmix.run.machines import Machine

    Report = Callable[[Campaign, int], int]


@dataclass(frozen=True)
class RunOptions:
    """Holds the options of `ccmix run`."""

    config: Path
    outdir: Path | None
    in_lab: bool
    jobs: int | None
    only: tuple[str, ...]
    named: tuple[str, ...]
    overrides: Overrides
    resume: bool
    seed: int
    executor: str | None = None
    shared: Path | None = None
    sentences: bool = False  # whether the answer's follow the table

    @property
    def folder(self) -> Path:
        """Returns the folder for the results."""
        return self.outdir or Path("results") / self.config.stem

    @property
    def at_a_time(self) -> int:
        """Returns how many runs are made at the same time on this machine."""
        return (self.jobs or len(os.sched_getaffinity(0))) if self.in_lab else 1


@click.command("run", short_help="Run the entries of an INI file, and print the table of results.")
@options.config
@options.outdir("Folder for the results")
@options.in_lab("Run in the lab: real Linux kernels in virtual time, as ordinary processes.")
@options.jobs
@options.only
@click.option("--run", "named", metavar="NAME", multiple=True,
              help="Only the run of this name in `ccmix plan`; may be given several times.")  # fmt: skip
@options.overrides
@click.option("--resume", is_flag=True, help="Continue OUTDIR: keep finished runs, and make all others.")
@options.executor
@options.shared
@options.of_order
@options.collected(RunOptions)
def run(given: RunOptions) -> None:
    """Run the entries of CONFIG, an INI file, and print the table of results.

    Without --lab, topologies are built in network namespaces of this machine, which needs root and a kernel with netem;
    whatever is changed is put back, and `ccmix restore` puts it back after a crash.

    \b
    ccmix run my-test.ini --lab                 in the lab, on all cores
    ccmix run my-test.ini --lab --resume        goes on after Ctrl-C or a crash
    ccmix run my-test.ini --lab --only mixed    one entry of several
    ccmix run my-test.ini -i eth0 -H hosts.csv  to each host of a list
    ccmix run my-test.ini --lab --executor dask://10.0.0.1:8786
    """
    sys.exit(run_campaign(given))


def run_campaign(given: RunOptions) -> int:
    """Runs the campaign, prints its table and the path of its report; returns the exit status.

    Raises what run_text raises.
    """
    from ccmix.config import read_text

    return run_text(
        given, read_text(given.config), lambda campaign, skipped: _report(campaign, skipped, given.sentences)
    )


def run_text(given: RunOptions, ini: str, report: Report) -> int:
    """Runs the campaign of an INI file's text, and lets `report` print what came of it, from the campaign and the
    number of skipped runs; returns the exit status.

    Raises ConfigError, ArchiveError, TemporaryFolderError, ToolError or GuestError before anything is started or
    written.
    """
    from ccmix.config import load, select
    from ccmix.hosts.pool import Hosts
    from ccmix.model.results import CampaignPlan
    from ccmix.plan import file_order, make_plan
    from ccmix.temporary import temporary_place
    from ccmix.tools import outdated

    temporary_place()
    loaded = load(given.config, ini, given.overrides)
    entries = select(loaded.entries, given.only, given.config)
    runs = _selected(make_plan(entries, given.seed), given)
    for notice in (*loaded.notices, *filter(None, [outdated()])):
        tell(notice)
    kernels = _lab_kernels(runs, given)
    # Others who find a host taken read this description
    with Hosts(f"ccmix run into {given.folder.resolve()}", tell=tell) as hosts, ExitStack() as held:
        executor = _executor(runs, given, hosts, kernels)
        titles = "; ".join(dict.fromkeys(filter(None, (entry.title for entry in entries))))
        unknown = {entry.name: entry.unknown for entry in entries if entry.unknown}
        plan = CampaignPlan(_origin(given, kernels), ini, tuple(runs), titles, file_order(entries, runs), unknown)
        campaign = _open(given, plan)
        held.enter_context(campaign.locked())
        return _run_all_and_report(campaign, entries, executor, given, report)


def _run_all_and_report(
    campaign: Campaign, entries: Sequence[Entry], executor: Executor, given: RunOptions, report: Report
) -> int:
    import asyncio

    from ccmix.analysis.cost import cost
    from ccmix.cli.running import run_interruptibly
    from ccmix.index.beside import sending
    from ccmix.report import plan_text
    from ccmix.run.campaign import missing, put_damaged_aside

    for sentence in put_damaged_aside(campaign):
        tell(sentence)
    left = missing(campaign)
    size = f"{len(left)} of {len(campaign.runs)} runs, {_seconds(left)} of traffic"
    tell(f"{size}, {_place(left, given)}, into {campaign.outdir}")
    if left and given.in_lab and not given.executor:
        tell(f"expected: {plan_text.cost(cost(left, given.at_a_time))}")
    try:
        with sending(campaign.outdir, _indexed(entries), tell):
            skipped = asyncio.run(run_interruptibly(campaign, left, executor))
    except (KeyboardInterrupt, asyncio.CancelledError):
        again = [*sys.argv, *(() if given.resume else ("--resume",))]
        tell(f"interrupted: finished runs are kept; to continue: {shlex.join(again)}")
        return status.INTERRUPTED
    try:
        return report(campaign, skipped)
    except KeyboardInterrupt:
        command = shlex.join([sys.argv[0], "report", str(campaign.outdir), "--format", "html"])
        tell(f"interrupted: finished runs are kept; their report: {command}")
        return status.INTERRUPTED


def _selected(runs: Sequence[Run], given: RunOptions) -> Sequence[Run]:
    """Returns the runs named by --run, or all. Raises ArchiveError if the lab can't make one, or none has the name."""
    from ccmix.archive import ArchiveError
    from ccmix.model import HostPath
    from ccmix.plan import named

    try:
        selected = named(runs, given.named)
    except KeyError as error:
        raise ArchiveError(
            f"{given.config}: no run is called '{error.args[0]}': ccmix plan {given.config} lists them"
        ) from error
    between_hosts = [run for run in selected if isinstance(run.path, HostPath)]
    if given.in_lab and between_hosts:
        raise ArchiveError(
            f"{given.config}: [{between_hosts[0].entry}] runs between hosts, not in the lab: leave --lab out, or name "
            "others by --only"
        )
    return selected


def _indexed(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Returns the names of the entries that name an Elasticsearch, by its URL."""
    by_url: dict[str, list[str]] = {}
    for entry in entries:
        if entry.index:
            by_url.setdefault(entry.index, []).append(entry.name)
    return by_url


def _seconds(left: Sequence[Run]) -> str:
    unknown, known_s = sum(run.seconds is None for run in left), sum(run.seconds or 0.0 for run in left)
    return f"{known_s:g} s" + (f" and {unknown} runs of unknown length" if unknown else "")


def _place(left: Sequence[Run], given: RunOptions) -> str:
    from ccmix.model import HostPath

    if given.executor:
        return f"in the lab, on {given.executor}"
    if given.in_lab:
        return f"in the lab, {given.at_a_time} at a time"
    places = {"between hosts" if isinstance(run.path, HostPath) else "in namespaces of this machine" for run in left}
    return " and ".join(sorted(places)) or "nothing to do"


def _lab_kernels(runs: Sequence[Run], given: RunOptions) -> dict[str, Path]:
    """Returns the kernels that the runs ask for, by name; none without the lab.

    Raises UsageError for one that is not there, or not without the lab, ToolError where there is no kernel at all.
    """
    from ccmix.cli.lab_kernels import found, refuse_without_lab

    if not given.in_lab:
        refuse_without_lab(runs)
        return {}
    return found(runs)


def _executor(runs: Sequence[Run], given: RunOptions, hosts: Hosts, kernels: Mapping[str, Path]) -> Executor:
    """Returns what makes the runs. Raises UsageError, ClusterError and what _machine() raises."""
    from ccmix.cli import cluster
    from ccmix.run.executor import LocalExecutor

    if given.executor:
        return cluster.executor(runs, given, kernels)
    return LocalExecutor(_machine(runs, given, hosts, kernels), given.at_a_time)


def _machine(runs: Sequence[Run], given: RunOptions, hosts: Hosts, kernels: Mapping[str, Path]) -> Machine:
    """Returns what measures the runs.

    Outside the lab it first puts back what a dead run has left on this machine, and takes this machine's lock if it
    emulates. Raises ConnectError if another campaign has the lock, UsageError if this machine can't emulate.
    """
    from ccmix.agent import journal
    from ccmix.cli import lacking_ccas, lacking_parameters
    from ccmix.cli.running import emulation_programs, warn_if_not_confined
    from ccmix.hosts.address import parse_host
    from ccmix.model import HostPath
    from ccmix.run.machines import EachItsOwn, LabMachine, ThisMachine
    from ccmix.tools import find_kernel

    if given.in_lab:
        lacking_ccas.refuse_in_lab(runs)
        lacking_parameters.refuse_in_lab(runs)
        warn_if_not_confined()
        return LabMachine(find_kernel(), emulation_programs(), kernels)
    emulates = any(not isinstance(run.path, HostPath) for run in runs)
    if emulates:
        _check_emulation(runs)
    for undo, reason in journal.restore():
        tell(f"left by a dead run: {undo.what}: {reason or 'restored'}")
    emulated = between_hosts = None
    if emulates:
        emulated = ThisMachine(emulation_programs())
        hosts.get(parse_host("localhost"))  # its agent has the lock
    if real := [run for run in runs if isinstance(run.path, HostPath)]:
        between_hosts = _hosts_machine(real, given, hosts)
    lacking_ccas.refuse_on_hosts(runs, lambda name: hosts.get(parse_host(name)))
    return EachItsOwn(emulated, between_hosts)


def _hosts_machine(runs: Sequence[Run], given: RunOptions, hosts: Hosts) -> HostsMachine:
    from ccmix.hosts.address import parse_host
    from ccmix.run.hosts_machine import HostsMachine
    from ccmix.run.programs import HostPrograms
    from ccmix.tools import find_iperf3, find_rtt, find_sockmon

    cca = _cca_program(runs)
    patience_s: dict[str, float] = {}  # of the hosts without which no run would be made
    for run in runs:
        path = run.host_path
        for name in [*([path.src] if run.has_shell else []), *([path.netem_at.host] if path.netem_at else [])]:
            patience_s[name] = max(patience_s.get(name, 0.0), path.connect_timeout_s)
    for name, within_s in patience_s.items():
        hosts.get(parse_host(name), within_s)
    needs_iperf3 = any(run.traffic.by_iperf3 for run in runs)
    programs = HostPrograms(find_iperf3() if needs_iperf3 else None, find_sockmon(), find_rtt(), cca)
    return HostsMachine(hosts, programs, given.folder, tell)


def _cca_program(runs: Sequence[Run]) -> Path | None:
    """Returns ccmix-cca; None if it is not installed and no run loads a CCA. Raises ToolError."""
    from ccmix.tools import ToolError, find_cca

    try:
        return find_cca()
    except ToolError:
        if any(run.host_path.cca_load for run in runs):
            raise
        return None


def _check_emulation(runs: Sequence[Run]) -> None:
    """Raises UsageError if this user, or this machine's kernel, can't build a topology of the runs."""
    from ccmix.doctor import kernel, this_machine
    from ccmix.doctor.examine import ExaminedMachine
    from ccmix.doctor.findings import Status
    from ccmix.model import Topology

    polices = any(isinstance(run.path, Topology) and run.path.policer for run in runs)
    needed = [*kernel.OF_A_TOPOLOGY, *(kernel.OF_A_POLICER if polices else ())]
    findings = [
        *this_machine.judge_namespaces(os.geteuid()),
        *kernel.judge_kernel(kernel.read_kernel(ExaminedMachine()), needed, emulated=True),
    ]
    lacks = [f"{finding.check}: {finding.seen}" for finding in findings if finding.status is Status.FAIL]
    if lacks:
        raise click.UsageError(
            f"topologies can't be built on this machine ({'; '.join(lacks)}): give --lab, or see 'ccmix doctor'"
        )


def _origin(given: RunOptions, kernels: Mapping[str, Path]) -> CampaignOrigin:
    from ccmix.lab.kernels import identify
    from ccmix.lab.userlands import identify_userland
    from ccmix.model.results import CampaignOrigin
    from ccmix.tools import find_userland
    from ccmix.version import version

    return CampaignOrigin(
        ccmix=version().name,
        python=sys.version.split()[0],
        command=tuple(sys.argv),
        seed=given.seed,
        lab=given.in_lab,
        started_s=time.time(),
        kernels=tuple(identify(name, file) for name, file in kernels.items()),
        userland_sha256=identify_userland(find_userland()).userland_sha256 if given.in_lab else None,
    )


def _open(given: RunOptions, plan: CampaignPlan) -> Campaign:
    """Creates the campaign's folder, or loads it if the campaign is resumed. Raises ArchiveError."""
    from ccmix.archive import ArchiveError, Campaign
    from ccmix.failures import located

    if given.resume and (given.folder / "campaign.json").exists():
        campaign = Campaign.load(given.folder)
        if campaign.runs != plan.runs:
            raise ArchiveError(
                f"{given.folder}: was planned from another configuration, selection or seed, so it can't be resumed "
                f"with {given.config}: give the same ones, or another folder with -o"
            )
        if campaign.origin.lab != given.in_lab:
            raise ArchiveError(f"{given.folder}: was begun {'without' if given.in_lab else 'with'} --lab: resume it so")
        now = {kernel.name: kernel for kernel in plan.origin.kernels}
        if changed := [kernel.name for kernel in campaign.origin.kernels if now[kernel.name] != kernel]:
            raise ArchiveError(
                f"{given.folder}: was begun with another kernel {changed[0]} of the lab, whose hash campaign.json has: "
                "resume it with that one, or give another folder with -o"
            )
        if campaign.origin.userland_sha256 != plan.origin.userland_sha256:
            raise ArchiveError(
                f"{given.folder}: was begun with another userland of the lab, whose hash campaign.json has: resume it "
                "with that one, or give another folder with -o"
            )
        return campaign
    if given.resume and given.folder.exists() and any(given.folder.iterdir()):
        raise ArchiveError(f"{given.folder}: has no campaign.json, so there is nothing to resume: give another folder")
    try:
        return Campaign.create(given.folder, plan)
    except OSError as error:
        raise ArchiveError(f"{located(error, given.folder)}; nothing was started") from error


def count_runs(campaign: Campaign, skipped: int) -> tuple[Results | None, bool]:
    """Says how many runs are valid; returns the results of those that finished, also of earlier starts, None without
    any, and whether all are valid.
    """
    from ccmix.analysis.results import load_results  # slow to import, and the guests do not wait for it
    from ccmix.run.campaign import missing

    without_result = len(missing(campaign))
    some = without_result < len(campaign.runs)
    results = load_results([campaign.outdir], numbers_of_many=True) if some else None
    valid = sum(result.valid for result in results.runs) if results else 0
    not_valid = len(campaign.runs) - without_result - valid
    skipped_too = f", {skipped} skipped" if skipped else ""
    runs = "run" if valid == 1 else "runs"
    tell(f"{valid} {runs} valid, {not_valid} not valid, {without_result - skipped} failed{skipped_too}")
    return results, valid == len(campaign.runs)


def _report(campaign: Campaign, skipped: int, sentences: bool) -> int:
    """Prints the table of all runs of the campaign, also of earlier starts, and last the path of the HTML report."""
    from ccmix.analysis.settling_text import summary
    from ccmix.failures import naming
    from ccmix.report import results_text
    from ccmix.report.html import write_report

    results, all_valid = count_runs(campaign, skipped)
    if results:
        put(results_text.render(results))
        if sentences:
            put(_sentences(results))
        if not_settled := summary([result.finished for result in results.runs if result.valid]):
            tell(not_settled)
        with naming(campaign.outdir):
            page = write_report(results, campaign.outdir / "report.html")
        put(f"{page}\n")
    return status.GOOD if all_valid else status.BAD


def _sentences(results: Results) -> str:
    """Returns a line for each sentence of the answer, which the report begins with."""
    from ccmix.analysis.sharing import sharing
    from ccmix.report.answer import answer
    from ccmix.report.path_section import measured_paths, sentence
    from ccmix.report.ranges_text import range_sentences

    found = answer(
        sharing([(result.outdir, result.finished) for result in results.runs]),
        ranges=range_sentences(results),
        paths=map(sentence, measured_paths(results)),
    )
    return "".join(f"{sentence}\n" for sentence in (*found.paragraph, *found.ranges))
