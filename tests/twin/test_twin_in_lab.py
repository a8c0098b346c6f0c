"""Tests the whole way in the lab: a run that measures a path, its estimates, and a twin that can
be planned.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import Ccmix, run_in_lab

pytestmark = pytest.mark.lab

RATE_BPS, RTT_S, BUFFER_BYTES = 20e6, 0.03, 75e3
INI = """
[topology hidden]
rate = 20mbit
delay = 15ms
buffer = 1bdp
spread = off
loss = 0.5%

[path]
type = path
topology = hidden
duration = 60s
load-cap = 60mbit
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("path")
    run_in_lab(place, INI)
    return place


@pytest.fixture(scope="module")
def estimates(folder: Path) -> dict[str, Any]:
    shown = Ccmix(folder)("twin", folder / "out", "--format", "json", "-o", folder / "twin.ini")
    assert shown.returncode == 0, shown.stderr
    [twin] = json.loads(shown.stdout)
    return {each["quantity"]: each for each in twin["estimates"]}


@pytest.mark.parametrize(
    ("quantity", "truth", "share"),
    [
        ("base RTT", RTT_S, 0.01),
        ("rate", RATE_BPS, 0.01),
        ("buffer", BUFFER_BYTES, 0.1),
        ("random loss", 0.005, 0.6),
    ],
)
def test_the_path_is_found(
    estimates: dict[str, Any], quantity: str, truth: float, share: float
) -> None:
    estimate = estimates[quantity]
    assert estimate["value"] == pytest.approx(truth, rel=share)
    assert estimate["low"] <= truth <= estimate["high"]


def test_nothing_is_said_that_is_not_there(estimates: dict[str, Any]) -> None:
    assert estimates["cross traffic"]["value"] == 0
    assert estimates["reordering"]["value"] == 0
    assert estimates["receiver's window"]["value"] is None
    assert estimates["MTU"]["value"] == 1500


def test_the_run_is_valid_and_its_groups_are_the_steps(folder: Path) -> None:
    run = json.loads((folder / "out/path/all/receiver/001/run.json").read_text())
    assert run["verdict"]["status"] == "valid", run["verdict"]
    names = [group["group"] for group in run["metrics"]["groups"]]
    assert names == ["reach", "above-1", "above-2", "share", "fill", "below"]
    assert run["metrics"]["settling"]["settled"] is None
    assert run["metrics"]["goodput_bps"] < RATE_BPS


def test_no_step_sends_more_than_the_cap(folder: Path) -> None:
    steps = json.loads((folder / "out/path/all/receiver/001/generators/steps.json").read_text())
    assert max(step["offered_bps"] or 0 for step in steps) <= 60e6
    assert [step["failed"] for step in steps] == [None] * 9


def test_the_twin_can_be_planned(folder: Path, estimates: dict[str, Any]) -> None:
    assert estimates
    planned = Ccmix(folder)("plan", folder / "twin.ini", "--format", "json")
    assert planned.returncode == 0, planned.stderr
    assert {run["entry"] for run in json.loads(planned.stdout)} == {"tests"}
