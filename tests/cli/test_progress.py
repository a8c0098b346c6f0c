"""What a terminal shows of a campaign, from streams made by hand."""

import asyncio
import io
import re
from pathlib import Path

from rich.console import Console

from ccmix.archive import RunFolder
from ccmix.cli.progress import ProgressWatcher
from ccmix.model import Run
from ccmix.run.campaign import Outcome
from sockmon_stream import SOCKETS, header, sample
from support import host_run

TIME_TO_GO = re.compile(r"runs\S* .* 0/2 .*\d:\d\d:\d\d")


def shown(watcher: ProgressWatcher, stream: Path, screen: io.StringIO) -> bool:
    """Whether a time to go is shown while the stream grows by a second every time that the display is drawn."""

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
    watcher = ProgressWatcher(Console(file=screen, force_terminal=True, width=120), runs, in_lab=False)
    folder = RunFolder(tmp_path / "001")
    (folder.partial / "logs").mkdir(parents=True)
    stream = folder.partial / "logs" / "run.sockmon"
    stream.write_bytes(header())
    watcher.started(runs[0], folder)
    assert shown(watcher, stream, screen)
    watcher.ended(runs[0], Outcome("failed", ("its reason",)))
    assert "1/2 one b all #1: " in re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert "    its reason\n" in screen.getvalue()
