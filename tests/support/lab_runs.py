"""Makes runs in the lab within the test's process, without a campaign's report."""

import asyncio
import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.archive import RunFolder
from ccmix.config import load
from ccmix.model import Measurement, Run
from ccmix.model.results import FinishedRun
from ccmix.plan import make_plan
from ccmix.run.conclude import conclude
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_kernel


@dataclass(frozen=True)
class LabRun:
    """A run that was made: as it finished, and its folder."""

    finished: FinishedRun
    folder: Path
    measurement: Measurement

    @functools.cached_property
    def record(self) -> dict[str, Any]:
        return self.document("run.json")

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        return self.document("facts.json")

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found

    def table(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self.folder / f"{name}.parquet")


def planned(ini: str, folder: Path, seed: int = 1) -> tuple[Run, ...]:
    """Returns the runs of an INI file, which is written into the folder."""
    file = folder / "lab.ini"
    file.write_text(ini)
    return make_plan(load(file).entries, seed=seed)


async def _made(
    run: Run, outdir: Path, applied: Run | None, programs: EmulationPrograms | None
) -> LabRun:
    folder = RunFolder.of(outdir, run)
    machine = LabMachine(find_kernel(), programs or EmulationPrograms.find())
    measured = await machine.measure(applied or run, folder.begin())
    finished = conclude(run, folder, measured.measurement, measured.execution)
    return LabRun(finished, folder.path, measured.measurement)


def make_in_lab(
    run: Run, outdir: Path, applied: Run | None = None, programs: EmulationPrograms | None = None
) -> LabRun:
    """Makes a run; concludes as if it had been measured where `applied` is another run."""
    return asyncio.run(_made(run, outdir, applied, programs))


def make_all(ini: str, folder: Path) -> dict[str, LabRun]:
    """Makes the runs of an INI file. Returns them by entry and values of the condition."""

    async def made() -> list[LabRun]:
        places = asyncio.Semaphore(len(os.sched_getaffinity(0)))

        async def one(run: Run) -> LabRun:
            async with places:
                return await _made(run, folder / "out", None, None)

        return await asyncio.gather(*map(one, planned(ini, folder)))

    return {
        " ".join([made.finished.run.entry, *made.finished.run.condition.values()]): made
        for made in asyncio.run(made())
    }


def lab_runs(ini: str, *, all_valid: bool = True) -> Any:
    """Returns a fixture of a module: the runs of an INI file, made once."""

    @pytest.fixture(scope="module")
    def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LabRun]:
        found = make_all(ini, tmp_path_factory.mktemp("lab"))
        if all_valid:
            assert {name: made.finished.verdict.findings for name, made in found.items()} == (
                dict.fromkeys(found, ())
            )
        return found

    return runs
