"""Defines the parts that all charts share: colours, channels, axes, scales, rows and titles.

A channel is Vega-Lite's rule for how a column of the rows is drawn: as x, y, colour or dashes.
Kibana's panels use these parts, too. Columns and their units:

time_s          seconds since the traffic began, the omitted time included
goodput_bps     of a group, bit/s
cca, group      names
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import polars as pl

from ccmix.analysis.counting import MARK
from ccmix.analysis.results import Result
from ccmix.archive.campaign import file_name

if TYPE_CHECKING:
    import polars as pl  # `ccmix --help` imports this module


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
    return COLOURS | {
        cca: OTHER_COLOURS[number % len(OTHER_COLOURS)] for number, cca in enumerate(OTHER_CCAS)
    }


def colours_of(ccas: Iterable[str]) -> dict[str, str]:
    """Returns the colours of these CCAs by name, in alphabetical order; CCAs that Linux doesn't
    have get OTHER_COLOURS.
    """
    known, wanted = all_colours() | {"-": NO_CCA}, sorted(set(ccas))
    unknown = [cca for cca in wanted if cca not in known]
    spare_colours = {
        cca: OTHER_COLOURS[number % len(OTHER_COLOURS)] for number, cca in enumerate(unknown)
    }
    return {cca: (known | spare_colours)[cca] for cca in wanted}


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
POINTS = {
    "type": "point",
    "filled": True,
    "size": 25,
    "opacity": 1,
}  # the values that a line connects


def quantity(
    field: str, title: str | list[str] | None, axis: Mapping[str, Any] | None = None, **scale: Any
) -> Part:
    """Returns a channel of numbers: the column, the title and format of its axis, and Vega-Lite's
    parameters of its scale, such as domain=[0, 1].
    """
    channel: Part = {"field": field, "type": "quantitative", "title": title}
    if axis:
        channel["axis"] = dict(axis)
    if scale:
        channel["scale"] = scale
    return channel


def plain(field: str) -> Part:
    """Returns a channel of numbers for a further layer of a view, whose axis and title another
    layer defines.
    """
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


def colour_by_cca(ccas: Iterable[str] | None = None, field: str = "cca") -> Part:
    """Returns channels that give each CCA its colour, and a legend of the CCAs that occur.

    If the CCAs are known only with the data (None), as in Kibana, the scale of colours has all
    CCAs, and its legend would show all of them. Therefore a second channel, of a constant width,
    has a scale with the CCAs in the data, which the legend uses. That channel is sorted because
    Vega-Lite warns of a width by unsorted names.
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
    """Returns a channel that draws runs that are not valid lighter; {} if there are none.

    Such runs have a sign (MARK) in the names of their groups, the values of `field`.
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
    """Returns a channel that separates lines of the same colour by their dashes, with a legend."""
    legend = {
        "symbolType": "stroke",
        "symbolStrokeWidth": 2,
        "symbolStrokeColor": ONE_COLOUR,
        "symbolSize": 300,
    }
    channel = name(field, title, legend=legend)
    return {"strokeDash": channel | {"scale": scale} if scale else channel}


def cca_scale(ccas: Iterable[str] | None = None) -> Part:
    """Returns the scale that gives each CCA its colour. None: all CCAs of Linux, and '-' for flows
    without a known CCA.
    """
    colours = all_colours() | {"-": NO_CCA} if ccas is None else colours_of(ccas)
    return {"domain": list(colours), "range": list(colours.values())}


def rows(frame: pl.DataFrame) -> Part:
    """Returns a frame as the data of a view."""
    return {"values": frame.to_dicts()}


def names_in_order(frame: pl.DataFrame, column: str) -> list[Any]:
    """Returns the values of a column, each once, as they first appear."""
    return frame[column].unique(maintain_order=True).to_list()


def largest(frame: pl.DataFrame, *columns: str) -> float:
    """Returns the largest number of these columns, as the end of an axis; 1 if none is above 0."""
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
        """Returns the Vega-Lite view that draws these rows. `drawing` has its mark or layers, and
        `further` transforms of the rows.
        """
        transform = [*self.transform, *further]
        return {"data": self.data} | ({"transform": transform} if transform else {}) | drawing


def inline(frame: pl.DataFrame) -> ChartSource:
    return ChartSource(rows(frame))


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
    """Returns the finished chart with its title. `name` becomes its file's name; different names
    give different files unless they are very long. `settings` describes the path, and `results` are
    the runs drawn.

    panels: as in titled().
    """
    spec = titled(title, settings, alt_text, drawing, panels)
    folders = tuple(result.folder for result in results)
    return Chart(
        kind, file_name(name)[:MOST_NAME_BYTES], title, settings, alt_text, spec, condition, folders
    )


def titled(title: str, settings: str, alt_text: str, drawing: Part, panels: int = 1) -> Part:
    """Returns the whole Vega-Lite specification of a drawing: with a title, the settings below it,
    and a description for screen readers.

    panels: the number of panels side by side, which limits the line length of the settings; a line
        may also be as long as the title.
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
    """Joins phrases of an alternative text. Of many, only the first ones, and the number of the
    others, because the text is read aloud and the tables are, too.
    """
    more = len(phrases) - MOST_PHRASES
    return "; ".join(phrases[:MOST_PHRASES]) + (f"; and {more} more" if more > 0 else "")
