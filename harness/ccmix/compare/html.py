"""Writes a comparison as one HTML file that needs no network."""

from collections.abc import Sequence
from dataclasses import replace

import jinja2
import markupsafe

from ccmix.charts.inline_svg import InlineDrawing, inline
from ccmix.compare import comparison_text, range_text, verdict_text
from ccmix.compare.verdicts import Compared
from ccmix.units import format_percent

RANGE_CLASSES = {"in the range": "same", "outside": "different", "can't tell": "unknown"}


def _drawings(compared: Compared, charts: Sequence[str]) -> tuple[InlineDrawing | None, InlineDrawing | None]:
    """Returns the drawing of the ranges and that of the conditions, as parts of a page."""
    left = list(charts)
    of_ranges = _drawing(left.pop(0), "ranges", "Ranges of B") if compared.ranges and left else None
    return of_ranges, _drawing(left.pop(0), "chart", "Goodput of all conditions") if left else None


def _drawing(svg: str, name: str, what: str) -> InlineDrawing:
    drawing = inline(svg, name, f"{what}; the table has the same numbers")
    return replace(drawing, svg=markupsafe.Markup(drawing.svg))


def render(compared: Compared, name_a: str, name_b: str, *charts: str) -> str:
    """Returns the page; `charts` are drawings as SVG: of the ranges if there are any, and of the conditions."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.compare", "."), autoescape=True)
    of_ranges, of_conditions = _drawings(compared, charts)
    return environment.get_template("page.html").render(
        name_a=name_a,
        name_b=name_b,
        summary=verdict_text.summary(compared) if compared.conditions or not compared.ranges else "",
        range_summary=range_text.summary(compared.ranges, compared.margin) if compared.ranges else "",
        range_headings=range_text.HEADINGS,
        range_lines=range_text.lines(compared.ranges),
        range_note="Bar: the range of B; line: its best estimate; point: A's mean and its 95% interval.",
        unknown_headings=range_text.UNKNOWN_HEADINGS,
        unknown_lines=range_text.unknown_lines(compared.ranges),
        advice=list(range_text.advice(compared.ranges, compared.margin)),
        unknown_of_a=range_text.unknown_of_a(compared.unknown_of_a),
        member_headings=range_text.MEMBER_HEADINGS,
        ranges=[
            {
                "title": comparison_text.title(each),
                "sentence": range_text.condition(each),
                "rule": each.rule,
                "verdict": RANGE_CLASSES[each.verdict],
                "lines": range_text.member_lines(each),
            }
            for each in compared.ranges
        ],
        difference_headings=comparison_text.DIFFERENCE_HEADINGS,
        differences=comparison_text.difference_lines(compared.differences),
        nothing_differs=comparison_text.NOTHING_DIFFERS if compared.conditions or compared.ranges else "",
        range_chart=of_ranges,
        chart=of_conditions,
        chart_note=f"Grey: within ±{format_percent(compared.margin)} of A's mean.",
        overview_headings=comparison_text.OVERVIEW,
        overview=comparison_text.overview(compared),
        headings=comparison_text.HEADINGS,
        conditions=[
            {
                "title": comparison_text.title(condition),
                "sentence": verdict_text.condition(condition, compared.margin),
                "rule": condition.rule,
                "verdict": condition.verdict.replace("can't tell", "unknown"),
                "lines": comparison_text.lines(condition),
                "distributions": list(comparison_text.distribution_sentences(condition)),
            }
            for condition in compared.conditions
        ],
        not_compared=list(comparison_text.not_compared(compared)),
    )
