"""Defines the parts that all charts share: colours, channels, axes, scales, rows and titles.

A channel is Vega-Lite's rule for how a column of the rows is drawn: as x, y, colour or dashes.
Kibana's panels use these parts, too. Columns and their units:

time_s          seconds since the traffic began, the omitted time included
goodput_bps     of a group, bit/s
cca, group      names
"""

import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import polars as pl

from ccmix.analysis.counting import MARK
from ccmix.analysis.results import Result
from ccmix.archive.campaign import file_name

T = TypeVar("T")
Part = dict[str, Any]  # a Vega-Lite specification, or a part of one


# Colours that also differ for colour-blind readers (Okabe and Ito), fixed for the most used CCAs.
COLOURS = {
    "cubic": "#D55E00",
    "bbr": "#0072B2",
    "bbr2": "#009E73",
    "bbr3": "#CC79A7",
    "reno": "#E69F00",
    "htcp": "#56B4E9",
}
OTHER_COLOURS = ("#000000", "#999999", "#F0E442", "#7F3C8D", "#11A579", "#A5AA99")
# The other CCAs of Linux: Vega draws a CCA that is not in the scale in the range's first colours.
OTHER_CCAS = (
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)
NO_CCA = "#666666"  # UDP, and flows of an unknown CCA
ONE_COLOUR = "#333333"  # what belongs to no CCA, such as the fairness of a whole run


def all_colours() -> dict[str, str]:
    """Returns the colour of every CCA of Linux, by its name."""
    return COLOURS | dict(zip(OTHER_CCAS, itertools.cycle(OTHER_COLOURS), strict=False))


def colours_of(ccas: Iterable[str]) -> dict[str, str]:
    """Returns the colours of these CCAs by name, in alphabetical order. The name '-' stands for UDP
    and for flows of an unknown CCA. CCAs that Linux does not have get OTHER_COLOURS in turn.
    """
    known, wanted = all_colours() | {"-": NO_CCA}, sorted(set(ccas))
    spare_colours = itertools.cycle(OTHER_COLOURS)
    return {cca: known.get(cca) or next(spare_colours) for cca in wanted}


