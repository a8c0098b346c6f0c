"""Writes CSV that no spreadsheet takes for formulas.

A text that begins with one of FORMULA_STARTS and is no number gets an apostrophe before it, by which spreadsheets know
text. docs/reference/results.md has the rule for readers.
"""

import csv
import io
import math
from collections.abc import Iterable

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
ESCAPE = "'"

Cell = str | int | float | None


def csv_text(rows: Iterable[Iterable[Cell]]) -> str:
    """Returns the rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    return out.getvalue()


def csv_cell(value: Cell) -> Cell:
    """Returns what to write for a value: a number as it is, a text so that no program computes it."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS) and not _is_number(value):
        return ESCAPE + value
    return value


def _is_number(text: str) -> bool:
    if text != text.strip() or "_" in text:
        return False
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
