"""Writes a comparison of two campaigns as text for a terminal, CSV, HTML or Markdown.

The HTML is a single file that needs no network. The templates use the sentences of comparison_text
and range_text.
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
    """Returns the comparison as CSV with COLUMNS; numbers have the units of their metrics.

    The column 'what' says what a row is: a range, an unknown key, a condition, or runs that are not
    valid. In a range, b_mean is the mean of the best estimate. In a row of an unknown key, b_low
    and b_high are the two means between which the key moves the goodput most.
    """
    rows = (
        *_range_rows(compared),
        *_unknown_key_rows(compared),
        *_condition_rows(compared),
        *_not_valid_rows(compared),
    )
    return csv_text([COLUMNS, *([row.get(column) for column in COLUMNS] for row in rows)])


def _range_rows(compared: Compared) -> Iterator[dict[str, Cell]]:
    """Yields a CSV row for each metric of A that is compared with a range of B.

    A range has conditions that differ only in keys whose real value is unknown.
    """
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
                **_side_columns("a", tested.a),
                "b_runs": span.runs,
                "b_mean": point.sample.mean if point else None,
                "b_low": span.low,
                "b_high": span.high,
                "outside_by": tested.outside_by,
                "verdict": tested.verdict,
            }


def _unknown_key_rows(compared: Compared) -> Iterator[dict[str, Cell]]:
    """Yields a CSV row for each unknown key of B: how far the key moves the goodput of a group.

    An unknown key is a swept key whose value on the real path is not known.
    """
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


def _condition_rows(compared: Compared) -> Iterator[dict[str, Cell]]:
    """Yields a CSV row for each condition, group and metric that A or B has a value of."""
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
                **_side_columns("a", tested.a),
                **_side_columns("b", tested.b),
                "ratio": tested.found.ratio if tested.found else None,
                "ratio_low": ratio_low,
                "ratio_high": ratio_high,
                "verdict": tested.verdict,
            }


def _not_valid_rows(compared: Compared) -> Iterator[dict[str, Cell]]:
    """Yields a CSV row with the goodput of runs that are not valid, by campaign and meaning."""
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


def _side_columns(side: str, spread: Spread | None) -> dict[str, Cell]:
    """Returns the columns a_runs, a_mean, a_low and a_high for `side` 'a'; {} without a value."""
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
    """Returns the comparison as text for a terminal.

    First come the differences in the settings, then a sentence and the numbers for each condition,
    and last the conditions that only one campaign has.
    """
    return _rendered(text_templates("ccmix.compare"), "comparison.txt.j2", compared)


def markdown(compared: Compared) -> str:
    """Returns Markdown tables for a wiki page: differences in the settings, and all goodputs."""
    return _rendered(text_templates("ccmix.compare"), "comparison.md.j2", compared)


def html_page(compared: Compared, name_a: str, name_b: str, *charts: str) -> str:
    """Returns the comparison as an HTML page.

    `charts` are SVG texts, in this order: the chart of the ranges, if `compared` has any ranges,
    and the chart of the conditions, if there is one.
    """
    remaining = list(charts)
    ranges = (
        _inline_drawing(remaining.pop(0), "ranges", "Ranges of B")
        if compared.ranges and remaining
        else None
    )
    return _rendered(
        html_templates("ccmix.compare"),
        "page.html",
        compared,
        name_a=name_a,
        name_b=name_b,
        range_chart=ranges,
        chart=_inline_drawing(remaining.pop(0), "chart", "Goodput of all conditions")
        if remaining
        else None,
    )


def _rendered(
    environment: jinja2.Environment, template: str, compared: Compared, **more: object
) -> str:
    """Renders a template of ccmix.compare; `more` are values that only this template needs."""
    return environment.get_template(template).render(
        compared=compared, text=comparison_text, range_text=range_text, table=TextTable, **more
    )


def _inline_drawing(svg: str, name: str, subject: str) -> InlineDrawing:
    """Returns an SVG to embed in the page under the id `name`; `subject` is its text for a screen
    reader.
    """
    drawing = inline(svg, name, f"{subject}; the table has the same numbers")
    return replace(drawing, svg=markupsafe.Markup(drawing.svg))
