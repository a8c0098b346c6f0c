"""Makes the runs of a campaign, several at the same time, and keeps each finished run immediately.

The code that makes tables is imported when the first run has ended, while others run, and never
before a run has begun. The executor here makes runs on this machine; the one in ccmix.cluster makes
them on a cluster.
"""

import asyncio
import contextlib
import datetime
import functools
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.archive.campaign import runs_by_version
from ccmix.failures import Failure, located
from ccmix.files import write_whole
from ccmix.generators.results import GeneratorError
from ccmix.model import HostPath, Measurement, Run, run_files
from ccmix.model.results import Execution, FinishedRun
from ccmix.run.machines import Machine, Skipped
from ccmix.run.schedule import Budget, seconds_until_open
from ccmix.version import version

T = TypeVar("T")
IMPORTING = threading.Lock()  # if two threads import modules in a circle, one may get half a module


@dataclass(frozen=True)
class Attempt:
    """Describes one try of a run, for an Executor."""

    run: Run
    started: Run  # the same run with the end that its entry's budget sets
    folder: RunFolder  # gets the finished run
    failures: tuple[str, ...]  # of earlier tries
    began: Callable[[], None]  # is called when it begins, possibly several times


class Executor(Protocol):
    """Makes runs, on this machine or on a cluster."""

    @property
    def slots(self) -> int:
        """Returns how many simultaneous attempts it accepts."""

    async def make(self, attempt: Attempt) -> FinishedRun:
        """Makes the run and finishes its folder; cancelling ends it.

        Any exception is the reason why the run has failed; Skipped says that it was not tried.
        """

    async def close(self) -> None:
        """Ends commands and contexts that were kept from run to run."""


class LocalExecutor:
    """Makes runs through a Machine, up to `slots` of them at the same time."""

    def __init__(self, machine: Machine, slots: int) -> None:
        """Prepares to make up to `slots` runs at the same time through the machine."""
        self._machine = machine
        self._slots = slots

    @property
    def slots(self) -> int:
        """Returns how many runs it makes at the same time."""
        return self._slots

    async def make(self, attempt: Attempt) -> FinishedRun:
        """Measures the run on this machine, and then makes its tables in a thread. Returns the
        content of run.json. For errors, see Executor.make().
        """
        attempt.began()
        measured = await self._machine.measure(attempt.started, attempt.folder.begin())
        execution = replace(measured.execution, retries=attempt.failures, measured_s=time.time())
        return await in_thread(
            lambda: concluded(attempt.run, attempt.folder, measured.measurement, execution)
        )

    async def close(self) -> None:
        """Ends commands and connections that were kept from run to run."""
        await self._machine.close()


async def in_thread(function: Callable[[], T]) -> T:
    """Calls a function in a thread and returns its result. If the task that awaits it is cancelled,
    it still waits until the function has ended, so that nobody removes files that the function is
    writing. Then it raises CancelledError.
    """
    called = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(called)
    except asyncio.CancelledError:
        while not called.done():
            # if cancelled once more, still wait for the end
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({called})
        raise


def concluded(
    run: Run, folder: RunFolder, measurement: Measurement, execution: Execution
) -> FinishedRun:
    """Makes the tables, the metrics and the verdict of a measured run, and gives its folder the
    final name. Any thread may call this. The code that makes tables is imported with the first
    call, because it takes long to load.
    """
    with IMPORTING:
        from ccmix.run.conclude import conclude  # noqa: PLC0415  # needs Polars: not before the first run
    return conclude(run, folder, measurement, execution)


LOOKS_AT_CLOCK_EACH_S = 30.0  # it may be set, and runs on while this machine sleeps


class Watcher(Protocol):
    """Is told about the progress of a campaign, to show it to the user."""

    def waiting(self, run: Run, why: str) -> None: ...

    def started(self, run: Run, folder: RunFolder) -> None: ...

    def ended(self, run: Run, outcome: "Outcome") -> None:
        """Is called for every run, even if it was skipped and never started."""