Kind = Literal[
    "setting", "heat-map", "share", "box", "distribution", "table", "time-series", "bbr-state"
]
Image = Literal["svg", "png", "json"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # in the order in which a report shows them


@dataclass(frozen=True)
class Chart:
    """Holds a Vega-Lite specification with its data, and a text that describes the chart.

    `name` is a file's name without suffix, unique among the charts of a report. `settings`
    describes the path. `condition` is the combination of swept values that is shown, or None if
    there are several. `runs` are the folders of the runs that are drawn.
    """

    kind: Kind
    name: str
    title: str
    settings: str
    alt_text: str
    spec: Part
    condition: str | None
    runs: tuple[Path, ...]


SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
LINE_WIDTH = 2.0
FAINT = "#EEEEEE"
LIGHTER = 0.4
LINE = {"type": "line", "strokeWidth": LINE_WIDTH}
BAND = {"type": "area", "opacity": 0.2, "clip": True}
POINTS = {
    "type": "point",
    "filled": True,
    "size": 25,
    "opacity": 1,
}  # the values that a line connects


def quantity(
    field: str, title: str | list[str] | None, axis: Mapping[str, Any] | None = None, **scale: Any
) -> Part:
    """Returns a channel (Vega-Lite's rule for how a column is drawn) for numbers.

    field: the column
    title: the title of the axis
    axis: Vega-Lite's parameters of the axis, such as the format of its labels
    scale: Vega-Lite's parameters of the scale, such as domain=[0, 1]
    """
    channel: Part = {"field": field, "type": "quantitative", "title": title}
    if axis:
        channel["axis"] = dict(axis)
    if scale:
        channel["scale"] = scale
    return channel


def plain(field: str) -> Part:
    """Returns a channel for numbers in a further layer of a view. It has no title and axis, because
    another layer of the view defines them.
    """
    return {"field": field, "type": "quantitative"}


def name(field: str, title: str | None = None, **more: Any) -> Part:
    """Returns a channel (Vega-Lite's rule for how a column is drawn) for names. `more` are further
    Vega-Lite parameters of the channel.
    """
    return {"field": field, "type": "nominal", "title": title, **more}


def ordered_names(field: str, title: str | None, order: Sequence[str], **more: Any) -> Part:
    """Returns the channel of an axis of names that has all of them in this order. `more` are
    further Vega-Lite parameters of the channel.
    """
    scale = {"domain": order}
    return {"field": field, "type": "ordinal", "title": title, "sort": None, "scale": scale, **more}


def without_labels(x: Part) -> Part:
    """Returns the channel of the x axis for a plot above another one that has the same axis."""
    return x | {"title": None, "axis": x.get("axis", {}) | {"labels": False}}


def time(**scale: Any) -> Part:
    """Returns the channel of the column time_s, with parameters of its scale."""
    return quantity("time_s", "time since the traffic began (s)", **scale)


def goodput(**scale: Any) -> Part:
    """Returns the channel of the column goodput_bps, with parameters of its scale."""
    return quantity("goodput_bps", "goodput (bit/s)", RATE_AXIS, **scale)


RATE_AXIS = {"format": "~s", "tickCount": 5, "labelExpr": "datum.value === 0 ? '0' : datum.label"}
PERCENT_AXIS = {"format": "~%", "tickCount": 5}


def colour_by_cca(ccas: Iterable[str] | None = None, field: str = "cca") -> Part:
    """Returns channels that give each CCA its colour, and a legend of the CCAs that occur. `field`
    is the column with the CCAs.

    In Kibana, the CCAs are known only when the data arrives: `ccas` is None. The scale of colours
    then has all CCAs, and its legend would show all of them. Therefore a second channel, of the
    line width, has a scale that contains only the CCAs in the data, and the legend shows these. All
    of its widths are equal. It is sorted, because Vega-Lite warns of unsorted names.
    """
    legend: Part = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1}
    if ccas is not None:
        return {"color": name(field, "CCA", scale=cca_scale(ccas), legend=legend)}
    legend["values"] = {"expr": "domain('strokeWidth')"}
    width = name(
        field, scale={"type": "ordinal", "range": [LINE_WIDTH]}, sort="ascending", legend=None
    )
    return {"color": name(field, "CCA", scale=cca_scale(), legend=legend), "strokeWidth": width}


def lighter_if_not_valid(names: Iterable[str], field: str = "group") -> Part:
    """Returns a channel that draws runs lighter that are not valid; {} if all are valid.

    names: the names of groups of flows. In a run that is not valid, they contain a sign (MARK).
    field: the column with these names
    """
    if not any(re.search(MARK, each) for each in names):
        return {}
    return {
        "opacity": {
            "condition": {"test": f"test(regexp('{MARK}'), datum.{field})", "value": LIGHTER},
            "value": 1,
        }
    }


def dash(field: str, title: str, **scale: Any) -> Part:
    """Returns a channel that gives each value of a column its own dashes, to tell lines of the same
    colour apart, and a legend with this title. `scale` are Vega-Lite's parameters of its scale.
    """
    legend = {
        "symbolType": "stroke",
        "symbolStrokeWidth": 2,
        "symbolStrokeColor": ONE_COLOUR,
        "symbolSize": 300,
    }
    channel = name(field, title, legend=legend)
    return {"strokeDash": channel | {"scale": scale} if scale else channel}


def cca_scale(ccas: Iterable[str] | None = None) -> Part:
    """Returns the scale that gives each of these CCAs its colour. If `ccas` is None, it has all
    CCAs of Linux, and '-' for UDP and for flows of an unknown CCA.
    """
    return colour_scale(all_colours() | {"-": NO_CCA} if ccas is None else colours_of(ccas))


def colour_scale(colours: Mapping[str, str]) -> Part:
    """Returns the scale that gives each of these names its colour."""
    return {"domain": list(colours), "range": list(colours.values())}


def rows(frame: pl.DataFrame) -> Part:
    """Returns the rows of a table as the data of a Vega-Lite view."""
    return {"values": frame.to_dicts()}


def names_in_order(frame: pl.DataFrame, column: str) -> list[Any]:
    """Returns the different values of a column, in the order in which they first appear."""
    return frame[column].unique(maintain_order=True).to_list()


