"""Tests that whatever a step of a run throws is the failure of that run, and of no other."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from ccmix.archive import Campaign, RunFolder
from ccmix.generators.results import GeneratorError
from ccmix.model import Group, Measurement, Run, run_files
from ccmix.model.results import Execution, FinishedRun
from ccmix.run import campaign as campaign_module
from ccmix.run.campaign import LocalExecutor, Outcome, run_all
from ccmix.run.machines import Measured
from support.finished_runs import campaign_plan, finished_run
from support.model import TOPOLOGY, iperf3_traffic


class PanicError(BaseException):
    """Stands in for the exception that a panic in Rust raises, which is not an Exception."""


ERRORS = [
    AssertionError("nobody expected it"),
    KeyError("h1"),
    MemoryError("of the tables"),
    OSError(24, "Too many open files"),
    RecursionError("maximum recursion depth exceeded"),
    TypeError("not a number"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
    GeneratorError("a name with the byte \udcff"),
    asyncio.CancelledError("by nobody"),
    PanicError("index out of bounds"),
]
STEPS = ["check", "begin", "started", "measure", "conclude", "ended"]


class Failing:
    """Raises an error at one step of the first run that reaches it."""

    def __init__(self, step: str, error: BaseException) -> None:
        self._step = step
        self._error: BaseException | None = error
        self.outcomes: dict[int, Outcome] = {}

    def reach(self, step: str) -> None:
        if step == self._step and self._error:
            error, self._error = self._error, None
            raise error

    async def measure(self, _: Run, folder: Path) -> Measured:
        (folder / run_files.LOGS).mkdir()
        self.reach("measure")
        return Measured(cast(Measurement, None), Execution("lab"))

    async def close(self) -> None:
        """Does nothing."""

    def waiting(self, run: Run, why: str) -> None:
        """Does nothing."""

    def started(self, _: Run, __: RunFolder) -> None:
        self.reach("started")

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.outcomes[run.iteration] = outcome
        self.reach("ended")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_costs_the_run_that_threw_it(
    step: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1)
    runs = [Run("e", {}, "receiver", number, 7, traffic, TOPOLOGY) for number in (1, 2, 3)]
    campaign = Campaign.create(tmp_path / "out", campaign_plan(tuple(runs)))
    failing = Failing(step, error)
    check, begin = Campaign.check, RunFolder.begin

    def checked(campaign: Campaign) -> None:
        failing.reach("check")
        check(campaign)

    def begun(folder: RunFolder) -> Path:
        failing.reach("begin")
        return begin(folder)

    def concluded(run: Run, folder: RunFolder, *_: object) -> FinishedRun:
        failing.reach("conclude")
        finished = finished_run(run)
        folder.finish(finished)
        return finished

    monkeypatch.setattr(Campaign, "check", checked)
    monkeypatch.setattr(RunFolder, "begin", begun)
    monkeypatch.setattr(campaign_module, "concluded", concluded)
    asyncio.run(run_all(campaign, runs, LocalExecutor(failing, 1), failing))
    failed = set() if step == "ended" else {1}
    assert {
        number for number, each in failing.outcomes.items() if each.status == "failed"
    } == failed
    assert {run.iteration for run, _ in campaign_finished(campaign)} == {1, 2, 3} - failed
    if failed:
        (reason,) = failing.outcomes[1].reasons
        named = str(error) if isinstance(error, GeneratorError) else type(error).__name__
        assert ("Too many open files" if isinstance(error, OSError) else named) in reason
    if step == "measure":
        assert (RunFolder.of(campaign.outdir, runs[0]).partial / run_files.ERROR).read_text()


def campaign_finished(campaign: Campaign) -> list[tuple[Run, Path]]:
    return [(finished.run, folder) for finished, folder in campaign.finished()]


def test_ctrl_c_ends_the_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1)
    runs = [Run("e", {}, "receiver", number, 7, traffic, TOPOLOGY) for number in (1, 2, 3)]
    campaign = Campaign.create(tmp_path / "out", campaign_plan(tuple(runs)))
    failing = Failing("", KeyError())

    async def interrupted() -> None:
        working = asyncio.current_task()
        assert working

        async def measure(*_: object) -> Measured:
            working.cancel()
            await asyncio.sleep(60)
            raise AssertionError

        monkeypatch.setattr(failing, "measure", measure)
        await run_all(campaign, runs, LocalExecutor(failing, 1), failing)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    assert failing.outcomes == {}
