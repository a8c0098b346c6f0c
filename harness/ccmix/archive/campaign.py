"""Reads and writes the folders of a campaign (all runs of an INI file) and of its runs.

A run's folder is <entry>/<condition>/<dst>/<NNN>, and NNN.partial until it is finished.
"""

import contextlib
import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

from ccmix.archive import codec
from ccmix.failures import located
from ccmix.files import (
    PARTIAL,
    ArchiveError,
    read_bytes,
    refuse_links,
    remove_folder,
    try_lock,
)
from ccmix.model import Facts, ImportFacts, Measurement, Run, run_files
from ccmix.model.results import (
    CampaignOrigin,
    CampaignPlan,
    Execution,
    Finding,
    FinishedRun,
    MachineKind,
    Metrics,
    Verdict,
)
from ccmix.units import format_count


@dataclass(frozen=True)
class RunFolder:
    """Represents the folder of one run, <entry>/<condition>/<dst>/<NNN> below the campaign's. While
    the run is being made, the name ends with ".partial".
    """

    path: Path
    outdir: Path | None = (
        None  # the campaign's folder, below which links are refused; None: links are not checked
    )

    @classmethod
    def of(cls, outdir: Path, run: Run) -> "RunFolder":
        """Returns the folder of a run in the campaign folder `outdir`."""
        return cls(
            _folder_of_iterations(outdir, run.entry, run.condition_name, run.dst)
            / f"{run.iteration:03d}",
            outdir,
        )

    @property
    def partial(self) -> Path:
        return self.path.with_name(self.path.name + ".partial")

    @property
    def finished(self) -> bool:
        return (self.path / run_files.SUMMARY).exists()

    def begin(self) -> Path:
        """Makes an empty partial folder for a run that begins, and removes that of an earlier
        attempt. Raises ArchiveError if the final name is taken.
        """
        self._refuse_links(self.partial.parent)
        if self.partial.is_symlink():
            self.partial.unlink()
        if self.path.is_symlink() or self.path.exists():
            raise ArchiveError(
                f"{self.path}: has no {run_files.SUMMARY}, so it is not a finished run: remove the "
                "folder, or put the file back"
            )
        if self.partial.exists():
            remove_folder(self.partial)
        self.partial.mkdir(parents=True)
        return self.partial

    def finish(self, finished: FinishedRun) -> None:
        """Writes run.json, the last file of a run, and gives the folder its final name. So a folder
        with this name is complete.
        """
        codec.write(self.partial / run_files.SUMMARY, codec.FINISHED_RUN, finished)
        self.partial.rename(self.path)

    def write_staged(self, finished: FinishedRun) -> None:
        """Writes run.json of an imported run. An import makes the whole campaign in a temporary
        folder, which files.staged() puts into its place at the end.
        """
        codec.write_staged(self.path / run_files.SUMMARY, codec.FINISHED_RUN, finished)

    def discard(self) -> None:
        """Removes the partial folder of a run that was abandoned."""
        remove_folder(self.partial)

    def put_aside(self) -> Path:
        """Renames the folder of a run whose files are damaged, so that the run can be made again.
        Returns the new name.
        """
        self._refuse_links(self.path.parent)
        names = (
            self.path.with_name(f"{self.path.name}.damaged-{number}")
            for number in itertools.count(1)
        )
        free_name = next(name for name in names if not (name.is_symlink() or name.exists()))
        self.path.rename(free_name)
        return free_name

    def read(self) -> FinishedRun:
        """Reads run.json. Raises ArchiveError if it is damaged or reached through a symbolic link,
        and FileNotFoundError if the run is not finished.
        """
        return codec.read(
            self.outdir or self.path, self.path / run_files.SUMMARY, codec.FINISHED_RUN
        )

    def read_measurement(self) -> Measurement:
        """Reads facts.json. Raises ValueError if it is damaged, ArchiveError if it is reached
        through a symbolic link, and OSError.
        """
        return codec.MEASUREMENT.decode(
            read_bytes(
                self.outdir or self.path, self.path / run_files.FACTS, codec.MEASUREMENT.most_bytes
            )
        )

    def read_as_planned(self, run: Run) -> FinishedRun:
        """Reads run.json, but takes the description of the run from the plan (`run`), because runs
        of the plan share the objects of equal paths and traffic. Raises ArchiveError and
        FileNotFoundError as read() does.
        """
        return replace(self.read(), run=run)

    def _refuse_links(self, folder: Path) -> None:
        """Raises ArchiveError if the folder is reached through a symbolic link, which could lead
        out of the campaign.
        """
        if self.outdir:
            refuse_links(self.outdir, folder)


