"""Tests the program that draws blind paths: the same seed is the same path, and each can
be planned.
"""

from pathlib import Path
from types import ModuleType

import pytest

from ccmix.config import load
from support.commands import REPOSITORY, loaded


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return loaded(REPOSITORY / "bench" / "twin.py", "twin_bench")


@pytest.mark.parametrize("seed", range(1, 201))
def test_every_path_of_the_published_seeds_can_be_planned(bench: ModuleType, seed: int) -> None:
    drawn = bench.draw(seed)
    assert bench.draw(seed) == drawn
    [entry] = load(Path("path.ini"), bench.ini(drawn)).entries
    path = entry.conditions[0].path
    limit = path.policer or path
    assert abs(limit.rate_bps - drawn.rate_bps) < 1e3
    assert (path.policer is None) == (drawn.policer_bytes is None)
    assert path.senders[0].receiver_window_bytes == drawn.window_bytes
    assert abs(path.base_rtt_s - drawn.rtt_s) < 2e-6


def test_an_interval_covers_what_lies_in_it(bench: ModuleType) -> None:
    estimate = bench.Estimate("rate", 5.0, 4.0, 6.0)
    assert bench._covered(estimate, 5.5) is True
    assert bench._covered(estimate, 6.5) is False
    assert bench._covered(bench.Estimate("rate", low=4.0), 9.0) is True
    assert bench._covered(bench.Estimate("rate"), 9.0) is None


def test_the_published_seeds_have_every_kind_of_path(bench: ModuleType) -> None:
    words = {word for seed in range(1, 201) for word in bench.draw(seed).kind.split()}
    assert words == {
        "bfifo",
        "pfifo",
        "fq_codel",
        "codel",
        "policer",
        "cross",
        "bursts",
        "reordering",
        "window",
    }


def test_a_value_of_what_the_path_has_not_is_a_miss(bench: ModuleType) -> None:
    assert bench._covered(bench.Estimate("policer's burst", 5.0, 4.0, 6.0), None) is False
    assert bench._covered(bench.Estimate("receiver's window", low=4.0), None) is True


def test_seeds_are_ranges_and_single_ones(bench: ModuleType) -> None:
    assert bench.seeds("1-3,7") == [1, 2, 3, 7]
