"""The tutorial: its commands, run in order from an empty folder, do what the page says."""

import json
from pathlib import Path

import pytest

from ccmix.analysis.results import load_results
from support.tutorial_page import CHART, DRAWN, Step, goodputs_bps, run_tutorial, wording

pytestmark = [pytest.mark.lab, pytest.mark.deep]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def steps(folder: Path) -> list[Step]:
    return list(run_tutorial(folder))


def test_the_commands_print_what_the_page_shows(steps: list[Step]) -> None:
    assert len(steps) > 4
    for step in steps:
        assert wording(step.printed) == wording(step.shown), step.command


def test_goodputs_are_those_of_the_page(steps: list[Step]) -> None:
    """Other builds of the tools change them a little: they are within a tenth of the link's rate."""
    for step in steps:
        assert goodputs_bps(step.printed) == pytest.approx(goodputs_bps(step.shown), abs=10e6), (
            step.command
        )


def test_a_repeated_run_gives_its_numbers_again(steps: list[Step], folder: Path) -> None:
    assert steps
    first = folder / "results" / "share" / "share" / "buffer=8bdp" / "receiver" / "002" / "run.json"
    again = folder / "results" / "again" / "share" / "buffer=8bdp" / "receiver" / "002" / "run.json"
    metrics = [json.loads(file.read_text())["metrics"] for file in (first, again)]
    assert metrics[0]["groups"] == metrics[1]["groups"]


def test_the_answer_is_the_one_of_the_page(steps: list[Step], folder: Path) -> None:
    """BBR has more of the link with small buffers, CUBIC with large ones."""
    assert steps
    goodput = {
        (row.condition["buffer"], row.cca): row.goodput_mean_bps or 0
        for row in load_results([folder / "results" / "share"]).rows
    }
    for buffer, winner, loser in (
        ("0.5bdp", "bbr", "cubic"),
        ("1bdp", "bbr", "cubic"),
        ("4bdp", "cubic", "bbr"),
        ("8bdp", "cubic", "bbr"),
    ):
        assert goodput[buffer, winner] > 1.3 * goodput[buffer, loser]


def test_the_page_has_the_chart(steps: list[Step], folder: Path) -> None:
    assert steps
    assert (folder / DRAWN).read_text().count("<path") > 50
    assert CHART.is_file()
