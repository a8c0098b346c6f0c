"""The index of a campaign gives what each run.json gives, also after these have changed behind its back."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ccmix.analysis.results import load_results
from ccmix.archive import ArchiveError, Campaign, campaign, campaign_index, codec, packed
from ccmix.archive.campaign import INDEX
from ccmix.archive.folders import RunFolder
from ccmix.archive.held_folders import held
from ccmix.index.summaries import campaign_documents
from ccmix.report import results_text
from published_archives import DEMO

TICK_S = 0.05  # of the clock of the file systems that tests run on


@pytest.fixture
def outdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign of twelve runs, of which an index is used, and changes of a tick ago are old."""
    monkeypatch.setattr(campaign, "INDEXED_FROM", 1)
    monkeypatch.setattr(campaign_index, "SETTLES_NS", 0)
    folder = tmp_path / "demo"
    shutil.copytree(DEMO, folder)
    time.sleep(TICK_S)
    return folder


def table(outdir: Path) -> str:
    """Returns the table, and why runs are left out."""
    results = load_results([outdir], numbers_only=True)
    return results_text.render(results) + "\n".join(results.unread)


def table_of_files(outdir: Path) -> str:
    """Returns the table without an index."""
    results = load_results([outdir])
    return results_text.render(results) + "\n".join(results.unread)


def summaries(outdir: Path) -> list[Path]:
    return sorted(outdir.rglob("run.json"))


def edited(file: Path, factor: float = 3.0) -> bytes:
    """Returns a run.json with another goodput."""
    finished = codec.read(file.parents[4], file, codec.FINISHED_RUN)
    metrics = finished.metrics
    groups = tuple(replace(group, goodput_bps=group.goodput_bps * factor) for group in metrics.groups)
    changed = replace(finished, metrics=replace(metrics, goodput_bps=metrics.goodput_bps * factor, groups=groups))
    return json.dumps({"schema": codec.SCHEMA, **codec.FINISHED_RUN.encode(changed)}).encode()


def edit_in_place(file: Path) -> None:
    """Changes the content, and puts back its length and its time of modification, as careful tools do."""
    before, content = file.stat(), edited(file)
    padded = content[:-1] + b" " * (before.st_size - len(content)) + b"}"
    file.write_bytes(padded)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def replace_by_another(file: Path) -> None:
    part = file.with_name("new")
    part.write_bytes(edited(file))
    part.rename(file)


def damage(file: Path) -> None:
    file.write_bytes(b'{"schema": 3, ')


def remove(file: Path) -> None:
    shutil.rmtree(file.parent)


def put_one_in_place_of_another(file: Path) -> None:
    other = summaries(file.parents[4])[-1]
    shutil.copy2(other, file)


def link_the_file(file: Path) -> None:
    away = file.parents[4].with_name("away.json")
    file.rename(away)
    file.symlink_to(away)


def link_the_folder(file: Path) -> None:
    away = file.parents[4].with_name("away")
    file.parents[2].rename(away)
    file.parents[2].symlink_to(away)


CHANGES: list[Callable[[Path], None]] = [
    edit_in_place, replace_by_another, damage, remove, put_one_in_place_of_another, link_the_file, link_the_folder,
]  # fmt: skip


