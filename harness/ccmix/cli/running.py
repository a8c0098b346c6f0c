"""Runs a campaign for a command: with its progress on the terminal, and so that it can be interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccmix.cli.output import tell

if TYPE_CHECKING:
    from ccmix.archive import Campaign
    from ccmix.model import Run
    from ccmix.run.machines import EmulationPrograms, Machine


def emulation_programs() -> EmulationPrograms:
    """Finds the programs that a run on an emulated path needs. Raises ToolError if one is missing."""
    from ccmix.run.machines import EmulationPrograms
    from ccmix.tools import find_iperf3, find_rtt, find_sockmon

    return EmulationPrograms(find_iperf3(), find_sockmon(), find_rtt())


async def run_interruptibly(campaign: Campaign, left: Sequence[Run], machine: Machine, jobs: int) -> int:
    """Makes the runs with the progress display, and returns how many were skipped.

    SIGTERM and SIGHUP have the effect of Ctrl-C, which works even if the caller ignores it.
    """
    from rich.console import Console

    from ccmix.cli.progress import ProgressWatcher
    from ccmix.run.campaign import run_all

    main = asyncio.current_task()
    assert main
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signal_number, _cancel, main)
    watcher = ProgressWatcher(Console(stderr=True), left)
    display = asyncio.create_task(watcher.display())
    try:
        await run_all(campaign, left, machine, min(jobs, len(left)), watcher)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await display
    return watcher.skipped


def _cancel(main: asyncio.Task[int]) -> None:
    tell("interrupted: ending what runs, and putting back what was changed ...")
    main.cancel()
