"""Tests what the demo must show, on the demo's own path: configs/demo.ini with one iteration instead of three. All its
runs have settled.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from support import REPOSITORY, Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(1000)]

Goodputs = Mapping[tuple[str, str, str], float]  # (entry, condition, group) to Mbit/s

LOSSY = "delay=44ms,loss=0.1%"


@pytest.fixture(scope="module")
def goodputs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], float]:
    folder = tmp_path_factory.mktemp("demo")
    text = (REPOSITORY / "configs" / "demo.ini").read_text()
    assert "iterations = 3" in text
    (folder / "demo.ini").write_text(text.replace("iterations = 3", "iterations = 1"))
    done = Ccmix(folder)("run", folder / "demo.ini", "--lab", "-o", folder / "out", timeout=900)
    assert done.returncode == 0, done.stderr
    goodputs_bps = {}
    for file in sorted(Path(folder / "out").glob("*/*/receiver/001/run.json")):
        summary = json.loads(file.read_text())
        assert summary["metrics"]["settling"]["settled"], (file, summary["metrics"]["settling"])
        for group in summary["metrics"]["groups"]:
            goodputs_bps[file.parts[-5], file.parts[-4], group["group"]] = group["goodput_bps"] / 1e6
    return goodputs_bps


def total(goodputs: Goodputs, entry: str, condition: str) -> float:
    return sum(mbps for (name, where, _), mbps in goodputs.items() if (name, where) == (entry, condition))


@pytest.mark.parametrize("entry", ["all-cubic", "all-bbr", "all-bbr2", "mixed", "mixed-bbr2"])
@pytest.mark.parametrize("delay", ["5ms", "44ms"])
def test_without_loss_the_bottleneck_is_full(entry: str, delay: str, goodputs: Goodputs) -> None:
    assert total(goodputs, entry, f"delay={delay},loss=0%") >= 930


def test_with_loss_bbr_gets_twice_what_cubic_gets(goodputs: Goodputs) -> None:
    assert total(goodputs, "all-bbr", LOSSY) >= 2 * total(goodputs, "all-cubic", LOSSY)


def test_mixed_bbr_takes_three_times_cubics_share(goodputs: Goodputs) -> None:
    assert goodputs["mixed", LOSSY, "bbr"] >= 3 * goodputs["mixed", LOSSY, "cubic"]
