"""Draws a measure over two swept settings: goodput gain, utilisation, retransmissions.

It follows figures 2 to 6 of Datta and Fund 2023. Cells are at even steps, in the order of the settings; colours are in
linear or logarithmic steps.
"""

from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from ccmix.charts.cells import DIGITS, SCHEME, Steps, cells
from ccmix.charts.colours import COLOURS, OTHER_COLOURS
from ccmix.charts.encodings import largest, names_in_order
from ccmix.charts.json_types import Part
from ccmix.charts.source import inline
from ccmix.charts.sweep import SweptAxis

CELL_WIDTH, CELL_HEIGHT, COLUMNS = 56, 30, 3
LOG_FROM = 100.0  # largest over smallest of the measure, above 0
GAIN_LOG_FROM = 5.0  # a gain of 500%
NEUTRAL = "#F7F7F7"
Choice = Literal["auto", "linear", "log"]


@dataclass(frozen=True)
class Measure:
    """Describes a measure: its title, d3's format of its numbers, and the limits of its colours (None: the data's).

    `ticks` are the numbers of its legend; none: Vega's own choice.
    """

    title: str
    format: str
    limits: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True)
class MapLayout:
    """Says how panels are laid out: how many are side by side, how large a cell is in pixels, and which there are.

    `panels` are those that are drawn, in their order, also where they have no cell; none: all that have one.
    """

    columns: int = COLUMNS
    cell_width: int = CELL_WIDTH
    cell_height: int = CELL_HEIGHT
    panels: tuple[str, ...] = ()


LAYOUT = MapLayout()


def heat_map(
    frame: pl.DataFrame, x: SweptAxis, y: SweptAxis, measure: Measure, steps: Choice = "auto",
    layout: MapLayout = LAYOUT,
) -> Part:  # fmt: skip
    """Draws a panel for each value of `panel`.

    frame: panel, x, y (labels of the sweeps' values), value (null: no cell).
    """
    known = frame.drop_nulls("value").with_columns(pl.col("value").round_sig_figs(DIGITS))
    chosen = _steps(known["value"]) if steps == "auto" else steps
    scale: Part = {"scheme": SCHEME}
    if chosen == "linear":
        scale["domain"] = list(measure.limits or (0, largest(known, "value")))
    elif (known["value"] > 0).any():
        above = known.filter(pl.col("value") > 0)["value"]
        scale["domain"] = [above.min(), above.max()]
    return _panels(known, x, y, measure, scale, chosen, layout)


def gain_map(
    frame: pl.DataFrame, x: SweptAxis, y: SweptAxis, ccas: tuple[str, str], measure: Measure, steps: Choice = "auto",
    layout: MapLayout = LAYOUT,
) -> Part:  # fmt: skip
    """Draws the heat map of a goodput gain (1.0 is 100%), in the colours of the two CCAs.

    Logarithmic steps are symmetric about 0, and linear near it.
    """
    known = frame.drop_nulls("value").with_columns(pl.col("value").round_sig_figs(DIGITS))
    most = max(largest(known.select(pl.col("value").abs()), "value"), 0.1)
    log = steps == "log" or (steps == "auto" and most >= GAIN_LOG_FROM)
    return _panels(known, x, y, measure, gain_scale(ccas, most, log=log), "linear", layout)


def gain_scale(ccas: tuple[str, str], most: float, *, log: bool) -> Part:
    """Returns the scale of gains from -most to most, in the colours of the CCA that gains."""
    first, second = (COLOURS.get(cca, spare) for cca, spare in zip(ccas, OTHER_COLOURS, strict=False))
    scale = {"domain": [-most, 0, most], "range": [second, NEUTRAL, first]}
    return scale | ({"type": "symlog", "constant": 0.1} if log else {})


def _steps(values: pl.Series) -> Steps:
    above = values.filter(values > 0)
    if above.is_empty():
        return "linear"
    return "log" if float(above.max()) / float(above.min()) >= LOG_FROM else "linear"  # type: ignore[arg-type]


def _panels(
    known: pl.DataFrame, x: SweptAxis, y: SweptAxis, measure: Measure, scale: Part, steps: Steps, layout: MapLayout
) -> Part:
    across = _names("x", x, x.labels, labelAngle=0)
    up = _names("y", y, y.labels[::-1])
    size = {"width": layout.cell_width * len(x.values), "height": layout.cell_height * len(y.values)}

    def drawn(panel: str) -> Part:
        own = inline(known.filter(pl.col("panel") == panel).drop("panel"))
        return cells(own, across, up, "value", measure.format, measure.title, scale, steps, measure.ticks)

    panels = layout.panels or names_in_order(known, "panel")
    return {
        "columns": layout.columns,
        "spacing": 24,
        "concat": [{"title": panel, **size, **drawn(panel)} for panel in panels],
    }


def _names(field: str, sweep: SweptAxis, order: list[str], **axis: Any) -> Part:
    scale = {"domain": order, "paddingInner": 0.03}
    return {"field": field, "type": "ordinal", "title": sweep.title, "axis": axis, "scale": scale, "sort": None}
