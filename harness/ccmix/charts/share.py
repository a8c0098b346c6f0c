"""Draws each CCA's share of the goodput against its share of the flows, as in figure 10 of Gomez et al. 2024."""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import names_in_order, plain, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.setting import spread
from ccmix.charts.source import ChartSource, inline

STEP, LEAST_WIDTH, HEIGHT, COLUMNS = 60, 240, 200, 2
PERCENT = {"format": ".0%", "tickCount": 5}


def shares(source: ChartSource, x: Part, channels: Part) -> Part:
    """Draws solid lines of the mean share with a band, and dashed ones of the fair share, as one view.

    Rows: what x draws, cca, mean, low, high and fair_share (1.0 is all of the run's goodput).
    """
    y = quantity("mean", "share of the goodput", PERCENT, domain=[0, 1])
    dash = encodings.dash("line", "share", domain=["measured", "fair"], range=[[1, 0], [5, 4]])
    band = {"x": x, "y": plain("low"), "y2": {"field": "high"}, "color": channels["color"]}

    def line(name: str, field: str) -> Part:
        return {
            "transform": [{"calculate": f"'{name}'", "as": "line"}],
            "mark": {"type": "line", "strokeWidth": encodings.LINE_WIDTH},
            "encoding": {"x": x, "y": y | {"field": field}, **dash, **channels},
        }

    return source.view(
        {
            "layer": [
                {"mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
                line("fair", "fair_share"),
                line("measured", "mean"),
                {
                    "mark": encodings.POINTS | {"filled": False},
                    "encoding": {"x": x, "y": plain("fair_share"), "color": channels["color"]},
                },
                {"mark": encodings.POINTS, "encoding": {"x": x, "y": plain("mean"), "color": channels["color"]}},
            ],
        }
    )


def share_against_fair_share(runs: pl.DataFrame, x_title: str) -> Part:
    """Draws a panel for each value of `panel`, with bands as in setting.spread().

    runs: a row per panel, numbers of flows, CCA and iteration: panel, flows_of ('9 : 1', in the order of the axis),
    cca, share and fair_share (of the run's, 1.0 is all).
    """
    channels = encodings.of_cca(runs["cca"].unique())
    panels = []
    for panel in names_in_order(runs, "panel"):
        own = runs.filter(pl.col("panel") == panel)
        order = names_in_order(own, "flows_of")
        x: Part = {"field": "flows_of", "type": "ordinal", "title": x_title, "sort": None,
                   "scale": {"domain": order}, "axis": {"labelAngle": 0}}  # fmt: skip
        by = ["flows_of", "cca"]
        fair = own.group_by(by, maintain_order=True).agg(pl.col("fair_share").first())
        means = spread(own, "share", by).join(fair, on=by, maintain_order="left")
        width = max(LEAST_WIDTH, STEP * len(order))
        panels.append({"title": panel, "width": width, "height": HEIGHT, **shares(inline(means), x, channels)})
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}
