"""Tests paths whose two directions differ: delays of their own, a bottleneck of ACKs, and a bucket that was chosen."""

import json
from typing import Any

import polars as pl
import pytest

from support import Ccmix

pytestmark = pytest.mark.lab

INI = """
[DEFAULT]
type = iperf3
duration = 8s
spread = off
omit = 2s
cca = bbr

[topology apart]
rate = 50mbit
data-delay = 3ms
ack-delay = 37ms

[topology slow-acks]
rate = 100mbit
rtt = 20ms
buffer = 500kb
ack-rate = 200kbit
ack-buffer = 60kb

[topology bucket]
rate = 20mbit
rtt = 20ms
shaper = htb
burst = 120kb
buffer = 300kb

[apart]
topology = apart

[acks]
topology = slow-acks
cca = reno
sweep.ack-rate = 200kbit, 10mbit

[acks-of-two]
topology = slow-acks
sweep.hosts = 2
sweep.receivers = one, each

[bucket]
topology = bucket
sweep.shaper = tbf, htb
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Returns of each run its run.json, facts.json and queues, by its entry and condition."""
    folder = tmp_path_factory.mktemp("asymmetric")
    (folder / "paths.ini").write_text(INI)
    done = Ccmix(folder)("run", folder / "paths.ini", "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    assert "7 runs valid, 0 not valid, 0 failed" in done.stderr
    seen = {}
    for file in sorted((folder / "out").rglob("run.json")):
        record = json.loads(file.read_text())
        run = " ".join([record["run"]["entry"], *record["run"]["condition"].values()])
        facts = json.loads((file.parent / "facts.json").read_text())
        seen[run] = (record, facts, pl.read_parquet(file.parent / "queues.parquet"))
    return seen


def test_the_base_rtt_is_the_sum_of_both_delays(outcome: dict[str, Any]) -> None:
    _, facts, _ = outcome["apart"]
    assert min(facts["ping_rtt_s"]["h1"]) == pytest.approx(0.040, abs=0.2e-3)
    delays = {
        what: json.loads(facts["after"]["qdiscs"][what][0]["options"])["delay"]["delay"]
        for what in ("data-delay", "ack-delay")
    }
    assert delays == pytest.approx({"data-delay": 0.003, "ack-delay": 0.037})


def passed_bps(queues: pl.DataFrame) -> float:
    """Returns the rate at which ACKs passed their bottleneck while the traffic ran."""
    acks = queues.filter(pl.col("place") == "ack-bottleneck", pl.col("parent") == "root", pl.col("time_s") > 1)
    acks = acks.sort("time_s")
    return float((acks["bytes"][-1] - acks["bytes"][0]) * 8 / (acks["time_s"][-1] - acks["time_s"][0]))


def test_a_full_bottleneck_of_acks_limits_the_goodput(outcome: dict[str, Any]) -> None:
    slow, _, queues = outcome["acks 200kbit"]
    fast, _, unused = outcome["acks 10mbit"]
    assert passed_bps(queues) == pytest.approx(200e3, rel=0.02)
    assert passed_bps(unused) < 5e6
    assert fast["metrics"]["goodput_bps"] > 0.9 * 100e6
    assert slow["metrics"]["goodput_bps"] < 0.4 * 100e6
    acks = queues.filter(pl.col("place") == "ack-bottleneck", pl.col("parent") == "root")
    assert 50_000 < acks["backlog_bytes"].max() <= 60_000


@pytest.mark.parametrize("receivers", ["one", "each"])
def test_acks_of_all_hosts_share_their_bottleneck(outcome: dict[str, Any], receivers: str) -> None:
    _, facts, queues = outcome[f"acks-of-two 2 {receivers}"]
    assert passed_bps(queues) == pytest.approx(200e3, rel=0.02)
    assert facts["after"]["qdiscs"]["ack-bottleneck"][0]["kind"] == "tbf"


@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_a_chosen_bucket_passes_at_once_what_it_holds(outcome: dict[str, Any], shaper: str) -> None:
    """Of the train of pings, the bucket's 79 packets come back at once, the others at the rate."""
    _, facts, _ = outcome[f"bucket {shaper}"]
    train_s = facts["train_s"]
    packet_s = 1514 * 8 / 20e6
    at_once = 120_000 // 1514
    assert train_s[at_once - 2] - train_s[0] < packet_s
    assert train_s[-1] - train_s[at_once] == pytest.approx((len(train_s) - 1 - at_once) * packet_s, rel=0.02)
