"""Tests estimates against lab paths whose settings a seed has drawn: of seeds 1 to 200, the
cheapest of each kind.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from support.commands import REPOSITORY

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(900)]

LEAST = 0.9
SEEDS = "11,14,17,21,29,31,34,41,50,61,64,86,105,110,117,144,145,161,192,197"


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    argv = [
        REPOSITORY / "bench/twin.py",
        "--seeds",
        SEEDS,
        "-o",
        tmp_path_factory.mktemp("paths"),
        "-j",
        "2",
    ]
    done = subprocess.run(
        [sys.executable, *map(str, argv), "--format", "json"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    scores: list[dict[str, Any]] = json.loads(done.stdout)
    return scores


def test_every_path_was_measured(scores: list[dict[str, Any]]) -> None:
    assert len({score["seed"] for score in scores}) == len(SEEDS.split(","))


@pytest.mark.parametrize("flag", ["covered", "sharp"])
def test_nine_of_ten_intervals_cover_the_truth_and_as_many_values_are_sharp(
    scores: list[dict[str, Any]], flag: str
) -> None:
    counted = [score for score in scores if score[flag] is not None]
    missed = [score for score in counted if not score[flag]]
    assert len(missed) <= (1 - LEAST) * len(counted), missed
    assert len(counted) > 20