@dataclass(frozen=True)
class Outcome:
    """Says how a run ended. `status` is the verdict on a finished run ('valid', 'limited' or
    'unknown'), 'skipped' or 'failed'.

    `reasons` says why it is not valid; for a valid run it holds diagnostics.
    """

    status: str
    reasons: tuple[str, ...] = ()


def missing(campaign: Campaign) -> list[Run]:
    """Returns the planned runs that are still to be made, because they have no finished folder."""
    return [run for run in campaign.runs if not RunFolder.of(campaign.outdir, run).finished]


def check_finished(campaign: Campaign) -> Iterator[str]:
    """Renames the folders of runs whose run.json can't be read, so that these runs are made again.
    Yields a sentence for the user about each of these runs, and one if other versions of ccmix have
    made runs.
    """
    versions, damaged = campaign.read_all()
    for run, error in damaged:
        aside = RunFolder.of(campaign.outdir, run).put_aside()
        yield f"{error}: the run is repeated; its old folder is kept as {aside.name}"
    if set(versions) - {version().name}:
        yield (
            f"another version of ccmix made finished runs ({runs_by_version(versions)}); this is "
            f"{version().name}, and its numbers may differ"
        )


async def run_all(
    campaign: Campaign, runs: Sequence[Run], executor: Executor, watcher: Watcher
) -> None:
    """Makes the given runs of a campaign, as many at the same time as the executor accepts, and
    tells the watcher about each.

    A run that fails leaves a partial folder with its logs, and the other runs continue. If this
    task is cancelled, runs in progress are given up, and leave nothing.
    """
    work = _Work(campaign, executor, watcher)
    waiting = iter(runs)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(executor.slots, len(runs))):
                group.create_task(work.take(waiting))
    finally:
        await executor.close()


class _Work:
    """Makes the runs of a campaign, with retries, time windows, pauses and budgets of bytes, which
    entries between hosts may set.
    """

    def __init__(self, campaign: Campaign, executor: Executor, watcher: Watcher) -> None:
        """Prepares the work. If entries have a budget of bytes (`rate-budget`), counts the bytes
        that earlier runs of the campaign have sent.
        """
        self._campaign = campaign
        self._executor = executor
        self._watcher = watcher
        self._budget = Budget()
        if any(map(_has_budget, campaign.runs)):
            for finished, _ in campaign.finished(_has_budget):
                self._spend(finished)

    async def take(self, waiting: Iterator[Run]) -> None:
        """Makes runs one after the other until none is left. Several tasks take their runs from the
        same iterator `waiting`, so each run is made once.
        """
        previous: Run | None = None
        for run in waiting:
            outcome = await self._make(run, previous)
            try:
                self._watcher.ended(run, outcome)
            except BaseException as error:  # a display that fails costs no run
                if _ends_campaign(error):
                    raise
            previous = run

    async def _make(self, run: Run, previous: Run | None) -> Outcome:
        """Makes a run after the `previous` one. An error that nobody foresaw costs only this run,
        and becomes its outcome.
        """
        folder = RunFolder.of(self._campaign.outdir, run)
        try:
            if previous and previous.entry != run.entry and isinstance(previous.path, HostPath):
                # commands that continue end with their entry, and not when the next one may begin
                await self._executor.close()
            if previous and isinstance(run.path, HostPath):
                await asyncio.sleep(run.path.pause_s)
            return await self._make_with_retries(run, folder)
        except BaseException as error:
            if _ends_campaign(error):
                raise
            return Outcome("failed", (_reason(error, folder),))

    async def _make_with_retries(self, run: Run, folder: RunFolder) -> Outcome:
        """Makes a run. If it fails, it is tried again as often as its entry allows (`retries`).
        Before each try, waits for the entry's time window. If the entry's budget of bytes is used
        up, the run is skipped.
        """
        retries, pause_s = (
            (run.path.retries, run.path.pause_s) if isinstance(run.path, HostPath) else (0, 0.0)
        )
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
                return await self._make_once(
                    Attempt(run, self._capped(run), folder, tuple(failures), began)
                )
            except ArchiveError as error:
                return Outcome("failed", (*failures, str(error)))
            except Skipped as reason:
                folder.discard()
                return Outcome("skipped", (str(reason),))
            except BaseException as error:
                if _ends_campaign(error):
                    folder.discard()
                    raise
                failures.append(_reason(error, folder))
                _write_failures(folder.partial, failures, error)
                if _has_budget(run):
                    sent_bytes = await asyncio.to_thread(_bytes_sampled, folder.partial)
                    self._budget.add(run.entry, time.time(), sent_bytes)
        return Outcome("failed", tuple(failures))

    async def _wait_for_window(self, run: Run, path: HostPath) -> None:
        """Waits until the run fits into the daily time window of its entry, if it has one, and
        tells the watcher so. The clock is read every 30 s, because somebody may set it.
        """
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
        """Returns the run with a limit (`cap_bytes`): the bytes that are left in its entry's
        budget, after which the run must end. A run on an emulated path has no budget and stays the
        same.
        """
        if not isinstance(run.path, HostPath):
            return run
        return replace(
            run, path=replace(run.path, cap_bytes=self._budget.cap_bytes(run, time.time()))
        )

    async def _make_once(self, attempt: Attempt) -> Outcome:
        """Makes a run once, counts the bytes that it has sent, and returns its verdict as an
        outcome.
        """
        finished = await self._executor.make(attempt)
        self._spend(finished)
        reasons = tuple(finding.detail for finding in finished.verdict.reasons)
        return Outcome(finished.verdict.status, (*reasons, *finished.execution.diagnostics))

    def _spend(self, finished: FinishedRun) -> None:
        """Counts the bytes that a finished run has sent against the budget of its entry."""
        assert finished.ended_s is not None
        self._budget.add(
            finished.run.entry,
            finished.ended_s,
            finished.metrics.bytes_sent or 0,
            _stretched(finished),
        )


