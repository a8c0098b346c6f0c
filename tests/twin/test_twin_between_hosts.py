"""Tests steps that measure a path between hosts: they find the token bucket and the delay of the
hosts' router.

The hosts are namespaces of a guest of the lab: near ─ router ─ far.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import CCMIX
from support.hosts_in_guest import run_in_guest

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(900)]

RATE_BPS, RTT_S, BUFFER_BYTES = 20e6, 0.03, 60_000
ROUTER = f"""
tc -n router qdisc add dev east root handle 1: tbf rate 20mbit burst 3028 limit {BUFFER_BYTES + 3028}
tc -n router qdisc add dev east parent 1:1 bfifo limit {BUFFER_BYTES}
tc -n router qdisc add dev west root netem delay 30ms limit 100000
"""
ENTRY = "[path]\ntype = path\nduration = 60s\nload-cap = 60mbit\n"
THEN = f"""{CCMIX} twin out --format json -o after-twin.ini >after-twin.json
cp out/path/*/*/*/generators/steps.json after-steps.json; cp out/path/*/*/*/steps.parquet after-steps.parquet"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("path")
    printed = run_in_guest(place, ENTRY, prepare=ROUTER, then=THEN)
    assert "STATUS" not in printed.output, printed.output
    assert printed.as_before, printed.output
    return place


@pytest.fixture(scope="module")
def estimates(folder: Path) -> dict[str, Any]:
    [twin] = json.loads((folder / "after-twin.json").read_text())
    return {each["quantity"]: each for each in twin["estimates"]}


@pytest.mark.parametrize(
    ("quantity", "truth"),
    [("base RTT", RTT_S), ("rate", RATE_BPS), ("buffer", BUFFER_BYTES), ("random loss", 0.0)],
)
def test_the_path_between_hosts_is_found(
    estimates: dict[str, Any], quantity: str, truth: float
) -> None:
    estimate = estimates[quantity]
    assert estimate["value"] == pytest.approx(truth, rel=0.05)
    assert estimate["low"] <= truth <= estimate["high"]


def test_each_step_was_made_and_trains_leave_the_bottleneck_packet_by_packet(folder: Path) -> None:
    steps = json.loads((folder / "after-steps.json").read_text())
    assert [step["failed"] for step in steps] == [None] * len(steps)
    gaps = pl.read_parquet(folder / "after-steps.parquet").filter(step="trains")
    packet_s = gaps["packet_bytes"][0] * 8 / RATE_BPS
    assert gaps.height > 200
    assert gaps["seconds"].is_between(0.98 * packet_s, 1.02 * packet_s).mean() > 0.9  # type: ignore[operator]


def test_the_twin_names_the_path(folder: Path) -> None:
    text = (folder / "after-twin.ini").read_text()
    assert "[topology twin]" in text
    assert "type = iperf3" in text
