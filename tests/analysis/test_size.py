"""Compares the expected size of runs with the size that runs write."""

from pathlib import Path

import pytest

from ccmix.analysis.size import written_bytes
from ccmix.config import load
from ccmix.model import Run
from ccmix.plan import make_plan
from support.commands import Ccmix

HEAD = """
[DEFAULT]
type = iperf3
topology = one
duration = 10s
interval = INTERVAL
[topology one]
rate = 20mbit
delay = 10ms
buffer = 1bdp
[topology two]
rate = 20mbit
delay = 10ms
buffer = 1bdp
hosts = 2
"""
SHORT_FLOWS = {
    "short-requests": "flows.a = h1 http requests 600 size 15kb parallel 4 cca cubic",
    "few-requests": "flows.a = h1 http requests 100 size 15kb parallel 4 cca cubic",
    "long-requests": "flows.a = h1 http requests 8 size 5mb parallel 4 cca cubic +2s",
    "workload": "flows.a = h1 workload web-search load 50% cca cubic",
    "workload-and-test": "flows.a = h1 workload data-mining load 80% cca bbr\nflows.b = h1 cubic:2",
}
TESTS = {
    "a-flow": "",
    "two-ccas": "cca = cubic,bbr\nstreams = 12",
    "two-hosts": "topology = two\nflows.a = h1 cubic:3\nflows.b = h2 cubic:3",
    "steps": "type = path\nload-cap = 30mbit\nduration = 40s\ninterval = 100ms",
}


def planned(file: Path, entries: dict[str, str], interval: str = "500ms") -> list[Run]:
    sections = (f"[{name}]\n{keys}\n" for name, keys in entries.items())
    file.write_text(HEAD.replace("INTERVAL", interval) + "".join(sections))
    return make_plan(load(file).entries, seed=1)


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("interval", ["500ms", pytest.param("50ms", marks=pytest.mark.long)])
def test_runs_write_what_is_expected(interval: str, ccmix: Ccmix, tmp_path: Path) -> None:
    """Tests of iperf3 are within 10%; the number of short flows is drawn."""
    entries = SHORT_FLOWS if interval == "50ms" else SHORT_FLOWS | TESTS
    runs = planned(tmp_path / "x.ini", entries, interval)
    done = ccmix("run", tmp_path / "x.ini", "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    wrong = {}
    for run in runs:
        [folder] = (tmp_path / "out" / run.entry).glob("*/*/*/")
        written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        ratio = written / (written_bytes(run) or 0)
        low, high = (0.9, 1.1) if run.entry in TESTS else (0.6, 1.6)
        if not low < ratio < high:
            wrong[run.entry] = ratio
    assert wrong == {}


def test_the_plan_says_that_it_does_not_know_the_flows_of_commands(
    ccmix: Ccmix, tmp_path: Path
) -> None:
    file = tmp_path / "x.ini"
    [test] = planned(file, {"one": "flows.a = h1 cubic:2"})
    [both] = planned(file, {"one": "flows.a = h1 cubic:2\nflows.b = h1 command true"})
    assert written_bytes(test) == written_bytes(both)
    *_, said = ccmix("plan", file).stderr.splitlines()
    assert said.endswith(" to write, plus the flows of commands in 1 run")
