"""Tests charts of a single condition: the runs that they show, and how they name them."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.results import Results
from ccmix.charts.choose import choose
from ccmix.charts.draw import svg
from ccmix.charts.encodings import Chart
from ccmix.charts.series import MOST_STEPS, over_time
from ccmix.model import Group

Make = Callable[..., Results]

MIXED = (Group("cubic"), Group("bbr"))
DELAYS = ({"delay": "5ms"}, {"delay": "44ms"})


def behind_the_lines(chart: Chart) -> dict[str, Any]:
    """Returns the layer of a time series below its first panel's bold lines."""
    layer: dict[str, Any] = chart.spec["concat"][0]["layer"][1]["layer"][0]
    return layer


def test_a_chart_for_each_condition_with_its_settings(make: Make) -> None:
    charts = choose(make({"alone": MIXED[:1], "mixed": MIXED}, DELAYS), ["time-series"]).charts
    assert [chart.condition for chart in charts] == ["delay=5ms", "delay=44ms"]
    assert charts[0].settings == (
        "1.00 Gbit/s, base RTT 10 ms, loss 0% per packet, buffer 1 BDP = 1.25 MB FIFO, MTU 1500, "
        "offloads off, Linux 7.2.12-ccmix"
    )
    assert " ".join(charts[0].spec["title"]["subtitle"]) == charts[0].settings
    assert [panel["title"] for panel in charts[0].spec["concat"]] == ["alone", "mixed"]
    assert "mixed: cubic 50.0 Mbit/s in the mean" in charts[0].alt_text


def test_runs_that_are_not_valid_have_lines_of_their_own(make: Make) -> None:
    results = make({"mixed": MIXED}, DELAYS, invalid=(0, 3, 4, 5))
    some, none = choose(results, ["time-series"]).charts
    assert [chart.condition for chart in (some, none)] == ["delay=5ms", "delay=44ms"]
    thin = behind_the_lines(some)["data"]["values"]
    assert {(row["iteration"], row["group"]) for row in thin if row["cca"] == "bbr"} == {
        (1, "bbr (unknown)"),
        (2, "bbr"),
        (3, "bbr"),
    }
    assert {row["group"] for row in behind_the_lines(none)["data"]["values"]} == {
        "cubic (unknown)",
        "bbr (unknown)",
    }
    assert "mixed: cubic (unknown) 50.0 Mbit/s in the mean" in none.alt_text


def test_paths_that_differ_are_not_drawn_as_one(make: Make) -> None:
    """Entries without sweeps on two topologies: both have the condition 'all'."""
    results = make({"mixed": MIXED}, DELAYS)
    alike = [
        replace(result, finished=replace(result.finished, run=replace(result.run, condition={})))
        for result in results.runs
    ]
    charts = choose(Results(tuple(alike), 6), ["time-series"]).charts
    assert [(chart.name, chart.settings.split(", ")[1]) for chart in charts] == [
        ("all, path 1", "base RTT 10 ms"),
        ("all, path 2", "base RTT 88 ms"),
    ]


def test_many_conditions_are_left_out_and_told(make: Make) -> None:
    results = make(
        {"one": MIXED}, [{"delay": f"{delay}ms"} for delay in range(1, 31)], iterations=1
    )
    chosen = choose(results, ["time-series"], most=3)
    assert [chart.condition for chart in chosen.charts] == ["delay=1ms", "delay=15ms", "delay=30ms"]
    assert chosen.left_out == (
        "Of 30 conditions, 3 have a chart of their own here; for all of them: "
        "ccmix report OUTDIR --charts DIR --chart time-series",
    )
    assert len(choose(results, ["time-series"], most=None).charts) == 30


def test_many_iterations_are_drawn_as_their_range(make: Make) -> None:
    [chart] = choose(make({"mixed": MIXED}, [{}], iterations=6), ["time-series"]).charts
    assert behind_the_lines(chart)["mark"]["type"] == "area"
    rows = chart.spec["concat"][0]["data"]["values"]
    assert {(row["low_bps"], row["high_bps"]) for row in rows} == {(50e6, 50e6)}


def test_intervals_that_are_too_many_for_the_pixels_are_joined(make: Make) -> None:
    [result] = make({"mixed": MIXED}, [{}], iterations=1).runs
    steps = pl.DataFrame({"step": range(1, 3001)})
    flows = pl.DataFrame(
        {"port": [1, 2, 3], "group": ["cubic", "bbr", "bbr"], "goodput_bps": [1e6, 2e6, 3e6]}
    )
    fine = steps.select(time_s=pl.col("step") * 0.1, seconds=0.1).join(flows, how="cross")
    fine.with_columns(retransmits=1).write_parquet(result.folder / "intervals.parquet")
    series = over_time([result])
    assert series.height == 2 * MOST_STEPS
    bbr = series.filter(pl.col("group") == "bbr")
    assert bbr["goodput_bps"].to_list() == pytest.approx([5e6] * MOST_STEPS)
    assert bbr["retransmits"].to_list() == [30] * MOST_STEPS  # of 15 intervals of 2 flows
    assert bbr["time_s"][:2].to_list() == pytest.approx([1.5, 3.0])


def test_retransmissions_are_bars_of_their_intervals_with_gaps(make: Make) -> None:
    """iperf3 leaves out an interval at the end of the omitted time."""
    results = make({"one": MIXED[:1]}, [{}], iterations=1)
    rows = {
        "time_s": [0.5, 1.5],
        "seconds": 0.5,
        "port": 1,
        "group": "cubic",
        "goodput_bps": 1e6,
        "retransmits": [4, 6],
    }
    pl.DataFrame(rows).write_parquet(results.runs[0].folder / "intervals.parquet")
    [chart] = choose(results, ["time-series"]).charts
    [outline] = re.findall(r'<path[^>]* d="M0,264([^"]*)"[^>]* opacity="0.45"', svg(chart.spec))
    tops = [(float(x), float(y)) for x, y in re.findall(r"L([\d.]+),([\d.]+)", outline)]
    assert tops[:7] == [
        (0, 212.96),
        (75, 212.96),
        (75, 264),
        (150, 264),
        (150, 187.44),
        (225, 187.44),
        (225, 264),
    ]


def test_a_run_without_intervals_has_none(make: Make) -> None:
    results = make({"mixed": MIXED}, [{}], iterations=1)
    (results.runs[0].folder / "intervals.parquet").unlink()
    assert choose(results, ["time-series"]).charts == ()
