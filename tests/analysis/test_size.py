"""Tests how much ccmix expects a run to write, against what runs write."""

from pathlib import Path

import pytest

from ccmix.analysis.size import written_bytes
from ccmix.config import load
from ccmix.model import Run
from ccmix.plan import make_plan
from support import Ccmix

HEAD = """
[topology link]
rate = 100mbit
delay = 10ms
buffer = 1bdp
[one]
type = iperf3
topology = link
duration = 10s
interval = {interval}
"""
SOURCES = {
    "short requests": "flows.a = h1 http requests 3000 size 15kb parallel 4 cca cubic",
    "few requests": "flows.a = h1 http requests 100 size 15kb parallel 4 cca cubic",
    "long requests": "flows.a = h1 http requests 40 size 5mb parallel 4 cca cubic +2s",
    "a workload": "flows.a = h1 workload web-search load 50% cca cubic",
    "a workload beside a test": "flows.a = h1 workload data-mining load 80% cca bbr\nflows.b = h1 cubic:2",
}


def planned(file: Path, sources: str, interval: str = "500ms") -> Run:
    file.write_text(HEAD.format(interval=interval) + sources)
    [run] = make_plan(load(file).entries, seed=1)
    return run


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("interval", ["500ms", pytest.param("50ms", marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", SOURCES)
def test_short_flows_write_what_is_expected(name: str, interval: str, ccmix: Ccmix, tmp_path: Path) -> None:
    expected = written_bytes(planned(tmp_path / "x.ini", SOURCES[name], interval))
    done = ccmix("run", tmp_path / "x.ini", "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    [run] = (tmp_path / "out").rglob("run.json")
    written = sum(file.stat().st_size for file in run.parent.rglob("*") if file.is_file())
    assert expected
    assert 0.6 < written / expected < 1.6


def test_the_plan_says_that_it_does_not_know_the_flows_of_commands(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "x.ini"
    test = planned(file, "flows.a = h1 cubic:2")
    both = planned(file, "flows.a = h1 cubic:2\nflows.b = h1 command true")
    assert written_bytes(test) == written_bytes(both)
    *_, written = ccmix("plan", file).stderr.splitlines()
    assert written.endswith(" to write, beside what flows of commands add in 1 run")
