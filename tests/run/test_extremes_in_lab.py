"""Tests that the minimum and maximum values of a configuration work; tests/config checks that
values beyond them are refused.
"""

from pathlib import Path

import pytest

from support.lab_runs import make_all

pytestmark = [pytest.mark.lab, pytest.mark.deep]

EXTREMES = """
[DEFAULT]
type = iperf3
duration = 60s
streams = 2
cca = cubic,bbr

[topology far]
rate = 10mbit
delay = 2500ms
control = beside
[topology full]
rate = 100kbit
delay = 50ms
buffer = 80p
control = beside
[topology lossy]
rate = 10mbit
delay = 10ms
loss = 50%
control = beside
[topology bursts]
rate = 10mbit
delay = 10ms
loss = gemodel 10% 10%
control = beside
[topology long-bursts]
rate = 100mbit
delay = 10ms
loss = gemodel 5% 10%
control = beside
[topology far-and-shallow]
rate = 1mbit
delay = 4s
buffer = 20p
control = beside
[topology deep]
rate = 1mbit
delay = 4s
buffer = 2mb
control = beside
[topology small]
rate = 10gbit
delay = 0ms
buffer = 1p

[far]
topology = far
duration = 200s
[full]
topology = full
[lossy]
topology = lossy
[bursts]
topology = bursts
[long-bursts]
topology = long-bursts
[far-and-shallow]
topology = far-and-shallow
duration = 120s
[deep]
topology = deep
duration = 200s
[small]
topology = small
duration = 1s
"""
HOSTS = """
[topology many]
rate = 1gbit
delay = 10ms
buffer = 1bdp
hosts = 200

[all]
type = iperf3
topology = many
duration = 3s
cca = cubic
"""


@pytest.mark.timeout(600)
def test_the_extremes_are_valid(tmp_path: Path) -> None:
    findings = {
        name: made.finished.verdict.findings for name, made in make_all(EXTREMES, tmp_path).items()
    }
    assert findings == dict.fromkeys(findings, ())
    assert len(findings) == 8


@pytest.mark.long
def test_a_flow_of_each_of_200_hosts(tmp_path: Path) -> None:
    """As many as the papers have, and more."""
    finished = make_all(HOSTS, tmp_path)["all"].finished
    hosts = [f"h{number}" for number in range(1, 201)]
    assert [flow.host for flow in finished.metrics.flows] == hosts
    assert [group.group for group in finished.metrics.groups] == [f"cubic@{host}" for host in hosts]
    assert (finished.verdict.status, finished.verdict.findings) == ("valid", ())
    assert finished.metrics.utilisation > 0.9
