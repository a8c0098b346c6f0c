"""The index of a campaign grows while its runs are made, and is whole in the end."""

import asyncio
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ccmix.archive import ArchiveError, Campaign, RunFolder, campaign, campaign_index
from ccmix.archive.campaign import INDEX
from ccmix.cli.run import count_runs
from ccmix.model import Destination, Group, HostPath, Run
from ccmix.model.results import FinishedRun
from ccmix.report import results_text
from ccmix.run import indexing
from ccmix.run.campaign import Outcome, missing, put_damaged_aside, run_all
from ccmix.run.executor import Attempt
from finished_runs import campaign_plan, finished_run, group_metrics, metrics
from support import TOPOLOGY, iperf3_traffic

RUNS = 40
TRAFFIC = iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 1.0)
TICK_S = 0.05  # of the clock of the file systems that tests run on


class StandIn:
    """Finishes runs at once, without any traffic; calls `before` with the number of those that are finished."""

    def __init__(self, before: Callable[[int], None] = lambda _: None, slots: int = 1) -> None:
        self.slots = slots
        self.made = 0
        self._before = before

    async def make(self, attempt: Attempt) -> FinishedRun:
        self._before(self.made)
        attempt.folder.begin()
        finished = finished_run(attempt.run, metrics([group_metrics("cubic")], bytes_sent=1000))
        attempt.folder.finish(finished)
        self.made += 1
        return finished

    async def close(self) -> None:
        pass


class Watcher:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def waiting(self, run: Run, why: str) -> None: ...

    def started(self, run: Run, folder: RunFolder) -> None: ...

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """A campaign that has an index, which is updated after each five runs at first; changes of a tick ago are old."""
    monkeypatch.setattr(campaign, "INDEXED_FROM", RUNS)
    monkeypatch.setattr(indexing, "LEAST_RUNS", 5)
    monkeypatch.setattr(campaign_index, "SETTLES_NS", 0)
    runs = [Run("one", {}, "receiver", number, 7, TRAFFIC, TOPOLOGY) for number in range(1, RUNS + 1)]
    return Campaign.create(tmp_path / "out", campaign_plan(runs))


def run(of: Campaign, executor: StandIn) -> list[Outcome]:
    watcher = Watcher()
    asyncio.run(run_all(of, missing(of), executor, watcher))
    return watcher.outcomes


def indexed(of: Campaign) -> int:
    file = of.outdir / INDEX
    return pl.read_parquet(file).height if file.exists() else 0


