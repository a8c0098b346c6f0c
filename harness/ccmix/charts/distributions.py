"""Draws box plots of a measure over iterations, and cumulative distributions of times.

As in figures 11 and 12 of Gomez et al. 2024.
"""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import (
    ChartSource,
    Part,
    evenly_spread,
    inline,
    names_in_order,
    ordered_names,
    quantity,
    side_by_side,
)

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
    next_to: Part,
    y: Part,
    channels: Part,
    size: int = WIDEST,
    parts: Part | None = None,
) -> Part:
    """Returns a view of box plots of a quantity, at each value on the x axis: median, quartiles,
    whiskers and outliers. Reports and Kibana use it with their own data (`source`).

    x, y: the channels of both axes
    next_to: the channel that puts the boxes of several groups next to each other
    channels: the channels of the colour
    size: width of a box in pixels
    parts: the styles of the parts of a box plot; None: a black median
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
            "encoding": {"x": x, "xOffset": next_to, "y": y, **channels},
        }
    )


def boxes(values: pl.DataFrame, x_title: str, y: Part) -> Part:
    """Returns a chart of box plots, with a panel for each value of the column `panel`.

    values: a row per value: panel, x (names, in the order of the axis), group (each group of flows
        has its own box), cca (str), and the field of `y`
    x_title: the title of the x axis
    y: the channel of the values. Its scale is replaced by one that covers all values.
    """
    colour = encodings.colour_by_cca(values["cca"].unique())["color"] | {
        "legend": {"symbolType": "square"}
    }
    field = y["field"]
    without_nulls = values.drop_nulls(field).with_columns(pl.col(field).round_sig_figs(4))
    y = y | {
        "scale": {
            "domain": [without_nulls[field].min(), without_nulls[field].max()],
            "nice": True,
            "zero": False,
        }
    }
    panels = {}
    for panel in names_in_order(without_nulls, "panel"):
        panel_rows = without_nulls.filter(pl.col("panel") == panel)
        x_names, groups = names_in_order(panel_rows, "x"), names_in_order(panel_rows, "group")
        x = ordered_names("x", x_title, x_names, axis={"labelAngle": 0, "labelOverlap": True})
        next_to = {"field": "group", "type": "nominal", "scale": {"domain": groups}}
        source = inline(panel_rows.select("x", "group", "cca", field))
        channels = {
            "color": colour,
            "stroke": colour | {"legend": None},
            **encodings.lighter_if_not_valid(groups),
        }
        box_view = boxes_by(
            source, x, next_to, y, channels, max(NARROWEST, WIDEST // len(groups)), PALE
        )
        width = max(LEAST_WIDTH, STEP * len(x_names))
        panels[panel] = {"width": width, "height": BOX_HEIGHT, **box_view}
    return side_by_side(panels, BOX_COLUMNS)


WIDTH, HEIGHT, COLUMNS = 260, 170, 3
MOST_POINTS = 100  # in a line
LOG_FROM = 20.0  # the 99th over the 1st percentile of all


def distribution(source: ChartSource, x: Part, channels: Part) -> Part:
    """Returns a view of cumulative distributions: for each series a line with steps.

    Rows of the source: series, cca, the field of x, and share (of the series' values that are at
    most as large as this one).
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
    """Returns a chart of the cumulative distributions of times, with a panel for each value of the
    column `panel`. A line has a step at each value; a line of more than 100 values has steps at 100
    quantiles (MOST_POINTS). All panels have the same axes, in ms or s.

    times: a row per value: panel, series, cca (str), seconds
    what: the name of the times, such as 'smoothed RTT'
    """
    unit, unit_s = ("s", 1.0) if encodings.largest(times, "seconds") >= 1 else ("ms", 1e-3)
    times = times.select("panel", "series", "cca", time=pl.col("seconds") / unit_s)
    channels = encodings.colour_by_cca(times["cca"].unique())
    if times.select("series", "cca").unique().height > times["cca"].n_unique():
        channels |= encodings.dash("series", "group")
    scale = _time_scale(times["time"])
    x = quantity("time", f"{what} ({unit})", {"tickCount": 5}, **scale)
    times = times.with_columns(
        pl.col("time").clip(scale["domain"][0])
    )  # 0 has no place on a logarithmic axis
    panels = {}
    for panel in names_in_order(times, "panel"):
        source = inline(steps(times.filter(pl.col("panel") == panel)))
        view = distribution(source, x, channels)
        panels[panel] = {"width": WIDTH, "height": HEIGHT, **view}
    return side_by_side(panels, COLUMNS)


def _time_scale(times: pl.Series) -> Part:
    """Returns the scale of an axis for these times. It begins with 0. If the times span decades, it
    is logarithmic instead, and begins with the smallest time above 0.
    """
    low, high = (float(times.quantile(share) or 0.0) for share in (0.01, 0.99))
    most = encodings.largest(times.to_frame(), times.name)
    if low > 0 and high / low >= LOG_FROM:
        return {"type": "log", "domain": [times.filter(times > 0).min(), most]}
    return {"domain": [0, most]}


def steps(times: pl.DataFrame) -> pl.DataFrame:
    """Returns the cumulative distribution of each series as the points of its line: series, cca,
    time, and share (of the series' values that are at most this time). Series with more than 100
    values have 100 points (MOST_POINTS).

    times: a row per value: series, cca, time
    """
    distributions_of_series = []
    for (series, cca), series_rows in times.group_by("series", "cca", maintain_order=True):
        values = series_rows["time"].sort()
        count = values.len()
        ranks = pl.Series(evenly_spread(range(count), MOST_POINTS))
        line = pl.DataFrame(
            {"time": values.gather(ranks).round_sig_figs(4), "share": (ranks + 1) / count}
        )
        first = line.head(1).with_columns(share=pl.lit(0.0))
        distributions_of_series.append(
            pl.concat([first, line]).with_columns(
                pl.col("share").round(4), series=pl.lit(series), cca=pl.lit(cca)
            )
        )
    return pl.concat(distributions_of_series)
