"""Defines channels, axes and scales that all charts share, those of Kibana too. Columns and their units:

time_s          seconds since the traffic began, the omitted time included
goodput_bps     of a group, bit/s
cca, group      names
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ccmix.analysis.limited import MARK
from ccmix.charts.colours import NO_CCA, ONE_COLOUR, all_colours, colours_of

if TYPE_CHECKING:
    import polars as pl  # `ccmix --help` imports this module

from ccmix.charts.json_types import Part

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
LINE_WIDTH = 2.0
FAINT = "#EEEEEE"
LIGHTER = 0.4
POINTS = {"type": "point", "filled": True, "size": 25, "opacity": 1}  # the values that a line connects


def quantity(field: str, title: str | list[str] | None, axis: Mapping[str, Any] | None = None, **scale: Any) -> Part:
    """Returns a channel of numbers; `scale` is as Vega-Lite has it."""
    channel: Part = {"field": field, "type": "quantitative", "title": title}
    if axis:
        channel["axis"] = dict(axis)
    if scale:
        channel["scale"] = scale
    return channel


def plain(field: str) -> Part:
    """Returns a channel of numbers for a further layer, which shares axis and title with another layer."""
    return {"field": field, "type": "quantitative"}


def name(field: str, title: str | None = None, **more: Any) -> Part:
    """Returns a channel of names."""
    return {"field": field, "type": "nominal", "title": title, **more}


def time(**scale: Any) -> Part:
    return quantity("time_s", "time since the traffic began (s)", **scale)


def goodput(**scale: Any) -> Part:
    return quantity("goodput_bps", "goodput (bit/s)", RATE_AXIS, **scale)


RATE_AXIS = {"format": "~s", "tickCount": 5, "labelExpr": "datum.value === 0 ? '0' : datum.label"}
PERCENT_AXIS = {"format": "~%", "tickCount": 5}


def of_cca(ccas: Iterable[str] | None = None, field: str = "cca") -> Part:
    """Returns channels that give each CCA its colour, and a legend of the CCAs that occur.

    If the CCAs are not known before the data is (None), the scale of colours has all CCAs, and its legend would show
    all. So a second channel, of a constant width, has a scale of the CCAs in the data, and the legend takes these.
    That channel is sorted: Vega-Lite warns of a width by names that are in no order.
    """
    legend: Part = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1}
    if ccas is not None:
        return {"color": name(field, "CCA", scale=cca_scale(ccas), legend=legend)}
    legend["values"] = {"expr": "domain('strokeWidth')"}
    width = name(field, scale={"type": "ordinal", "range": [LINE_WIDTH]}, sort="ascending", legend=None)
    return {"color": name(field, "CCA", scale=cca_scale(), legend=legend), "strokeWidth": width}


def lighter(names: Iterable[str], field: str = "group") -> Part:
    """Returns the channel that draws what is of runs that are not valid lighter, by the marks of names in a field."""
    if not any(re.search(MARK, each) for each in names):
        return {}
    return {"opacity": {"condition": {"test": f"test(regexp('{MARK}'), datum.{field})", "value": LIGHTER}, "value": 1}}


def dash(field: str, title: str, **scale: Any) -> Part:
    """Returns a channel that separates lines of one colour by their dashes."""
    legend = {"symbolType": "stroke", "symbolStrokeWidth": 2, "symbolStrokeColor": ONE_COLOUR, "symbolSize": 300}
    channel = name(field, title, legend=legend)
    return {"strokeDash": channel | {"scale": scale} if scale else channel}


def cca_scale(ccas: Iterable[str] | None = None) -> Part:
    """Returns the scale that gives each CCA its colour; None: all CCAs of Linux, and what has none."""
    colours = all_colours() | {"-": NO_CCA} if ccas is None else colours_of(ccas)
    return {"domain": list(colours), "range": list(colours.values())}


def rows(frame: pl.DataFrame) -> Part:
    """Returns a frame as the data of a view."""
    return {"values": frame.to_dicts()}


def names_in_order(frame: pl.DataFrame, column: str) -> list[Any]:
    """Returns the values of a column, each once, as they first appear."""
    return frame[column].unique(maintain_order=True).to_list()


def largest(frame: pl.DataFrame, *columns: str) -> float:
    """Returns the largest number of these columns; 1 where there is none above 0."""
    numbers = [value for column in columns if isinstance(value := frame[column].max(), int | float)]
    return float(max(numbers, default=0)) or 1.0