def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that gets the folder of each run whose run.json is opened from now on."""
    opened: list[str] = []
    reads = RunFolder.read
    monkeypatch.setattr(RunFolder, "read", lambda folder: opened.append(folder.path.name) or reads(folder))  # type: ignore[func-returns-value]
    return opened


def test_the_index_grows_with_the_campaign(planned: Campaign) -> None:
    seen: list[tuple[int, int]] = []
    run(planned, StandIn(lambda made: seen.append((made, indexed(planned)))))
    assert all(made - rows <= max(5, made / 4) for made, rows in seen)
    assert len({rows for _, rows in seen}) > 5
    assert indexed(planned) == RUNS


def test_an_update_comes_each_time_the_index_lacks_a_quarter(
    planned: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    executor = StandIn()
    monkeypatch.setattr(campaign_index, "update", lambda *_, **__: ended.append(executor.made))
    run(planned, executor)
    assert ended == [5, 10, 15, 20, 27, 36, RUNS]


def test_each_run_is_read_once_for_the_index(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = read(monkeypatch)
    run(planned, StandIn(lambda _: time.sleep(0.01)))
    assert len(set(opened)) == RUNS
    assert len(opened) < 1.3 * RUNS  # once more those that had changed within a tick of the file system's clock


def test_a_small_campaign_has_no_index(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "INDEXED_FROM", RUNS + 1)
    run(planned, StandIn())
    assert not (planned.outdir / INDEX).exists()


def test_an_index_that_cannot_be_made_fails_no_run(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    (planned.outdir / INDEX).mkdir()
    assert {outcome.status for outcome in run(planned, StandIn())} == {"valid"}

    def broken(*_: object) -> None:
        raise pl.exceptions.ComputeError("no memory")

    monkeypatch.setattr(campaign_index, "_write", broken)
    shutil.rmtree(planned.outdir / "one")
    assert len(run(planned, StandIn())) == RUNS


def test_other_runs_go_on_while_the_index_is_updated(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    all_made, updates = threading.Event(), []

    def update(*_: object, **__: object) -> None:
        updates.append(all_made.wait(60))

    def before(made: int) -> None:
        if made == RUNS - 1:
            all_made.set()

    monkeypatch.setattr(campaign_index, "update", update)
    run(planned, StandIn(before, slots=2))
    assert updates
    assert all(updates)


def test_ctrl_c_ends_an_update(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()

    def update(_: Campaign, ended: Callable[[], bool]) -> None:
        began.set()
        while not ended():
            time.sleep(0.01)

    monkeypatch.setattr(campaign_index, "update", update)

    async def interrupted() -> None:
        task = asyncio.create_task(run_all(planned, planned.runs, StandIn(), Watcher()))
        await asyncio.to_thread(began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    assert len(missing(planned)) == RUNS - 5


def test_an_update_that_is_given_up_writes_nothing(planned: Campaign) -> None:
    run(planned, StandIn())
    (planned.outdir / INDEX).unlink()
    assert campaign_index.update(planned, ended=lambda: True) == 0
    assert not (planned.outdir / INDEX).exists()


def test_who_resumes_reads_no_run_that_the_index_has(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    run(planned, StandIn())
    time.sleep(TICK_S)
    campaign_index.update(planned)
    shutil.rmtree(planned.outdir / "one" / "all" / "receiver" / "007")
    (planned.outdir / "one" / "all" / "receiver" / "009" / "run.json").write_text("{")
    opened = read(monkeypatch)
    [sentence] = put_damaged_aside(planned)
    assert "009.damaged-1" in sentence
    assert set(opened) - {"007"} == {"009"}
    assert [left.iteration for left in missing(planned)] == [7, 9]


def test_who_resumes_a_small_campaign_reads_each_run_once(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "INDEXED_FROM", RUNS + 1)
    run(planned, StandIn())
    opened = read(monkeypatch)
    assert list(put_damaged_aside(planned)) == []
    run(planned, StandIn())
    assert len(opened) == RUNS


def test_a_resumed_entry_has_spent_what_its_runs_sent(planned: Campaign, tmp_path: Path) -> None:
    """Also where the index knows it: its budget has room for three runs of 1,000 bytes, and three are finished."""
    path = HostPath("localhost", Destination("far", "192.0.2.1", "far"), "iperf3", rate_budget=(3500, 1e12))
    runs = [Run("one", {}, "far", number, 7, TRAFFIC, path) for number in range(1, RUNS + 1)]
    of = Campaign.create(tmp_path / "between", campaign_plan(runs))
    for each in runs[:3]:
        folder = RunFolder.of(of.outdir, each)
        folder.begin()
        folder.finish(finished_run(each, metrics([group_metrics("cubic")], bytes_sent=1000)))
    time.sleep(TICK_S)
    for _ in range(2):
        outcomes = run(of, StandIn())
        assert {outcome.status for outcome in outcomes} == {"skipped"}
        assert "rate-budget" in outcomes[0].reasons[0]
    assert indexed(of) == 3


def test_the_table_of_a_campaign_is_made_of_the_index(planned: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    run(planned, StandIn())
    time.sleep(TICK_S)
    campaign_index.update(planned)
    opened = read(monkeypatch)
    results, all_valid = count_runs(planned, 0)
    assert all_valid
    assert results
    assert results_text.render(results).count("cubic") == 1
    assert opened == []


def test_a_damaged_run_is_named_by_the_campaign(planned: Campaign) -> None:
    run(planned, StandIn())
    (planned.outdir / "one" / "all" / "receiver" / "009" / "run.json").write_text("{")
    [(of, error)] = planned.damaged()
    assert of.iteration == 9
    assert isinstance(error, ArchiveError)
