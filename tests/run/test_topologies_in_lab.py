"""Tests paths of several hosts, queues that mark, bursts of loss, jitter and changes, from an INI file to the
verdict.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import run_in_lab

pytestmark = pytest.mark.lab

PATHS = """
[DEFAULT]
type = iperf3
duration = 6s
omit = 1s

[topology marking]
rate = 100mbit
delay = 10ms
qdisc = codel ecn ce_threshold 2ms
shaper = htb
ecn = on

[topology wild]
rate = 100mbit
loss = gemodel 1% 30% 70% 0.1%
jitter = 1ms
reorder = 1%
host.near = delay 10ms
host.far = delay 40ms jitter 0s reorder 0% rate 20mbit
at.4s = far loss 0%, rate 50mbit
buffer = 50p
qdisc = pfifo

[topology changing]
rate = 100mbit
delay = 10ms
loss = 0.1%
at.2s = loss 2%
at.4s = rate 20mbit, loss 0%

[topology apart]
rate = 100mbit
host.near = delay 5ms
host.far = delay 80ms

[apart]
topology = apart
interval = 100ms
flows.near = near cubic:1
flows.far = far cubic:4
flows.late = near reno:2+3s
flows.noise = far udp:2@1M

[dctcp]
topology = marking
cca = dctcp
streams = 2

[wild]
topology = wild
sweep.receivers = one, each

[changing]
topology = changing
cca = bbr
"""


@pytest.fixture(scope="module")
def outdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    done = run_in_lab(folder, PATHS)
    assert "5 runs valid, 0 not valid, 0 failed" in done.stderr
    return folder / "out"


def read(outdir: Path, run: str, file: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((outdir / run / "receiver/001" / file).read_text())
    return data


def test_dctcp_fills_the_path_by_marks_alone(outdir: Path) -> None:
    [group] = read(outdir, "dctcp/all", "run.json")["metrics"]["groups"]
    assert group["goodput_bps"] > 0.93 * 100e6
    assert group["retransmission_rate"] == 0
    codel = read(outdir, "dctcp/all", "facts.json")["after"]["qdiscs"]["bottleneck"][-1]
    assert (codel["kind"], codel["drops"]) == ("codel", 0)
    assert json.loads(codel["statistics"])["ce_mark"] > 0


@pytest.mark.parametrize("receivers", ["one", "each"])
def test_each_host_has_a_path_of_its_own(receivers: str, outdir: Path) -> None:
    facts = read(outdir, f"wild/receivers={receivers}", "facts.json")
    assert min(facts["ping_rtt_s"]["far"]) == pytest.approx(0.080, abs=0.2e-3)
    assert 0.016 < min(facts["ping_rtt_s"]["near"]) < 0.024
    flows = read(outdir, f"wild/receivers={receivers}", "run.json")["metrics"]["flows"]
    goodputs = {flow["host"]: flow["goodput_bps"] for flow in flows}
    assert set(goodputs) == {"near", "far"}
    assert goodputs["far"] < 20e6


def test_lines_send_from_when_they_are_due(outdir: Path) -> None:
    """Needs 1.4 s over 160 ms for the four streams' test and its connections before the first byte, and 0.06 s over
    10 ms.
    """
    recorded = outdir / "apart/all/receiver/001"
    sent = pl.read_parquet(recorded / "sockets.parquet").filter(pl.col("bytes_sent") > 2000)
    begun = dict(sent.group_by("group").agg(pl.col("time_s").min()).iter_rows())
    queued = pl.read_parquet(recorded / "queues.parquet").filter(pl.col("place") == "sender-queue far")
    control_bytes = 10_000  # of two tests
    begun["noise or far"] = queued.filter(pl.col("bytes") - pl.col("bytes").first() > control_bytes)["time_s"].min()
    assert {group: moment // 0.1 * 0.1 for group, moment in begun.items()} == pytest.approx(
        {"near": 0.1, "far": 0.1, "noise or far": 0.1, "late": 3.1}  # the first sample after each start
    )


def test_changes_are_made_at_their_moments(outdir: Path) -> None:
    facts = read(outdir, "changing/all", "facts.json")
    first, second = facts["changes"]
    assert (first["at_s"], second["at_s"]) == (2.0, 4.0)
    assert second["time_s"] - first["time_s"] == pytest.approx(2.0, abs=0.01)
    assert set(second["qdiscs"]) == {"bottleneck", "data-delay"}
    queues = pl.read_parquet(outdir / "changing/all/receiver/001/queues.parquet")
    root = queues.filter(pl.col("place") == "bottleneck", pl.col("parent") == "root").sort("time_s")
    rates = root.select("time_s", bps=pl.col("bytes").cast(pl.Int64).diff() * 8 / pl.col("time_s").diff())
    assert rates.filter(pl.col("time_s") > 5)["bps"].max() == pytest.approx(20e6, rel=0.005)
    assert rates.filter(pl.col("time_s") < 4)["bps"].max() == pytest.approx(100e6, rel=0.005)
