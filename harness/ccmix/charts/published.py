"""Draws results next to published numbers, and next to ranges that unknown keys leave open."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import (
    COLOURS,
    ONE_COLOUR,
    ChartSource,
    Part,
    colours_of,
    inline,
    largest,
    name,
    plain,
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
LINE: Part = {"type": "line", "strokeWidth": encodings.LINE_WIDTH}
INTERVAL: Part = {"type": "rule", "strokeWidth": 1.5}
POINT = encodings.POINTS | {"size": 30}
DASHES = ([1, 0], [5, 4])  # dashes of the two kinds of flows of a CCA


@dataclass(frozen=True)
class PlottedNumber:
    """Describes a number that rows have by its name: title and axis of y, and its scale.

    A scale without a domain goes from 0 to the largest number of all panels.
    """

    name: str
    title: str
    axis: Part
    scale: Part


@dataclass(frozen=True)
class SideBySide:
    """Describes the layout: the panels in their order, how many of them are side by side, and the
    marks.

    `bars` is for names on the x axis; otherwise points are drawn, which `lined` connects. `dashed`
    are the names, in `line`, of the two kinds of flows that share a colour, if there are any.
    """

    panels: tuple[str, ...]
    columns: int
    bars: bool = False
    lined: bool = True
    dashed: tuple[str, ...] = ()


def beside(
    frame: pl.DataFrame, x: Part, numbers: Sequence[PlottedNumber], layout: SideBySide
) -> Part:
    """Draws a column of plots for each panel. x: the channel of `setting`.

    frame: panel, number (name), setting, line, cca (or ALL_FLOWS), published (bool), mean, low,
        high.
    """
    there = frame["number"].unique().to_list()
    shown = [number for number in numbers if number.name in there]
    channels = _colour(frame) | _offset(frame, x)
    panels = []
    for panel in layout.panels:
        own = frame.filter(pl.col("panel") == panel)
        plots = []
        for number in shown:
            is_it = pl.col("number") == number.name
            y = _y(number, largest(frame.filter(is_it), "mean", "high"))
            within = pl.col("mean", "low", "high").clip(*y["scale"]["domain"])
            labelled = (
                x
                if number is shown[-1]
                else x | {"title": None, "axis": x["axis"] | {"labels": False}}
            )
            plots.append(
                _plot(own.filter(is_it).with_columns(within), labelled, y, channels, layout)
            )
        panels.append({"title": panel, "spacing": 6, "vconcat": plots})
    return {"concat": panels, "columns": layout.columns, "spacing": 24}


def _colour(frame: pl.DataFrame) -> Part:
    colours = colours_of(cca for cca in frame["cca"].unique() if cca != ALL_FLOWS)
    if (frame["cca"] == ALL_FLOWS).any():
        colours |= {ALL_FLOWS: ONE_COLOUR}
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {
        "color": encodings.name(
            "cca", "CCA", scale=scale, legend={"symbolType": "square", "symbolOpacity": 1}
        )
    }


def _offset(frame: pl.DataFrame, x: Part) -> Part:
    """Returns the channel that puts several lines next to each other at a name on the x axis."""
    several = (
        frame.group_by("panel", "number", "setting").agg(pl.col("line").n_unique())["line"].max()
        != 1
    )
    return (
        {"xOffset": encodings.name("line", sort=None)} if several and x["type"] == "ordinal" else {}
    )


def _y(number: PlottedNumber, most: float) -> Part:
    scale = {"domain": [0, most], "nice": False} | number.scale
    return {
        "field": "mean",
        "type": "quantitative",
        "title": number.title,
        "axis": number.axis,
        "scale": scale,
    }


def _plot(rows: pl.DataFrame, x: Part, y: Part, channels: Part, layout: SideBySide) -> Part:
    lab, published = (
        inline(rows.filter(pl.col("published") == which).drop("panel", "number", "published"))
        for which in (False, True)
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
            "mark": LINE,
            "encoding": {"y": y, "detail": [encodings.name("line")], **_dash(layout)},
        }
        marks = [interval, *([line] if layout.lined else []), {"mark": POINT, "encoding": {"y": y}}]
    measured = lab.view({"encoding": {"x": x, **channels}, "layer": marks})
    diamonds = published.view({"mark": PUBLISHED, "encoding": {"x": x, "y": y, **channels}})
    layers = [measured, diamonds] if layout.bars else [diamonds, measured]
    return {"width": PANEL_WIDTH, "height": HEIGHT, "layer": layers}


def _dash(layout: SideBySide) -> Part:
    """Returns the channel of the two kinds of flows; the line of all flows is solid and not in the
    legend.
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
    """Draws a bar from low to high, a tick at the best estimate, and a point with its interval, as
    a single view.

    Rows: the name in `row`, low, high, best (null: not known), result, result_low and result_high,
        all in the unit of `value`, a channel whose field is overridden.
    labels: the names of KINDS in the legend.
    """
    y = name(row, sort=None, axis={"labelLimit": 420, "ticks": False, "domain": False})
    domain = [labels[kind] for kind in KINDS]
    colours = [PALE, COLOURS["bbr"], ONE_COLOUR]
    legend = {"orient": "top", "symbolType": "square", "symbolOpacity": 1}
    colour = name("kind", scale={"domain": domain, "range": colours}, legend=legend, sort=None)

    def layer(kind: str, mark: Part, field: str, end: str | None = None) -> Part:
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
