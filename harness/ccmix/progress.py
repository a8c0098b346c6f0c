"""How a campaign goes, on standard error: a live display in a terminal, a line for each run elsewhere."""

import asyncio
import contextlib
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ccmix.archive import RunFolder
from ccmix.model import Run
from ccmix.probes import sockmon
from ccmix.probes.stream_tail import StreamTail
from ccmix.run.campaign import Outcome

MARKS = {
    "valid": "[green]valid[/]", "limited": "[yellow]not valid[/]", "unknown": "[yellow]unknown[/]",
    "skipped": "[yellow]skipped[/]",
}  # fmt: skip
TOLD = {"failed": "failed", "skipped": "skipped", "limited": "not valid", "unknown": "unknown"}
REFRESH_S = 0.5


class ProgressWatcher:
    """Watches a campaign. A run's own bar follows what its probe has recorded."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, refresh_per_second=2)
        self._total = total
        self._ended = 0
        self._outcomes: Counter[str] = Counter()
        self._all = self._progress.add_task("runs", total=total)
        self._bars: dict[str, TaskID] = {}
        self._streams: dict[str, tuple[Run, StreamTail]] = {}

    @property
    def skipped(self) -> int:
        return self._outcomes["skipped"]

    def waiting(self, run: Run, why: str) -> None:
        self._console.print(f"{escape(run.name)}: {why}", highlight=False, soft_wrap=True)

    def started(self, run: Run, folder: RunFolder) -> None:
        self._bars[run.name] = self._progress.add_task(f"{escape(run.name)} (s)", total=round(run.seconds) or None)
        self._streams[run.name] = (run, StreamTail(folder.partial / "logs" / sockmon.STREAM))

    def ended(self, run: Run, outcome: Outcome) -> None:
        self._progress.remove_task(self._bars.pop(run.name))
        del self._streams[run.name]
        self._ended += 1
        self._outcomes[outcome.status] += 1
        bad = [f"{self._outcomes[status]} {told}" for status, told in TOLD.items() if self._outcomes[status]]
        self._progress.update(self._all, advance=1, description=f"runs{' (' + ', '.join(bad) + ')' if bad else ''}")
        mark = MARKS.get(outcome.status, "[red]failed[/]")
        self._console.print(f"{self._ended}/{self._total} {escape(run.name)}: {mark}", highlight=False, soft_wrap=True)
        for reason in outcome.reasons:
            self._console.print(f"    {reason}", highlight=False, markup=False, soft_wrap=True)

    async def display(self) -> None:
        """Shows the bars until it is cancelled."""
        with self._progress:
            while True:
                await asyncio.sleep(REFRESH_S)
                for name, (run, stream) in self._streams.items():
                    with contextlib.suppress(OSError, ValueError):  # not there yet, or the run has no stream
                        seconds = min(stream.seconds(), run.seconds or float("inf"))
                        self._progress.update(self._bars[name], completed=round(seconds))
