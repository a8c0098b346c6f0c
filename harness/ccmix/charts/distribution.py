"""Draws distribution functions of times, such as those of short flows, as in figure 12 of Gomez et al. 2024."""

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import names_in_order, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource, inline

WIDTH, HEIGHT, COLUMNS = 260, 170, 3
MOST_POINTS = 100  # in a line
LOG_FROM = 20.0  # the 99th over the 1st percentile of all


def distribution(source: ChartSource, x: Part, channels: Part) -> Part:
    """Draws a line of steps for each series as one view.

    Rows: series, cca, what x draws, and share (of the series' values that are at most so large).
    """
    y = quantity("share", "share at most so large", encodings.PERCENT_AXIS, domain=[0, 1])
    return source.view(
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": encodings.LINE_WIDTH},
            "encoding": {"x": x, "y": y, "detail": encodings.name("series"), **channels},
        }
    )


def distributions(times: pl.DataFrame, what: str) -> Part:
    """Draws a panel for each value of `panel`; a step at each value, or at MOST_POINTS quantiles of many.

    times: a row per value: panel, series, cca (str), seconds. All panels have the same axes, in ms or s.
    """
    unit, size = ("s", 1.0) if encodings.largest(times, "seconds") >= 1 else ("ms", 1e-3)
    times = times.select("panel", "series", "cca", time=pl.col("seconds") / size)
    channels = encodings.of_cca(times["cca"].unique())
    if times.select("series", "cca").unique().height > times["cca"].n_unique():
        channels |= encodings.dash("series", "group")
    scale = _scale(times["time"])
    x = quantity("time", f"{what} ({unit})", {"tickCount": 5}, **scale)
    times = times.with_columns(pl.col("time").clip(scale["domain"][0]))  # 0 has no place on a logarithmic axis
    panels = [
        {
            "title": panel, "width": WIDTH, "height": HEIGHT,
            **distribution(inline(steps(times.filter(pl.col("panel") == panel))), x, channels),
        }
        for panel in names_in_order(times, "panel")
    ]  # fmt: skip
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}


def _scale(times: pl.Series) -> Part:
    """Returns a scale from 0 on or, where the values span decades, a logarithmic one from the smallest above 0 on."""
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
        line = pl.DataFrame({"time": values.gather(ranks).round_sig_figs(4), "share": (ranks + 1) / count})
        first = line.head(1).with_columns(share=pl.lit(0.0))
        functions.append(
            pl.concat([first, line]).with_columns(pl.col("share").round(4), series=pl.lit(series), cca=pl.lit(cca))
        )
    return pl.concat(functions)


def _even_ranks(count: int) -> pl.Series:
    """Returns MOST_POINTS ranks, the first and the last included."""
    return pl.Series([round(at * (count - 1) / (MOST_POINTS - 1)) for at in range(MOST_POINTS)])
