"""Tests bench/scale.py, which measures very many workers that sleep instead of making runs; here
with a few workers.
"""

import sys

import pytest

from support.commands import REPOSITORY, run_program

pytestmark = [pytest.mark.lab, pytest.mark.deep]


def test_the_simulation_fills_an_archive() -> None:
    few = ("--workers", "8", "--processes", "2", "--runs", "40", "--sleep", "0.1")
    argv = [
        sys.executable,
        REPOSITORY / "bench" / "scale.py",
        "--only",
        "simulation",
        *few,
        "--most-seconds",
        "200",
    ]
    done = run_program(list(map(str, argv)))
    assert done.returncode == 0, done.stderr
    assert "40 of 40 runs are in the archive, 0 failed; " in done.stdout
