"""Tests the replies of a real Dask worker in this process, whose lab is the test's."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from distributed import Client, Scheduler, Worker

from ccmix.archive import ArchiveError
from ccmix.cluster import worker as at_worker
from ccmix.cluster.messages import Job, Reply, decoded
from ccmix.generators.results import GeneratorError
from ccmix.lab import GuestError
from ccmix.model import Group, Run
from ccmix.tools import ToolError
from support.model import TOPOLOGY, iperf3_traffic

RUN = Run("e", {}, "receiver", 1, 7, iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1), TOPOLOGY)
LIMIT_S = 60.0
JOB = Job("key", "topic", RUN, None)


class BrokenLab:
    """A lab in which each run ends with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def measure(self, run: Run, folder: Path) -> object:
        (folder / "log").write_text(run.name)
        raise self._error


class EndlessLab:
    """A lab in which no run ends by itself."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def measure(self, *_: object) -> object:
        self.began.set()
        try:
            return await asyncio.Event().wait()
        finally:
            self.ended.set()


@contextlib.asynccontextmanager
async def _scheduler_with_a_worker() -> AsyncIterator[str]:
    """Yields the scheduler's address."""
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler,
        Worker(
            scheduler.address,
            preload=["ccmix.cluster.worker"],
            host="127.0.0.1",
            dashboard_address=None,
        ),
    ):
        yield scheduler.address


async def _reply(job: Job) -> Reply:
    async with (
        _scheduler_with_a_worker() as address,
        Client(address, asynchronous=True, set_as_default=False) as client,
    ):
        return decoded(await client.submit(at_worker.make_run, job, key=job.key))


@pytest.mark.parametrize("by", ["cancelled", "client gone"])
def test_a_run_that_nobody_waits_for_is_ended(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def begun_and_left() -> None:
        lab = EndlessLab()
        monkeypatch.setattr(at_worker, "_machine", lambda *_: lab)
        async with asyncio.timeout(LIMIT_S), _scheduler_with_a_worker() as address:
            async with Client(address, asynchronous=True, set_as_default=False) as client:
                run = client.submit(at_worker.make_run, JOB, key=JOB.key)
                await lab.began.wait()
                if by == "cancelled":
                    await run.cancel()
                    await lab.ended.wait()
            await lab.ended.wait()

    asyncio.run(begun_and_left())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (GuestError("start", "no memory for it"), "unfit"),
        (GuestError("out of memory", "it has too little"), "failed"),
        (GuestError("hang", "nothing grew"), "failed"),
        (GeneratorError("iperf3 failed"), "failed"),
        (ArchiveError("can't be packed"), "failed"),
        (ToolError("capflow is missing"), "unfit"),
        (OSError(5, "Input/output error", "/kernel"), "unfit"),
        (MemoryError("of the worker"), "unfit"),
        (ValueError("nobody foresaw it"), "unfit"),
    ],
)
def test_what_goes_wrong_with_a_run(
    error: Exception, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expects another worker to be tried if it may succeed; but a guest with the same memory runs
    out of memory there, too.

    The reply includes the files of a failed run.
    """
    monkeypatch.setattr(at_worker, "_machine", lambda *_: BrokenLab(error))
    reply = asyncio.run(_reply(JOB))
    said = error.strerror if isinstance(error, OSError) else str(error)
    assert said is not None
    assert said in reply.reason
    assert reply.reason.startswith(f"{type(error).__name__}(") == isinstance(
        error, MemoryError | ValueError
    )
    assert (reply.outcome, bool(reply.files)) == (outcome, outcome == "failed")
