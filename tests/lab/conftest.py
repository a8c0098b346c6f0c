"""Provides the lab kernel, built once per machine, and fixtures to look at its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def processes_in(folder: Path) -> dict[int, str]:
    """Returns the processes whose working directory is in the folder: a guest's kernel and
    its stubs.
    """
    processes = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                processes[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue  # ended meanwhile, or another user's
    return processes


@pytest.fixture(scope="session")
def kernel() -> Path:
    """Returns the lab kernel, from the cache. The first time, its build takes minutes."""
    built = subprocess.run([ROOT / "lab" / "build"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(built.stdout.strip())


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def launch_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Puts the launch folders here, so that whatever runs in one of them belongs to this test."""
    folder = tmp_path / "launch"
    folder.mkdir()
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    for pid in processes_in(folder):  # of a test that failed
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(name="processes_in")
def processes_in_fixture() -> Callable[[Path], dict[int, str]]:
    """Returns processes_in(), which tests can't import because they are not a package."""
    return processes_in
