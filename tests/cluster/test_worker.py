"""Tests what a worker replies: a real worker of Dask in this process, whose lab is the test's."""

import asyncio
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
from support import TOPOLOGY, iperf3_traffic

RUN = Run("e", {}, "receiver", 1, 7, iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1), TOPOLOGY)
JOB = Job("key", "topic", RUN, {"stock": "k"}, {"iperf3": "i"}, "u", None)


class BrokenLab:
    """Is a lab in which each run ends with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def measure(self, run: Run, folder: Path, cpu: int | None) -> object:
        (folder / "log").write_text(f"{run.name} {cpu}")
        raise self._error


async def _reply(job: Job) -> Reply:
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler,
        Worker(scheduler.address, preload=["ccmix.cluster.worker"], host="127.0.0.1", dashboard_address=None),
        Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
    ):
        return decoded(await client.submit(at_worker.make_run, job, key=job.key))


def test_what_a_worker_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_worker.files, "found", lambda _: {"k": Path("kernel")})
    monkeypatch.setattr(at_worker.files, "found_userland", lambda _: None)
    reply = asyncio.run(_reply(JOB))
    assert (reply.outcome, reply.lacks) == ("lacks", ("i", "u"))
    assert reply.worker.startswith("tcp://127.0.0.1:")
    assert reply.worker_id.startswith("Worker-")


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
def test_what_goes_wrong_with_a_run(error: Exception, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expects another worker to be tried where it may do better: a guest of the same memory runs out of it there, too.

    The files of a run that failed come along.
    """
    monkeypatch.setattr(at_worker.files, "found", lambda wanted: {sha256: Path(sha256) for sha256 in wanted})
    monkeypatch.setattr(at_worker.files, "found_userland", Path)
    monkeypatch.setattr(at_worker, "_machine", lambda *_: BrokenLab(error))
    reply = asyncio.run(_reply(JOB))
    said = error.strerror if isinstance(error, OSError) else str(error)
    assert said is not None
    assert said in reply.reason
    assert reply.reason.startswith(f"{type(error).__name__}(") == isinstance(error, MemoryError | ValueError)
    assert (reply.outcome, bool(reply.files)) == (outcome, outcome == "failed")
