"""Draws coloured cells with numbers: heat maps over two swept settings, and tables of goodputs.

Maps are of goodput gain, utilisation or retransmissions. They follow figures 2 to 6 of Datta and
Fund 2023, tables figure 13 of Gomez et al. 2024. Cells are at even steps, in the order of the
settings; colours are in linear or logarithmic steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from ccmix.charts.encodings import (
    COLOURS,
    FAINT,
    OTHER_COLOURS,
    ChartSource,
    Part,
    inline,
    largest,
    names_in_order,
    ordered_names,
    side_by_side,
)
from ccmix.charts.frames import SweptAxis

SCHEME = "cividis"  # even steps, for the colour-blind too (Nuñez, Anderton and Renslow 2018)
Steps = Literal["linear", "log"]
FONT_SIZE = 11
DIGITS = 9  # of the numbers: so many more than are written that none is wrong by rounding twice
DARK = 0.18  # relative luminance (WCAG 2.1) below which white has more contrast than black

CELL_WIDTH, CELL_HEIGHT, COLUMNS = 56, 30, 3
LOG_FROM = 100.0  # largest over smallest of the measure, above 0
GAIN_LOG_FROM = 5.0  # a gain of 500%
NEUTRAL = "#F7F7F7"
Choice = Literal["auto", "linear", "log"]


def cells(
    source: ChartSource,
    x: Part,
    y: Part,
    value: str,
    format_: str,
    title: str,
    scale: Part,
    steps: Steps = "linear",
    ticks: Sequence[float] = (),
) -> Part:
    """Returns a view of coloured rectangles, each with its number in it. If the colours have
    logarithmic steps, rectangles with 0 are grey.

    Rows of the source: the fields of the channels x and y, and the column `value`.
    value: the name of the column with the numbers
    format_: d3's format of the numbers
    title: the title of the legend
    scale: Vega-Lite's parameters of the scale of colours, without its type
    ticks: the numbers in the legend; none: Vega chooses them
    """
    legend: Part = {"format": format_} | ({"values": list(ticks)} if ticks else {})
    colour = {
        "field": value,
        "type": "quantitative",
        "title": title,
        "legend": legend,
        "scale": {"type": steps, **scale},
    }
    ink: Part = {
        "condition": {
            "test": f"luminance(scale('color', datum['{value}'])) < {DARK}",
            "value": "white",
        },
        "value": "black",
    }
    if steps == "log":
        ink["condition"]["test"] = f"datum['{value}'] > 0 && {ink['condition']['test']}"
    text = {"text": {"field": value, "type": "quantitative", "format": format_}, "color": ink}
    coloured: Part = {
        "mark": {"type": "rect", "tooltip": {"content": "data"}},
        "encoding": {"color": colour},
    }
    layers = [coloured]
    if steps == "log":
        coloured["transform"] = [{"filter": f"datum['{value}'] > 0"}]
        layers.insert(0, {"mark": {"type": "rect", "color": FAINT}})
    layers.append({"mark": {"type": "text", "fontSize": FONT_SIZE}, "encoding": text})
    return source.view({"encoding": {"x": x, "y": y}, "layer": layers})


@dataclass(frozen=True)
class Measure:
    """Describes the measure of a heat map: its title, d3's format of its numbers, and the limits of
    its colours (None: the data's).

    `ticks` are the numbers of its legend; none: Vega's choice.
    """

    title: str
    format: str
    limits: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True)
class MapLayout:
    """Describes the layout of a heat map's panels: how many are side by side, and the size of a
    cell in pixels.

    `panels` are the names of the panels in their order, drawn also without cells; none: all panels
    with a cell.
    """

    columns: int = COLUMNS
    cell_width: int = CELL_WIDTH
    cell_height: int = CELL_HEIGHT
    panels: tuple[str, ...] = ()


LAYOUT = MapLayout()


def heat_map(
    frame: pl.DataFrame,
    x: SweptAxis,
    y: SweptAxis,
    measure: Measure,
    steps: Choice = "auto",
    layout: MapLayout = LAYOUT,
) -> Part:
    """Returns a heat map of a measure over two swept settings, with a panel for each value of the
    column `panel`.

    frame: a row per cell: panel, x and y (the labels of the settings), value (null: the cell is not
        drawn)
    steps: whether the colours have linear or logarithmic steps; "auto": logarithmic if the values
        span two decades
    """
    with_value = frame.drop_nulls("value").with_columns(pl.col("value").round_sig_figs(DIGITS))
    chosen_steps = _steps_for(with_value["value"]) if steps == "auto" else steps
    scale: Part = {"scheme": SCHEME}
    if chosen_steps == "linear":
        scale["domain"] = list(measure.limits or (0, largest(with_value, "value")))
    elif (with_value["value"] > 0).any():
        above_0 = with_value.filter(pl.col("value") > 0)["value"]
        scale["domain"] = [above_0.min(), above_0.max()]
    return _panels(with_value, x, y, measure, scale, chosen_steps, layout)


def gain_map(
    frame: pl.DataFrame,
    x: SweptAxis,
    y: SweptAxis,
    ccas: tuple[str, str],
    measure: Measure,
    steps: Choice = "auto",
    layout: MapLayout = LAYOUT,
) -> Part:
    """Returns a heat map of the goodput gain of the first of two CCAs over the second: 1.0 is 100%.
    A cell has the colour of the CCA with the higher goodput.

    frame: a row per cell: panel, x and y (the labels of the settings), value (the gain; null: the
        cell is not drawn)
    x, y: the swept settings
    steps: whether the colours have linear or logarithmic steps; "auto": logarithmic if a gain is at
        least 500%. Logarithmic steps are symmetric about 0, and linear near 0.
    """
    with_value = frame.drop_nulls("value").with_columns(pl.col("value").round_sig_figs(DIGITS))
    largest_gain = max(largest(with_value.select(pl.col("value").abs()), "value"), 0.1)
    logarithmic = steps == "log" or (steps == "auto" and largest_gain >= GAIN_LOG_FROM)
    return _panels(
        with_value, x, y, measure, gain_scale(ccas, largest_gain, log=logarithmic), "linear", layout
    )


def gain_scale(ccas: tuple[str, str], most: float, *, log: bool) -> Part:
    """Returns the scale of colours for gains from -most to most: a gain of the first CCA has its
    colour, a loss has the second CCA's colour, and 0 is nearly white.
    """
    first, second = (
        COLOURS.get(cca, spare) for cca, spare in zip(ccas, OTHER_COLOURS, strict=False)
    )
    scale = {"domain": [-most, 0, most], "range": [second, NEUTRAL, first]}
    return scale | ({"type": "symlog", "constant": 0.1} if log else {})


def _steps_for(values: pl.Series) -> Steps:
    """Returns the steps for the colours of these values: logarithmic ones if the values above 0
    span two decades, otherwise linear ones.
    """
    above_0 = values.filter(values > 0)
    if above_0.is_empty():
        return "linear"
    return "log" if float(above_0.max()) / float(above_0.min()) >= LOG_FROM else "linear"  # type: ignore[arg-type]


def _panels(
    with_value: pl.DataFrame,
    x: SweptAxis,
    y: SweptAxis,
    measure: Measure,
    scale: Part,
    steps: Steps,
    layout: MapLayout,
) -> Part:
    """Returns the chart with a panel for each value of the column `panel`. `with_value` has a row
    for each cell, and `scale` and `steps` are those of the colours.
    """
    x_channel = _axis_of_names("x", x, x.labels, labelAngle=0)
    y_channel = _axis_of_names("y", y, y.labels[::-1])
    width, height = layout.cell_width * len(x.values), layout.cell_height * len(y.values)
    panels = {}
    for panel in layout.panels or names_in_order(with_value, "panel"):
        source = inline(with_value.filter(pl.col("panel") == panel).drop("panel"))
        view = cells(
            source,
            x_channel,
            y_channel,
            "value",
            measure.format,
            measure.title,
            scale,
            steps,
            measure.ticks,
        )
        panels[panel] = {"width": width, "height": height, **view}
    return side_by_side(panels, layout.columns)


def _axis_of_names(field: str, sweep: SweptAxis, order: list[str], **axis: Any) -> Part:
    """Returns the channel of an axis that has the labels of a swept setting, in this order. `axis`
    are Vega-Lite's parameters of the axis.
    """
    scale = {"domain": order, "paddingInner": 0.03}
    return ordered_names(field, sweep.title, order, scale=scale, axis=axis)


TABLE_CELL_WIDTH, TABLE_CELL_HEIGHT, LETTER_WIDTH = 64, 24, 7.5
LABEL_PADDING, LINE_HEIGHT = 4, 12
FORMAT = ".3s"


def goodput_cells(source: ChartSource, x: Part, y: Part, **scale: Any) -> Part:
    """Returns a view of goodputs in cells of a table. x and y are the channels of the table's
    columns and rows, and `scale` are Vega-Lite's parameters of the scale of colours. The source has
    the column goodput_bps (bit/s).
    """
    x_on_top = x | {"axis": {"orient": "top", "labelAngle": 0} | x.get("axis", {})}
    return cells(
        source, x_on_top, y, "goodput_bps", FORMAT, "goodput (bit/s)", {"scheme": SCHEME, **scale}
    )


def goodput_table(means: pl.DataFrame, names: list[str], columns: list[str]) -> Part:
    """Returns a table of mean goodputs as coloured cells.

    means: a row per cell: row, column, goodput_bps (bit/s, null: no cell)
    names: the names of the rows, in order
    columns: the names of the columns, conditions such as 'rate=10mbit,loss=1%'
    """
    with_goodput = means.drop_nulls("goodput_bps").with_columns(
        pl.col("goodput_bps").round_sig_figs(DIGITS)
    )
    column_labels = [column.split(",") for column in columns]
    width = max(
        TABLE_CELL_WIDTH,
        *(round(len(line) * LETTER_WIDTH) for label in column_labels for line in label),
    )
    # Vega puts a label's first line at the place of a single line, and the others below it
    padding = LABEL_PADDING + LINE_HEIGHT * (max(map(len, column_labels)) - 1)
    column_axis = {
        "labelExpr": "split(datum.label, ',')",
        "labelLimit": 400,
        "labelLineHeight": LINE_HEIGHT,
        "labelPadding": padding,
    }
    x = ordered_names("column", None, columns, type="nominal", axis=column_axis)
    y = ordered_names("row", None, names, type="nominal", axis={"labelLimit": 300})
    source = inline(with_goodput.select("row", "column", "goodput_bps"))
    cells_view = goodput_cells(source, x, y, domain=[0, largest(with_goodput, "goodput_bps")])
    return {"width": width * len(columns), "height": TABLE_CELL_HEIGHT * len(names), **cells_view}
