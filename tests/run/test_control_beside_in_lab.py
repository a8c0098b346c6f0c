"""Tests iperf3's control connections beside the path: runs that failed over it, and that nothing else changes."""

import json
from typing import Any

import pytest

from support import Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep]

INI = """
[DEFAULT]
type = iperf3
duration = 5s
spread = off

[topology bursts]
rate = 100mbit
rtt = 20ms
loss = gemodel 5% 10%
control = beside

[topology far-and-shallow]
rate = 1mbit
rtt = 8s
buffer = 20p
control = beside

[topology plain]
rate = 100mbit
rtt = 20ms
hosts = 2

[bursts]
topology = bursts
iterations = 4

[far-and-shallow]
topology = far-and-shallow
duration = 120s
sweep.spread = off, on

[plain]
topology = plain
flows.tcp = h1 cubic:2
flows.more = h1 bbr:2
flows.udp = h2 udp@5M
flows.web = h2 http requests 3 size 10kb
sweep.control = path, beside
sweep.receivers = one, each
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Returns each run's run.json and, as `qdiscs`, how many packets passed which device, by entry and condition."""
    folder = tmp_path_factory.mktemp("control")
    (folder / "control.ini").write_text(INI)
    done = Ccmix(folder)("run", folder / "control.ini", "--lab", "-o", folder / "out")
    assert " 0 failed" in done.stderr, done.stderr
    seen = {}
    for file in sorted((folder / "out").rglob("run.json")):
        record = json.loads(file.read_text())
        facts = json.loads((file.parent / "facts.json").read_text())
        record["qdiscs"] = {
            what: after[0]["packets"] - facts["before"]["qdiscs"][what][0]["packets"]
            for what, after in facts["after"]["qdiscs"].items()
        }
        seen[" ".join([record["run"]["entry"], *record["run"]["condition"].values()])] = record
    return seen


@pytest.mark.parametrize("spread", ["off", "on"])
def test_a_test_whose_control_connection_would_fail_over_the_path(runs: dict[str, dict[str, Any]], spread: str) -> None:
    run = runs[f"far-and-shallow {spread}"]
    assert run["verdict"]["status"] == "valid"
    assert run["metrics"]["goodput_bps"] > 2e5


@pytest.mark.parametrize("receivers", ["one", "each"])
def test_only_the_control_connections_leave_the_path(runs: dict[str, dict[str, Any]], receivers: str) -> None:
    over, beside = runs[f"plain path {receivers}"], runs[f"plain beside {receivers}"]
    assert {over["verdict"]["status"], beside["verdict"]["status"]} == {"valid"}
    assert not any(what.startswith("control") for what in over["qdiscs"])
    for host, tests in (("h1", 2), ("h2", 1)):
        for what in ("control-data", "control-ack"):
            assert 10 * tests <= beside["qdiscs"][f"{what} {host}"] <= 40 * tests
    assert beside["metrics"]["goodput_bps"] == pytest.approx(over["metrics"]["goodput_bps"], rel=0.05)
