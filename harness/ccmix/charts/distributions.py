"""Draws box plots of a measure over iterations, and distribution functions of times, as in figures
11 and 12 of Gomez et al. 2024.
"""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import ChartSource, Part, inline, names_in_order, quantity

STEP, LEAST_WIDTH, BOX_HEIGHT, BOX_COLUMNS = 70, 140, 180, 3
NARROWEST, WIDEST = 4, 32  # pixels of a box
# interquartile ranges beyond the box, at most (Tukey 1977, "Exploratory Data Analysis"); then
# points
WHISKERS = 1.5


PALE: Part = {
    "box": {"fillOpacity": 0.35, "strokeWidth": 1},
    "median": {"color": "#333333", "strokeWidth": 2},
}
"""Draws pale boxes, which need a channel `stroke`. Medians then have the CCA's colour, also on a
dark page, and if all values are so close that only the median is seen.
"""


def boxes_by(
    source: ChartSource,
    x: Part,
    beside: Part,
    y: Part,
    channels: Part,
    size: int = WIDEST,
    parts: Part | None = None,
) -> Part:
    """Draws median, quartiles, whiskers and outliers of y at each value of x, as a single view.

    `beside` puts groups next to each other; `size` is the width of a box in pixels; `parts` are the
    styles of its parts.
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

    values: a row per value: panel, x (names, in the order of the axis), group, cca (str), and the
        field of `y`, a channel of numbers whose scale is extended to all values.
    """
    colour = encodings.of_cca(values["cca"].unique())["color"] | {
        "legend": {"symbolType": "square"}
    }
    field = y["field"]
    known = values.drop_nulls(field).with_columns(pl.col(field).round_sig_figs(4))
    y = y | {
        "scale": {"domain": [known[field].min(), known[field].max()], "nice": True, "zero": False}
    }
    panels = []
    for panel in names_in_order(known, "panel"):
        own = known.filter(pl.col("panel") == panel)
        order, groups = names_in_order(own, "x"), names_in_order(own, "group")
        x: Part = {
            "field": "x",
            "type": "ordinal",
            "title": x_title,
            "sort": None,
            "scale": {"domain": order},
            "axis": {"labelAngle": 0, "labelOverlap": True},
        }
        beside = {"field": "group", "type": "nominal", "scale": {"domain": groups}}
        source = inline(own.select("x", "group", "cca", field))
        channels = {
            "color": colour,
            "stroke": colour | {"legend": None},
            **encodings.lighter(groups),
        }
        drawn = boxes_by(
            source, x, beside, y, channels, max(NARROWEST, WIDEST // len(groups)), PALE
        )
        panels.append(
            {
                "title": panel,
                "width": max(LEAST_WIDTH, STEP * len(order)),
                "height": BOX_HEIGHT,
                **drawn,
            }
        )
    return {"concat": panels, "columns": BOX_COLUMNS, "spacing": 24}


WIDTH, HEIGHT, COLUMNS = 260, 170, 3
MOST_POINTS = 100  # in a line
LOG_FROM = 20.0  # the 99th over the 1st percentile of all


def distribution(source: ChartSource, x: Part, channels: Part) -> Part:
    """Draws a line of steps for each series, as a single view.

    Rows: series, cca, the field of x, and share (of the series' values up to this one).
    """
    y = quantity("share", "cumulative share", encodings.PERCENT_AXIS, domain=[0, 1])
    return source.view(
        {
            "mark": {
                "type": "line",
                "interpolate": "step-after",
                "strokeWidth": encodings.LINE_WIDTH,
            },
            "encoding": {"x": x, "y": y, "detail": encodings.name("series"), **channels},
        }
    )


def distributions(times: pl.DataFrame, what: str) -> Part:
    """Draws a panel for each value of `panel`; a step at each value, or at MOST_POINTS quantiles of
    many.

    times: a row per value: panel, series, cca (str), seconds. All panels have the same axes, in ms
        or s.
    """
    unit, size = ("s", 1.0) if encodings.largest(times, "seconds") >= 1 else ("ms", 1e-3)
    times = times.select("panel", "series", "cca", time=pl.col("seconds") / size)
    channels = encodings.of_cca(times["cca"].unique())
    if times.select("series", "cca").unique().height > times["cca"].n_unique():
        channels |= encodings.dash("series", "group")
    scale = _scale(times["time"])
    x = quantity("time", f"{what} ({unit})", {"tickCount": 5}, **scale)
    times = times.with_columns(
        pl.col("time").clip(scale["domain"][0])
    )  # 0 has no place on a logarithmic axis
    panels = [
        {
            "title": panel,
            "width": WIDTH,
            "height": HEIGHT,
            **distribution(inline(steps(times.filter(pl.col("panel") == panel))), x, channels),
        }
        for panel in names_in_order(times, "panel")
    ]
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}


def _scale(times: pl.Series) -> Part:
    """Returns a scale from 0 on or, if the values span decades, a logarithmic scale from the
    smallest value above 0 on.
    """
    low, high = (float(times.quantile(share) or 0.0) for share in (0.01, 0.99))
    most = encodings.largest(times.to_frame(), times.name)
    if low > 0 and high / low >= LOG_FROM:
        return {"type": "log", "domain": [times.filter(times > 0).min(), most]}
    return {"domain": [0, most]}


def steps(times: pl.DataFrame) -> pl.DataFrame:
    """Returns the empirical distribution function of each series: series, cca, time, share."""
    functions = []
    for (series, cca), own in times.group_by("series", "cca", maintain_order=True):
        values = own["time"].sort()
        count = values.len()
        ranks = pl.Series(range(count)) if count <= MOST_POINTS else _even_ranks(count)
        line = pl.DataFrame(
            {"time": values.gather(ranks).round_sig_figs(4), "share": (ranks + 1) / count}
        )
        first = line.head(1).with_columns(share=pl.lit(0.0))
        functions.append(
            pl.concat([first, line]).with_columns(
                pl.col("share").round(4), series=pl.lit(series), cca=pl.lit(cca)
            )
        )
    return pl.concat(functions)


def _even_ranks(count: int) -> pl.Series:
    """Returns MOST_POINTS ranks, the first and the last included."""
    return pl.Series([round(at * (count - 1) / (MOST_POINTS - 1)) for at in range(MOST_POINTS)])
