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
    from ccmix.run.executor import Executor
    from ccmix.run.machines import EmulationPrograms


def emulation_programs() -> EmulationPrograms:
    """Finds the programs that a run on an emulated path needs. Raises ToolError if one is missing."""
    from ccmix.run.machines import EmulationPrograms
    from ccmix.tools import find_iperf3, find_rtt, find_sockmon

    return EmulationPrograms(find_iperf3(), find_sockmon(), find_rtt())


def warn_if_not_confined() -> None:
    """Says so where a guest on this machine can reach what the user can. Raises GuestError."""
    from ccmix.lab.confinement import way_here, why_not_confined

    if reasons := why_not_confined(way_here()):
        tell(
            f"WARNING: THE LAB'S GUESTS ARE NOT CONFINED ON THIS MACHINE ({reasons}): what runs in a guest can read "
            "and change every file that you can. Run only commands that you trust"
        )


async def run_interruptibly(campaign: Campaign, left: Sequence[Run], executor: Executor) -> int:
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
    watcher = ProgressWatcher(Console(stderr=True), left, bool(campaign.origin.lab), executor.slots)
    display = asyncio.create_task(watcher.display())
    try:
        await run_all(campaign, left, executor, watcher)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await display
    return watcher.skipped


def _cancel(main: asyncio.Task[int]) -> None:
    tell("interrupted: ending what runs, and putting back what was changed ...")
    main.cancel()
