"""A run of the lab that is too short gives a wrong share, and says that it has not settled."""

import json
from pathlib import Path

import pytest

from support import Ccmix

pytestmark = pytest.mark.lab

# BBR gets 78 Mbit/s in 10 s, and twice as much in 60 s
INI = """
[topology deep]
rate = 500mbit
rtt = 60ms
buffer = 4bdp
mtu = 1500

[both]
type = iperf3
topology = deep
cca = cubic,bbr
streams = 2
duration = 10s
"""


def test_the_first_ten_seconds_of_a_deep_buffer_have_not_settled(tmp_path: Path) -> None:
    ini = tmp_path / "both.ini"
    ini.write_text(INI)
    ccmix = Ccmix(tmp_path)
    plan = ccmix("plan", ini)
    assert "10 s are too short to tell: they hold 0.59 CUBIC periods of 17 s" in plan.stderr
    done = ccmix("run", ini, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr  # it is valid all the same
    [file] = (tmp_path / "out").glob("both/all/receiver/*/run.json")
    settling = json.loads(file.read_text())["metrics"]["settling"]
    assert settling["settled"] is False
    assert settling["reasons"][0].startswith("10 s are too short to tell: they hold 0.59 CUBIC periods of 17 s")
    changes = {trend["group"]: trend["change"] for trend in settling["trends"] if trend["seen"]}
    assert changes["cubic"] > 0.2  # BBR loses its share, which it has back only after its first cycle
    assert settling["enough_s"] >= 60
    report = ccmix("report", tmp_path / "out")
    assert "both all: not settled: 10 s are too short to tell" in report.stderr
