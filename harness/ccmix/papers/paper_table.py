"""Prints a table of a paper in its layout, published beside the lab's."""

from collections.abc import Iterator

from ccmix.papers import text
from ccmix.papers.experiment import ALTERNATIVES, Of
from ccmix.papers.figure import PaperTable, PaperTableColumn, PaperTableLine
from ccmix.papers.figure_data import Material
from ccmix.papers.markdown import table

MARKS = "abcdefgh"


def paper_table(figure: PaperTable, material: Material) -> Iterator[str]:
    """Yields a Markdown table whose cells are 'published / lab', and what was measured of a cell in part."""
    in_part: dict[str, str] = {}  # what was measured, to its mark
    rows = [
        [*line.heads, *(_cell(line, column, material, in_part) for column in figure.columns)] for line in figure.lines
    ]
    yield from table([*figure.heads, *(column.head for column in figure.columns)], rows)
    notes = (f"<sup>{mark}</sup> {what}." for what, mark in in_part.items())
    yield (" ".join(["Each cell: published / lab; – is not there.", *notes, figure.note]).strip() + "\n")


def _cell(line: PaperTableLine, column: PaperTableColumn, material: Material, in_part: dict[str, str]) -> str:
    at = {**line.at, **column.at}
    of = Of(column.quantity, line.entry, column.cca, at=at)
    published = material.published_at(line.series, column.cca, column.quantity, at)
    lab = material.runs.sample(of).mean
    mark = ""
    if lab is not None and (lacking := material.runs.lacking(of)):
        what = "; ".join(
            f"the lab's with {key} {', '.join(there)} alone, of {at[key].replace(ALTERNATIVES, ', ')}"
            for key, there in lacking.items()
        )
        mark = f"<sup>{in_part.setdefault(what, MARKS[len(in_part)])}</sup>"
    return f"{_number(published, column)} / {_number(lab, column)}{mark}"


def _number(value: float | None, column: PaperTableColumn) -> str:
    return "–" if value is None else text.without_exponent(f"{value / column.unit_size:#.3g}")
