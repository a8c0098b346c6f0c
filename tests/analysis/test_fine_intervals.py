"""Tests goodput below iperf3's 10 ms: from the counters of sockets, wherever these were sampled that often."""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.analysis.iperf3_tables import INTERVAL_COLUMNS
from ccmix.analysis.tables import fine_intervals
from ccmix.model import Group, Iperf3Source, Traffic

TRAFFIC = Traffic(
    (Iperf3Source("", "h1", 0.0, (Group("cubic", 1),), 1),), duration_s=0.02, omit_s=0.01, interval_s=0.001
)


def sockets(step_s: float) -> pl.DataFrame:
    """Returns samples of a socket whose destination acknowledges 1000 bytes between two of them."""
    times_s = [(number - 2) * step_s for number in range(round(0.04 / step_s))]  # two before the traffic began
    counts = range(len(times_s))
    columns = {"bytes_acked": [1000 * n for n in counts], "retransmits": [n // 10 for n in counts]}
    return pl.DataFrame({"time_s": times_s, **columns}).with_columns(
        host=pl.lit("h1"), port=pl.lit(5000, pl.Int64), group=pl.lit("cubic")
    )


def generators(*ports: int) -> pl.DataFrame:
    row = {"time_s": 0.01, "seconds": 0.01, "omitted": True, "host": "h1", "goodput_bps": 7.0, "group": "g"}
    return pl.DataFrame([{**row, "port": port} for port in ports], schema=INTERVAL_COLUMNS)


def test_intervals_are_those_between_samples_while_the_traffic_lasts() -> None:
    fine = fine_intervals(TRAFFIC, generators(5000), sockets(0.001))
    assert fine is not None
    assert fine["time_s"].to_list() == pytest.approx([number / 1000 for number in range(1, 31)])
    assert fine["goodput_bps"].to_list() == pytest.approx([8e6] * 30)
    assert fine["omitted"].to_list() == [True] * 10 + [False] * 20
    assert fine["retransmits"].sum() == 3
    assert set(fine["counted_by"]) == {"sockets"}


def test_a_flow_without_a_socket_keeps_the_generator_s_intervals() -> None:
    fine = fine_intervals(TRAFFIC, generators(5000, 6000), sockets(0.001))
    assert fine is not None
    assert fine.filter(port=6000).select("goodput_bps", "counted_by").rows() == [(7.0, "generator")]
    assert set(fine.filter(port=5000)["counted_by"]) == {"sockets"}


@pytest.mark.parametrize(("interval_s", "step_s"), [(0.01, 0.001), (0.001, 0.01)])
def test_intervals_stay_the_generator_s(interval_s: float, step_s: float) -> None:
    """Either 10 ms were asked for, or the sockets were sampled no more often, as by ss."""
    assert fine_intervals(replace(TRAFFIC, interval_s=interval_s), generators(5000), sockets(step_s)) is None
    assert fine_intervals(TRAFFIC, generators(5000), sockets(0.001).clear()) is None
