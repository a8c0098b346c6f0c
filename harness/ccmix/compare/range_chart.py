"""Draws the goodput of each condition of A beside the range of B."""

from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.charts.encodings import RATE_AXIS, SCHEMA, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.source import inline
from ccmix.charts.span import KINDS, ROW_HEIGHT, WIDTH, spans
from ccmix.compare.ranges import ComparedRange, RangeTested

LEAST = 0.01  # of a mean: where a logarithmic scale cuts an interval that reaches below


def specification(ranges: Sequence[ComparedRange], name_a: str, name_b: str) -> Part:
    """Returns Vega-Lite with data: a row for each condition and group, at least one."""
    rows = list(_rows(ranges))
    above_0 = all(row["low"] > 0 and row["result_low"] > 0 for row in rows)
    value = quantity(
        "low", "goodput (bit/s), mean and its 95% interval", RATE_AXIS,
        type="log" if above_0 else "linear", nice=False, zero=False, padding=16,
    )  # fmt: skip
    labels = dict(zip(KINDS, (f"range of {name_b}", "its best estimate", name_a), strict=True))
    return {
        "$schema": SCHEMA,
        "description": f"Goodput of {len(ranges)} conditions of {name_a} beside the ranges of {name_b}.",
        "title": {"text": f"Goodput of {name_a} beside the range of {name_b}", "anchor": "start"},
        "width": WIDTH,
        "height": {"step": ROW_HEIGHT},
        **spans(inline(pl.DataFrame(rows, infer_schema_length=None)), value, labels),
    }


def _rows(ranges: Sequence[ComparedRange]) -> Iterator[Part]:
    for compared in ranges:
        for tested in compared.goodputs:
            group = f": {tested.group}" if len(compared.goodputs) > 1 else ""
            yield {"row": f"{compared.a.name}{group}", **_row(tested)}


def _row(tested: RangeTested) -> Part:
    span, point = tested.b, tested.b.point
    low, high = tested.a.ci95 or (tested.a.mean, tested.a.mean)
    return {
        "low": max(span.low, LEAST * span.lowest.sample.mean),
        "high": span.high,
        "best": point.sample.mean if point else None,
        "result": tested.a.mean,
        "result_low": max(low, LEAST * tested.a.mean),
        "result_high": high,
    }
