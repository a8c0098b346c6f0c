"""Draws measured numbers beside published ones, against a setting or by names.

A panel has a plot for each number, one below the other. Bars, lines and points are measured, with 95% intervals;
diamonds are published.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.colours import ONE_COLOUR, colours_of
from ccmix.charts.encodings import largest
from ccmix.charts.json_types import Part
from ccmix.charts.source import inline

PANEL_WIDTH, HEIGHT = 280, 130
ALL_FLOWS = "all flows"  # the line of a number that is of a whole run
PUBLISHED: Part = {"type": "point", "shape": "diamond", "size": 70, "fill": "white", "strokeWidth": 1.8, "opacity": 1,
                   "filled": False}  # fmt: skip
BAR: Part = {"type": "bar", "fillOpacity": 0.45, "strokeWidth": 1}
LINE: Part = {"type": "line", "strokeWidth": encodings.LINE_WIDTH}
INTERVAL: Part = {"type": "rule", "strokeWidth": 1.5}
POINT = encodings.POINTS | {"size": 30}
DASHES = ([1, 0], [5, 4])  # of the two kinds of flows of a CCA


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
    """Says what is laid out: the panels in their order, how many of them are side by side, and the marks.

    `bars` is for names on the x axis, else points are drawn, which `lined` connects. `dashed` are the two kinds of
    flows that share a colour, by what `line` calls them, if there are any.
    """

    panels: tuple[str, ...]
    columns: int
    bars: bool = False
    lined: bool = True
    dashed: tuple[str, ...] = ()


def beside(frame: pl.DataFrame, x: Part, numbers: Sequence[PlottedNumber], layout: SideBySide) -> Part:
    """Draws a column of plots for each panel. x: the channel of `setting`.

    frame: panel, number (name), setting, line, cca (or ALL_FLOWS), published (bool), mean, low, high.
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
            labelled = x if number is shown[-1] else x | {"title": None, "axis": x["axis"] | {"labels": False}}
            plots.append(_plot(own.filter(is_it).with_columns(within), labelled, y, channels, layout))
        panels.append({"title": panel, "spacing": 6, "vconcat": plots})
    return {"concat": panels, "columns": layout.columns, "spacing": 24}


def _colour(frame: pl.DataFrame) -> Part:
    colours = colours_of(cca for cca in frame["cca"].unique() if cca != ALL_FLOWS)
    if (frame["cca"] == ALL_FLOWS).any():
        colours |= {ALL_FLOWS: ONE_COLOUR}
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"color": encodings.name("cca", "CCA", scale=scale, legend={"symbolType": "square", "symbolOpacity": 1})}


def _offset(frame: pl.DataFrame, x: Part) -> Part:
    """Returns the channel that puts several lines beside each other at a name on the x axis."""
    several = frame.group_by("panel", "number", "setting").agg(pl.col("line").n_unique())["line"].max() != 1
    return {"xOffset": encodings.name("line", sort=None)} if several and x["type"] == "ordinal" else {}


def _y(number: PlottedNumber, most: float) -> Part:
    scale = {"domain": [0, most], "nice": False} | number.scale
    return {"field": "mean", "type": "quantitative", "title": number.title, "axis": number.axis, "scale": scale}


def _plot(rows: pl.DataFrame, x: Part, y: Part, channels: Part, layout: SideBySide) -> Part:
    lab, published = (
        inline(rows.filter(pl.col("published") == which).drop("panel", "number", "published"))
        for which in (False, True)
    )
    interval: Part = {"mark": INTERVAL, "encoding": {"y": y | {"field": "low"}, "y2": {"field": "high"}}}
    if layout.bars:
        marks = [{"mark": BAR, "encoding": {"y": y, "stroke": channels["color"] | {"legend": None}}}, interval]
    else:
        line: Part = {"mark": LINE, "encoding": {"y": y, "detail": [encodings.name("line")], **_dash(layout)}}
        marks = [interval, *([line] if layout.lined else []), {"mark": POINT, "encoding": {"y": y}}]
    measured = lab.view({"encoding": {"x": x, **channels}, "layer": marks})
    diamonds = published.view({"mark": PUBLISHED, "encoding": {"x": x, "y": y, **channels}})
    layers = [measured, diamonds] if layout.bars else [diamonds, measured]
    return {"width": PANEL_WIDTH, "height": HEIGHT, "layer": layers}


def _dash(layout: SideBySide) -> Part:
    """Returns the channel of the two kinds of flows; the line of all flows is a solid one, and in no legend."""
    if not layout.dashed:
        return {}
    channel = encodings.dash("line", "flow", domain=[*layout.dashed, ALL_FLOWS], range=[*DASHES, DASHES[0]])
    channel["strokeDash"]["legend"] |= {"values": list(layout.dashed)}
    return channel
