"""Tests that a server keeps serving while hostile clients talk to it, and leaks no resources."""

import os
from pathlib import Path

import pytest

from support.commands import long, run_program

SERVE = Path(__file__).resolve().parents[2] / "iperf3-patch" / "fuzz" / "serve.py"
KINDS = 23
GROWTH_KIB = (
    100_000 if "ASAN_OPTIONS" in os.environ else 1024
)  # AddressSanitizer keeps what was freed


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("times", [10, long(100)])
def test_hostile_talks_leave_nothing_and_refuse_nobody(
    iperf3: str, times: int, arguments: tuple[str, ...]
) -> None:
    """Without the patches of the server, ten talks of each kind leaked six descriptors, and most
    tests were refused.
    """
    argv = [
        SERVE,
        "--talks",
        str(KINDS * times),
        "--binary",
        iperf3,
        "--growth",
        str(GROWTH_KIB),
        *arguments,
    ]
    ended = run_program(argv)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{KINDS * times} talks of {KINDS} kinds" in ended.stdout
