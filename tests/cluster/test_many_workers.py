"""Tests bench/scale, which measures very many workers that sleep instead of making runs, with a few of them."""

import subprocess
import sys

import pytest

from support import REPOSITORY

pytestmark = [pytest.mark.lab, pytest.mark.deep]


def test_the_simulation_fills_an_archive() -> None:
    few = ("--workers", "8", "--processes", "2", "--runs", "40", "--sleep", "0.1")
    argv = [sys.executable, REPOSITORY / "bench" / "scale", "--only", "simulation", *few, "--most-seconds", "200"]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "40 of 40 runs are in the archive, 0 failed; " in done.stdout
