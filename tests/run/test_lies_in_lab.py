"""Tests that the verdict finds lies: one path or traffic is configured, another measured, in both
directions.

Each configuration is measured once in the lab, and must be valid as what it is.
"""

import asyncio
import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.raw_files import read_tables
from ccmix.analysis.validity import judge
from ccmix.archive.codec import MEASUREMENT
from ccmix.generators.results import GeneratorError
from ccmix.model import Measurement, Run
from ccmix.model.results import Verdict
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_kernel
from support.lab_runs import planned
from support.lies import LIES, REPRESENTATIVES

pytestmark = pytest.mark.lab
Measured = tuple[Run, Path, Measurement]
Measure = Callable[[str], Measured]
DIRECTIONS = ("one for the other", "the other for one")
FIRST = {(name, DIRECTIONS[0]) for name in REPRESENTATIVES}  # those of the first tier


def tier(name: str, direction: str) -> pytest.MarkDecorator | tuple[()]:
    return () if (name, direction) in FIRST else pytest.mark.long


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Returns a function that measures the run of an INI file, once each."""
    programs = EmulationPrograms.find()
    machine = LabMachine(
        find_kernel(), programs, {"again": find_kernel()}
    )  # the same by another name
    by_ini: dict[str, Measured] = {}

    def measured(ini: str) -> Measured:
        if ini not in by_ini:
            folder = tmp_path_factory.mktemp("lie")
            [run] = planned(ini, folder)
            (folder / "lab.ini").unlink()
            result = asyncio.run(machine.measure(run, folder))
            by_ini[ini] = (
                run,
                folder,
                MEASUREMENT.decode(json.dumps(asdict(result.measurement)).encode()),
            )
        return by_ini[ini]

    return measured


def judged(configured: Run, folder: Path, measurement: Measurement) -> Verdict:
    """Returns the verdict on a measurement as if `configured` had been measured."""
    tables = read_tables(configured, folder, measurement)
    probes = {**measurement.facts.probes, **tables.series.probes}
    seen = replace(measurement, facts=replace(measurement.facts, probes=probes))
    metrics = run_metrics(configured, tables, seen.ping_rtt_s, seen)
    return judge(configured, tables, seen, metrics)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        pytest.param(name, direction, marks=tier(name, direction))
        for name, direction in itertools.product(LIES, DIRECTIONS)
    ],
)
def test_a_lie_is_found(name: str, direction: str, measure: Measure, tmp_path: Path) -> None:
    """A run is valid for the measured path, but not for the configured path."""
    lie = LIES[name]
    true, false = (lie.one, lie.other) if direction == DIRECTIONS[0] else (lie.other, lie.one)
    measured, folder, measurement = measure(lie.ini(true))
    truth = judged(measured, folder, measurement)
    assert [finding.detail for finding in truth.findings] == []
    assert truth.status == "valid"
    try:
        verdict = judged(planned(lie.ini(false), tmp_path)[0], folder, measurement)
    except (GeneratorError, OSError):
        return  # a file that such a run leaves is not there: it fails
    assert verdict.status == "limited"
    assert lie.kind in {finding.kind for finding in verdict.findings}
