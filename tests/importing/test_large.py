"""Tests tables that are written by two processes."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.archive import Campaign, many
from ccmix.importing import write
from ccmix.model.results import FinishedRun
from importing_support import Here, Import

LINES = 7


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(write, "MOST_ALONE", LINES - 1)
    file = tmp_path / "table.csv"
    file.write_text("dst,cca,goodput_mbps\n" + "".join(f"host{line % 2},cubic,{line}\n" for line in range(LINES)))
    return file


def test_both_write_what_one_writes(table: Path, imported: Import, here: Here, tmp_path: Path) -> None:
    outcome = imported(table)
    write.MOST_ALONE = LINES
    here("import", table, "-o", tmp_path / "alone")
    files = sorted(path.relative_to(outcome.outdir) for path in outcome.outdir.rglob("run.json"))
    assert len(files) == LINES
    for file in files:
        assert (outcome.outdir / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()
    assert Campaign.load(outcome.outdir).runs == Campaign.load(tmp_path / "alone").runs


@pytest.mark.parametrize("line", [0, 1], ids=["the first process", "the second process"])
def test_a_full_disk(line: int, table: Path, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_finished: Callable[[Path, FinishedRun], None] = many.write_finished

    def written(file: Path, finished: FinishedRun) -> None:
        if finished.metrics.goodput_bps == line * 1e6:
            raise OSError(errno.ENOSPC, "No space left on device", str(file))
        write_finished(file, finished)

    monkeypatch.setattr(many, "write_finished", written)
    done = here("import", table, "-o", tmp_path / "imported")
    assert done.exit_code == 2
    assert "run.json: No space left on device: make room on that disk" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
