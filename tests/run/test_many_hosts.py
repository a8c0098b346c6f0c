"""Tests 200 hosts on one path, as many as the papers have and more."""

import json
from pathlib import Path

import pytest

from support import Ccmix

pytestmark = pytest.mark.lab

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


@pytest.mark.long
def test_a_flow_of_each_of_200_hosts(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "many.ini"
    file.write_text(HOSTS)
    done = ccmix("run", file, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out/all/all/receiver/001/run.json").read_text())
    hosts = [f"h{number}" for number in range(1, 201)]
    assert [flow["host"] for flow in summary["metrics"]["flows"]] == hosts
    assert [group["group"] for group in summary["metrics"]["groups"]] == [f"cubic@{host}" for host in hosts]
    assert summary["verdict"] == {"status": "valid", "findings": []}
    assert summary["metrics"]["utilisation"] > 0.9
