"""Tests that files which a hostile command leaves in a run's folder cost only its run."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.archive import RunFolder
from ccmix.generators.results import GeneratorError
from ccmix.lab import GuestError
from ccmix.lab.spec import DEEPEST
from ccmix.model import run_files
from ccmix.probes.stream.reader import StreamTail
from ccmix.run.machines import _files_checked, _finish_job, _measurement

MOST_BYTES = 10**6


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "001")
    (made.begin() / run_files.LOGS).mkdir()
    return made


def nested(folder: Path, levels: int, name: str = "d") -> None:
    """Makes folders one in the other, deeper than a path may be long."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        for _ in range(levels):
            Path(name).mkdir()
            os.chdir(name)
        Path("file").touch()
    finally:
        os.fchdir(before)
        os.close(before)


def sparse(folder: Path) -> None:
    with (folder / run_files.LOGS / "more.log").open("wb") as file:
        file.truncate(3 * 2**30)


def with_a_byte(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/l\xff")).symlink_to("/etc")


PLANTED: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: nested(folder, 3000, "x" * 200), f"a folder {DEEPEST + 1} levels deep"),
    (sparse, r"logs/more.log has 3.22 GB, more than 1 MB"),
    (with_a_byte, r"l\\xff is not valid UTF-8"),
    (
        lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/f\xff")).touch(),
        r"f\\xff is not valid UTF-8",
    ),
    (lambda folder: os.mkfifo(folder / "logs" / "pipe"), "logs/pipe is neither a file nor"),
]


@pytest.mark.parametrize(("plant", "said"), PLANTED)
def test_what_a_guest_plants_is_removed_and_named(
    plant: Callable[[Path], None], said: str, folder: RunFolder
) -> None:
    with (
        pytest.raises(GuestError, match=said) as caught,
        _files_checked(folder.partial, MOST_BYTES),
    ):
        plant(folder.partial)
    str(caught.value).encode()
    assert len(list(folder.partial.rglob("*"))) <= DEEPEST + 1


def test_files_of_a_users_own_may_be_large(folder: RunFolder) -> None:
    """Expects a limit only for the files that ccmix reads."""
    with _files_checked(folder.partial, MOST_BYTES), (folder.partial / "x").open("wb") as file:
        file.truncate(10 * MOST_BYTES)
    assert (folder.partial / "x").exists()


def test_the_next_try_removes_folders_of_any_depth(folder: RunFolder) -> None:
    nested(folder.partial, 3000, "x" * 200)
    kept = folder.partial.with_name("kept")
    kept.mkdir()
    (kept / "file").touch()
    (folder.partial / "link").symlink_to(kept)
    assert list(folder.begin().iterdir()) == []
    folder.discard()
    assert [path.name for path in folder.path.parent.iterdir()] == ["kept"]
    assert (kept / "file").exists()


@pytest.mark.parametrize(
    "content",
    [b"[" * 200_000, b"\xff\xfe", b"", b"{}", b'"\\ud800"', b"[" + b"[]," * 600_000 + b"[]]"],
    ids=["nested", "no text", "empty", "no measurement", "surrogate", "many values"],
)
def test_facts_that_are_none(content: bytes, folder: RunFolder) -> None:
    (folder.partial / run_files.FACTS).write_bytes(content)
    with pytest.raises(GeneratorError, match="can't be understood"):
        _measurement(folder.partial)


def test_facts_of_3_gib_are_not_read(folder: RunFolder) -> None:
    with (folder.partial / run_files.FACTS).open("wb") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(GeneratorError, match=r"it has 3.22 GB, but ccmix writes at most"):
        _measurement(folder.partial)


@pytest.mark.parametrize("size", [0, 6 * 2**30])
def test_a_reason_that_is_no_text(size: int, folder: RunFolder) -> None:
    (folder.partial / run_files.JOB).touch()
    with (folder.partial / run_files.ERROR).open("wb") as file:
        file.write(b"\xff\xfe broken")
        file.truncate(size or 9)
    with pytest.raises(GeneratorError, match="broken"):
        _finish_job(folder.partial, 1)


def test_a_measuring_process_that_was_killed_is_named(folder: RunFolder) -> None:
    (folder.partial / run_files.JOB).touch()
    with pytest.raises(GeneratorError, match=r"was killed by signal 9 \(SIGKILL\)"):
        _finish_job(folder.partial, -9)


@pytest.mark.timeout(30)
def test_the_display_waits_for_no_pipe(folder: RunFolder) -> None:
    stream = folder.partial / run_files.LOGS / run_files.SOCKMON_STREAM
    os.mkfifo(stream)
    with pytest.raises(Exception, match="is not a regular file"):
        StreamTail(stream).seconds()
