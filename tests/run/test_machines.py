"""Tests the parts of machines on which runs are made: jobs, threads, programs, and failures."""

import asyncio
import pickle
import threading
import weakref
from pathlib import Path
from typing import cast

import pytest

from ccmix.archive import Campaign
from ccmix.config import load
from ccmix.generators.results import GeneratorError
from ccmix.hosts.host import RealHost
from ccmix.model import HostPath, run_files
from ccmix.plan import make_plan
from ccmix.run.campaign import in_thread
from ccmix.run.host_probes import HostPrograms
from ccmix.run.host_traffic import is_this_machine
from ccmix.run.machines import _finish_job, pickled
from support.finished_runs import campaign_plan


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("iperf3 ended with status 1\n", "iperf3 ended with status 1"),
        (None, "the measuring process ended with status 3"),
        (
            "",
            "the measuring process ended with status 3, and had no room to write why: is the "
            "disk full?",
        ),
    ],
    ids=["reason", "no file", "empty file"],
)
def test_reason_of_a_failed_run(written: str | None, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / run_files.JOB).write_bytes(b"")
    if written is not None:
        (tmp_path / run_files.ERROR).write_text(written)
    with pytest.raises(GeneratorError) as error:
        _finish_job(tmp_path, 3)
    assert str(error.value) == sentence
    assert not (tmp_path / run_files.JOB).exists()


CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize(
    "name", ["demo", "real-and-emulated", "papers/tierney-fig15", "papers/zeynali-convergence"]
)
def test_equal_runs_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Takes runs as they are planned, as they are when a campaign is resumed, and as they come
    to a worker.
    """
    entries = load(CONFIGS / f"{name}.ini").entries
    planned = tuple(run for run in make_plan(entries, seed=1) if not isinstance(run.path, HostPath))
    Campaign.create(tmp_path / "out", campaign_plan(planned))
    jobs = [pickled(run) for run in planned]
    assert [pickled(run) for run in Campaign.load(tmp_path / "out").runs] == jobs
    assert [pickled(pickle.loads(pickle.dumps(run))) for run in planned] == jobs
    assert tuple(map(pickle.loads, jobs)) == planned


def test_who_is_cancelled_waits_for_the_end_of_a_thread() -> None:
    """Cancels twice, as by a campaign's end and a second Ctrl-C."""
    begun, may_end, wrote = threading.Event(), threading.Event(), []

    def write() -> None:
        begun.set()
        may_end.wait()
        wrote.append("all")

    async def cancelled_twice() -> None:
        task = asyncio.create_task(in_thread(write))
        await asyncio.to_thread(begun.wait)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wrote == ["all"]

    asyncio.run(cancelled_twice())


class Remote:
    """Stands in for a host that takes programs."""

    is_this_machine = False

    def __init__(self) -> None:
        self.taken: list[str] = []

    def put(self, program: Path, name: str) -> str:
        self.taken.append(name)
        return f"/there/{name}"


def test_programs_are_sent_once_a_connection_and_forgotten_with_it() -> None:
    programs = HostPrograms(Path("/here/iperf3"), Path("/here/sockmon"), Path("/here/rtt"))
    host = Remote()
    for _ in range(2):
        assert programs.iperf3_on(cast(RealHost, host)) == "/there/iperf3"
        assert programs.rtt_on(cast(RealHost, host)) == "/there/ccmix-rtt"
    assert host.taken == ["iperf3", "ccmix-rtt"]
    lost = weakref.ref(host)
    del host
    assert lost() is None


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("127.0.0.2", True),
        ("localhost", True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
        ("x.invalid", False),
    ],
)
def test_this_machine(name: str, here: bool) -> None:
    assert is_this_machine(name) == here
