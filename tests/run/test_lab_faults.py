"""What goes wrong around a campaign in the lab costs the runs that it hits, and is told."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Ccmix, wait_for


def process_groups(ccmix: Ccmix) -> set[int]:
    """One for each guest: its kernel and the stubs of its processes."""
    groups = set()
    for process in ccmix.guests():
        with contextlib.suppress(ProcessLookupError):
            groups.add(os.getpgid(process))
    return groups


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for one run at most."""
    if os.geteuid() != 0:
        pytest.skip("a small file system takes root to mount: run the tests as root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_with_its_place(ccmix: Ccmix, small_ini: Path, full_disk: Path) -> None:
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 4"))
    done = ccmix("run", small_ini, "--lab", "-o", full_disk / "out")
    assert done.returncode == 1
    lines = [line.strip() for line in done.stderr.splitlines() if "No space left on device" in line]
    assert lines
    assert all(line.startswith(f"{full_disk}/out") for line in lines), lines
    assert not list(full_disk.rglob("run.json.part"))


def test_a_guest_that_dies_takes_its_own_run_only(ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 4"))
    running = ccmix.start("run", small_ini, "--lab", "-j", 2, "-o", outdir)
    wait_for(lambda: len(process_groups(ccmix)) == 2, 60, "two guests")
    os.killpg(process_groups(ccmix).pop(), signal.SIGKILL)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "3 runs valid, 0 not valid, 1 failed" in errors
    assert "killed by signal 9" in errors

    again = ccmix("run", small_ini, "--lab", "-o", outdir, "--resume")
    assert again.returncode == 0, again.stderr
    assert len(list(outdir.rglob("run.json"))) == 4
