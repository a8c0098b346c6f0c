"""Tests the program that compares goodputs over paths and over their twins: its runs and its
scores.
"""

from pathlib import Path
from types import ModuleType

import pytest

from ccmix.config import load
from support.commands import REPOSITORY, loaded


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return loaded(REPOSITORY / "bench" / "twin_goodput.py", "twin_goodput_bench")


@pytest.mark.parametrize("seed", [17, 21, 28])  # with cross traffic, a policer, a window
def test_the_tests_run_over_the_path_that_was_measured(bench: ModuleType, seed: int) -> None:
    measuring = (
        load(Path("path.ini"), bench.paths.ini(bench.paths.draw(seed))).entries[0].conditions[0]
    )
    entries = load(Path("tests.ini"), bench.tests_ini(seed)).entries
    assert [entry.name for entry in entries] == list(bench.CASES)
    for entry in entries:
        [condition] = entry.conditions
        assert condition.path == measuring.path
        assert sum(source.name == "cross" for source in condition.traffic.sources) == len(
            [source for source in measuring.traffic.sources if source.name == "cross"]
        )


@pytest.mark.parametrize(
    ("twin_bps", "ends", "near", "covered"),
    [
        (108.0, (105.0, 112.0), True, True),  # the range ends within 10% of the truth's interval
        (125.0, (124.0, 126.0), False, False),
        (80.0, (70.0, 130.0), False, True),
        (80.0, (79.0, 81.0), False, False),
    ],
)
def test_a_twin_is_near_within_a_tenth_and_covers_by_its_range(
    bench: ModuleType, twin_bps: float, ends: tuple[float, float], near: bool, covered: bool
) -> None:
    compared = bench.Compared(1, "bfifo", "cubic-1", 100.0, (98.0, 102.0), twin_bps, ends)
    assert (compared.near, compared.covered) == (near, covered)


def test_a_truth_that_varies_more_than_a_tenth_allows_as_much(bench: ModuleType) -> None:
    assert bench.Compared(1, "bfifo", "cubic-1", 100.0, (75.0, 125.0), 120.0, (119.0, 121.0)).near
