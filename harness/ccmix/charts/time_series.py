"""Draws goodput over time per group with retransmissions under it, as in figures 2 to 14 of Tierney et al. 2021.

A chart shows one condition of the path, its entries side by side on the same scales, three in a row, so that readers
can compare all-CUBIC, all-BBR and the mix of both at a glance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import LINE_WIDTH, largest, names_in_order, plain, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource, inline

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 300, 264, 3
# Shares of a panel's height, from the top: the upper part ends and the lower one begins here
GOODPUT_ENDS, RETRANSMITS_BEGIN = 0.68, 0.71
MOST_THIN_LINES = 5  # iterations of a panel that are drawn each; of more, only the range is drawn


@dataclass(frozen=True)
class Scales:
    """Holds the scales that all panels share, as Vega-Lite has them."""

    time: Part = field(default_factory=dict)
    goodput: Part = field(default_factory=dict)
    retransmits: Part = field(default_factory=dict)
    height: str = "height"
    """Is Vega's name for the height of a panel, which differs where panels are put together."""


def over_time(
    source: ChartSource,
    channels: Part,
    *,
    apart: Sequence[str] = (),
    scales: Scales | None = None,
    each: Part | None = None,
) -> Part:
    """Draws a line of goodput for each group, and below it the segments that it retransmitted, as one view.

    Rows: begin_s and time_s (the interval's begin and end), goodput_bps, retransmits (segments in the interval, null
    where they were not counted), group, cca, low_bps and high_bps (the range that is drawn behind the line), omit_s
    (seconds at the start that aren't measured; they are grey). apart: further columns that separate lines.
    each: a layer that is drawn instead of the range.
    """
    scales = scales or Scales()
    lines = [encodings.name(column) for column in ("group", *apart)]
    top = scales.goodput | {"range": [{"expr": f"{GOODPUT_ENDS} * {scales.height}"}, 0]}
    x = encodings.time(**scales.time) | {"axis": {"grid": False}}  # a grid would end where one of the parts does
    omitted = {
        "transform": [
            {"aggregate": [{"op": "max", "field": "omit_s", "as": "to_s"}]},
            {"calculate": "0", "as": "from_s"},
        ],
        "mark": {"type": "rect", "color": "#888888", "opacity": 0.15},
        "encoding": {"x": plain("from_s"), "x2": {"field": "to_s"}},
    }
    spread = {
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {
            "x": x,
            "y": plain("low_bps") | {"scale": top},
            "y2": {"field": "high_bps"},
            "detail": lines,
            "color": channels["color"],
        },
    }
    line = {
        "mark": {"type": "line", "strokeWidth": LINE_WIDTH},
        "encoding": {
            "x": x,
            "y": encodings.goodput(**top),
            "detail": lines,
            **channels,
            "tooltip": [
                encodings.name("group", "group"),
                quantity("time_s", "s"),
                quantity("goodput_bps", "bit/s") | {"format": ".3s"},
                quantity("retransmits", "retransmitted"),
            ],
        },
    }
    return source.view(
        {
            "layer": [omitted, {"layer": [each or spread, line]}, _retransmitted(x, lines, channels, scales)],
            "resolve": {"scale": {"y": "independent"}},
        }
    )


def _retransmitted(x: Part, lines: list[Part], channels: Part, scales: Scales) -> Part:
    """Draws bars of each group's intervals, in one outline."""
    counted = "(datum.retransmits || 0)"
    scale = scales.retransmits | {
        "range": [{"expr": scales.height}, {"expr": f"{RETRANSMITS_BEGIN} * {scales.height}"}]
    }
    axis = encodings.RATE_AXIS | {"tickCount": 3, "orient": "left"}
    y = quantity("of_interval", ["retransmitted", "/ interval"], axis, **scale)
    return {
        "transform": [
            {"calculate": "[datum.begin_s, datum.begin_s, datum.time_s, datum.time_s]", "as": "corner_s"},
            {"calculate": f"[0, {counted}, {counted}, 0]", "as": "of_interval"},
            {"flatten": ["corner_s", "of_interval"]},
        ],
        "mark": {"type": "area", "opacity": 0.45},
        "encoding": {
            "x": x | {"field": "corner_s"},
            "y": y | {"stack": None},
            "detail": lines,
            "color": channels["color"],
        },
    }


def time_series(series: pl.DataFrame, omit_s: dict[str, float]) -> Part:
    """Draws a panel for each entry: the mean over iterations bold, and each iteration thin, or the range of many.

    `series`: a row per entry, iteration, group and interval: entry, group, cca (str); iteration (int); time_s and
    begin_s (the interval's end and begin), goodput_bps, retransmits (segments in the interval, null where they
    were not counted). omit_s: seconds at the start of each entry's runs that aren't measured.
    """
    series = series.with_columns(pl.col("goodput_bps").round_sig_figs(4), pl.col("time_s", "begin_s").round(4))
    mean = series.group_by("entry", "time_s", "group", "cca", maintain_order=True).agg(
        pl.col("begin_s").mean().round(4),
        pl.col("goodput_bps").mean().round_sig_figs(4),
        pl.col("retransmits").mean().round_sig_figs(3),
        low_bps=pl.col("goodput_bps").min(),
        high_bps=pl.col("goodput_bps").max(),
    )
    channels = encodings.of_cca(series["cca"].unique()) | encodings.lighter(series["group"])
    if series.select("group", "cca").unique().height > series["cca"].n_unique():
        channels |= encodings.dash("group", "group")
    scales = Scales(
        time={"domain": [0, math.ceil(largest(mean, "time_s"))], "nice": False},
        goodput={"domain": [0, largest(series, "goodput_bps")]},
        retransmits={"domain": [0, largest(mean, "retransmits")]},
        height="childHeight",
    )
    panels = []
    for entry in names_in_order(series, "entry"):
        own = pl.col("entry") == entry
        of_entry = inline(mean.filter(own).drop("entry").with_columns(omit_s=pl.lit(omit_s[entry])))
        drawn = over_time(of_entry, channels, scales=scales, each=_thin(series.filter(own), channels, scales))
        panels.append({"title": entry, "width": PANEL_WIDTH, "height": PANEL_HEIGHT, **drawn})
    return {"concat": panels, "columns": COLUMNS, "spacing": 24}


def _thin(series: pl.DataFrame, channels: Part, scales: Scales) -> Part | None:
    """Draws a line for each iteration, unless they are many."""
    if series["iteration"].n_unique() > MOST_THIN_LINES:
        return None
    return inline(series.select("time_s", "goodput_bps", "group", "cca", "iteration")).view(
        {
            "mark": {"type": "line", "strokeWidth": 0.7, "opacity": 0.4},
            "encoding": {
                "x": plain("time_s"),
                "y": plain("goodput_bps"),
                "detail": [encodings.name("group"), encodings.name("iteration")],
                "color": channels["color"],
            },
        }
    )
