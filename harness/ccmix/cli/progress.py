"""Shows the progress of a campaign on standard error: live in a terminal, a line for each run elsewhere."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ccmix.archive import RunFolder
from ccmix.model import Run, run_files
from ccmix.probes.stream.tail import StreamTail
from ccmix.run.campaign import Outcome

MARKS = {
    "valid": "[green]valid[/]", "limited": "[yellow]not valid[/]", "unknown": "[yellow]unknown[/]",
    "skipped": "[yellow]skipped[/]",
}  # fmt: skip
COUNTED = {"failed": "failed", "skipped": "skipped", "limited": "not valid", "unknown": "unknown"}
REFRESH_S = 0.5
SPEED_OVER_S = 600.0  # the time to go is estimated from several runs, with the pauses between them


@dataclass
class _Running:
    run: Run
    bar: TaskID
    stream: StreamTail
    seconds: float = 0.0  # the part of its traffic that has passed


class ProgressWatcher:
    """Watches a campaign that has `runs` to make. The bar of a run follows the samples of its probe.

    The bar of all runs, and with it the time to go, counts seconds of traffic: a long run counts more than a short one,
    and a run in progress by its seconds so far. A run of unknown length counts as the mean of the others.
    """

    def __init__(self, console: Console, runs: Sequence[Run]) -> None:
        self._console = console
        known = [run.seconds for run in runs if run.seconds]
        self._assumed_s = sum(known) / len(known) if known else 1.0
        self._total = len(runs)
        self._ended = 0
        self._ended_s = 0.0
        self._outcomes: Counter[str] = Counter()
        self._running: dict[str, _Running] = {}
        columns = (
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counted]}"), TimeRemainingColumn()
        )  # fmt: skip
        self._progress = Progress(
            *columns, console=console, transient=True, refresh_per_second=2, speed_estimate_period=SPEED_OVER_S
        )
        self._all = self._progress.add_task("runs", total=sum(map(self._expected_s, runs)), counted=f"0/{self._total}")

    @property
    def skipped(self) -> int:
        return self._outcomes["skipped"]

    def waiting(self, run: Run, why: str) -> None:
        self._console.print(f"{escape(run.name)}: {why}", highlight=False, soft_wrap=True)

    def started(self, run: Run, folder: RunFolder) -> None:
        bar = self._progress.add_task(escape(run.name), total=run.seconds or None, counted="")
        self._running[run.name] = _Running(
            run, bar, StreamTail(folder.partial / run_files.LOGS / run_files.SOCKMON_STREAM)
        )

    def ended(self, run: Run, outcome: Outcome) -> None:
        self._progress.remove_task(self._running.pop(run.name).bar)
        self._ended += 1
        self._ended_s += self._expected_s(run)
        self._outcomes[outcome.status] += 1
        bad = [f"{self._outcomes[status]} {name}" for status, name in COUNTED.items() if self._outcomes[status]]
        self._progress.update(
            self._all, description=f"runs{' (' + ', '.join(bad) + ')' if bad else ''}",
            counted=f"{self._ended}/{self._total}",
        )  # fmt: skip
        self._show_all()
        mark = MARKS.get(outcome.status, "[red]failed[/]")
        self._console.print(f"{self._ended}/{self._total} {escape(run.name)}: {mark}", highlight=False, soft_wrap=True)
        for reason in outcome.reasons:
            self._console.print(f"    {reason}", highlight=False, markup=False, soft_wrap=True)

    async def display(self) -> None:
        """Shows the bars until it is cancelled."""
        with self._progress:
            while True:
                await asyncio.sleep(REFRESH_S)
                self.look()

    def look(self) -> None:
        """Moves the bars to where the runs in progress are."""
        for running in self._running.values():
            with contextlib.suppress(OSError, ValueError):  # not there yet, or the run has no stream
                running.seconds = min(running.stream.seconds(), running.run.seconds or float("inf"))
                of = f"/{running.run.seconds:.0f}" if running.run.seconds else ""
                self._progress.update(running.bar, completed=running.seconds, counted=f"{running.seconds:.0f}{of} s")
        self._show_all()

    def _show_all(self) -> None:
        in_progress_s = sum(min(running.seconds, self._expected_s(running.run)) for running in self._running.values())
        self._progress.update(self._all, completed=self._ended_s + in_progress_s)

    def _expected_s(self, run: Run) -> float:
        return run.seconds or self._assumed_s
