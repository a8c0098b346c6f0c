"""Paired comparisons for people in a terminal, as CSV, and as one HTML file that needs no network."""

import csv
import io
from collections import Counter
from collections.abc import Sequence

import jinja2
from rich.table import Table
from rich.text import Text

from ccmix.analysis.against import Baseline, Comparison, name_of
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.report.numbers import shown
from ccmix.report.terminal import plain


def render(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """A row for each comparison, as plain text."""
    table = Table(caption=_caption(baseline))
    for heading in headings(baseline):
        table.add_column(heading, justify="left" if heading in ("where", baseline.key, "verdict") else "right",
                         no_wrap=True)  # fmt: skip
    for one in comparisons:
        table.add_row(*map(Text, _cells(baseline, one)))
    return plain(table)


def headings(baseline: Baseline) -> list[str]:
    return ["where", baseline.key, "blocks", "left out", "baseline", "difference", "95% interval", "in %", "g", "p",
            "verdict"]  # fmt: skip


def summary(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """In one sentence."""
    seen = Counter(verdict(one) for one in comparisons if one.seen)
    counts = [f"{seen[name]} {name}" for name in ("more", "less") if seen[name]]
    if open_ones := len(comparisons) - seen.total():
        counts.append(f"of {open_ones} nothing can be told")
    many = f"{len(comparisons)} comparison{'s' if len(comparisons) > 1 else ''}"
    return f"{baseline.metric} against {baseline.key} {baseline.value}: of {many}, {', '.join(counts)}."


def html(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.report", "."), autoescape=True)
    return environment.get_template("against.html").render(
        title=f"{baseline.metric} against {baseline.key} {baseline.value}",
        summary=summary(baseline, comparisons),
        caption=_caption(baseline),
        headings=headings(baseline),
        lines=[{"cells": _cells(baseline, one)} for one in comparisons],
    )


def csv_table(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Numbers in the metric's unit, a line each; a column for each key of the conditions."""
    keys = list(dict.fromkeys(key for one in comparisons for key in one.condition))
    numbers = ("blocks", "baseline_mean", "difference", "gain_percent", "effect_size", "p_value", "iterations_needed")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["entry", "dst", *(f"condition.{key}" for key in keys), "metric", "key", "baseline", "setting",
                     "left_out", *numbers, "ci95_low", "ci95_high", "p_adjusted", "verdict"])  # fmt: skip
    for one in comparisons:
        found = one.result
        low, high = found.interval if found and found.interval else (None, None)
        compared = [baseline.metric, baseline.key, baseline.value, one.value, one.left_out]
        values = [getattr(found, name, None) for name in numbers]
        writer.writerow([one.entry, one.dst, *(one.condition.get(key) for key in keys), *compared, *values, low, high,
                         one.p_adjusted, verdict(one)])  # fmt: skip
    return out.getvalue()


def _caption(baseline: Baseline) -> str:
    return (
        f"{baseline.metric} less that of {baseline.key} {baseline.value}, over the blocks with valid runs of both; "
        "g: effect size (Hedges); p: adjusted for the number of rows (Holm)"
    )


def _cells(baseline: Baseline, one: Comparison) -> list[str]:
    where = name_of(one) if not one.dst or one.dst == "receiver" else f"{name_of(one)} {one.dst}"
    found = one.result
    if found is None:
        return [where, one.value, "0", str(one.left_out), *["–"] * 6, verdict(one)]
    low_high = found.interval and " to ".join(shown(baseline.metric, end) for end in found.interval)
    return [
        where,
        one.value,
        str(found.blocks),
        str(one.left_out),
        shown(baseline.metric, found.baseline_mean),
        shown(baseline.metric, found.difference),
        low_high or "–",
        "–" if found.gain_percent is None else f"{found.gain_percent:+.3g}",
        "–" if found.effect_size is None else f"{found.effect_size:.2f}",
        "–" if one.p_adjusted is None else f"{one.p_adjusted:.2g}",
        verdict(one),
    ]


def verdict(one: Comparison) -> str:
    """'more', 'less', or that nothing can be told, and how many iterations would do."""
    if one.result is None:
        return "can't tell: no block has valid runs of both"
    if one.result.alike:
        return "can't tell: all iterations are alike, and so one observation"
    if one.p_adjusted is None:
        return f"can't tell: at least {LEAST_FOR_INTERVAL} iterations are needed"
    if one.seen:
        return "more" if one.result.difference > 0 else "less"
    needed = one.result.iterations_needed
    if needed is None:
        return "can't tell"
    return f"can't tell: about {max(needed, one.result.blocks + 1)} iterations would do"
