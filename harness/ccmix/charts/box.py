"""Box plots of a measure over iterations, by a setting, as in figure 11 of Gomez et al. 2024."""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import Part, names_in_order, quantity, rows

STEP, LEAST_WIDTH, HEIGHT, COLUMNS = 70, 140, 180, 3
WHISKERS = 1.5  # interquartile ranges beyond the box, at most (Tukey 1977, "Exploratory Data Analysis"); then points


def boxes(values: pl.DataFrame, x_title: str, y: Part) -> Part:
    """Median, quartiles, whiskers and outliers; groups side by side.

    values: a row per value: panel, x (names, in the order of the axis), group, cca (str), and the field of `y`, a
    channel of numbers whose scale is extended to all values.
    """
    colour = encodings.of_cca(values["cca"].unique())["color"] | {"legend": {"symbolType": "square"}}
    field = y["field"]
    known = values.drop_nulls(field).with_columns(pl.col(field).round_sig_figs(4))
    domain = [known[field].min(), known[field].max()]
    panels = []
    for panel in names_in_order(known, "panel"):
        own = known.filter(pl.col("panel") == panel)
        order = names_in_order(own, "x")
        x: Part = {"field": "x", "type": "ordinal", "title": x_title, "sort": None,
                   "scale": {"domain": order}, "axis": {"labelAngle": 0, "labelOverlap": True}}  # fmt: skip
        groups = names_in_order(own, "group")
        panels.append(
            {
                "title": panel,
                "data": rows(own.select("x", "group", "cca", field)),
                "width": max(LEAST_WIDTH, STEP * len(order)), "height": HEIGHT,
                "mark": {"type": "boxplot", "extent": WHISKERS, "size": max(4, 32 // len(groups)),
                         "outliers": {"size": 12, "filled": True}, "median": {"color": "black"}},
                "encoding": {
                    "x": x, "xOffset": {"field": "group", "type": "nominal", "scale": {"domain": groups}},
                    "y": y | {"scale": {"domain": domain, "nice": True, "zero": False}}, "color": colour,
                },
            }
        )  # fmt: skip
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}


def goodput() -> Part:
    return quantity("goodput_bps", "goodput (bit/s)", encodings.RATE_AXIS)
