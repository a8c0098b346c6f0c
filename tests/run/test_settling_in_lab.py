"""A run of the lab that is too short gives a wrong share, and says that it has not settled."""

import json
from pathlib import Path
from typing import Any

import pytest

from ccmix.generators.results import load_json
from support.commands import Ccmix

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
    assert (
        "\nthe run has not settled, both all #1: 10 s are too short to tell: they hold 0.59 CUBIC"
        in done.stderr
    )
    assert "s would do\n" in done.stderr
    [file] = (tmp_path / "out").glob("both/all/receiver/*/run.json")
    settling = json.loads(file.read_text())["metrics"]["settling"]
    assert settling["settled"] is False
    assert settling["reasons"][0].startswith(
        "10 s are too short to tell: they hold 0.59 CUBIC periods of 17 s"
    )
    changes = {trend["group"]: trend["change"] for trend in settling["trends"] if trend["seen"]}
    assert (
        changes["cubic"] > 0.2
    )  # BBR loses its share, which it has back only after its first cycle
    assert settling["enough_s"] >= 60
    report = ccmix("report", tmp_path / "out")
    assert "both all: not settled: 10 s are too short to tell" in report.stderr


# CUBIC's five periods are over in a few seconds, and its two flows are one group, whose goodput is
# steady; the limit leaves no time for five cycles of BBR
UNTIL_SETTLED = """
[topology short]
rate = 20mbit
rtt = 20ms
buffer = 1bdp
spread = off

[DEFAULT]
type = iperf3
topology = short
interval = 250ms

[steady]
flows.both = h1 cubic:2
flows.noise = h1 udp@1M
omit = 2s
duration = settled, at most 5m

[limit]
cca = bbr
duration = settled, at most 12s
"""


def test_a_run_ends_when_it_has_settled_or_at_its_limit(tmp_path: Path) -> None:
    """Both ends of each test have their results, and metrics cover the measured time."""
    ini = tmp_path / "until.ini"
    ini.write_text(UNTIL_SETTLED)
    ccmix = Ccmix(tmp_path)
    plan = ccmix("plan", ini)
    assert "steady all #1  302 s" in plan.stdout
    assert (
        "limit can't settle: 12 s are too short to tell: they hold 1.2 BBR cycles of 10 s"
        in plan.stderr
    )
    done = ccmix("run", ini, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    steady, limit = (_summary(tmp_path / "out" / entry) for entry in ("steady", "limit"))
    measured_s = steady["settled_after_s"]
    assert measured_s in (10, 20, 40, 80, 160)
    assert steady["metrics"]["settling"]["settled"] is True
    assert steady["run"]["traffic"]["at_most_s"] == 300
    assert 18e6 < steady["metrics"]["goodput_bps"] < 20e6
    clients = list(tmp_path.glob("out/steady/**/*-client.json"))
    assert len(clients) == 2
    for client in clients:
        result = load_json(client)
        assert result["start"]["test_start"]["duration"] == 300
        assert measured_s <= result["end"]["sum_received"]["seconds"] < measured_s + 1
    assert (limit["settled_after_s"], limit["metrics"]["settling"]["settled"]) == (None, False)
    [client] = tmp_path.glob("out/limit/**/*-client.json")
    assert load_json(client)["end"]["sum_received"]["seconds"] == pytest.approx(12, abs=0.2)


def _summary(folder: Path) -> dict[str, Any]:
    [file] = folder.glob("all/receiver/*/run.json")
    summary: dict[str, Any] = json.loads(file.read_text())
    return summary
