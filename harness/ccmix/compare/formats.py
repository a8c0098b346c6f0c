"""Writes a comparison as text for a terminal, as CSV, as a single HTML file that needs no network,
and as Markdown tables. The templates use the sentences of comparison_text and range_text.
"""

from collections.abc import Iterator
from dataclasses import replace

import jinja2
import markupsafe

from ccmix.analysis.statistics import Spread
from ccmix.charts.draw import InlineDrawing, inline
from ccmix.compare import comparison_text, range_text
from ccmix.compare.groups import VERDICT_METRIC, WHOLE, ComparedRange
from ccmix.compare.verdicts import Compared, ComparedCondition
from ccmix.text.tables import Cell, TextTable, csv_text
from ccmix.text.words import html_templates, text_templates

COLUMNS = (
    "what",
    "a",
    "b",
    "unknown",
    "group",
    "metric",
    "a_runs",
    "b_runs",
    "a_mean",
    "a_low",
    "a_high",
    "b_mean",
    "b_low",
    "b_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "outside_by",
    "verdict",
)


def csv_table(compared: Compared) -> str:
    """Returns numbers in the units of their metrics; for a range, b_mean is the mean of the best
    estimate.

    For an unknown key, b_low and b_high are the two means between which it moves the goodput most.
    """
    lines = [*_ranges(compared), *_unknown(compared), *_conditions(compared), *_not_valid(compared)]
    return csv_text([COLUMNS, *([line.get(column) for column in COLUMNS] for line in lines)])


def _ranges(compared: Compared) -> Iterator[dict[str, Cell]]:
    for each in compared.ranges:
        for tested in each.tested:
            span, point = tested.b, tested.b.point
            yield {
                "what": "range",
                "a": each.a.name,
                "b": each.b.name,
                "unknown": " ".join(each.b.unknown),
                "group": tested.group,
                "metric": tested.metric,
                **_of_side("a", tested.a),
                "b_runs": span.runs,
                "b_mean": point.sample.mean if point else None,
                "b_low": span.low,
                "b_high": span.high,
                "outside_by": tested.outside_by,
                "verdict": tested.verdict,
            }


def _unknown(compared: Compared) -> Iterator[dict[str, Cell]]:
    for each, group, effect in range_text.effects(compared.ranges):
        yield {
            "what": "unknown",
            "a": each.a.name,
            "b": each.b.name,
            "unknown": effect.key,
            "group": group,
            "metric": VERDICT_METRIC,
            "b_low": effect.low.sample.mean,
            "b_high": effect.high.sample.mean,
            "ratio": effect.ratio,
        }


def _conditions(compared: Compared) -> Iterator[dict[str, Cell]]:
    for condition in compared.conditions:
        for tested in condition.tested:
            if tested.a is None and tested.b is None:
                continue
            ratio_low, ratio_high = (tested.found.interval if tested.found else None) or (
                None,
                None,
            )
            yield {
                "what": "condition",
                "a": condition.a.name,
                "b": condition.b.name,
                "group": tested.group,
                "metric": tested.metric,
                **_of_side("a", tested.a),
                **_of_side("b", tested.b),
                "ratio": tested.found.ratio if tested.found else None,
                "ratio_low": ratio_low,
                "ratio_high": ratio_high,
                "verdict": tested.verdict,
            }


def _not_valid(compared: Compared) -> Iterator[dict[str, Cell]]:
    pairs: tuple[ComparedRange | ComparedCondition, ...] = (*compared.ranges, *compared.conditions)
    for pair in pairs:
        for side in ("a", "b"):
            for each in getattr(pair, side).not_valid:
                yield {
                    "what": "not valid",
                    "a": pair.a.name,
                    "b": pair.b.name,
                    "group": WHOLE,
                    "metric": VERDICT_METRIC,
                    f"{side}_runs": each.runs,
                    f"{side}_mean": each.goodput_mean_bps,
                    "verdict": each.meaning,
                }


def _of_side(side: str, spread: Spread | None) -> dict[str, Cell]:
    if spread is None:
        return {}
    low, high = spread.ci95 or (None, None)
    return {
        f"{side}_runs": spread.runs,
        f"{side}_mean": spread.mean,
        f"{side}_low": low,
        f"{side}_high": high,
    }


def terminal(compared: Compared) -> str:
    """Returns the differences, then a sentence and the numbers of each condition, then the
    conditions that only one campaign has.
    """
    return _rendered(text_templates("ccmix.compare"), "comparison.txt.j2", compared)


def markdown(compared: Compared) -> str:
    """Returns tables for a page: the differences, and the goodput of all conditions."""
    return _rendered(text_templates("ccmix.compare"), "comparison.md.j2", compared)


def html_page(compared: Compared, name_a: str, name_b: str, *charts: str) -> str:
    """Returns the page; `charts` are drawings as SVG of the ranges, if there are any, and of the
    conditions.
    """
    left = list(charts)
    ranges = _drawing(left.pop(0), "ranges", "Ranges of B") if compared.ranges and left else None
    return _rendered(
        html_templates("ccmix.compare"),
        "page.html",
        compared,
        name_a=name_a,
        name_b=name_b,
        range_chart=ranges,
        chart=_drawing(left.pop(0), "chart", "Goodput of all conditions") if left else None,
    )


def _rendered(
    environment: jinja2.Environment, template: str, compared: Compared, **more: object
) -> str:
    return environment.get_template(template).render(
        compared=compared, text=comparison_text, range_text=range_text, table=TextTable, **more
    )


def _drawing(svg: str, name: str, what: str) -> InlineDrawing:
    drawing = inline(svg, name, f"{what}; the table has the same numbers")
    return replace(drawing, svg=markupsafe.Markup(drawing.svg))
