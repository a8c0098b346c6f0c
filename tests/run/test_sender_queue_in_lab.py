"""Tests the sender's own queue discipline in the lab: that tc reports the one that was asked for, and what it does."""

import json
from typing import Any

import pytest

from support import Ccmix

pytestmark = pytest.mark.lab

INI = """
[DEFAULT]
type = iperf3
duration = 4s

[topology shallow]
rate = 250mbit
rtt = 100ms
buffer = 100kb

[topology slow]
rate = 100mbit
host.h1 = delay 5ms rate 20mbit sender-qdisc fq_codel limit 600 target 2ms
host.h2 = delay 5ms

[kinds]
topology = shallow
sweep.sender-qdisc = fq, pfifo, noqueue, pfifo_fast, bfifo limit 1mb

[unpaced]
topology = shallow
sweep.sender-qdisc = pfifo
cca = cubic@20M

[below-a-rate]
topology = slow

[full]
topology = full
streams = 8

[paced]
topology = paced

[topology full]
rate = 50mbit
delay = 5ms
host.h1 = rate 20mbit sender-qdisc fq_codel

[topology paced]
rate = 20mbit
delay = 5ms
sender-qdisc = fq maxrate 5mbit
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("queues")
    (folder / "queues.ini").write_text(INI)
    done = Ccmix(folder)("run", folder / "queues.ini", "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    assert "9 runs valid, 0 not valid, 0 failed" in done.stderr
    records = [json.loads(file.read_text()) for file in sorted((folder / "out").rglob("run.json"))]
    return {" ".join([record["run"]["entry"], *record["run"]["condition"].values()]): record for record in records}


@pytest.mark.parametrize(
    ("kind", "applied"),
    [
        ("fq", "fq limit 10000000 flow_limit 10000000"), ("pfifo", "pfifo limit 1000"), ("noqueue", "noqueue"),
        ("pfifo_fast", "pfifo_fast bands 3"), ("bfifo limit 1mb", "bfifo limit 1000000"),
    ],
)  # fmt: skip
def test_the_record_of_a_run_has_the_queue_that_tc_reports(
    runs: dict[str, dict[str, Any]], kind: str, applied: str
) -> None:
    assert runs[f"kinds {kind}"]["facts"]["sender_qdiscs"]["h1"].startswith(applied)


def test_a_queue_below_a_rate_of_the_host_s_own(runs: dict[str, dict[str, Any]]) -> None:
    queues = runs["below-a-rate"]["facts"]["sender_qdiscs"]
    assert queues["h1"].startswith("tbf rate 2500000 ")
    assert " with fq_codel limit 600 " in queues["h1"]
    assert queues["h2"].startswith("fq ")


def test_without_fq_cubic_sends_bursts_that_the_buffer_drops(runs: dict[str, dict[str, Any]]) -> None:
    goodputs = {kind: runs[f"kinds {kind}"]["metrics"]["goodput_bps"] for kind in ("fq", "pfifo", "noqueue")}
    assert goodputs["fq"] > 1.3 * goodputs["pfifo"]
    assert goodputs["noqueue"] == pytest.approx(goodputs["pfifo"], rel=0.05), "neither paces"


def test_a_rate_of_the_socket_paces_without_fq(runs: dict[str, dict[str, Any]]) -> None:
    record = runs["unpaced pfifo"]
    assert record["facts"]["sender_qdiscs"]["h1"].startswith("pfifo ")
    assert 15e6 < record["metrics"]["goodput_bps"] < 20e6


def test_a_chosen_queue_may_drop(runs: dict[str, dict[str, Any]]) -> None:
    assert runs["full"]["metrics"]["retransmission_rate"] > 0, "the bottleneck drops nothing: h1 is slower"


def test_a_chosen_queue_may_pace(runs: dict[str, dict[str, Any]]) -> None:
    assert 4e6 < runs["paced"]["metrics"]["goodput_bps"] < 5e6
