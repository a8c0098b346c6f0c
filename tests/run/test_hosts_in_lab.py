"""Tests in the lab that the verdict sees one flow that a host limits among many, and a sender without data."""

import asyncio
from pathlib import Path

import pytest

from ccmix.archive import RunFolder
from ccmix.config import load
from ccmix.model.results import Verdict
from ccmix.plan import make_plan
from ccmix.run.conclude import conclude
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon

pytestmark = pytest.mark.lab

PATH = """
[topology long]
host-root = on
rate = 200mbit
delay = 20ms
buffer = 1bdp
[DEFAULT]
duration = 3s
omit = 1s
"""
# A window of the receiver for one flow, which iperf3 gives to all flows of a test alike: so it is a test of its own
ONE_OF_64 = """
[many]
type = iperf3
topology = long
flows.many = h1 cubic:63
flows.server = receiver command {iperf3} --server --one-off --port 7000
flows.narrow = h1 command sleep 0.3; {iperf3} -c {{dst}} -p 7000 -t 4 -w {window}
interval = 100ms
"""
PLAIN = "[one]\ntype = iperf3\ntopology = long\ncca = cubic\nstreams = 2\ninterval = 100ms\n"


def verdict(ini: str, folder: Path, iperf3: Path | None = None) -> Verdict:
    file = folder / "x.ini"
    file.write_text(PATH + ini)
    [run] = make_plan(load(file).entries, seed=1)
    kept = RunFolder.of(folder / "out", run)
    machine = LabMachine(find_kernel(), EmulationPrograms(iperf3 or find_iperf3(), find_sockmon(), find_rtt()))
    done = asyncio.run(machine.measure(run, kept.begin()))
    return conclude(run, kept, done.measurement, done.execution).verdict


@pytest.mark.parametrize(("window", "kinds"), [("4K", {"receiver-window"}), ("4M", set())])
def test_one_flow_of_64_that_its_host_limits(window: str, kinds: set[str], tmp_path: Path) -> None:
    result = verdict(ONE_OF_64.format(window=window, iperf3=find_iperf3()), tmp_path)
    assert {finding.kind for finding in result.findings} == kinds, result


@pytest.mark.parametrize(("rate", "kinds"), [("1M", {"application"}), ("0", set())])
def test_a_sender_that_has_less_data_than_the_path_takes(rate: str, kinds: set[str], tmp_path: Path) -> None:
    """Puts a script in the place of iperf3, which sends at a rate of its own; 0 is without a limit."""
    slow = tmp_path / "iperf3"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *--client*) set -- "$@" -b {rate};; esac\nexec {find_iperf3()} "$@"\n')
    slow.chmod(0o755)
    result = verdict(PLAIN, tmp_path, slow)
    assert {finding.kind for finding in result.findings} == kinds, result
