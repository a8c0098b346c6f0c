"""Tests campaigns with a lying pScheduler server, played by the stand-in: its run fails or not, the
campaign ends, and the controller's memory stays bounded.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import run_program
from support.pscheduler_stand_in import Certificate, Fault, StandIn, certificate, serving, succeeds

from .test_lying_hosts import MOST_BYTES, PROGRAM

CONFIG = """
[mesh]
type = perfSONAR
src = ps1.example.invalid
dst = 192.0.2.1
lead = {lead}
tls-ca = {certificate}
duration = 1s
accept-limits = probe, cpu
"""
WIDE = (
    f"[{'[],' * 1_300_000}1]"  # as much memory as an answer can take that is no longer than the cap
)
LONG = "x" * 30_000_000
RUN = r"GET /pscheduler/tasks/[^/]*/runs/.{36}$"
RESULT = json.dumps({"state": "finished", "result-merged": {"succeeded": True}, "result-full": 1})
# The request, the answer, and the message of the failed run; "" if it succeeds
LIES = {
    "long clock": ("GET /pscheduler/clock", LONG, ""),
    "wide clock": ("GET /pscheduler/clock", WIDE, ""),
    "long task": ("POST /pscheduler/tasks", LONG, "POST tasks: its answer is longer than 4 MB"),
    "wide task": ("POST /pscheduler/tasks", WIDE, "is not the address of a task"),
    "long run": (RUN, LONG, "its answer is longer than 4"),
    "wide run": (RUN, WIDE, "is not a run"),
    "wide result": (
        RUN,
        f'{RESULT[:-1]}, "more": {WIDE}}}',
        "is not understood: KeyError('start-time')",
    ),
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def stand_in(shown: Certificate) -> Iterator[StandIn]:
    server = StandIn(succeeds, starts_after_s=0.5)
    server.slot_s = 0.5
    with serving(server, shown):
        yield server


@pytest.mark.deep
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_server_stand_in(
    lie: str, stand_in: StandIn, shown: Certificate, tmp_path: Path
) -> None:
    pattern, body, sentence = LIES[lie]
    stand_in.faults.append(Fault(pattern, times=1000, body=body))
    file = tmp_path / "mesh.ini"
    file.write_text(CONFIG.format(lead=stand_in.address, certificate=shown.certificate))
    argv = [sys.executable, "-c", PROGRAM, "run", str(file), "-o", str(tmp_path / "out")]
    environment = os.environ | {
        "STATUS": str(tmp_path / "status"),
        "CCMIX_STATE": str(tmp_path / "state"),
    }
    done = run_program(argv, env=environment, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    [peak] = [
        row for row in (tmp_path / "status").read_text().splitlines() if row.startswith("VmHWM")
    ]
    failed = "".join(log.read_text() for log in (tmp_path / "out").rglob("error.txt"))
    assert sentence in failed
    assert bool(sentence) == bool(failed)
    assert float(peak.split()[1]) * 1024 < MOST_BYTES
