"""Tests that Kibana's charts make of rows, by Vega-Lite, what the report's make of frames, by Polars."""

import re
from typing import Any

import polars as pl
import pytest

from ccmix.charts import setting
from ccmix.charts.bbr_state import STATES, phase, states
from ccmix.charts.distribution import steps
from ccmix.charts.encodings import name, time
from ccmix.charts.source import ChartSource, inline
from ccmix.kibana.bands import means_with_bands
from ccmix.kibana.dashboards import bbr, charts
from ccmix.kibana.preview import render
from ccmix.kibana.vega import answer_of


def rows_after(transform: list[dict[str, Any]], rows: list[dict[str, Any]], columns: list[str]) -> list[list[str]]:
    """Returns what Vega-Lite makes of rows, as text."""
    written = " + '|' + ".join(f"datum.{column}" for column in columns)
    text = {"text": {"field": "written", "type": "nominal"}}
    source = ChartSource({"values": rows}, (*transform, {"calculate": f"'=' + {written}", "as": "written"}))
    svg = render(source.view({"mark": "text", "encoding": text}))
    return [found.split("|") for found in re.findall(r">=([^<]*)</text>", svg)]


@pytest.mark.parametrize("count", [1, 2, 3, 14])
def test_bands_are_those_of_the_report(count: int) -> None:
    values = [1e6 * (number % 5) + 3e6 for number in range(count)]
    frame = pl.DataFrame({"by": ["a"] * count, "value": values})
    [found] = rows_after(means_with_bands("value", ["by"]), frame.to_dicts(), ["mean", "low", "high"])
    [expected] = setting.spread(frame, "value", ["by"]).select("mean", "low", "high").rows()
    assert [float(number) for number in found] == pytest.approx(expected, rel=1e-3)


def test_shares_of_a_distribution_are_those_of_the_report() -> None:
    frame = pl.DataFrame({"series": "a", "cca": "bbr", "time": [3.0, 1.0, 2.0, 2.0]})
    found = rows_after(charts.shares_at_most("time"), frame.to_dicts(), ["time", "share"])
    points = [(float(time_), float(share)) for time_, share in found]
    assert min(points) == (1, 0)
    assert {at: max(share for time_, share in points if time_ == at) for at, _ in points} == {
        at: max(share for time_, share in steps(frame).select("time", "share").rows() if time_ == at)
        for at in (1, 2, 3)
    }


def test_states_are_those_of_the_report() -> None:
    gains = [("startup", 2.886719, 2.886719), ("drain", 0.34375, 2.886719), ("probe_bw", 1.25, 2.0),
             ("probe_bw", 0.75, 2.0), ("probe_bw", 1.0, 2.0), ("probe_rtt", 1.0, 1.0)]  # fmt: skip
    answer = [{"key": {"state": state, "gain": pacing}} for state, pacing, _ in gains]
    found = rows_after([{"calculate": bbr.PHASE, "as": "phase"}], answer, ["phase"])
    samples = pl.DataFrame(
        [{"cca": "bbr", "bbr_pacing_gain": pacing, "bbr_cwnd_gain": window} for _, pacing, window in gains]
    )
    expected = samples.select(state=phase())["state"].to_list()
    assert [state for [state] in found] == expected == list(STATES)


def test_a_strip_of_states_is_one_definition() -> None:
    """Both draw the same where they have the same rows."""
    spans = pl.DataFrame({"time_s": [0.0, 1.0], "to_s": [1.0, 2.0], "bbr_state": ["startup", "drain"], "flow": "a"})
    rows = [
        {"key": {"run": "r", "flow": "a", "state": state, "gain": 2.0}, "time_s": {"value": time_s}}
        for state, time_s in (("startup", 0.0), ("drain", 1.0), ("drain", 2.0))
    ]
    of_kibana = bbr.STATES.spec() | {"data": answer_of(rows), "autosize": "pad"}
    rectangles = [
        re.findall(r'<path[^>]* d="([^"]*)" fill="(#D55E00|#E69F00)"', render(spec))[-2:]
        for spec in (of_kibana, states(inline(spans), time(), name("flow")))
    ]
    assert rectangles[0] == rectangles[1] != []
