"""Draws box plots of a measure over iterations, by a setting, as in figure 11 of Gomez et al. 2024."""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import names_in_order, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource, inline

STEP, LEAST_WIDTH, HEIGHT, COLUMNS = 70, 140, 180, 3
NARROWEST, WIDEST = 4, 32  # pixels of a box
WHISKERS = 1.5  # interquartile ranges beyond the box, at most (Tukey 1977, "Exploratory Data Analysis"); then points


PALE: Part = {"box": {"fillOpacity": 0.35, "strokeWidth": 1}, "median": {"color": "#333333", "strokeWidth": 2}}
"""Draws pale boxes, which need a channel `stroke`: medians have the CCA's colour then, also on dark paper, and where
all values are so close that the median is all that is seen."""


def boxes_by(
    source: ChartSource, x: Part, beside: Part, y: Part, channels: Part, size: int = WIDEST, parts: Part | None = None
) -> Part:
    """Draws median, quartiles, whiskers and outliers of what y shows as one view, at each value of x.

    `beside` puts groups next to each other; `size` is the width of a box in pixels; `parts` are the looks of its parts.
    """
    return source.view(
        {
            "mark": {
                "type": "boxplot",
                "extent": WHISKERS,
                "size": size,
                "outliers": {"size": 12, "filled": True},
                **(parts or {"median": {"color": "black"}}),
            },
            "encoding": {"x": x, "xOffset": beside, "y": y, **channels},
        }
    )


def boxes(values: pl.DataFrame, x_title: str, y: Part) -> Part:
    """Draws a panel for each value of `panel`.

    values: a row per value: panel, x (names, in the order of the axis), group, cca (str), and the field of `y`, a
    channel of numbers whose scale is extended to all values.
    """
    colour = encodings.of_cca(values["cca"].unique())["color"] | {"legend": {"symbolType": "square"}}
    field = y["field"]
    known = values.drop_nulls(field).with_columns(pl.col(field).round_sig_figs(4))
    y = y | {"scale": {"domain": [known[field].min(), known[field].max()], "nice": True, "zero": False}}
    panels = []
    for panel in names_in_order(known, "panel"):
        own = known.filter(pl.col("panel") == panel)
        order, groups = names_in_order(own, "x"), names_in_order(own, "group")
        x: Part = {"field": "x", "type": "ordinal", "title": x_title, "sort": None,
                   "scale": {"domain": order}, "axis": {"labelAngle": 0, "labelOverlap": True}}  # fmt: skip
        beside = {"field": "group", "type": "nominal", "scale": {"domain": groups}}
        source = inline(own.select("x", "group", "cca", field))
        channels = {"color": colour, "stroke": colour | {"legend": None}, **encodings.lighter(groups)}
        drawn = boxes_by(source, x, beside, y, channels, max(NARROWEST, WIDEST // len(groups)), PALE)
        panels.append({"title": panel, "width": max(LEAST_WIDTH, STEP * len(order)), "height": HEIGHT, **drawn})
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}


def goodput() -> Part:
    return quantity("goodput_bps", "goodput (bit/s)", encodings.RATE_AXIS)
