"""Draws a table of groups by conditions whose cells are coloured by their number, as figure 13 of Gomez et al. 2024."""

from typing import Any

import polars as pl

from ccmix.charts.cells import DIGITS, SCHEME, cells
from ccmix.charts.encodings import largest
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource, inline

CELL_WIDTH, CELL_HEIGHT, LETTER_WIDTH = 64, 24, 7.5
LABEL_PADDING, LINE_HEIGHT = 4, 12
FORMAT = ".3s"


def goodput_cells(source: ChartSource, x: Part, y: Part, **scale: Any) -> Part:
    """Draws goodput_bps (bit/s) at each column and row (x and y) as one view. scale: that of the colours."""
    across = x | {"axis": {"orient": "top", "labelAngle": 0} | x.get("axis", {})}
    return cells(source, across, y, "goodput_bps", FORMAT, "goodput (bit/s)", {"scheme": SCHEME, **scale})


def goodput_table(means: pl.DataFrame, names: list[str], columns: list[str]) -> Part:
    """Draws the table of `names` (rows) and `columns`; means: row, column, goodput_bps (bit/s, null: no cell)."""
    known = means.drop_nulls("goodput_bps").with_columns(pl.col("goodput_bps").round_sig_figs(DIGITS))
    lines = [_lines(column) for column in columns]
    width = max(CELL_WIDTH, *(round(len(line) * LETTER_WIDTH) for label in lines for line in label))
    # Vega puts a label's first line where its only one would be, the others below that
    padding = LABEL_PADDING + LINE_HEIGHT * (max(map(len, lines)) - 1)
    x: Part = {
        "field": "column", "type": "nominal", "title": None, "sort": None, "scale": {"domain": columns},
        "axis": {"labelExpr": "split(datum.label, ',')", "labelLimit": 400,
                 "labelLineHeight": LINE_HEIGHT, "labelPadding": padding},
    }  # fmt: skip
    y: Part = {
        "field": "row", "type": "nominal", "title": None, "sort": None, "scale": {"domain": names},
        "axis": {"labelLimit": 300},
    }  # fmt: skip
    source = inline(known.select("row", "column", "goodput_bps"))
    drawn = goodput_cells(source, x, y, domain=[0, largest(known, "goodput_bps")])
    return {"width": width * len(columns), "height": CELL_HEIGHT * len(names), **drawn}


def _lines(column: str) -> list[str]:
    """Returns the lines of a condition above its column."""
    return column.split(",")
