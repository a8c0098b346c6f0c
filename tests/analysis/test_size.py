"""Tests how much ccmix expects a run to write, against what runs write."""

import re
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


ENTRIES = {
    "a flow": "",
    "flows of two CCAs": "cca = cubic,bbr\nstreams = 12\n",
    "two hosts": "flows.a = h1 cubic:3\nflows.b = h2 cubic:3\n",
    "steps": "type = path\nload-cap = 150mbit\nduration = 40s\n",
}


def planned(file: Path, sources: str, interval: str = "500ms") -> Run:
    head = HEAD.replace("delay = 10ms", "delay = 10ms\nhosts = 2") if "h2" in sources else HEAD
    for key in ("type", "duration"):
        head = re.sub(rf"{key} = .*\n", "", head) if f"{key} = " in sources else head
    file.write_text(head.format(interval=interval) + sources)
    [run] = make_plan(load(file).entries, seed=1)
    return run


def written(ccmix: Ccmix, folder: Path) -> int:
    """Makes the run in the lab, and returns the size of all its files."""
    done = ccmix("run", folder / "x.ini", "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    [run] = (folder / "out").rglob("run.json")
    return sum(file.stat().st_size for file in run.parent.rglob("*") if file.is_file())


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("interval", ["500ms", pytest.param("50ms", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SOURCES)
def test_short_flows_write_what_is_expected(name: str, interval: str, ccmix: Ccmix, tmp_path: Path) -> None:
    expected = written_bytes(planned(tmp_path / "x.ini", SOURCES[name], interval))
    assert expected
    assert 0.6 < written(ccmix, tmp_path) / expected < 1.6


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_tests_of_iperf3_and_steps_write_what_is_expected(name: str, ccmix: Ccmix, tmp_path: Path) -> None:
    interval = "100ms" if name == "steps" else "500ms"
    expected = written_bytes(planned(tmp_path / "x.ini", ENTRIES[name], interval))
    assert expected
    assert written(ccmix, tmp_path) == pytest.approx(expected, rel=0.1)


def test_the_plan_says_that_it_does_not_know_the_flows_of_commands(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "x.ini"
    test = planned(file, "flows.a = h1 cubic:2")
    both = planned(file, "flows.a = h1 cubic:2\nflows.b = h1 command true")
    assert written_bytes(test) == written_bytes(both)
    *_, said = ccmix("plan", file).stderr.splitlines()
    assert said.endswith(" to write, beside what flows of commands add in 1 run")
