"""Many runs, some of them at the same time, each finished one kept at once."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ccmix.archive import Campaign, RunFolder
from ccmix.generators.results import GeneratorError
from ccmix.lab.guest import GuestError
from ccmix.model import Run
from ccmix.run.conclude import conclude
from ccmix.run.machines import Machine
from ccmix.run.measure import ERROR


class Watcher(Protocol):
    """Is told how a campaign goes."""

    def started(self, run: Run, folder: RunFolder) -> None: ...

    def ended(self, run: Run, outcome: "Outcome") -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How one run ended: 'valid', 'limited', 'unknown', or 'failed'; `reasons` says why where it is not valid."""

    status: str
    reasons: tuple[str, ...] = ()


def missing(campaign: Campaign) -> list[Run]:
    """The runs of the plan that have no finished folder yet."""
    return [run for run in campaign.runs if not RunFolder.of(campaign.outdir, run).finished]


async def run_all(campaign: Campaign, runs: Sequence[Run], machine: Machine, parallel: int, watcher: Watcher) -> None:
    """Runs all of them, `parallel` at a time and each on a processor of its own.

    A failed run is told to the watcher and leaves its partial folder with the logs; the others go on. When cancelled,
    runs in progress are abandoned and leave nothing.
    """
    waiting = iter(runs)
    processors = sorted(os.sched_getaffinity(0))
    async with asyncio.TaskGroup() as group:
        for slot in range(parallel):
            group.create_task(_work(campaign, waiting, machine, processors[slot % len(processors)], watcher))


async def _work(campaign: Campaign, waiting: Iterator[Run], machine: Machine, cpu: int, watcher: Watcher) -> None:
    for run in waiting:
        folder = RunFolder.of(campaign.outdir, run)
        watcher.started(run, folder)
        watcher.ended(run, await _one(run, folder, machine, cpu))


async def _one(run: Run, folder: RunFolder, machine: Machine, cpu: int) -> Outcome:
    try:
        partial = folder.begin()
        where = await machine.measure(run, partial, cpu)
        summary = await asyncio.to_thread(conclude, run, folder, where)
    except (GuestError, GeneratorError, OSError) as error:
        with contextlib.suppress(OSError):  # the disk may be what is full
            (folder.partial / ERROR).write_text(f"{error}\n")
        return Outcome("failed", (str(error),))
    except asyncio.CancelledError:
        folder.discard()
        raise
    validity = summary["validity"]
    reasons = tuple(finding["detail"] for finding in validity["findings"] if not finding["accepted"])
    return Outcome(validity["status"], reasons)
