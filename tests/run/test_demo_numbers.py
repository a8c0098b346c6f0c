"""Tests the results that the demo must show, on the demo's own path: configs/demo.ini with one
iteration instead of three. Runs whose shares are tested have settled.
"""

from collections.abc import Mapping

import pytest

from support.commands import REPOSITORY
from support.lab_runs import LabRun, lab_runs

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(1000)]

Goodputs = Mapping[tuple[str, str, str], float]  # (entry, condition, group) to Mbit/s

WANDERING = ("mixed-bbr2",)  # only its sum is tested: its shares may still change after 4 min
LOSSY = "delay=44ms,loss=0.1%"


runs = lab_runs(
    (REPOSITORY / "configs" / "demo.ini").read_text().replace("iterations = 3", "iterations = 1"),
    all_valid=False,
)


@pytest.fixture(scope="module")
def goodputs(runs: dict[str, LabRun]) -> dict[tuple[str, str, str], float]:
    found = {}
    for made in runs.values():
        run, metrics = made.finished.run, made.finished.metrics
        assert metrics.settling
        assert metrics.settling.settled or run.entry in WANDERING, metrics.settling
        for group in metrics.groups:
            found[run.entry, run.condition_name, group.group] = group.goodput_bps / 1e6
    return found


def total(goodputs: Goodputs, entry: str, condition: str) -> float:
    return sum(
        mbps for (name, where, _), mbps in goodputs.items() if (name, where) == (entry, condition)
    )


@pytest.mark.parametrize("entry", ["all-cubic", "all-bbr", "all-bbr2", "mixed", "mixed-bbr2"])
@pytest.mark.parametrize("delay", ["5ms", "44ms"])
def test_without_loss_the_bottleneck_is_full(entry: str, delay: str, goodputs: Goodputs) -> None:
    assert total(goodputs, entry, f"delay={delay},loss=0%") >= 930


def test_with_loss_bbr_gets_twice_what_cubic_gets(goodputs: Goodputs) -> None:
    assert total(goodputs, "all-bbr", LOSSY) >= 2 * total(goodputs, "all-cubic", LOSSY)


def test_mixed_bbr_takes_three_times_cubics_share(goodputs: Goodputs) -> None:
    assert goodputs["mixed", LOSSY, "bbr"] >= 3 * goodputs["mixed", LOSSY, "cubic"]
