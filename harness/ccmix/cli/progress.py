"""Makes the runs of a campaign so that Ctrl-C can end them, and shows their progress.

On a terminal, bars on standard error show it live; otherwise there is a line for each run.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.cli.output import tell
from ccmix.model import Run, run_files
from ccmix.probes.stream.reader import StreamTail
from ccmix.run.campaign import Executor, Outcome, run_all
from ccmix.run.schedule import ExpectedEnd
from ccmix.text.printable import printable

MARKS = {
    "valid": "[green]valid[/]",
    "limited": "[yellow]not valid[/]",
    "unknown": "[yellow]unknown[/]",
    "skipped": "[yellow]skipped[/]",
}
COUNTED = {"failed": "failed", "skipped": "skipped", "limited": "not valid", "unknown": "unknown"}
REFRESH_S = 0.5  # the time between two movements of the bars
FINISHED = ("valid", "limited", "unknown")  # the outcomes of a run that has a result
EXPECTS_EACH_S = 5.0  # the time between two computations of the expected end
MOST_BARS = 16  # more bars don't fit on a screen
# Without a terminal, a line with the expected end is printed after each tenth of the runs
SAYS_END = 10
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class _Running:
    """Holds what the display needs of a run in progress.

    `bar` is None if only the bar of all runs is shown; `stream` reads the samples of the run's
    probe.
    """

    run: Run
    bar: TaskID | None
    stream: StreamTail
    seconds: float = 0.0  # the part of its traffic that has passed


class ProgressWatcher:
    """Is told by the campaign when runs start and end, and shows bars for them on a console.

    `runs` are all runs to make, `at_a_time` of them simultaneously. The bar of one run follows the
    samples of its probe. The bar of all runs counts the real time that each run is expected to
    take; next to it is the expected end, which each finished run corrects. With more than MOST_BARS
    simultaneous runs, it is the only bar.
    """

    def __init__(
        self, console: Console, runs: Sequence[Run], in_lab: bool, at_a_time: int = 1
    ) -> None:
        """Prepares the bars for the runs to make; `in_lab` says whether they are made in the
        lab.
        """
        self._console = console
        self._end = ExpectedEnd(runs, in_lab)
        # The text about the expected end, and the time of the clock at which it was computed
        self._end_text, self._end_at_s = "", 0.0
        self._total = len(runs)
        self._shows_each = at_a_time <= MOST_BARS
        self._ended = 0
        self._ended_s = 0.0
        self._outcomes: Counter[str] = Counter()
        self._running: dict[str, _Running] = {}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[counted]}"),
            _TimeLeftColumn(),
            TextColumn("{task.fields[end]}"),
        )
        self._progress = Progress(*columns, console=console, transient=True, refresh_per_second=2)
        total_s = sum(map(self._end.expected_s, runs))
        self._all = self._progress.add_task(
            "runs", total=total_s, counted=f"0/{self._total}", end="", left_s=0.0
        )

    @property
    def skipped(self) -> int:
        """The number of runs that were skipped so far."""
        return self._outcomes["skipped"]

    def waiting(self, run: Run, why: str) -> None:
        """Prints why a run has to wait before it starts."""
        sentence = f"{run.name}: {printable(why)}"
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def started(self, run: Run, folder: RunFolder) -> None:
        """Adds a bar for a run that starts; it follows the samples that arrive in `folder`."""
        self._end.started(run, time.monotonic())
        bar = None
        if self._shows_each:
            bar = self._progress.add_task(
                escape(run.name), total=run.seconds or None, counted="", end=""
            )
        self._running[run.name] = _Running(
            run, bar, StreamTail(folder.partial / run_files.LOGS / run_files.SOCKMON_STREAM)
        )

    def ended(self, run: Run, outcome: Outcome) -> None:
        """Removes the bar of a run that has ended, counts its outcome, and prints a line about it.

        Without a terminal, sometimes also prints when the campaign is expected to end.
        """
        running = self._running.pop(run.name, None)
        if running and running.bar is not None:
            self._progress.remove_task(running.bar)
        self._ended += 1
        self._ended_s += self._end.expected_s(run)
        self._end.ended(run, time.monotonic(), finished=outcome.status in FINISHED)
        self._outcomes[outcome.status] += 1
        problem_counts = [
            f"{self._outcomes[status]} {name}"
            for status, name in COUNTED.items()
            if self._outcomes[status]
        ]
        self._progress.update(
            self._all,
            description=f"runs{' (' + ', '.join(problem_counts) + ')' if problem_counts else ''}",
            counted=f"{self._ended}/{self._total}",
        )
        self._update_overall_bar()
        mark = MARKS.get(outcome.status, "[red]failed[/]")
        self._console.print(
            f"{self._ended}/{self._total} {escape(run.name)}: {mark}",
            highlight=False,
            soft_wrap=True,
        )
        for reason in outcome.reasons:
            self._console.print(
                f"    {printable(reason)}", highlight=False, markup=False, soft_wrap=True
            )
        if not self._console.is_terminal and self._completes_a_tenth():
            end = end_text(self._end.left_s(time.monotonic()))
            self._console.print(
                f"{self._ended}/{self._total}: {end}", highlight=False, soft_wrap=True
            )

    async def display(self) -> None:
        """Shows the bars until it is cancelled."""
        with self._progress:
            while True:
                await asyncio.sleep(REFRESH_S)
                self.update_bars()

    def update_bars(self) -> None:
        """Moves the bars to the time of the latest sample of each run in progress."""
        for running in self._running.values():
            # The stream may not exist yet, or the run has none
            with contextlib.suppress(OSError, ValueError, ArchiveError):
                running.seconds = min(running.stream.seconds(), running.run.seconds or float("inf"))
                if running.bar is not None:
                    total = f"/{running.run.seconds:.0f}" if running.run.seconds else ""
                    counted = f"{running.seconds:.0f}{total} s"
                    self._progress.update(running.bar, completed=running.seconds, counted=counted)
        self._update_overall_bar()

    def _completes_a_tenth(self) -> bool:
        """Returns whether the run that has just ended completes another tenth of all runs, so that
        a line with the expected end is printed. The last tenth does not count, because the campaign
        has ended then.
        """
        tenths_before, tenths = (
            (ended * SAYS_END) // self._total for ended in (self._ended - 1, self._ended)
        )
        return tenths_before < tenths < SAYS_END

    def _update_overall_bar(self) -> None:
        """Moves the bar of all runs, and every few seconds corrects the expected end next to it."""
        in_progress_s = sum(
            _passed_share(running) * self._end.expected_s(running.run)
            for running in self._running.values()
        )
        now_s = time.monotonic()
        if not self._end_text or now_s - self._end_at_s >= EXPECTS_EACH_S:
            left_s = self._end.left_s(now_s)
            self._end_text, self._end_at_s = end_text(left_s), now_s
            self._progress.update(self._all, end=self._end_text, left_s=left_s)
        self._progress.update(self._all, completed=self._ended_s + in_progress_s)


def _passed_share(running: _Running) -> float:
    """Returns the share (0 to 1) of a run's traffic that has passed; 0 if it is not known."""
    return min(running.seconds / running.run.seconds, 1.0) if running.run.seconds else 0.0


