"""Tests that a damaged archive gives one line that names the file, and never a traceback.

A campaign that can't be read is refused. A run that can't be read is left out, and of a run whose
intervals can't be read, the intervals are.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import ArchiveError
from ccmix.cli.compare import compared

from .conftest import Make, iterations

NEAR = [99e6, 100e6, 101e6]
OF_CAMPAIGN: list[tuple[tuple[Any, ...], Any]] = [
    (("traffics", 0, "omit_s"), {}),
    (("runs", 1, "entry"), []),
    (("paths", 0, "rate_bps"), 1e999),
    (("runs", 1, "condition"), {"loss": "\ud800"}),
    (("ini",), None),
]
OF_RUN: list[tuple[tuple[Any, ...], Any]] = [
    (("metrics", "groups", 0, "goodput_bps"), 10**40),
    (("metrics", "groups", 0, "streams"), "8"),
    (("metrics", "groups"), {"cubic": 1}),
    (("facts", "kernel"), None),
    (("verdict", "findings"), [None]),
]


def damage(file: Path, place: tuple[Any, ...], value: Any) -> None:
    document = json.loads(file.read_text())
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    file.write_text(json.dumps(document))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def refused(good: Path, bad: Path, file: Path) -> None:
    for a, b in ((good, bad), (bad, good)):
        with pytest.raises(ArchiveError) as raised:
            compared(a, b, 0.1, "table")
        said = str(raised.value)
        assert str(file.parent) in said
        assert "\n" not in said


def left_out(
    good: Path, bad: Path, file: Path, capsys: pytest.CaptureFixture[str], of: str = ""
) -> None:
    for a, b in ((good, bad), (bad, good)):
        assert compared(a, b, 0.1, "table")
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"left out{of}: ")
        assert str(file.parent) in line


@pytest.fixture
def campaigns(make: Make) -> tuple[Path, Path]:
    return make("good", iterations(NEAR)), make("bad", iterations(NEAR))


@pytest.mark.parametrize(("place", "value"), OF_CAMPAIGN)
def test_a_campaign(place: tuple[Any, ...], value: Any, campaigns: tuple[Path, Path]) -> None:
    good, bad = campaigns
    file = bad / "campaign.json"
    damage(file, place, value)
    refused(good, bad, file)


@pytest.mark.parametrize(("place", "value"), OF_RUN)
def test_a_run(
    place: tuple[Any, ...],
    value: Any,
    campaigns: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    good, bad = campaigns
    file = next(bad.rglob("run.json"))
    damage(file, place, value)
    left_out(good, bad, file, capsys)


def test_a_run_that_was_cut_off(
    campaigns: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = campaigns
    file = next(bad.rglob("run.json"))
    cut(file)
    left_out(good, bad, file, capsys)


def test_a_campaign_that_was_cut_off(campaigns: tuple[Path, Path]) -> None:
    good, bad = campaigns
    file = bad / "campaign.json"
    cut(file)
    refused(good, bad, file)


@pytest.mark.parametrize("iteration", [1, 2])
def test_intervals_that_were_cut_off(
    iteration: int, campaigns: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = campaigns
    [file] = bad.rglob(f"{iteration:03d}/intervals.parquet")
    whole = json.loads(compared(good, bad, 0.1, "json"))
    cut(file)
    left_out(good, bad, file, capsys, " of the distributions")
    without = json.loads(compared(good, bad, 0.1, "json"))
    [of_whole], [of_others] = (made["conditions"][0].pop("groups") for made in (whole, without))
    assert without == whole
    assert (
        of_others["distributions"]["a_quantiles_bps"]
        == of_whole["distributions"]["a_quantiles_bps"]
    )
    assert (
        of_others["distributions"]["b_quantiles_bps"]
        != of_whole["distributions"]["b_quantiles_bps"]
    )


def test_a_campaign_without_readable_intervals_has_no_distributions(
    campaigns: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = campaigns
    for file in bad.rglob("intervals.parquet"):
        cut(file)
    [group] = json.loads(compared(good, bad, 0.1, "json"))["conditions"][0]["groups"]
    assert group["distributions"] is None
    assert sum(
        line.startswith("left out of the dist") for line in capsys.readouterr().err.splitlines()
    ) == len(NEAR)
