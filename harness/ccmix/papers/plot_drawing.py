"""Draws plots of quantities against a swept key, by CCA, or against the buffer in BDP."""

import math
from collections.abc import Iterable, Sequence

import polars as pl

from ccmix.charts.beside import PlottedNumber, SideBySide, beside
from ccmix.charts.encodings import PERCENT_AXIS, RATE_AXIS
from ccmix.charts.json_types import Part
from ccmix.papers.experiment import Quantity
from ccmix.papers.figure import OverBuffer, Plots
from ccmix.papers.figure_data import (
    GAIN,
    RETRANSMISSION_RATE,
    UTILISATION,
    Material,
    PlotAxis,
    PlottedPoint,
    plot_axis,
    plotted_points,
    points_over_buffer,
)

FRACTION_AXIS = {"format": ".0%", "tickCount": 5}
PLAIN_AXIS = {"tickCount": 5}
TO_ONE = {"domain": [0, 1]}
PLOTTED: dict[Quantity, tuple[str, Part, Part]] = {
    "goodput_bps": ("goodput (bit/s)", RATE_AXIS, {}),
    "variation": ("coefficient of variation", PLAIN_AXIS, {}),
    "utilisation": ("utilisation", FRACTION_AXIS, TO_ONE),
    "share": ("share of the goodput", FRACTION_AXIS, TO_ONE),
    "fairness": ("Jain's index", PLAIN_AXIS, TO_ONE),
    "retransmits": ("retransmitted segments", RATE_AXIS, {}),  # thousands have the same letter
    "retransmission_rate": ("retransmission rate", PERCENT_AXIS, {}),
    "convergence_s": ("time to converge (s)", PLAIN_AXIS, {}),
    "queue_mean_bdp": ("mean queue (BDP)", PLAIN_AXIS, {}),
    "queue_p95_bdp": ("95th perc. of queue", PLAIN_AXIS, {}),
    "rtt_p95_s": ("95th perc. of RTT (s)", PLAIN_AXIS, {}),
}
PERCENTS = {"labelExpr": "format(datum.value * 100, '~g') + '%'"}
OVER_BUFFER = (
    PlottedNumber(
        GAIN,
        "goodput gain",
        PERCENTS | {"values": [-0.5, 0, 0.5, 2, 5, 10, 25]},
        {"type": "symlog", "constant": 0.2, "domain": [-0.5, 30]},
    ),
    PlottedNumber(UTILISATION, "utilisation", FRACTION_AXIS, {"domain": [0, 1.05]}),
    PlottedNumber(
        RETRANSMISSION_RATE,
        "retransmission rate",
        PERCENTS | {"values": [0, 0.0001, 0.001, 0.01, 0.1]},
        {"type": "symlog", "constant": 0.00002, "domain": [0, 0.2]},
    ),
)
STEPS = (1.0, 2.0, 5.0)  # of a decade, where there is room for them
MOST_STEPS = 8
AROUND = 1.5  # times the largest of a logarithmic axis is its end


def plots(figure: Plots, material: Material) -> tuple[Part, int, str]:
    """Returns the drawing, how many panels are side by side, and what the lab's marks are."""
    axis = plot_axis(figure, material)
    frame = _frame(plotted_points(figure, axis, material))
    numbers = [_plotted(quantity, figure, frame) for quantity in figure.quantities]
    there = frame["panel"].unique().to_list()
    panels = tuple(panel.title for panel in figure.panels if panel.title in there)
    named = axis.swept is None or axis.swept.spacing == "even"
    layout = SideBySide(
        panels,
        columns=min(figure.columns, len(panels)),
        bars=named and not figure.log,
        lined=not named,
        dashed=tuple(figure.hosts.values()),
    )
    marks = "Bars" if layout.bars else "Lines" if layout.lined else "Points"
    return beside(frame, _channel(axis), numbers, layout), layout.columns, marks


def over_buffer(figure: OverBuffer, material: Material) -> Part:
    """Returns the drawing of points against the buffer in BDP."""
    frame = _frame(points_over_buffer(figure, material))
    domain = _around(frame["setting"].to_list())
    x: Part = {
        "field": "setting",
        "type": "quantitative",
        "title": "buffer over BDP",
        "axis": {"format": "~g", "values": _ticks(*domain), "grid": False},
        "scale": {"type": "log", "domain": domain, "nice": False},
    }
    panels = tuple(panel.title for panel in figure.panels)
    return beside(frame, x, OVER_BUFFER, SideBySide(panels, len(panels), lined=False))


def _frame(points: Iterable[PlottedPoint]) -> pl.DataFrame:
    return pl.DataFrame(list(points), infer_schema_length=None)


def _plotted(quantity: Quantity, figure: Plots, frame: pl.DataFrame) -> PlottedNumber:
    title, axis, scale = PLOTTED[quantity]
    if not figure.log:
        return PlottedNumber(quantity, title, axis, scale)
    means = frame.filter(pl.col("number") == quantity)["mean"].to_list()
    domain = _around([mean for mean in means if mean > 0])
    return PlottedNumber(quantity, title, axis | {"values": _ticks(*domain)}, {"type": "log", "domain": domain})


def _around(numbers: Sequence[float]) -> list[float]:
    """Returns the ends of a logarithmic axis."""
    return [min(numbers) / AROUND, max(numbers) * AROUND]


def _ticks(least: float, most: float) -> list[float]:
    """Returns the numbers of a logarithmic axis: 1, 2 and 5 of each decade, or of many decades 1 alone."""
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    each, few = (
        [tick for decade in decades for step in steps if least <= (tick := float(f"{step}e{decade}")) <= most]
        for steps in (STEPS, STEPS[:1])
    )
    return each if len(each) <= MOST_STEPS else few


def _channel(axis: PlotAxis) -> Part:
    """Returns the channel of the x axis; values that span decades from 0 on have a place each, as names have."""
    if axis.swept and axis.swept.spacing != "even":
        return axis.swept.channel()
    title = axis.swept.title if axis.swept else None
    scale = {"domain": list(axis.places.values()), "paddingInner": 0.3, "paddingOuter": 0.2}
    return {"field": "setting", "type": "ordinal", "title": title, "axis": {"labelAngle": 0}, "scale": scale}
