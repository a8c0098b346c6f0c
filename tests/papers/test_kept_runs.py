"""An experiment that gets more runs keeps those of its archive."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.archive import ArchiveError, Campaign
from ccmix.papers.forms import form, planned
from paper_pages import kept_runs
from support.commands import REPOSITORY

ARCHIVE = REPOSITORY / "archive" / "papers" / "dai-fig1.zip"


def test_runs_that_are_still_planned_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that has another seed, nor one that the archive lacks."""
    first, second, third, *_ = planned("dai-fig1", 1, full=False)
    runs = (first, replace(second, seed=second.seed + 1), third, replace(third, iteration=99))
    monkeypatch.setattr(kept_runs, "planned", lambda *_, **__: runs)
    assert kept_runs.keep_runs("dai-fig1", ARCHIVE, tmp_path / "out") == 2
    campaign = Campaign.load(tmp_path / "out")
    assert campaign.runs == runs
    assert campaign.ini == form("dai-fig1", full=False)
    assert [finished.run for finished, _ in campaign.finished()] == [first, third]
    with pytest.raises(ArchiveError, match="is not empty"):
        kept_runs.keep_runs("dai-fig1", ARCHIVE, tmp_path / "out")


def test_a_folder_with_runs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "campaign.json").write_text("{}")
    argv = [sys.executable, "-m", "paper_pages.kept_runs", "dai-fig1", str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(REPOSITORY / "tools")}
    refused = subprocess.run(
        argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert refused.stderr == f"{tmp_path}: has runs already: move it away first\n"
    assert [file.name for file in tmp_path.iterdir()] == ["campaign.json"]
