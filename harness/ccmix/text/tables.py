"""Renders tables for the terminal, as columns of plain text, as Markdown, and as CSV that no
spreadsheet takes for formulas.

In CSV, a text that begins with one of FORMULA_STARTS and is not a number gets an apostrophe before
it, which tells spreadsheets that it is text. docs/reference/results.md has the rule for readers.
"""

import csv
import html
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import rich.table
from rich.console import Console
from rich.text import Text

MOST_WIDTH = 10_000
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
ESCAPE = "'"

Cell = str | int | float | None


@dataclass(frozen=True)
class TextTable:
    """Holds cells as text under headings; columns whose numbers are in `right` are aligned right.

    `sections` draws a line wherever the first column changes.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    sections: bool = False
    title: str | None = None
    caption: str | None = None

    def terminal(self) -> str:
        """Returns the table with lines around cells, without colours, as wide as it needs to be."""
        table = rich.table.Table(title=self.title, caption=self.caption, title_justify="left")
        for number, heading in enumerate(self.headings):
            justify = "right" if number in self.right else "left"
            table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        previous = None
        for row in self.rows:
            if self.sections and previous not in (None, row[0]):
                table.add_section()
            previous = row[0]
            table.add_row(*map(Text, row))  # names may look like rich's markup
        return plain(table)

    def markdown(self) -> str:
        """Returns the table as Markdown, without a line feed at its end."""
        return "\n".join(
            map(_markdown_row, [self.headings, ["---"] * len(self.headings), *self.rows])
        )


def plain(table: rich.table.Table) -> str:
    """Returns a table of rich without colours, as wide as it needs to be."""
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
    escaped = (html.escape(cell, quote=False).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns a line for each row, with columns padded to their widest cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def csv_text(rows: Iterable[Iterable[Cell]]) -> str:
    """Returns the rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    return out.getvalue()


def csv_cell(value: Cell) -> Cell:
    """Returns the cell for a value: a number as it is, a text so that no program takes it for a
    formula.
    """
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