def end_text(left_s: float) -> str:
    """Returns when runs that take `left_s` seconds more will end: 'ends about 14:05 UTC'. If that
    is not today, the text also has the date.
    """
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(seconds=left_s)
    day = "" if end.date() == now.date() else f"{end:%Y-%m-%d} "
    return f"ends about {day}{end:%H:%M} UTC"


class _TimeLeftColumn(TimeRemainingColumn):
    """Shows the time left next to a bar: for all runs, until the expected end of the campaign.

    For a single run, rich estimates it from the speed of its bar.
    """

    def render(self, task: Task) -> Text:
        """Returns the text of the column for a bar; only the bar of all runs has `left_s`."""
        left_s = task.fields.get("left_s")
        if left_s is None:
            return super().render(task)
        return Text(str(datetime.timedelta(seconds=round(left_s))), style="progress.remaining")


async def run_interruptibly(campaign: Campaign, runs: Sequence[Run], executor: Executor) -> int:
    """Makes the runs of a campaign, with the progress display; returns how many were skipped.

    Ctrl-C, SIGTERM and SIGHUP end the runs and undo changes on hosts, even if the caller ignores
    these signals; then raises CancelledError.
    """

    main_task = asyncio.current_task()
    assert main_task
    for signal_number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(signal_number, _cancel, main_task)
    watcher = ProgressWatcher(Console(stderr=True), runs, bool(campaign.origin.lab), executor.slots)
    display = asyncio.create_task(watcher.display())
    try:
        await run_all(campaign, runs, executor, watcher)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await display
        for signal_number in SIGNALS:  # from now on, they interrupt the report
            asyncio.get_running_loop().remove_signal_handler(signal_number)
            signal.signal(signal_number, signal.default_int_handler)
    return watcher.skipped


def _cancel(main_task: asyncio.Task[int]) -> None:
    """Tells the user, and cancels the task that makes the runs: the handler of signals."""
    tell("interrupted: ending the runs, and undoing changes ...")
    main_task.cancel()
