"""Tests that Kibana's charts turn rows into the same drawings with Vega-Lite as the report's charts
do with Polars.
"""

import re
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.dynamics import bbr_state
from ccmix.analysis.ranges import range_of
from ccmix.analysis.statistics import Spread
from ccmix.charts import settings
from ccmix.charts.distributions import steps
from ccmix.charts.encodings import ChartSource, inline, name, time
from ccmix.charts.over_time import STATES, phase, states
from ccmix.kibana import charts
from ccmix.kibana.vega import means_with_bands
from ccmix.kibana.vega_charts import CHARTS
from support.kibana_preview import render
from support.kibana_requests import answer_of


def rows_after(
    transform: list[dict[str, Any]], rows: list[dict[str, Any]], columns: list[str]
) -> list[list[str]]:
    """Returns the rows that Vega-Lite makes of rows, as text."""
    written = " + '|' + ".join(f"datum.{column}" for column in columns)
    text = {"text": {"field": "written", "type": "nominal"}}
    source = ChartSource(
        {"values": rows}, (*transform, {"calculate": f"'=' + {written}", "as": "written"})
    )
    svg = render(source.view({"mark": "text", "encoding": text}))
    return [found.split("|") for found in re.findall(r">=([^<]*)</text>", svg)]


@pytest.mark.parametrize("count", [1, 2, 3, 14])
def test_bands_are_those_of_the_report(count: int) -> None:
    values = [1e6 * (number % 5) + 3e6 for number in range(count)]
    frame = pl.DataFrame({"by": ["a"] * count, "value": values})
    [found] = rows_after(
        means_with_bands("value", ["by"]), frame.to_dicts(), ["mean", "low", "high"]
    )
    [expected] = settings.spread(frame, "value", ["by"]).select("mean", "low", "high").rows()
    assert [float(number) for number in found] == pytest.approx(expected, rel=1e-3)


def test_the_range_of_a_twin_is_that_of_the_comparison() -> None:
    """The range ends at the ends of the intervals, or at the means if there are none; one-sided
    conditions are left out.
    """
    twin = {"1": [3e8, 4e8, 5e8], "2": [1e8], "3": [7e8]}  # the outermost have no interval
    span = range_of({(("buffer", value),): own for value, own in twin.items()})
    assert span
    assert span.point

    def row(
        condition: str, kind: str, of_range: str, values: list[float], best: bool
    ) -> dict[str, Any]:
        key = {
            "condition": condition,
            "group": "bbr",
            "kind": kind,
            "of_range": of_range,
            "best": best,
        }
        spread = Spread.of(values)
        assert spread
        low, high = spread.ci95 or (None, None)
        return {
            "key": key,
            "goodput": {"value": spread.mean},
            "low": {"value": low},
            "high": {"value": high},
        }

    rows = [
        row("both", "real", "all", [4.9e8, 5e8, 5.1e8], True),
        *(
            row("both", "emulated", f"buffer={value}", own, value == "1")
            for value, own in twin.items()
        ),
        row("alone", "emulated", "all", [6e8], True),
    ]
    columns = ["row", "low", "high", "best", "result"]
    [found] = rows_after(list(CHARTS["range-of-the-twin"].transform), rows, columns)
    assert found[0] == "both bbr"
    expected = [span.low, span.high, span.point.sample.mean, 5e8]
    assert [float(number) for number in found[1:]] == pytest.approx(expected)


def test_shares_of_a_distribution_are_those_of_the_report() -> None:
    frame = pl.DataFrame({"series": "a", "cca": "bbr", "time": [3.0, 1.0, 2.0, 2.0]})
    found = rows_after(charts.cumulative_shares("time"), frame.to_dicts(), ["time", "share"])
    points = [(float(time_), float(share)) for time_, share in found]
    assert min(points) == (1, 0)
    assert {at: max(share for time_, share in points if time_ == at) for at, _ in points} == {
        at: max(
            share for time_, share in steps(frame).select("time", "share").rows() if time_ == at
        )
        for at in (1, 2, 3)
    }


def test_states_are_those_of_the_report() -> None:
    """Rows of the later versions' phases are between the first version's, with their pacing gains."""
    samples = pl.DataFrame(
        [
            {"cca": cca, "bbr_pacing_gain": pacing, "bbr_cwnd_gain": window, "bbr_phase": later}
            for cca, pacing, window, later in (
                ("bbr", 2.886719, 2.886719, None),
                ("bbr3", 2.77, 2.0, "startup"),
                ("bbr", 0.34375, 2.886719, None),
                ("bbr2", 0.35, 2.0, "drain"),
                ("bbr", 1.25, 2.0, None),
                ("bbr2", 1.25, 2.0, "probe_bw_up"),
                ("bbr", 0.75, 2.0, None),
                ("bbr3", 0.9, 2.0, "probe_bw_down"),
                ("bbr", 1.0, 2.0, None),
                ("bbr2", 1.0, 2.0, "probe_bw_cruise"),
                ("bbr3", 1.0, 2.0, "probe_bw_refill"),
                ("bbr", 1.0, 1.0, None),
                ("bbr2", 1.0, 0.5, "probe_rtt"),
            )
        ]
    )
    indexed = samples.select(state=bbr_state(samples.columns), gain="bbr_pacing_gain")
    [phase_of_kibana] = [
        step for step in CHARTS["bbr-states"].transform if step.get("as") == "bbr_state"
    ]
    found = rows_after(
        [phase_of_kibana], [{"key": row} for row in indexed.to_dicts()], ["bbr_state"]
    )
    expected = samples.select(state=phase(samples.columns))["state"]
    assert [state_ for [state_] in found] == expected.to_list()
    assert expected.unique(maintain_order=True).to_list() == list(STATES)


def test_a_strip_of_states_is_one_definition() -> None:
    """Both draw the same from the same rows."""
    spans = pl.DataFrame(
        {"time_s": [0.0, 1.0], "to_s": [1.0, 2.0], "bbr_state": ["startup", "drain"], "flow": "a"}
    )
    rows = [
        {
            "key": {"run": "r", "flow": "a", "state": state, "gain": 2.0},
            "time_s": {"value": time_s},
        }
        for state, time_s in (("startup", 0.0), ("drain", 1.0), ("drain", 2.0))
    ]
    of_kibana = CHARTS["bbr-states"].spec() | {"data": answer_of(rows), "autosize": "pad"}
    rectangles = [
        re.findall(r'<path[^>]* d="([^"]*)" fill="(#D55E00|#E69F00)"', render(spec))[-2:]
        for spec in (of_kibana, states(inline(spans), time(), name("flow")))
    ]
    assert rectangles[0] == rectangles[1] != []
