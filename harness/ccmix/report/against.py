"""Writes paired comparisons for people in a terminal, as CSV, and as one HTML file that needs no network."""

from collections import Counter
from collections.abc import Sequence

import jinja2
from rich.table import Table
from rich.text import Text

from ccmix.analysis.against import Baseline, Comparison, name_of
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.metric_text import shown
from ccmix.csv_cell import Cell, csv_text
from ccmix.plain_text import plain


def render(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Returns a table with a row for each comparison, as plain text."""
    table = Table(caption=_caption(baseline))
    for heading in headings(baseline):
        table.add_column(heading, justify="left" if heading in ("where", baseline.key, "verdict") else "right",
                         no_wrap=True)  # fmt: skip
    for comparison in comparisons:
        table.add_row(*map(Text, _cells(baseline, comparison)))
    return plain(table)


def headings(baseline: Baseline) -> list[str]:
    return ["where", baseline.key, "blocks", "left out", "baseline", "difference", "95% interval", "in %", "g", "p",
            "verdict"]  # fmt: skip


def summary(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Returns one sentence on all comparisons."""
    seen = Counter(verdict(comparison) for comparison in comparisons if comparison.seen)
    counts = [f"{seen[name]} {name}" for name in ("more", "less") if seen[name]]
    if undecided := len(comparisons) - seen.total():
        counts.append(f"{undecided} undecided")
    many = f"{len(comparisons)} comparison{'s' if len(comparisons) > 1 else ''}"
    return f"{baseline.metric} against {baseline.key} {baseline.value}: of {many}, {', '.join(counts)}."


def html(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.report", "."), autoescape=True)
    return environment.get_template("against.html").render(
        title=f"{baseline.metric} against {baseline.key} {baseline.value}",
        summary=summary(baseline, comparisons),
        caption=_caption(baseline),
        headings=headings(baseline),
        lines=[{"cells": _cells(baseline, comparison)} for comparison in comparisons],
    )


def csv_table(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Returns a line for each comparison, in the metric's unit, with a column for each key of the conditions."""
    keys = list(dict.fromkeys(key for comparison in comparisons for key in comparison.condition))
    numbers = ("blocks", "baseline_mean", "difference", "gain_percent", "effect_size", "p_value", "iterations_needed")
    of_condition = ("entry", "dst", *(f"condition.{key}" for key in keys))
    of_comparison = ("metric", "key", "baseline", "setting", "left_out")
    lines: list[list[Cell]] = [
        [*of_condition, *of_comparison, *numbers, "ci95_low", "ci95_high", "p_adjusted", "verdict"]
    ]
    for comparison in comparisons:
        result = comparison.result
        low, high = result.interval if result and result.interval else (None, None)
        compared: list[Cell] = [baseline.metric, baseline.key, baseline.value, comparison.value, comparison.left_out]
        values: list[Cell] = [getattr(result, name, None) for name in numbers]
        names: list[Cell] = [comparison.entry, comparison.dst, *(comparison.condition.get(key) for key in keys)]
        lines.append([*names, *compared, *values, low, high, comparison.p_adjusted, verdict(comparison)])
    return csv_text(lines)


def _caption(baseline: Baseline) -> str:
    return (
        f"{baseline.metric} less that of {baseline.key} {baseline.value}, over the blocks with valid runs of both; "
        "g: effect size (Hedges); p: adjusted for the number of rows (Holm)"
    )


def _cells(baseline: Baseline, comparison: Comparison) -> list[str]:
    dst = "" if comparison.dst in ("", "receiver") else f" {comparison.dst}"
    where = f"{name_of(comparison)}{dst}"
    result = comparison.result
    if result is None:
        return [where, comparison.value, "0", str(comparison.left_out), *["–"] * 6, verdict(comparison)]
    low_high = result.interval and " to ".join(shown(baseline.metric, end) for end in result.interval)
    return [
        where,
        comparison.value,
        str(result.blocks),
        str(comparison.left_out),
        shown(baseline.metric, result.baseline_mean),
        shown(baseline.metric, result.difference),
        low_high or "–",
        "–" if result.gain_percent is None else f"{result.gain_percent:+.3g}",
        "–" if result.effect_size is None else f"{result.effect_size:.2f}",
        "–" if comparison.p_adjusted is None else f"{comparison.p_adjusted:.2g}",
        verdict(comparison),
    ]


def verdict(comparison: Comparison) -> str:
    """Returns 'more', 'less', or "can't tell" with the number of iterations that would be enough."""
    if comparison.result is None:
        return "can't tell: no block has valid runs of both"
    if comparison.result.alike:
        return "can't tell: all iterations are alike and count as one observation"
    if comparison.p_adjusted is None:
        return f"can't tell: at least {LEAST_FOR_INTERVAL} iterations are needed"
    if comparison.seen:
        return "more" if comparison.result.difference > 0 else "less"
    needed = comparison.result.iterations_needed
    if needed is None:
        return "can't tell"
    return f"can't tell: about {max(needed, comparison.result.blocks + 1)} iterations would do"
