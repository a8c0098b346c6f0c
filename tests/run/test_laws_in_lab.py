"""Tests the conservation laws on some of the runs of bench/laws.py: honest ones, and the weakest of
each kind of lie.
"""

from pathlib import Path

import pytest

from support.commands import Ccmix
from support.laws import RUNS, honest, lies, verdict, write_ini

pytestmark = pytest.mark.lab

HONEST = (
    "bursts-http",
    "acks-mixed",
    "htb-changes-late",
    "joined-udp",
    "sender-pfifo-cubic",
    "two-to-one-sources",
)
WEAKEST = (
    "flow-of-sender-1",
    "datagrams-of-delay-1",
    "policer-before-1",
    "duplicates-1",
    "lost-acks-1",
    "slowed-acks-1",
    "slower-1",
)


def test_there_are_as_many_honest_runs_as_were_asked_for() -> None:
    assert len({run.name for run in honest()}) >= RUNS
    assert len({run.ini.partition("\n")[2] for run in honest()}) >= RUNS, "none twice"


@pytest.mark.timeout(300)
def test_honest_runs_hold_the_laws_and_weak_lies_are_found(tmp_path: Path) -> None:
    honest_runs = [run for run in honest() if run.name in HONEST]
    lying = [(lie, run) for lie, run in lies() if run.name in WEAKEST]
    write_ini(tmp_path / "laws.ini", [*honest_runs, *(run for _, run in lying)])
    done = Ccmix(tmp_path)("run", tmp_path / "laws.ini", "--lab", "-j", 2, "-o", tmp_path / "out")
    assert "0 failed" in done.stderr, done.stderr
    assert {
        run.name: verdict(tmp_path / "out", run).status for run in honest_runs
    } == dict.fromkeys(HONEST, "valid")
    for lie, run in lying:
        assert lie.kind in {finding.kind for finding in verdict(tmp_path / "out", run).findings}, (
            run.name
        )
