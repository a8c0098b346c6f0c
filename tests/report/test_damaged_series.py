"""Tests that the HTML report names a series that can't be read, and leaves out its drawings."""

import html
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from ccmix.cli.main import main
from support.published_archives import DEMO

CONDITION = "delay=5ms,loss=0%"
RUN = f"mixed/{CONDITION}/receiver/001"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def of_texts(file: Path) -> None:
    pl.read_parquet(file).with_columns(pl.all().cast(pl.String, strict=False)).write_parquet(file)


def without_rows(file: Path) -> None:
    pl.read_parquet(file).clear().write_parquet(file)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A campaign of two runs."""
    folder = tmp_path / "archive"
    plan = json.loads((DEMO / "campaign.json").read_text())
    plan["runs"] = [
        run
        for run in plan["runs"]
        if run["condition"] == {"delay": "5ms", "loss": "0%"}
        and run["entry"] in ("all-cubic", "mixed")
    ]
    for run in plan["runs"]:
        name = f"{run['entry']}/{CONDITION}/receiver/001"
        shutil.copytree(DEMO / name, folder / name)
    (folder / "campaign.json").write_text(json.dumps(plan))
    return folder


def reported(archive: Path) -> str:
    done = CliRunner().invoke(
        main, ["report", str(archive), "--format", "html"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return html.unescape((archive / "report.html").read_text())


@pytest.mark.parametrize(
    "damage", [cut, pytest.param(of_texts, marks=pytest.mark.deep), without_rows]
)
@pytest.mark.parametrize("name", sorted(file.name for file in (DEMO / RUN).glob("*.parquet")))
def test_a_series(archive: Path, name: str, damage: Callable[[Path], None]) -> None:
    file = archive / RUN / name
    damage(file)
    page = reported(archive)
    if damage is cut and name in ("intervals.parquet", "sockets.parquet"):
        assert f"{file}: can't be read: " in page
    if name == "intervals.parquet" and damage is not without_rows:
        assert f"Goodput over time is not drawn: {file}: can't be read: " in page
    assert page.count('class="strip"') == (1 if name == "intervals.parquet" else 2)