def evenly_spread(items: Sequence[T], most: int | None) -> Sequence[T]:
    """Returns at most `most` of the items. They are evenly spaced, and include the first and the
    last. If `most` is None, all items are returned.
    """
    if most is None or len(items) <= most:
        return items
    if most <= 1:
        return items[:most]
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def largest(frame: pl.DataFrame, *columns: str) -> float:
    """Returns the largest number in these columns, at which an axis can end; 1 if no number is
    above 0.
    """
    numbers = [value for column in columns if isinstance(value := frame[column].max(), int | float)]
    return float(max(numbers, default=0)) or 1.0


@dataclass(frozen=True)
class ChartSource:
    """Holds the data of a view: rows in the chart (`data`), or Kibana's query, whose rows
    `transform` turns into the rows that a chart's docstring describes.
    """

    data: Part
    transform: tuple[Part, ...] = ()

    def view(self, drawing: Part, *further: Part) -> Part:
        """Returns the Vega-Lite view that draws this data. `drawing` has its mark or layers, and
        `further` are transforms that change the rows before they are drawn.
        """
        transform = [*self.transform, *further]
        return {"data": self.data} | ({"transform": transform} if transform else {}) | drawing


def inline(frame: pl.DataFrame) -> ChartSource:
    """Returns a table as data that is stored in the chart itself."""
    return ChartSource(rows(frame))


def side_by_side(panels: Mapping[str, Part], columns: int) -> Part:
    """Returns a drawing of several panels, by their titles, with this many in a row."""
    titled_panels = [{"title": title, **panel} for title, panel in panels.items()]
    return {"concat": titled_panels, "columns": columns, "spacing": 24}


# as wide everywhere as vl-convert's own, by which it places
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
LETTER_WIDTH = 6.2  # pixels, of the settings' font
TITLE_SIZE, SETTINGS_SIZE = 14, 12
PANEL_WIDTH = 360  # with its axis
MOST_PHRASES = 8  # of an alternative text
MOST_NAME_BYTES = 200  # of a file; ext4 and others have 255


def finished(
    kind: Kind,
    name: str,
    title: str,
    settings: str,
    alt_text: str,
    drawing: Part,
    *,
    results: Sequence[Result],
    panels: int = 1,
    condition: str | None = None,
) -> Chart:
    """Returns a chart with its title, ready to be drawn.

    name: becomes the name of its file. Different names give different files unless they are very
        long.
    settings: a line that describes the path
    alt_text: describes the chart to those who can't see it
    drawing: the Vega-Lite specification without titles
    results: the runs that are drawn
    panels: number of panels side by side
    condition: the combination of swept values that is drawn; None if there are several
    """
    spec = titled(title, settings, alt_text, drawing, panels)
    folders = tuple(result.folder for result in results)
    return Chart(
        kind, file_name(name)[:MOST_NAME_BYTES], title, settings, alt_text, spec, condition, folders
    )


def titled(title: str, settings: str, alt_text: str, drawing: Part, panels: int = 1) -> Part:
    """Returns the whole Vega-Lite specification of a drawing: it adds a title, the settings below
    the title, and a description for screen readers.

    panels: number of panels side by side. The settings are wrapped at their width, or at the width
        of the title if that is longer.
    """
    line_length = max(panels * PANEL_WIDTH / LETTER_WIDTH, len(title) * TITLE_SIZE / SETTINGS_SIZE)
    lines = textwrap.wrap(settings, int(line_length))
    return {
        "$schema": SCHEMA,
        "description": f"{title}. {settings}. {alt_text}",
        "title": {
            "text": title,
            "fontSize": TITLE_SIZE,
            "subtitle": lines,
            "subtitleFontSize": SETTINGS_SIZE,
            "anchor": "start",
            "offset": 12,
        },
        "config": {"font": FONT},
        **drawing,
    }


def first_phrases(phrases: Sequence[str]) -> str:
    """Joins the first 8 phrases of an alternative text by ';', and says how many more there are.
    Screen readers read the text aloud, and the page's tables have all numbers anyway.
    """
    more = len(phrases) - MOST_PHRASES
    return "; ".join(phrases[:MOST_PHRASES]) + (f"; and {more} more" if more > 0 else "")
