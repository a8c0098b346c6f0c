"""Tests the display of a campaign in a terminal, from streams made by hand."""

import asyncio
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ccmix.archive import RunFolder
from ccmix.cli.progress import ProgressWatcher
from ccmix.model import Run
from ccmix.run.campaign import Outcome
from support.model import host_run
from support.sockmon_stream import SOCKETS, header, sample

TIME_TO_GO = re.compile(r"runs\S* .* 0/2 .*\d:\d\d:\d\d")


def shown(watcher: ProgressWatcher, stream: Path, screen: io.StringIO) -> bool:
    """Checks that a remaining time is shown while the stream grows by a second each time the
    display is drawn.
    """

    async def grow() -> bool:
        display = asyncio.create_task(watcher.display())
        for second in range(6, 20):
            with stream.open("ab") as file:
                file.write(sample(SOCKETS, [], at=second, row_bytes=8))
            await asyncio.sleep(0.5)
            if TIME_TO_GO.search(screen.getvalue()):
                break
        display.cancel()
        await asyncio.gather(display, return_exceptions=True)
        return TIME_TO_GO.search(screen.getvalue()) is not None

    return asyncio.run(grow())


def test_there_is_a_time_to_go_before_the_first_run_has_ended(tmp_path: Path) -> None:
    runs: list[Run] = [host_run("localhost", "b"), host_run("localhost", "c")]
    screen = io.StringIO()
    watcher = ProgressWatcher(
        Console(file=screen, force_terminal=True, width=120), runs, in_lab=False
    )
    folder = RunFolder(tmp_path / "001")
    (folder.partial / "logs").mkdir(parents=True)
    stream = folder.partial / "logs" / "run.sockmon"
    stream.write_bytes(header())
    watcher.started(runs[0], folder)
    assert shown(watcher, stream, screen)
    watcher.ended(runs[0], Outcome("failed", ("its reason",)))
    assert "1/2 one b all #1: " in re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert "    its reason\n" in screen.getvalue()


@pytest.mark.parametrize(("at_a_time", "bars"), [(16, 2), (17, 0)])
def test_many_runs_at_a_time_have_one_bar(at_a_time: int, bars: int, tmp_path: Path) -> None:
    """Expects a bar for each run in progress, except if hundreds of runs may be in progress, and a
    bar for all runs.
    """
    runs: list[Run] = [replace(host_run("localhost", "b"), iteration=number) for number in (1, 2)]
    screen = io.StringIO()
    watcher = ProgressWatcher(
        Console(file=screen, force_terminal=True, width=120), runs, False, at_a_time
    )

    async def show() -> None:
        display = asyncio.create_task(watcher.display())
        await asyncio.sleep(0)
        for run in runs:
            watcher.started(run, RunFolder(tmp_path / str(run.iteration)))
        watcher.update_bars()
        await asyncio.sleep(1.2)
        display.cancel()
        await asyncio.gather(display, return_exceptions=True)

    asyncio.run(show())
    assert sum(run.name in screen.getvalue() for run in runs) == bars
    assert "0/2" in screen.getvalue()
    for run in runs:
        watcher.ended(run, Outcome("failed", ("its reason",)))
    assert "2/2" in screen.getvalue()
