"""What share of the goodput each CCA gets, against its share of the flows, as in figure 10 of Gomez et al. 2024."""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import Part, names_in_order, plain, quantity, rows
from ccmix.charts.setting import spread

STEP, LEAST_WIDTH, HEIGHT, COLUMNS = 60, 240, 200, 2
PERCENT = {"format": ".0%", "tickCount": 5}
MEASURED, FAIR = "measured", "fair"


def share_against_fair_share(shares: pl.DataFrame, x_title: str) -> Part:
    """Solid lines: measured, with bands as in setting.spread(); dashed: fair.

    shares: a row per panel, numbers of flows, CCA and iteration: panel, flows_of ('9 : 1', in the order of the axis),
    cca, share and fair_share (of the run's, 1.0 is all).
    """
    channels = encodings.of_cca(shares["cca"].unique())
    panels = []
    for panel in names_in_order(shares, "panel"):
        own = shares.filter(pl.col("panel") == panel)
        order = names_in_order(own, "flows_of")
        x: Part = {"field": "flows_of", "type": "ordinal", "title": x_title, "sort": None,
                   "scale": {"domain": order}, "axis": {"labelAngle": 0}}  # fmt: skip
        measured = spread(own, "share", ["flows_of", "cca"]).with_columns(line=pl.lit(MEASURED))
        fair = own.group_by("flows_of", "cca", maintain_order=True).agg(mean=pl.col("fair_share").first())
        lines = pl.concat([measured, fair.with_columns(line=pl.lit(FAIR))], how="diagonal")
        dash = encodings.dash("line", "share", domain=[MEASURED, FAIR], range=[[1, 0], [5, 4]])
        band = {"x": x, "y": plain("low"), "y2": {"field": "high"}, "color": channels["color"]}
        y = quantity("mean", "share of the goodput", PERCENT, domain=[0, 1])
        panels.append(
            {
                "title": panel,
                "data": rows(lines),
                "width": max(LEAST_WIDTH, STEP * len(order)), "height": HEIGHT,
                "layer": [
                    {"transform": [{"filter": f"datum.line === '{MEASURED}'"}],
                     "mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
                    {"mark": {"type": "line", "strokeWidth": encodings.LINE_WIDTH},
                     "encoding": {"x": x, "y": y, **dash, **channels}},
                    {"mark": encodings.POINTS, "encoding": {"x": x, "y": plain("mean"), "color": channels["color"]}},
                ],
            }
        )  # fmt: skip
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}
