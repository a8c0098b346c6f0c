"""Tests that users without a usable folder for temporary files read in one line which folder it is,
why, and what to do.
"""

import errno
from pathlib import Path

import pytest
from click.testing import CliRunner

from ccmix.cli.main import main
from ccmix.temporary import TemporaryFolderError, temporary_folder
from support.commands import small_disk
from support.published_archives import DEMO_FILE


@pytest.mark.parametrize(
    ("place", "reason"),
    [("missing", "No such file or directory"), ("file", "Not a directory"), ("/proc", "")],
)
@pytest.mark.parametrize("command", [["report"], ["run", "--lab"]])
def test_a_folder_that_can_not_be_used(
    place: str,
    reason: str,
    command: list[str],
    small_ini: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    named = tmp_path / place
    monkeypatch.setenv("TMPDIR", str(named))
    what = [DEMO_FILE] if command == ["report"] else [small_ini, "-o", tmp_path / "out"]
    done = CliRunner().invoke(main, [*command, *map(str, what)])
    assert done.exit_code == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{named}: can't be used for temporary files: {reason}")
    assert line.endswith(": name another folder with TMPDIR, or unset it")
    assert not (tmp_path / "out").exists()


@pytest.mark.namespaces
@pytest.mark.parametrize("size", ["0", "64k"])
def test_a_folder_without_room(size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full from the start, or has less room than an archive needs."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        if size == "0":
            with pytest.raises(OSError, match="No space left"):
                (disk / "all").write_bytes(bytes(100_000))
        monkeypatch.setenv("TMPDIR", str(disk))
        done = CliRunner().invoke(main, ["report", str(DEMO_FILE)])
        left = [path.name for path in disk.iterdir()]
    assert done.exit_code == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(
        f"{disk}: can't be used for temporary files: No space left on device: make room, or "
    )
    assert left == ["all"] * (size == "0")


def test_other_errors_keep_their_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as raised, temporary_folder():
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "results"))
    assert not isinstance(raised.value, TemporaryFolderError)
