"""Tests that a command's flows are its own on any port, and that a run without flows is not valid."""

import asyncio
from pathlib import Path

import pytest

from ccmix.archive import RunFolder
from ccmix.config import load
from ccmix.model.results import FinishedRun
from ccmix.plan import make_plan
from ccmix.run.conclude import conclude
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon

pytestmark = pytest.mark.lab
PATH = """
[topology t]
host-root = on
rate = 10mbit
delay = 5ms

[commands]
type = iperf3
topology = t
duration = 4s
"""


def finished(flows: str, tmp_path: Path) -> FinishedRun:
    file = tmp_path / "commands.ini"
    file.write_text(PATH + flows)
    [run] = make_plan(load(file).entries, seed=1)
    folder = RunFolder.of(tmp_path / "out", run)
    machine = LabMachine(find_kernel(), EmulationPrograms(find_iperf3(), find_sockmon(), find_rtt()))
    measured = asyncio.run(machine.measure(run, folder.begin(), cpu=0))
    return conclude(run, folder, measured.measurement, measured.execution)


def test_a_command_may_use_a_port_of_ccmix_s_servers_where_none_runs(tmp_path: Path) -> None:
    run = finished(
        "flows.server = receiver command iperf3 -s -p 5203\n"
        "flows.tool = h1 command sleep 0.5; exec iperf3 -c {dst} -p 5203 -t 3\n",
        tmp_path,
    )
    assert [finding.detail for finding in run.verdict.findings] == []
    assert {flow.group for flow in run.metrics.flows} == {"tool"}
    assert run.metrics.goodput_bps > 5e6


def test_a_connection_to_ccmix_s_own_server_is_not_the_command_s(tmp_path: Path) -> None:
    run = finished("flows.bulk = h1 cubic\nflows.idle = h1 command sleep 1\n", tmp_path)
    assert {flow.group for flow in run.metrics.flows} == {"bulk"}
    assert run.verdict.status == "unknown"
    assert [finding.detail for finding in run.verdict.findings] == [
        "a probe that lost samples: no connection of idle.h1 carried data"
    ]


def test_a_run_without_a_flow_is_not_valid(tmp_path: Path) -> None:
    """It is unknown at best; here netem saw no packet, either."""
    run = finished("flows.idle = h1 command sleep 1\n", tmp_path)
    assert run.verdict.status == "limited"
    assert [finding.detail.partition(": ")[2] for finding in run.verdict.findings] == [
        "no packet passed netem", "no flow was seen",
    ]  # fmt: skip
