"""Writes a comparison as Markdown tables, for a page: what differs, and the goodput of all conditions."""

import html
from collections.abc import Iterator, Sequence

from ccmix.compare import comparison_text, range_text, verdict_text
from ccmix.compare.verdicts import Compared


def render(compared: Compared) -> str:
    return "\n".join(_lines(compared)) + "\n"


def _lines(compared: Compared) -> Iterator[str]:
    if compared.differences:
        yield from _table(comparison_text.DIFFERENCE_HEADINGS, comparison_text.difference_lines(compared.differences))
        yield ""
    if compared.ranges:
        yield range_text.summary(compared.ranges, compared.margin)
        yield ""
        yield from _table(range_text.HEADINGS, range_text.lines(compared.ranges))
        if unknown := range_text.unknown_lines(compared.ranges):
            yield ""
            yield from _table(range_text.UNKNOWN_HEADINGS, unknown)
        for sentence in range_text.advice(compared.ranges, compared.margin):
            yield ""
            yield sentence
        yield ""
    if note := range_text.unknown_of_a(compared.unknown_of_a):
        yield note
        yield ""
    if compared.conditions or not compared.ranges:
        yield verdict_text.summary(compared)
    if compared.conditions:
        yield ""
        yield from _table(comparison_text.OVERVIEW, comparison_text.overview(compared))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(headings)
    yield _row(["---"] * len(headings))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    escaped = (html.escape(cell, quote=False).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
