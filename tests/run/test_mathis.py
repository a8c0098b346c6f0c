"""Tests that Reno under random loss gets the share that Mathis et al. predict: the whole chain,
from netem to the tables.

Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm",
CCR 27(3), 1997: rate = C * MSS / (RTT * sqrt(p)), with C = 1.31 for random loss and an ACK of each
segment. docs/explanation/lab.md says how the receiver acknowledges here, and what was measured.
p and RTT are those measured: netem's counters, and the mean of the sockets' smoothed RTTs.
"""

import math
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import linregress

from support.lab_runs import make_all

pytestmark = pytest.mark.lab

C = 1.31
MSS_BYTES = 1448  # with timestamps
RTT_S = 0.02
LEAST_LOSSES = 400
WITHIN, SLOPE, SLOPE_WITHIN = 0.15, -0.5, 0.03
ENTRY = """
[topology lossy]
rate = 1gbit
delay = 10ms
loss = {loss_percent:.10g}%
buffer = 1bdp

[reno]
type = iperf3
topology = lossy
cca = reno
duration = {seconds}s
omit = 10s
interval = 1s
"""


def point(loss: float, folder: Path) -> tuple[float, float]:
    """Returns p as measured, and the rate in units of MSS / RTT."""
    folder.mkdir()
    seconds = math.ceil(1.15 * LEAST_LOSSES / loss * RTT_S * math.sqrt(loss) / C)
    ini = ENTRY.format(loss_percent=loss * 100, seconds=seconds)
    made = make_all(ini, folder)["reno"]
    before, after = (
        next(qdisc for qdisc in made.facts[when]["qdiscs"]["data-delay"] if qdisc["parent"] is None)
        for when in ("before", "after")
    )
    lost, passed = (after[name] - before[name] for name in ("drops", "packets"))
    assert lost >= LEAST_LOSSES
    rtt_s = made.table("sockets").filter(pl.col("time_s") > 10)["rtt_s"].mean()
    assert isinstance(rtt_s, float)
    return lost / (lost + passed), made.finished.metrics.goodput_bps / 8 / MSS_BYTES * rtt_s


def check(points: list[tuple[float, float]]) -> None:
    for loss, windows in points:
        assert windows * math.sqrt(loss) == pytest.approx(C, rel=WITHIN), loss


@pytest.mark.deep
def test_reno_follows_mathis(tmp_path: Path) -> None:
    points = [point(loss, tmp_path / f"{loss}") for loss in (1e-3, 3e-3)]
    check(points)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_reno_follows_mathis_from_1e_5_to_3e_3(tmp_path: Path) -> None:
    points = [point(loss, tmp_path / f"{loss}") for loss in (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)]
    check(points)
    slope = linregress(
        [math.log(loss) for loss, _ in points], [math.log(windows) for _, windows in points]
    ).slope
    assert slope == pytest.approx(SLOPE, abs=SLOPE_WITHIN)
