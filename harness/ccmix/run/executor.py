"""Makes runs several at a time: on this machine here, on a cluster in ccmix.cluster."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ccmix.archive import RunFolder
from ccmix.model import Measurement, Run
from ccmix.model.results import Execution, FinishedRun
from ccmix.run.machines import Machine

T = TypeVar("T")
IMPORTING = threading.Lock()  # of two threads that import modules in a circle, one may get half a module


@dataclass(frozen=True)
class Attempt:
    """Describes one try of a run."""

    run: Run
    started: Run  # the same with the end that its entry's budget sets
    folder: RunFolder  # gets the finished run
    failures: tuple[str, ...]  # of earlier tries
    began: Callable[[], None]  # is called when it begins, perhaps several times


class Executor(Protocol):
    """Makes runs."""

    @property
    def slots(self) -> int:
        """Returns how many attempts may be given to it at the same time."""

    async def make(self, attempt: Attempt) -> FinishedRun:
        """Makes the run and finishes its folder; cancelling ends it.

        Raises GuestError, GeneratorError, CommandError, Skipped, ArchiveError or OSError.
        """

    async def close(self) -> None:
        """Ends what was kept from run to run."""


class LocalExecutor:
    """Makes runs by a machine."""

    def __init__(self, machine: Machine, slots: int) -> None:
        self._machine = machine
        self._slots = slots

    @property
    def slots(self) -> int:
        return self._slots

    async def make(self, attempt: Attempt) -> FinishedRun:
        attempt.began()
        measured = await self._machine.measure(attempt.started, attempt.folder.begin())
        execution = replace(measured.execution, retries=attempt.failures, measured_s=time.time())
        return await in_thread(lambda: concluded(attempt.run, attempt.folder, measured.measurement, execution))

    async def close(self) -> None:
        await self._machine.close()


async def in_thread(function: Callable[[], T]) -> T:
    """Calls a function in a thread, and waits for its end also when cancelled: what it writes is not removed meanwhile,
    so that no folder gets its final name without all of its files.
    """
    called = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(called)
    except asyncio.CancelledError:
        while not called.done():
            with contextlib.suppress(asyncio.CancelledError):  # cancelled once more: still wait for the end
                await asyncio.wait({called})
        raise


def concluded(run: Run, folder: RunFolder, measurement: Measurement, execution: Execution) -> FinishedRun:
    """Finishes the folder of a measured run, in any thread: what makes tables is imported when the first has ended."""
    with IMPORTING:
        from ccmix.run.conclude import conclude  # noqa: PLC0415
    return conclude(run, folder, measurement, execution)
