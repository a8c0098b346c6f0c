"""Draws the goodput of two compared campaigns, A and B, as Vega-Lite charts.

One chart has the conditions that both have run, side by side. The other shows whether the results
of A lie in the ranges of B.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.statistics import Spread
from ccmix.charts.encodings import (
    COLOURS,
    FAINT,
    ONE_COLOUR,
    RATE_AXIS,
    SCHEMA,
    Part,
    inline,
    lighter_if_not_valid,
    name,
    plain,
    quantity,
)
from ccmix.charts.published import KINDS, ROW_HEIGHT, WIDTH, spans
from ccmix.compare.groups import ComparedRange, RangeTested
from ccmix.compare.verdicts import Compared, ComparedCondition
from ccmix.units import format_percent

LINE_HEIGHT = 22  # pixels
A, B = "A", "B"


def specifications(compared: Compared, name_a: str, name_b: str) -> list[Part]:
    """Returns up to two charts as Vega-Lite: first that of the ranges, then that of the conditions.

    A chart without data is left out. `name_a` and `name_b` are the campaigns' names in the legend.
    """
    drawings = []
    if compared.ranges:
        drawings.append(ranges_specification(compared.ranges, name_a, name_b))
    if compared.conditions:
        drawings.append(specification(compared, name_a, name_b))
    return drawings


def stacked(drawings: Sequence[Part]) -> Part:
    """Returns one chart that stacks the given charts; there must be at least one."""
    if len(drawings) == 1:
        return drawings[0]
    parts = [
        {name: value for name, value in drawing.items() if name != "$schema"}
        for drawing in drawings
    ]
    return {
        "$schema": SCHEMA,
        "vconcat": parts,
        "resolve": {"scale": {"color": "independent", "shape": "independent"}},
    }


def specification(compared: Compared, name_a: str, name_b: str) -> Part:
    """Returns a Vega-Lite chart, with its data, of the conditions that both campaigns have.

    Each condition and group of A gets a panel, with a line for A and one for each condition of B
    that matches it. A grey band shows the margin within which B counts as the same.
    """
    points = list(_condition_points(compared))
    within = f"grey: within ±{format_percent(compared.margin)} of A's mean"
    above_0 = all(point["goodput_bps"] > 0 for point in points)
    goodput = quantity(
        "goodput_bps",
        "goodput (bit/s), mean and its 95% interval",
        RATE_AXIS,
        type="log" if above_0 else "linear",
        nice=True,
    )
    axis = {
        "labelLimit": 400,
        "ticks": False,
        "domain": False,
        "titleAngle": 0,
        "titleAlign": "right",
        "titleX": -4,
        "titleY": -8,
        "titleBaseline": "bottom",
    }
    line = name("line", "campaign", sort=None, axis=axis)
    names = [f"A: {name_a}", f"B: {name_b}"]
    legend = {"orient": "top"}
    colour = name(
        "campaign", scale={"domain": names, "range": [ONE_COLOUR, COLOURS["bbr"]]}, legend=legend
    )
    shape = name("campaign", scale={"domain": names, "range": ["circle", "diamond"]}, legend=legend)
    header = {
        "labelOrient": "top",
        "labelAnchor": "start",
        "labelAngle": 0,
        "labelFontWeight": "bold",
    }
    for point in points:
        point["campaign"] = names[point.pop("side") == B]
    return {
        "$schema": SCHEMA,
        "description": f"Goodput of {len(compared.conditions)} conditions in {name_a} (A) and "
        f"{name_b} (B); {within}.",
        "title": {"text": "Goodput of A and B", "subtitle": within, "anchor": "start"},
        "data": {"values": points},
        "facet": {
            "row": name(
                "panel", sort=list(dict.fromkeys(point["panel"] for point in points)), header=header
            )
        },
        "spec": {
            "width": WIDTH,
            "height": {"step": LINE_HEIGHT},
            "layer": [
                {
                    "mark": {"type": "rect", "color": FAINT},
                    "encoding": {"x": plain("least_bps"), "x2": {"field": "most_bps"}, "y": line},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {
                        "x": plain("low_bps"),
                        "x2": {"field": "high_bps"},
                        "y": line,
                        "color": colour,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {
                        "x": goodput,
                        "y": line,
                        "color": colour,
                        "shape": shape,
                        **lighter_if_not_valid((point["line"] for point in points), "line"),
                    },
                },
            ],
        },
        "resolve": {"scale": {"y": "independent"}},
    }


def _condition_points(compared: Compared) -> Iterator[Part]:
    """Yields the data of the chart: a row for each line of a panel, with the mean and its interval.

    B's line is called 'B' if the condition of A matches only the condition of the same name in B,
    and otherwise 'B: NAME'. Rows for runs that are not valid come last.
    """
    drawn = set()
    names_in_b: dict[str, set[str]] = {}
    for condition in compared.conditions:
        names_in_b.setdefault(condition.a.name, set()).add(condition.b.name)
    for condition in compared.conditions:
        for tested in condition.goodputs:
            if tested.a is None or tested.b is None:
                continue
            same_name = names_in_b[condition.a.name] == {condition.a.name}
            group = f": {tested.group}" if len(condition.goodputs) > 1 else ""
            panel = f"{'' if same_name else 'A: '}{condition.a.name}{group}"
            band = {
                "least_bps": (1 - compared.margin) * tested.a.mean,
                "most_bps": (1 + compared.margin) * tested.a.mean,
            }
            if panel not in drawn:
                yield {"panel": panel, "side": A, "line": A, **_mean_and_interval(tested.a), **band}
                drawn.add(panel)
            line = B if same_name else f"B: {condition.b.name}"
            yield {"panel": panel, "side": B, "line": line, **_mean_and_interval(tested.b), **band}
    for condition in compared.conditions:
        yield from _not_valid_points(condition)


def _not_valid_points(condition: ComparedCondition) -> Iterator[Part]:
    """Yields a point without an interval for the runs of A, and of B, that are not valid.

    Runs are grouped by the meaning of their goodput, such as 'lower bound'.
    """
    for side, cell in ((A, condition.a), (B, condition.b)):
        for group in cell.not_valid:
            bps = group.goodput_mean_bps
            mean = {"goodput_bps": bps, "low_bps": bps, "high_bps": bps}
            yield {
                "panel": condition.a.name,
                "side": side,
                "line": f"{side} ({group.meaning})",
                **mean,
            }


def _mean_and_interval(spread: Spread) -> Part:
    """Returns a point's goodput in bit/s: its mean, and the ends of its 95% interval.

    Without an interval both ends are the mean. The lower end is at least a hundredth of the mean,
    because the scale may be logarithmic.
    """
    low, high = spread.ci95 or (spread.mean, spread.mean)
    return {"goodput_bps": spread.mean, "low_bps": max(low, spread.mean / 100), "high_bps": high}


# The lower end of a span that is drawn, as a fraction of its mean: a logarithmic scale can't show 0
LEAST = 0.01


def ranges_specification(ranges: Sequence[ComparedRange], name_a: str, name_b: str) -> Part:
    """Returns a Vega-Lite chart, with its data, of results of A in front of ranges of B.

    A range spans the means of conditions of B that differ only in keys whose real value is unknown.
    Each condition and group of A gets a row. There must be at least one range.
    """
    rows = list(_range_rows(ranges))
    above_0 = all(row["low"] > 0 and row["result_low"] > 0 for row in rows)
    value = quantity(
        "low",
        "goodput (bit/s), mean and its 95% interval",
        RATE_AXIS,
        type="log" if above_0 else "linear",
        nice=False,
        zero=False,
        padding=16,
    )
    labels = dict(zip(KINDS, (f"range of {name_b}", "its best estimate", name_a), strict=True))
    return {
        "$schema": SCHEMA,
        "description": f"Goodput of {len(ranges)} conditions of {name_a} and the ranges of "
        f"{name_b}.",
        "title": {"text": f"Goodput of {name_a} and the range of {name_b}", "anchor": "start"},
        "width": WIDTH,
        "height": {"step": ROW_HEIGHT},
        **spans(inline(pl.DataFrame(rows, infer_schema_length=None)), value, labels),
    }


def _range_rows(ranges: Sequence[ComparedRange]) -> Iterator[Part]:
    """Yields the data of the chart: a row for each condition and group of A."""
    for compared in ranges:
        for tested in compared.goodputs:
            group = f": {tested.group}" if len(compared.goodputs) > 1 else ""
            yield {"row": f"{compared.a.name}{group}", **_range_values(tested)}


def _range_values(tested: RangeTested) -> Part:
    """Returns the numbers of a row, in bit/s: the range of B, its best estimate, and A's result.

    The scale may be logarithmic, so low ends are raised if necessary: that of the range to LEAST x
    (its smallest mean), and that of A's interval to LEAST x (A's mean).
    """
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