def campaign_folder(run_folder: Path) -> Path:
    """Returns the campaign's folder, given the folder of a run or its partial folder."""
    return run_folder.parents[3]


@functools.lru_cache(maxsize=4096)
def _folder_of_iterations(outdir: Path, *names: str) -> Path:
    """Returns the folder that has a folder for each iteration of a run; `names` are its entry,
    condition and destination.
    """
    return outdir.joinpath(*map(file_name, names))


@functools.lru_cache(maxsize=4096)
def file_name(name: str) -> str:
    """Returns a readable file name for a name that users chose, such as that of an entry. Different
    names give different file names, and none leads to another folder; urllib's unquote() restores
    the name.
    """
    if not name.strip("."):
        return name.replace(".", "%2E")
    return quote(re.sub("%(?=[0-9A-Fa-f]{2})", "%25", name), safe=" =,.:+@%")


FILE = "campaign.json"


@contextlib.contextmanager
def locked_folder(outdir: Path) -> Iterator[None]:
    """Locks the folder of a campaign for the context, before anything is written into it, so that
    no other process adds runs. Makes the folder, and removes it if it is empty at the end.

    Raises ArchiveError if another process has the lock, or the folder can't be made, and
    FileNotFoundError if the working folder was removed.
    """
    Path.cwd()
    try:
        _check_utf8(outdir).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(outdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ArchiveError(f"{located(error, outdir)}; nothing was started") from error
    try:
        # another process may have removed the empty folder before this one has locked it
        if not (try_lock(descriptor) and outdir.exists() and os.fstat(descriptor).st_nlink):
            raise ArchiveError(f"{outdir}: another ccmix run is at work in it: wait until it ends")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                outdir.rmdir()
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Campaign:
    """Represents a campaign on disk: its folder, with the plan in campaign.json and a folder for
    each run.
    """

    outdir: Path
    plan: CampaignPlan

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.plan.runs

    @property
    def runs_in_file_order(self) -> tuple[Run, ...]:
        """Returns the runs in the order of the INI file if the plan has it, otherwise in the order
        in which they are made.
        """
        if not self.plan.file_order:
            return self.runs
        numbered = sorted(zip(self.plan.file_order, self.runs, strict=True), key=itemgetter(0))
        return tuple(run for _, run in numbered)

    @property
    def origin(self) -> CampaignOrigin:
        return self.plan.origin

    @property
    def ini(self) -> str:
        return self.plan.ini

    @classmethod
    def create(cls, outdir: Path, plan: CampaignPlan) -> "Campaign":
        """Makes the folder of a new campaign, with its plan. Raises ArchiveError if the folder is
        not empty, and OSError if it can't be made.
        """
        file = _check_utf8(outdir) / FILE
        if outdir.exists() and any(entry.name != FILE + PARTIAL for entry in outdir.iterdir()):
            raise ArchiveError(
                f"{outdir}: is not empty: give another folder with -o, or continue it with --resume"
            )
        outdir.mkdir(parents=True, exist_ok=True)
        codec.write_plan(file, plan)
        return cls(outdir, plan)

    @classmethod
    def load(cls, outdir: Path) -> "Campaign":
        """Reads the campaign in a folder. Raises ArchiveError if the folder holds no campaign that
        this version can read.
        """
        if outdir.exists() and not outdir.is_dir():
            raise ArchiveError(f"{outdir}: is not a folder: name the folder that ccmix run wrote")
        try:
            return cls(outdir, codec.read_plan(_check_utf8(outdir), outdir / FILE))
        except FileNotFoundError as error:
            problem = f"has no {FILE}" if outdir.exists() else "is not there"
            raise ArchiveError(
                f"{outdir}: {problem}: name the folder that ccmix run wrote"
            ) from error

    def check(self) -> None:
        """Raises ArchiveError if the campaign's folder has been removed. It is called before a run,
        so that none is written into a new folder of that name.
        """
        if not (self.outdir / FILE).exists():
            raise ArchiveError(
                f"{self.outdir}: its {FILE} was removed, so ccmix no longer writes there"
            )

    def finished(
        self,
        wanted: Callable[[Run], bool] = lambda _: True,
        unread: Callable[[Run, ArchiveError], None] | None = None,
        *,
        numbers_only: bool = False,
    ) -> Iterator[tuple[FinishedRun, Path]]:
        """Yields each finished run for which `wanted` is true, in the order of the plan, with its
        folder. Does not read the other runs.

        With `numbers_only`, the runs have only the parts that NumbersOnly keeps. Calls `unread`
        for a run.json that can't be read; without it, raises the ArchiveError.
        """
        numbers = NumbersOnly()
        for run in filter(wanted, self.runs):
            folder = RunFolder.of(self.outdir, run)
            try:
                finished = folder.read_as_planned(run)
            except FileNotFoundError:
                continue
            except ArchiveError as error:
                if unread is None:
                    raise
                unread(run, error)
            else:
                yield numbers.copy(finished) if numbers_only else finished, folder.path

    def read_all(self) -> tuple[dict[str, int], list[tuple[Run, ArchiveError]]]:
        """Reads run.json of all finished runs. Returns how many runs each version of ccmix made,
        and the runs whose run.json can't be read, each with the reason.
        """
        damaged: list[tuple[Run, ArchiveError]] = []
        finished = self.finished(unread=lambda run, error: damaged.append((run, error)))
        return Counter(self.version_of(each) for each, _ in finished), damaged

    def version_of(self, finished: FinishedRun) -> str:
        """Returns the version of ccmix that made a run. A run that does not record it has that of
        the campaign.
        """
        return finished.execution.ccmix or self.origin.ccmix or "unknown"


def runs_by_version(versions: Mapping[str, int]) -> str:
    """Returns how many runs each version has made: '58 runs by 0.3.0+g1234, 92 runs by ...'."""
    return ", ".join(f"{format_count(runs, 'run')} by {name}" for name, runs in versions.items())


def _check_utf8(outdir: Path) -> Path:
    """Returns the folder. Raises ArchiveError if its name is not valid UTF-8, because Polars could
    not read files below it.
    """
    try:
        str(outdir).encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(
            f"{os.fsencode(outdir)!r}: is not valid UTF-8: give a folder with another name"
        ) from error
    return outdir


class NumbersOnly:
    """Makes copies of a campaign's runs that need little memory: only with what tables of results
    need, and with equal parts shared between runs.
    """

    def __init__(self) -> None:
        """Begins without shared parts; each is kept when it is first seen."""
        self._facts: dict[str, Facts] = {}
        self._verdicts: dict[Verdict, Verdict] = {}
        self._executions: dict[tuple[MachineKind, str | None], Execution] = {}

    def copy(self, finished: FinishedRun) -> FinishedRun:
        """Returns a copy of the run without the parts that tables of results do not need."""
        facts = _facts_for_tables(finished.facts)
        verdict = _without_accepted_details(finished.verdict)
        machine, ccmix = finished.execution.machine, finished.execution.ccmix
        return replace(
            finished,
            execution=self._executions.setdefault(
                (machine, ccmix), Execution(machine, ccmix=ccmix)
            ),
            facts=self._facts.setdefault(repr(facts), facts),
            metrics=_metrics_without_flows(finished.metrics),
            verdict=self._verdicts.setdefault(verdict, verdict),
        )


def _facts_for_tables(facts: Facts) -> Facts:
    """Returns the facts (what was found out about the hosts and programs of a run) without those
    that tables of results do not need.
    """
    source = facts.imported
    imported = source and ImportFacts("", "", (), (), source.base_rtt_s, source.rate_bps)
    return replace(facts, commands=(), capture=None, probes={}, pscheduler=None, imported=imported)


def _without_accepted_details(verdict: Verdict) -> Verdict:
    """Returns the verdict on a run without the texts of findings that the user has accepted."""
    findings = (
        Finding(each.kind, "", accepted=True) if each.accepted else each
        for each in verdict.findings
    )
    return Verdict(verdict.status, tuple(findings), verdict.not_verified)


def _metrics_without_flows(metrics: Metrics) -> Metrics:
    """Returns the metrics of the run and its groups, without those of single flows.

    The groups are copies made by replace(): they take a third of the memory of the objects that
    Pydantic made, each of which has its own dictionary.
    """
    return replace(metrics, flows=(), groups=tuple(map(replace, metrics.groups)))
