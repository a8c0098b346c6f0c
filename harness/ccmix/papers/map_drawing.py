"""Draws heat maps: published on the left, the lab's on the right, with the same axes and colours."""

from collections.abc import Sequence
from dataclasses import astuple

import polars as pl

from ccmix.charts.heat_map import MapLayout, Measure, gain_map, heat_map
from ccmix.charts.json_types import Part
from ccmix.papers.experiment import Quantity
from ccmix.papers.figure import MapRow, Maps
from ccmix.papers.figure_data import Material, is_row_measured, map_cells

CELL_WIDTH, CELL_HEIGHT = 48, 24
MAP_COLUMNS = 2  # published, lab
SCHEMA = {"panel": pl.String, "x": pl.String, "y": pl.String, "value": pl.Float64}
MEASURES: dict[Quantity, Measure] = {
    "utilisation": Measure("utilisation", ".0%", (0.0, 1.0)),
    "retransmits": Measure("segments", ".3~s"),
}
GAIN = Measure("goodput gain", "+.0%", ticks=(-10.0, -1.0, 0.0, 1.0, 10.0))


def maps(figure: Maps, material: Material) -> Part:
    """Returns the drawing of the rows of which the lab has measured a cell.

    Gains have a scale for each row, since each is in the colours of its two CCAs.
    """
    rows = [row for row in figure.rows if is_row_measured(figure, row, material)]
    if not figure.rows[0].over:
        measure = MEASURES[figure.quantity]
        frame, layout = _frame(figure, rows, material)
        return heat_map(frame, figure.x, figure.y, measure, "linear" if measure.limits else "log", layout)
    drawn = []
    for row in rows:
        frame, layout = _frame(figure, [row], material)
        drawn.append(gain_map(frame, figure.x, figure.y, (row.cca, row.over), GAIN, "log", layout))
    return {"vconcat": drawn, "spacing": 24, "resolve": {"scale": {"color": "independent"}}}


def _frame(figure: Maps, rows: Sequence[MapRow], material: Material) -> tuple[pl.DataFrame, MapLayout]:
    """Returns the cells of maps, and the layout of their panels."""
    cells: list[tuple[str | float | None, ...]] = []
    panels: list[str] = []
    for row in rows:
        what = f"{row.cca} over {row.over}" if row.over else row.cca
        lab = f"lab, entry {row.entry}: {what}"
        lab = f"{lab}, beside {row.series}" if lab in panels else lab
        for panel, published in ((f"published, {row.series}: {what}", True), (lab, False)):
            panels.append(panel)
            cells += [(panel, *astuple(cell)) for cell in map_cells(figure, row, material, published=published)]
    layout = MapLayout(MAP_COLUMNS, CELL_WIDTH, CELL_HEIGHT, tuple(panels))
    return pl.DataFrame(cells, schema=SCHEMA, orient="row"), layout
