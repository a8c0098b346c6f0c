"""Runs many runs, some of them at the same time, and keeps each finished one at once.

What makes tables of them is imported when the first has ended: beside the others, and not before any has begun.
"""

import asyncio
import contextlib
import datetime
import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.archive.replacing import write_whole
from ccmix.failures import located
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.lab import GuestError
from ccmix.model import HostPath, Run, run_files
from ccmix.model.results import FinishedRun
from ccmix.run.executor import IMPORTING, Attempt, Executor
from ccmix.run.indexing import IndexKeeper
from ccmix.run.limits import Budget, seconds_until_open
from ccmix.run.machines import Skipped

LOOKS_AT_CLOCK_EACH_S = 30.0  # which may be set, and goes on where this machine sleeps


class Watcher(Protocol):
    """Gets reports on how a campaign goes."""

    def waiting(self, run: Run, why: str) -> None: ...

    def started(self, run: Run, folder: RunFolder) -> None: ...

    def ended(self, run: Run, outcome: "Outcome") -> None:
        """Is called of every run, also of one that was skipped and never started."""


@dataclass(frozen=True)
class Outcome:
    """Describes how one run ended: 'valid', 'limited', 'unknown', 'skipped' or 'failed'.

    `reasons` says why it is not valid, and holds diagnostics if it is.
    """

    status: str
    reasons: tuple[str, ...] = ()


def missing(campaign: Campaign) -> list[Run]:
    """Returns the runs of the plan that have no finished folder yet."""
    return [run for run in campaign.runs if not RunFolder.of(campaign.outdir, run).finished]


def put_damaged_aside(campaign: Campaign) -> Iterator[str]:
    """Renames folders of runs whose run.json can't be read, so that these are made again; yields a sentence each."""
    for run, error in campaign.damaged():
        aside = RunFolder.of(campaign.outdir, run).put_aside()
        yield f"{error}: the run is made again; its old folder is kept as {aside.name}"


async def run_all(campaign: Campaign, runs: Sequence[Run], executor: Executor, watcher: Watcher) -> None:
    """Runs all of them, as many at a time as the executor takes.

    A failed run is reported to the watcher and leaves its partial folder with the logs; the others go on. When
    cancelled, runs in progress are abandoned and leave nothing.
    """
    keeper = IndexKeeper(campaign, len(runs))
    work = _Work(campaign, executor, watcher, keeper)
    waiting = iter(runs)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(executor.slots, len(runs))):
                group.create_task(work.take(waiting))
        await keeper.update()
    finally:
        await executor.close()


class _Work:
    def __init__(self, campaign: Campaign, executor: Executor, watcher: Watcher, keeper: IndexKeeper) -> None:
        self._campaign = campaign
        self._executor = executor
        self._watcher = watcher
        self._keeper = keeper
        self._budget = Budget()
        if any(map(_has_budget, campaign.runs)):
            for finished, _ in campaign.finished(_has_budget, numbers_only=True):
                self._spend(finished)

    async def take(self, waiting: Iterator[Run]) -> None:
        """Takes one run after the other, until none is left."""
        previous: Run | None = None
        for run in waiting:
            if previous and previous.entry != run.entry and isinstance(previous.path, HostPath):
                await self._executor.close()  # what the entry kept ends with it, and not when the next one may begin
            folder = RunFolder.of(self._campaign.outdir, run)
            if previous and isinstance(run.path, HostPath):
                await asyncio.sleep(run.path.pause_s)
            self._watcher.ended(run, await self._tries(run, folder))
            await self._keeper.ended()  # before the next one begins, whose measurement it could disturb
            previous = run

    async def _tries(self, run: Run, folder: RunFolder) -> Outcome:
        """Tries the run, and again as often as its entry allows when it fails; keeps each reason."""
        retries, pause_s = (run.path.retries, run.path.pause_s) if isinstance(run.path, HostPath) else (0, 0.0)
        failures: list[str] = []
        began = functools.cache(lambda: self._watcher.started(run, folder))
        while len(failures) <= retries:
            if failures:
                await asyncio.sleep(pause_s)
            if isinstance(run.path, HostPath):
                await self._wait_for_window(run, run.path)
                if refusal := self._budget.refusal(run, time.time()):
                    return Outcome("skipped", (*failures, refusal))
            try:
                self._campaign.check()
                return await self._once(Attempt(run, self._capped(run), folder, tuple(failures), began))
            except ArchiveError as error:
                return Outcome("failed", (*failures, str(error)))
            except Skipped as reason:
                folder.discard()
                return Outcome("skipped", (str(reason),))
            except (GuestError, GeneratorError, CommandError, OSError) as error:
                failures.append(located(error, folder.partial) if isinstance(error, OSError) else str(error))
                self._budget.add(run.entry, time.time(), await asyncio.to_thread(_bytes_sampled, folder.partial))
                with contextlib.suppress(OSError, ArchiveError):  # the disk may be what is full
                    (folder.partial / run_files.ERROR).parent.mkdir(exist_ok=True)
                    text = "".join(f"{failure}\n" for failure in failures)
                    write_whole(folder.partial / run_files.ERROR, text, sync=False)
            except asyncio.CancelledError:
                folder.discard()
                raise
        return Outcome("failed", tuple(failures))

    async def _wait_for_window(self, run: Run, path: HostPath) -> None:
        if not path.time_window:
            return
        now = datetime.datetime.now(datetime.UTC)
        reported = False
        while seconds := seconds_until_open(path.time_window, run.seconds or 0.0, now):
            if not reported:
                opens = now + datetime.timedelta(seconds=seconds)
                self._watcher.waiting(run, f"waits for its time window, until {opens:%H:%M} UTC")
            reported = True
            await asyncio.sleep(min(seconds, LOOKS_AT_CLOCK_EACH_S))
            now = datetime.datetime.now(datetime.UTC)

    def _capped(self, run: Run) -> Run:
        """Returns the run with the end that its budget sets, as it is started."""
        if not isinstance(run.path, HostPath):
            return run
        return replace(run, path=replace(run.path, cap_bytes=self._budget.cap_bytes(run, time.time())))

    async def _once(self, attempt: Attempt) -> Outcome:
        finished = await self._executor.make(attempt)
        self._spend(finished)
        reasons = tuple(finding.detail for finding in finished.verdict.reasons)
        return Outcome(finished.verdict.status, (*reasons, *finished.execution.diagnostics))

    def _spend(self, finished: FinishedRun) -> None:
        assert finished.ended_s is not None
        self._budget.add(finished.run.entry, finished.ended_s, finished.metrics.bytes_sent or 0, _stretched(finished))


def _has_budget(run: Run) -> bool:
    return isinstance(run.path, HostPath) and run.path.rate_budget is not None


def _stretched(finished: FinishedRun) -> float:
    """Returns how many times as long a run may be that was ended since it had settled."""
    traffic = finished.run.traffic
    if finished.settled_after_s is None:
        return 1.0
    return traffic.total_s / (traffic.omit_s + finished.settled_after_s)


def _bytes_sampled(folder: Path) -> int:
    with IMPORTING:
        from ccmix.analysis.tables import bytes_sampled  # noqa: PLC0415
    return bytes_sampled(folder)
