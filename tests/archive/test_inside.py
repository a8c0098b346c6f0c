"""Tests that an archive that somebody changes while it is read leads to no file outside of it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.archive import ArchiveError, parquet
from ccmix.files import open_file, read_bytes

RUN = "entry/condition/dst/001"
OURS, SECRET = b"what ccmix wrote", b"a file of the user's"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Makes a run with a file, and another folder outside of the archive with a file of the same
    name.
    """
    for folder, content in ((tmp_path / "archive" / RUN, OURS), (tmp_path / "secret", SECRET)):
        folder.mkdir(parents=True)
        (folder / "run.json").write_bytes(content)
        pl.DataFrame({"host": [content.decode()]}).write_parquet(folder / "text.parquet")
    return tmp_path / "archive"


def swap(archive: Path) -> None:
    """Replaces the run's folder by a link."""
    run = archive / RUN
    if not run.is_symlink():
        run.rename(run.with_name("moved"))
        run.symlink_to(archive.parent / "secret")


def swapped_before(archive: Path, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, which first swaps the folder if it is called for a file of this name,
    or for any file.
    """

    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        if str(path).endswith(name):
            swap(archive)
        return function(path, *arguments, **named)

    return call


def test_a_folder_that_becomes_a_link_before_its_file_is_opened(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", swapped_before(archive, "run.json", os.open))
    assert read_bytes(archive, archive / RUN / "run.json", 1000) == OURS
    assert (archive / RUN / "run.json").read_bytes() == SECRET
    with pytest.raises(ArchiveError, match=f"{RUN}: is a link"):
        read_bytes(archive, archive / RUN / "run.json", 1000)


def test_a_folder_that_becomes_a_link_before_its_table_is_read(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pl, "scan_parquet", swapped_before(archive, "", pl.scan_parquet))
    file = archive / RUN / "text.parquet"
    assert parquet.read(file)["host"].to_list() == [OURS.decode()]
    assert (archive / RUN).is_symlink()
    with pytest.raises(ArchiveError, match=f"{RUN}: is a link"):
        parquet.read(file)


@pytest.mark.parametrize("name", ["pipe", "folder", "link"])
def test_what_is_no_file(archive: Path, name: str) -> None:
    run = archive / RUN
    os.mkfifo(run / "pipe")
    (run / "folder").mkdir()
    (run / "link").symlink_to("run.json")
    reason = "is a link" if name == "link" else "is not a regular file"
    with pytest.raises(ArchiveError, match=f"{run / name}: can't be read: it {reason}"):
        open_file(archive, run / name)


def test_a_missing_file_is_named(archive: Path) -> None:
    for file in (archive / RUN / "missing", archive / "no-entry" / "condition"):
        with pytest.raises(FileNotFoundError) as raised:
            open_file(archive, file)
        assert str(file).startswith(raised.value.filename)
