"""Formats tables for the terminal, as Markdown, and as CSV that is safe to open in a spreadsheet.

In CSV, a text that begins with one of FORMULA_STARTS and is not a number gets an apostrophe before
it, which tells spreadsheets that it is not a formula. docs/reference/results.md has the rule for
readers.
"""

import csv
import html
import io
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import rich.table
from rich.console import Console
from rich.text import Text

from ccmix.text.printable import printable

MOST_WIDTH = 10_000
FORMULA_STARTS = ("=", "+", "-", "@")
ESCAPE = "'"

Cell = str | int | float | None


@dataclass(frozen=True)
class TextTable:
    """A table of texts, to be shown on the terminal or as Markdown.

    `right` has the numbers of the columns that are aligned to the right. With `sections`, the
    terminal shows a line wherever the first column changes.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    sections: bool = False
    title: str | None = None
    caption: str | None = None

    def terminal(self) -> str:
        """Returns the table with lines around its cells, without colours, as wide as it must be."""
        table = rich.table.Table(title=self.title, caption=self.caption, title_justify="left")
        for number, heading in enumerate(self.headings):
            justify = "right" if number in self.right else "left"
            table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        previous = None
        for row in self.rows:
            if self.sections and previous not in (None, row[0]):
                table.add_section()
            previous = row[0]
            # names may look like rich's markup
            table.add_row(*(Text(printable(cell)) for cell in row))
        return plain(table)

    def markdown(self) -> str:
        """Returns the table as Markdown, without a line feed at its end."""
        return "\n".join(
            map(_markdown_row, [self.headings, ["---"] * len(self.headings), *self.rows])
        )


def plain(table: rich.table.Table) -> str:
    """Renders a table of the library rich as text, without colours, as wide as it needs to be."""
    console = Console(color_system=None)
    console.width = MOST_WIDTH
    if table.title or table.caption:  # rich centres them in that width
        console.width = console.measure(
            table, options=console.options.update(width=MOST_WIDTH)
        ).maximum
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _markdown_row(cells: Sequence[str]) -> str:
    """Returns a row of a Markdown table; characters with a meaning in Markdown are escaped."""
    escaped = (html.escape(printable(cell), quote=False).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns the rows as lines, in which each column is as wide as its widest cell.

    All rows must have the same number of cells.
    """
    shown = [[*map(printable, row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in shown)
    return "".join(f"{line}\n" for line in lines)


def csv_text(rows: Iterable[Iterable[Cell]]) -> str:
    """Returns the rows as CSV with line feeds; texts that look like formulas are escaped."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    return out.getvalue()


def csv_cell(value: Cell) -> Cell:
    """Returns the value of a CSV cell so that no spreadsheet takes it for a formula.

    A text such as '=1+1' gets an apostrophe before it; numbers and other texts stay as they are.
    """
    if isinstance(value, str) and _may_be_formula(value) and not _is_number(value):
        return ESCAPE + value
    return value


def _may_be_formula(text: str) -> bool:
    """Returns whether a spreadsheet may take the text for a formula. Spreadsheets ignore spaces and
    line breaks before it, and read full-width signs as the usual ones.
    """
    return unicodedata.normalize("NFKC", text.lstrip()[:1]) in FORMULA_STARTS


def _is_number(text: str) -> bool:
    """Returns whether a spreadsheet reads the text as a number, such as '-1.5'."""
    if text != text.strip() or "_" in text:
        return False
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
