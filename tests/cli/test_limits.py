"""Tests that limits of the process and of the disk are named, and not their consequences."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from ccmix import tools
from ccmix.failures import located, signal_text
from ccmix.generators.results import GeneratorError, read_json
from support.commands import CCMIX, SMALL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "command"),
    [
        ("-v", 2_000_000, "plan"),
        ("-v", 48_000_000, "report"),
        ("-d", 500_000, "plan"),
        ("-n", 20, "plan"),
        ("-f", 20, "plan"),
    ],
)
def test_a_limit_that_is_too_low_is_named(
    option: str, value: int, command: str, tmp_path: Path
) -> None:
    (tmp_path / "a.ini").write_text(SMALL)
    done = subprocess.run(
        ["bash", "-c", f'ulimit {option} {value}; exec "$@"', "bash", CCMIX, command, "a.ini"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"ulimit {option}: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("inodes", "free", "said"),
    [(100, 0, "no inodes are left there"), (100, 5, "make room"), (0, 0, "make room")],
)
def test_a_disk_without_inodes_is_named(
    inodes: int, free: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = os.statvfs_result((4096, 4096, 9, 9, 9, inodes, free, free, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: counted)
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "no" / "file"))
    assert said in located(error)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (9, "signal 9 (SIGKILL)"),
        (25, "signal 25 (SIGXFSZ): raise the limit of file sizes (ulimit -f)"),
        (99, "signal 99"),
    ],
)
def test_a_signal_is_named(number: int, said: str) -> None:
    assert signal_text(number) == said


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_result_is_named(text: str) -> None:
    with pytest.raises(GeneratorError, match=r"left no result in c.json: the file is empty"):
        read_json(text, "c.json")


def test_a_cache_that_the_user_may_not_enter_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for an ordinary user, because root may enter every folder."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ccmix-iperf3").symlink_to(cache / "iperf3" / "iperf3")
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: cache not in (path, *path.parents) and access(path, mode)
    )
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr(tools, "_find_in_package", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("CCMIX_IPERF3", raising=False)
    with pytest.raises(tools.ToolError, match=f"is in {cache}, which this user may not enter"):
        tools.find_iperf3()
