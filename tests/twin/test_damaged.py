"""Tests that a twin leaves out an unreadable run, with a sentence, and that a twin needs a run."""

import re
import shutil
from pathlib import Path

import pytest

from ccmix.archive import ArchiveError
from ccmix.twin.twin import twin_of
from support.commands import Ccmix
from support.published_archives import DEMO


@pytest.fixture
def outdir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "demo"))


def damaged(outdir: Path) -> Path:
    file = next(outdir.rglob("run.json"))
    file.write_text("{")
    return file


def shown_runs(outdir: Path, ccmix: Ccmix) -> int:
    """Returns the number of runs of all paths that are shown."""
    return sum(
        map(int, re.findall(r"^dtn .*, (\d+) runs?$", ccmix("twin", outdir).stdout, re.MULTILINE))
    )


def test_a_damaged_run_is_left_out_with_a_sentence(outdir: Path, ccmix: Ccmix) -> None:
    before = shown_runs(outdir, ccmix)
    file = damaged(outdir)
    done = ccmix("twin", outdir)
    assert done.returncode == 0, done.stderr
    assert shown_runs(outdir, ccmix) == before - 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"left out: {file}: can't be read: ")


def test_a_run_whose_series_is_damaged_is_left_out_with_a_sentence(
    outdir: Path, ccmix: Ccmix
) -> None:
    before = shown_runs(outdir, ccmix)
    file = next(outdir.rglob("sockets.parquet"))
    file.write_bytes(b"PAR1 and no more")
    done = ccmix("twin", outdir)
    assert done.returncode == 0, done.stderr
    assert shown_runs(outdir, ccmix) == before - 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"left out: {file}: ")
    alone = ccmix("twin", file.parent)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "sockets.parquet" in alone.stderr


def test_one_run_is_read_alone(outdir: Path) -> None:
    folder = next(outdir.rglob("run.json")).parent
    file = next(each for each in outdir.rglob("run.json") if each.parent != folder)
    file.write_text("{")
    unread: list[str] = []
    [twin] = twin_of([folder], unread)
    assert len(twin.runs) == 1
    assert unread == []


def test_a_damaged_run_alone_is_refused(outdir: Path) -> None:
    file = damaged(outdir)
    with pytest.raises(ArchiveError, match=r"run\.json: can't be read: "):
        twin_of([file.parent], unread=[])


def test_a_campaign_without_finished_runs_is_refused(outdir: Path) -> None:
    for file in outdir.rglob("run.json"):
        file.unlink()
    with pytest.raises(ArchiveError, match="no finished run"):
        twin_of([outdir], unread=[])
