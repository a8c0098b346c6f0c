"""Draws the lab's results next to a paper's published numbers, or next to predicted ranges."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import (
    COLOURS,
    ONE_COLOUR,
    ChartSource,
    Part,
    colour_scale,
    colours_of,
    inline,
    largest,
    name,
    plain,
    quantity,
    side_by_side,
    without_labels,
)

PANEL_WIDTH, HEIGHT = 280, 130
ALL_FLOWS = "all flows"  # the line of a number of a whole run
PUBLISHED: Part = {
    "type": "point",
    "shape": "diamond",
    "size": 70,
    "fill": "white",
    "strokeWidth": 1.8,
    "opacity": 1,
    "filled": False,
}
BAR: Part = {"type": "bar", "fillOpacity": 0.45, "strokeWidth": 1}
INTERVAL: Part = {"type": "rule", "strokeWidth": 1.5}
POINT = encodings.POINTS | {"size": 30}
DASHES = ([1, 0], [5, 4])  # dashes of the two kinds of flows of a CCA


@dataclass(frozen=True)
class PlottedNumber:
    """Describes a measure that has a plot of its own: its name in the rows, title and axis of y,
    and its scale.

    A scale without a domain goes from 0 to the largest number of all panels.
    """

    name: str
    title: str
    axis: Part
    scale: Part


@dataclass(frozen=True)
class SideBySide:
    """Describes the layout of published_next_to_lab(): the panels in their order, how many of them
    are side by side, and the marks.

    `bars` is for names on the x axis; otherwise points are drawn, which lines connect if `lined` is
    set. `dashed` are the names, in the column `line`, of the two kinds of flows that share a
    colour, if there are any.
    """

    panels: tuple[str, ...]
    columns: int
    bars: bool = False
    lined: bool = True
    dashed: tuple[str, ...] = ()


def published_next_to_lab(
    frame: pl.DataFrame, x: Part, numbers: Sequence[PlottedNumber], layout: SideBySide
) -> Part:
    """Returns a chart of the lab's results, with a paper's published numbers as diamonds. Each
    panel is a column of plots, with one plot for each measure.

    frame: a row per point: panel, number (the measure's name), setting, line, cca (or ALL_FLOWS),
        published (bool), mean, low, high (the ends of the interval)
    x: the channel of `setting`
    numbers: the measures, in the order of the plots
    """
    numbers_in_frame = frame["number"].unique().to_list()
    drawn_numbers = [number for number in numbers if number.name in numbers_in_frame]
    channels = _colour_channel(frame) | _offset_channel(frame, x)
    panels = {}
    for panel in layout.panels:
        panel_rows = frame.filter(pl.col("panel") == panel)
        plots = []
        for number in drawn_numbers:
            of_number = pl.col("number") == number.name
            most = largest(frame.filter(of_number), "mean", "high")
            scale: Part = {"domain": [0, most], "nice": False} | number.scale
            y = quantity("mean", number.title, number.axis, **scale)
            clipped = pl.col("mean", "low", "high").clip(*scale["domain"])
            rows = panel_rows.filter(of_number).with_columns(clipped)
            x_of_plot = x if number is drawn_numbers[-1] else without_labels(x)
            plots.append(_plot(rows, x_of_plot, y, channels, layout))
        panels[panel] = {"spacing": 6, "vconcat": plots}
    return side_by_side(panels, layout.columns)


def _colour_channel(frame: pl.DataFrame) -> Part:
    """Returns the channel of the CCAs' colours; a line of all flows (ALL_FLOWS) is dark grey."""
    colours = colours_of(cca for cca in frame["cca"].unique() if cca != ALL_FLOWS)
    if (frame["cca"] == ALL_FLOWS).any():
        colours |= {ALL_FLOWS: ONE_COLOUR}
    legend = {"symbolType": "square", "symbolOpacity": 1}
    return {"color": name("cca", "CCA", scale=colour_scale(colours), legend=legend)}


def _offset_channel(frame: pl.DataFrame, x: Part) -> Part:
    """Returns the channel that puts the lines of a panel next to each other at each name on the x
    axis. {} if a panel has only one line, or if the x axis has numbers.
    """
    places = frame.group_by("panel", "number", "setting")
    if x["type"] != "ordinal" or places.agg(pl.col("line").n_unique())["line"].max() == 1:
        return {}
    return {"xOffset": name("line", sort=None)}


def _plot(rows: pl.DataFrame, x: Part, y: Part, channels: Part, layout: SideBySide) -> Part:
    """Returns the plot of one measure: the lab's means as bars or points with their intervals, and
    the published numbers as diamonds.

    rows: the points of one panel and measure
    channels: the channels of the colours, and of the place of several lines
    """
    lab, published = (
        inline(
            rows.filter(pl.col("published") == is_published).drop("panel", "number", "published")
        )
        for is_published in (False, True)
    )
    interval: Part = {
        "mark": INTERVAL,
        "encoding": {"y": y | {"field": "low"}, "y2": {"field": "high"}},
    }
    if layout.bars:
        marks = [
            {"mark": BAR, "encoding": {"y": y, "stroke": channels["color"] | {"legend": None}}},
            interval,
        ]
    else:
        line: Part = {
            "mark": encodings.LINE,
            "encoding": {"y": y, "detail": [encodings.name("line")], **_dash_channel(layout)},
        }
        marks = [interval, *([line] if layout.lined else []), {"mark": POINT, "encoding": {"y": y}}]
    measured = lab.view({"encoding": {"x": x, **channels}, "layer": marks})
    diamonds = published.view({"mark": PUBLISHED, "encoding": {"x": x, "y": y, **channels}})
    layers = [measured, diamonds] if layout.bars else [diamonds, measured]
    return {"width": PANEL_WIDTH, "height": HEIGHT, "layer": layers}


def _dash_channel(layout: SideBySide) -> Part:
    """Returns the channel of dashes, which tells two kinds of flows with the same colour apart. {}
    if the layout names no such kinds. A line of all flows is solid, and is not in the legend.
    """
    if not layout.dashed:
        return {}
    channel = encodings.dash(
        "line", "flow", domain=[*layout.dashed, ALL_FLOWS], range=[*DASHES, DASHES[0]]
    )
    channel["strokeDash"]["legend"] |= {"values": list(layout.dashed)}
    return channel


ROW_HEIGHT, WIDTH = 30, 520  # pixels
BAR_HEIGHT, TICK_HEIGHT = 14, 18
PALE = "#9FC9E3"
KINDS = ("range", "best", "result")


def spans(source: ChartSource, value: Part, labels: Part, row: str = "row") -> Part:
    """Returns a view of predicted ranges and measured results, with a line for each row: a bar from
    low to high, a tick at the best estimate, and a point for the result, with its interval.

    Rows of the source: the name (in the column `row`), low, high, best (null: not known), result,
    result_low and result_high
    value: the channel of the x axis, without its field
    labels: the names of KINDS in the legend
    """
    y = name(row, sort=None, axis={"labelLimit": 420, "ticks": False, "domain": False})
    domain = [labels[kind] for kind in KINDS]
    colours = [PALE, COLOURS["bbr"], ONE_COLOUR]
    legend = {"orient": "top", "symbolType": "square", "symbolOpacity": 1}
    colour = name("kind", scale={"domain": domain, "range": colours}, legend=legend, sort=None)

    def layer(kind: str, mark: Part, field: str, end: str | None = None) -> Part:
        """Returns the layer of one of the KINDS: `mark` at the column `field`, to the column `end`
        if it is given.
        """
        encoding = {"y": y, "x": value | {"field": field}, "color": colour}
        return {
            "transform": [
                {"calculate": f"{labels[kind]!r}", "as": "kind"},
                {"filter": f"isValid(datum.{field})"},
            ],
            "mark": mark,
            "encoding": encoding | ({"x2": {"field": end}} if end else {}),
        }

    return source.view(
        {
            "layer": [
                layer(
                    "range",
                    {"type": "bar", "height": BAR_HEIGHT, "stroke": COLOURS["bbr"]},
                    "low",
                    "high",
                ),
                layer("best", {"type": "tick", "thickness": 3, "height": TICK_HEIGHT}, "best"),
                {
                    "mark": {"type": "rule", "strokeWidth": 2, "color": ONE_COLOUR},
                    "encoding": {"y": y, "x": plain("result_low"), "x2": {"field": "result_high"}},
                },
                layer(
                    "result", {"type": "point", "filled": True, "size": 70, "opacity": 1}, "result"
                ),
            ]
        }
    )