def _ends_campaign(error: BaseException) -> bool:
    """Returns whether an exception must end the campaign: Ctrl-C, or a task that is cancelled."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def _reason(error: BaseException, folder: RunFolder) -> str:
    """Returns why a run has failed, for the user."""
    match error:
        case Failure() | GeneratorError():
            return str(error)
        case OSError():
            return located(error, folder.partial)
    return f"{type(error).__name__}: {error}"


def _write_failures(folder: Path, failures: Sequence[str], error: BaseException) -> None:
    """Writes why each try of a run has failed into its folder, with a traceback of the last error
    if nobody foresaw it.
    """
    lines = [f"{failure}\n" for failure in failures]
    if not isinstance(error, Failure | GeneratorError | OSError):
        lines += traceback.format_exception(error)
    text = "".join(lines).encode(errors="backslashreplace").decode()
    with contextlib.suppress(OSError, ArchiveError):  # the disk may be full
        (folder / run_files.ERROR).parent.mkdir(exist_ok=True)
        write_whole(folder / run_files.ERROR, text, sync=False)


def _has_budget(run: Run) -> bool:
    """Returns whether the run's entry limits the bytes that it may send in a period."""
    return isinstance(run.path, HostPath) and run.path.rate_budget is not None


def _stretched(finished: FinishedRun) -> float:
    """Returns how many times longer the entry's next run may take than this one. The factor is more
    than 1 if this run ended early because its goodput no longer changed: maximum duration / its own
    duration.
    """
    traffic = finished.run.traffic
    if finished.settled_after_s is None:
        return 1.0
    return traffic.total_s / (traffic.omit_s + finished.settled_after_s)


def _bytes_sampled(folder: Path) -> int:
    """Returns how many bytes a failed run has sent, according to the probes' samples in its folder,
    because they count against the entry's budget, too.
    """
    with IMPORTING:
        from ccmix.analysis.tables import bytes_sampled  # noqa: PLC0415  # needs Polars: not before a run
    return bytes_sampled(folder)