def read_again(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the folders of the runs whose run.json a table opens."""
    opened: list[str] = []
    read = RunFolder.read
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "read", lambda folder: opened.append(folder.path.name) or read(folder))  # type: ignore[func-returns-value]
        table(outdir)
    return opened


def test_a_table_makes_the_index_and_then_opens_no_run(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read_again(outdir, monkeypatch)) == len(summaries(outdir))
    assert pl.read_parquet(outdir / INDEX).height == len(summaries(outdir))
    assert read_again(outdir, monkeypatch) == []
    assert table(outdir) == table_of_files(outdir)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_run_changes_the_table(change: Callable[[Path], None], outdir: Path) -> None:
    first = table(outdir)
    change(summaries(outdir)[0])
    assert table(outdir) == table_of_files(outdir) != first
    assert table(outdir) == table_of_files(outdir)


def test_a_run_that_is_added_is_in_the_table(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = summaries(outdir)[0].parent
    away = outdir.with_name("away")
    folder.rename(away)
    without = table(outdir)
    away.rename(folder)
    assert len(read_again(outdir, monkeypatch)) == 1
    assert table(outdir) == table_of_files(outdir) != without


def test_another_run_whose_file_was_there_before_is_read(outdir: Path) -> None:
    first = table(outdir)
    one, other = summaries(outdir)[0], summaries(outdir)[-1]
    away = outdir.with_name("away.json")
    one.rename(away)
    other.rename(one)
    away.rename(other)
    assert table(outdir) == table_of_files(outdir) != first


def test_a_campaign_that_was_copied_with_its_index_is_read(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = table(outdir)
    copy = outdir.with_name("copy")
    shutil.copytree(outdir, copy)  # with the times of modification
    assert len(read_again(copy, monkeypatch)) == len(summaries(copy))
    assert table(copy) == first


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\0" * 100_000], ids=["empty", "cut", "zeros"])
def test_a_damaged_index_is_made_again(content: bytes, outdir: Path) -> None:
    first = table(outdir)
    (outdir / INDEX).write_bytes(content)
    assert table(outdir) == first
    assert pl.read_parquet(outdir / INDEX).height == len(summaries(outdir))


@pytest.mark.parametrize(
    "lie",
    [
        pl.col("numbers").str.replace("goodput", "goodputs"),
        pl.col("setup").str.replace("kernel", "colonel"),
        pl.lit("no JSON").alias("numbers"),
        pl.lit(None, pl.String).alias("numbers"),
    ],
    ids=["unknown field", "missing field", "no JSON", "null"],
)
def test_an_index_that_this_ccmix_would_not_write_is_not_used(lie: pl.Expr, outdir: Path) -> None:
    first = table(outdir)
    made_by = pl.read_parquet_metadata(outdir / INDEX)["ccmix"]
    pl.read_parquet(outdir / INDEX).with_columns(lie).write_parquet(outdir / INDEX, metadata={"ccmix": made_by})
    assert table(outdir) == first


@pytest.mark.parametrize("field", ["bytes", "inode", "modified_ns", "changed_ns"])
def test_a_row_counts_only_where_its_run_json_has_all_that_was_noted(
    field: str, outdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes what was noted of one run.json, as if the file had changed in nothing else."""
    table(outdir)
    made_by = pl.read_parquet_metadata(outdir / INDEX)["ccmix"]
    rows = pl.read_parquet(outdir / INDEX)
    other = pl.when(pl.int_range(pl.len()) == 0).then(pl.col(field) + 1).otherwise(pl.col(field))
    rows.with_columns(other.cast(rows.schema[field])).write_parquet(outdir / INDEX, metadata={"ccmix": made_by})
    assert len(read_again(outdir, monkeypatch)) == 1
    assert read_again(outdir, monkeypatch) == []


def test_the_index_of_another_version_is_not_used(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(outdir)
    pl.read_parquet(outdir / INDEX).write_parquet(outdir / INDEX, metadata={"ccmix": "0.0.1"})
    assert len(read_again(outdir, monkeypatch)) == len(summaries(outdir))


def test_a_linked_index_is_neither_read_nor_written_through(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(outdir)
    away = outdir.with_name("away.parquet")
    (outdir / INDEX).rename(away)
    (outdir / INDEX).symlink_to(away)
    content = away.read_bytes()
    assert len(read_again(outdir, monkeypatch)) == len(summaries(outdir))
    assert away.read_bytes() == content
    assert not (outdir / INDEX).is_symlink()


def test_a_run_that_changed_a_moment_ago_is_read_once_more(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_index, "SETTLES_NS", 3_600_000_000_000)
    table(outdir)
    assert pl.read_parquet(outdir / INDEX)["goodput_bps"].null_count() == 0
    assert len(read_again(outdir, monkeypatch)) == len(summaries(outdir))


def test_two_processes_do_not_write_at_the_same_time(outdir: Path) -> None:
    with held(outdir) as ours:
        assert ours
        assert table(outdir) == table_of_files(outdir)
        assert not (outdir / INDEX).exists()


def test_a_folder_that_cannot_be_written_to_is_read(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_index, "_file_system_clock_ns", lambda outdir: None)
    assert table(outdir) == table_of_files(outdir)
    assert not (outdir / INDEX).exists()


def test_the_index_has_numbers_for_people(outdir: Path) -> None:
    assert campaign_index.update(Campaign.load(outdir)) == len(summaries(outdir))
    assert campaign_index.update(Campaign.load(outdir)) == 0
    rows = {row["folder"]: row for row in pl.read_parquet(outdir / INDEX).iter_rows(named=True)}
    for finished, folder in Campaign.load(outdir).finished():
        row = rows[str(folder.relative_to(outdir))]
        assert (row["entry"], row["dst"], row["iteration"]) == (
            finished.run.entry, finished.run.dst, finished.run.iteration)  # fmt: skip
        assert json.loads(row["condition"]) == finished.run.condition
        assert (row["goodput_bps"], row["status"]) == (finished.metrics.goodput_bps, finished.verdict.status)
        assert row["real_seconds"] == finished.execution.real_seconds
        status = (folder / "run.json").stat()
        assert (row["bytes"], row["inode"]) == (status.st_size, status.st_ino)
        assert (row["modified_ns"], row["changed_ns"]) == (status.st_mtime_ns, status.st_ctime_ns)


def test_documents_of_a_campaign_are_the_same_by_the_index(outdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(outdir)
    opened: list[Path] = []
    read = RunFolder.read
    monkeypatch.setattr(RunFolder, "read", lambda folder: opened.append(folder.path) or read(folder))  # type: ignore[func-returns-value]
    by_index = list(campaign_documents(Campaign.load(outdir)))
    assert opened == []
    monkeypatch.setattr(campaign, "INDEXED_FROM", 1000)
    finished = Campaign.finished
    monkeypatch.setattr(Campaign, "finished", lambda of, **_: finished(of))
    assert list(campaign_documents(Campaign.load(outdir))) == by_index
    assert len(opened) == len(summaries(outdir))


def test_a_packed_archive_is_the_same_with_an_index(outdir: Path, tmp_path: Path) -> None:
    packed.pack(outdir, tmp_path / "without.zip")
    table(outdir)
    packing = packed.pack(outdir, tmp_path / "with.zip")
    assert packing.foreign == ()
    assert (tmp_path / "with.zip").read_bytes() == (tmp_path / "without.zip").read_bytes()


def test_a_damaged_run_is_named_or_raises(outdir: Path) -> None:
    table(outdir)
    damage(summaries(outdir)[0])
    with pytest.raises(ArchiveError, match="it is not JSON"):
        list(Campaign.load(outdir).finished(numbers_only=True))
