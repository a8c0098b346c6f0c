"""Tests that a policer drops what is beyond its rate and its burst, and queues nothing."""

import json
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.tables import PARENTS_OF_CLSACT
from support import Ccmix

pytestmark = pytest.mark.lab

RATE_BPS, BURST_BYTES = 50e6, 1_000_000
INI = """
[DEFAULT]
type = iperf3
topology = policed
spread = off

[topology policed]
rate = 1gbit
rtt = 20ms
control = beside
policer = 50mbit burst 1mb

[twice]
flows.udp = h1 udp@100M
duration = 4s
omit = 1s
interval = 100ms
rtt-probe = icmp@20

[below]
flows.udp = h1 udp@40M
duration = 2s

[tcp]
cca = cubic
streams = 2
duration = 6s
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Any], pl.DataFrame]]:
    """Returns of each entry its run.json, facts.json and queues."""
    folder = tmp_path_factory.mktemp("policed")
    (folder / "policed.ini").write_text(INI)
    done = Ccmix(folder)("run", folder / "policed.ini", "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    assert "3 runs valid, 0 not valid, 0 failed" in done.stderr
    seen = {}
    for file in sorted((folder / "out").rglob("run.json")):
        record = json.loads(file.read_text())
        facts = json.loads((file.parent / "facts.json").read_text())
        seen[record["run"]["entry"]] = (record, facts, pl.read_parquet(file.parent / "queues.parquet"))
    return seen


def test_twice_the_rate_loses_half_and_waits_nowhere(runs: dict[str, Any]) -> None:
    record, _, queues = runs["twice"]
    metrics = record["metrics"]
    wire_bps = 100e6 * (1448 + 42) / 1448  # iperf3 counts its payload: Ethernet, IP and UDP have 42 bytes
    assert metrics["policer"]["drop_rate"] == pytest.approx(1 - RATE_BPS / wire_bps, abs=0.005)
    assert (metrics["netem_loss"], metrics["bottleneck"]["drops"]) == (0, 0)
    assert queues.filter(pl.col("place") == "bottleneck")["backlog_bytes"].max() <= 2 * 1514
    assert metrics["rtt_probe"]["p99_s"] == pytest.approx(0.020, abs=0.2e-3)


def test_the_burst_passes_at_once_after_a_pause(runs: dict[str, Any]) -> None:
    """What passed since the traffic began is the burst, and what the rate lets pass in the time."""
    _, facts, queues = runs["twice"]
    ends = queues.filter(pl.col("place") == "bottleneck", pl.col("time_s").is_between(2, 4)).sort("time_s")
    passed = ends.filter(pl.col("parent") == "root")["bytes"]
    reached = ends.filter(pl.col("parent").is_in(PARENTS_OF_CLSACT))
    root, clsact = (
        next(qdisc for qdisc in facts["before"]["qdiscs"]["bottleneck"] if qdisc["kind"] == kind)
        for kind in ("tbf", "clsact")
    )
    times_s, offered = reached["time_s"], reached["bytes"]
    offered_bytes_per_s = (offered[-1] - offered[0]) / (times_s[-1] - times_s[0])
    sent_s = (offered[-1] - clsact["bytes"]) / offered_bytes_per_s
    burst_bytes = passed[-1] - root["bytes"] - RATE_BPS / 8 * sent_s
    assert burst_bytes == pytest.approx(BURST_BYTES, rel=0.02)
    assert (passed[-1] - passed[0]) * 8 / (times_s[-1] - times_s[0]) == pytest.approx(RATE_BPS, rel=0.005)


def test_what_is_below_the_rate_passes(runs: dict[str, Any]) -> None:
    assert runs["below"][0]["metrics"]["policer"] == {"drops": 0, "drop_rate": 0}


def test_the_kernel_s_counts_of_dropped_packets_agree(runs: dict[str, Any]) -> None:
    """What clsact counts is what the action counts, which tc shows beside the policer."""
    _, facts, _ = runs["tcp"]
    clsact = next(qdisc for qdisc in facts["after"]["qdiscs"]["bottleneck"] if qdisc["kind"] == "clsact")
    assert clsact["drops"] > 0
    assert f"(dropped {clsact['drops']}, " in facts["state_after"]["filters"]["bottleneck"]
