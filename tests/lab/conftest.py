"""The lab kernel, built once per machine, and what a test needs to look at its processes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def kernel() -> Path:
    """The lab kernel, from the cache. The first time, its build takes minutes."""
    built = subprocess.run([ROOT / "lab" / "build"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(built.stdout.strip())


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def launch_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The launch folders go here, so that whatever runs in one of them belongs to this test."""
    folder = tmp_path / "launch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
