"""Tests that a receiver's window is what the sender sees, and limits a flow to a window in each round trip."""

import json
from typing import Any

import polars as pl
import pytest

from support import Ccmix

pytestmark = pytest.mark.lab

INI = """
[DEFAULT]
type = iperf3
topology = wide
duration = 3s
omit = 1s
spread = off

[topology wide]
rate = 1gbit
rtt = 40ms
receiver-window = 1mb

[plain]
sweep.mtu = 1500, 9000

[two]
flows.a = h1 cubic
flows.b = h2 cubic
sweep.host.h1 = receiver-window 2mb
sweep.host.h2 = receiver-window 500kb
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], pl.DataFrame]]:
    """Returns of each run its run.json and the senders' sockets while they sent."""
    folder = tmp_path_factory.mktemp("window")
    (folder / "window.ini").write_text(INI)
    done = Ccmix(folder)("run", folder / "window.ini", "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    assert "0 not valid, 0 failed" in done.stderr
    seen = {}
    for file in sorted((folder / "out").rglob("run.json")):
        record = json.loads(file.read_text())
        sockets = pl.read_parquet(file.parent / "sockets.parquet")
        sent = sockets.filter(pl.col("end") == "sender", pl.col("bytes_sent") > 10**6, pl.col("time_s") > 1)
        seen[" ".join([record["run"]["entry"], *record["run"]["condition"].values()])] = (record, sent)
    return seen


@pytest.mark.parametrize("mtu", ["1500", "9000"])
def test_a_flow_has_a_window_in_each_round_trip(runs: dict[str, Any], mtu: str) -> None:
    record, sockets = runs[f"plain {mtu}"]
    assert 0.97e6 <= sockets["send_window_bytes"].max() <= 1.0e6
    rtt_s = sockets["rtt_s"].median()
    assert record["metrics"]["goodput_bps"] == pytest.approx(8e6 / rtt_s, rel=0.03)
    assert record["metrics"]["receiver_window_limited"] > 0.9
    assert record["verdict"] == {"status": "valid", "findings": [], "not_verified": []}


def test_each_receiver_has_a_window_of_its_own(runs: dict[str, Any]) -> None:
    [(_, sockets)] = [seen for name, seen in runs.items() if name.startswith("two")]
    most = dict(sockets.group_by("host").agg(pl.col("send_window_bytes").max()).rows())
    assert most["h1"] == pytest.approx(2e6, rel=0.03)
    assert most["h2"] == pytest.approx(5e5, rel=0.03)
