"""Draws fairness, goodput and retransmissions against a setting, as in figures 4, 5, 7 and 8 of Gomez et al. 2024."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ccmix.analysis.intervals import confidence_interval
from ccmix.charts import encodings
from ccmix.charts.colours import ONE_COLOUR
from ccmix.charts.encodings import PERCENT_AXIS, RATE_AXIS, largest, names_in_order, plain, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource, inline
from ccmix.charts.sweep import SweptAxis

PANEL_WIDTH, HEIGHT, COLUMNS = 280, 130, 3


def spread(frame: pl.DataFrame, metric: str, by: list[str]) -> pl.DataFrame:
    """Returns over iterations `mean`, and `low` and `high`: its 95% interval or, below 3 iterations, their range."""
    each = frame.drop_nulls(metric).group_by(by, maintain_order=True).agg(pl.col(metric))
    bands = [_band(values) for values in each[metric].to_list()]
    return each.drop(metric).with_columns(
        pl.Series(name, [band[at] for band in bands], pl.Float64).round_sig_figs(4)
        for at, name in enumerate(("mean", "low", "high"))
    )


def _band(values: list[float]) -> tuple[float, float, float]:
    low, high = confidence_interval(values) or (min(values), max(values))
    return sum(values) / len(values), low, high


def banded_lines(source: ChartSource, x: Part, y: Part, channels: Part, apart: Sequence[str] = ()) -> Part:
    """Draws a line of means with a band as one view, with a point at each value of the setting.

    Rows: mean, low, high, what x and the channels draw, and columns that separate lines of one colour (`apart`). y
    has the title, axis and scale of the mean.
    """
    detail = [encodings.name(column) for column in apart]
    of_points = {name: channels[name] for name in ("color", "opacity") if name in channels}
    band = {"x": x, "y": plain("low"), "y2": {"field": "high"}, "color": channels["color"], "detail": detail}
    return source.view(
        {
            "layer": [
                {"mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
                {
                    "mark": {"type": "line", "strokeWidth": encodings.LINE_WIDTH},
                    "encoding": {"x": x, "y": y | plain("mean"), "detail": detail, **channels},
                },
                {"mark": encodings.POINTS, "encoding": {"x": x, "y": plain("mean"), **of_points}},
            ],
        }
    )


def fairness_axis() -> Part:
    return quantity("mean", "Jain's index", {"tickCount": 5}, domain=[0, 1])


def goodput_axis(**scale: Any) -> Part:
    return quantity("mean", "goodput (bit/s)", RATE_AXIS, **scale)


def retransmissions_axis(**scale: Any) -> Part:
    return quantity("mean", "retransmission rate", PERCENT_AXIS, **scale)


def against_setting(runs: pl.DataFrame, sweep: SweptAxis) -> Part:
    """Draws a column of plots for each panel: fairness of a run's flows, goodput and retransmission rate by group.

    `runs`: a row per run and group: panel, group, cca (str), setting (a number on the sweep's axis), flows (of the
    run), fairness, goodput_bps, retransmission_rate (or null). Lines are means over iterations, bands as in spread().
    """
    of_cca = encodings.of_cca(runs["cca"].unique())
    by_group = ["panel", "group", "cca", "setting"]
    goodputs, losses = (spread(runs, metric, by_group) for metric in ("goodput_bps", "retransmission_rate"))
    shared = runs.filter(pl.col("flows") > 1, pl.col("fairness").is_not_null())
    plots = []
    for panel in names_in_order(runs, "panel"):
        own = pl.col("panel") == panel
        several = runs.filter(own).group_by("cca").agg(pl.col("group").n_unique())["group"].max() != 1
        channels = of_cca | encodings.lighter(runs["group"]) | (encodings.dash("group", "group") if several else {})
        column = [] if shared.is_empty() else [_fairness(shared.filter(own), of_cca)]
        column += [
            (means.filter(own).drop("panel"), y, channels, ["group"])
            for means, y in (
                (goodputs, goodput_axis(domain=[0, largest(goodputs, "high")])),
                (losses, retransmissions_axis(domain=[0, largest(losses, "high")])),
            )
        ]
        drawn = [_plot(*plot, _x(sweep, labelled=number == len(column))) for number, plot in enumerate(column, 1)]
        plots.append({"title": panel, "spacing": 6, "vconcat": drawn})
    return {"concat": plots, "columns": COLUMNS, "spacing": 24}


Plot = tuple[pl.DataFrame, Part, Part, list[str]]  # rows, y, further channels, columns that separate lines


def _fairness(runs: pl.DataFrame, of_cca: Part) -> Plot:
    """Returns one line where the flows of a run have several CCAs, else one for each CCA."""
    alone = runs.group_by("panel", "cca").agg(pl.col("mix").n_unique())
    if alone.height > 1 and not runs["mix"].str.contains(r"\+").any():
        return spread(runs, "fairness", ["cca", "setting"]), fairness_axis(), of_cca, []
    each = runs.unique(["entry", "condition", "iteration"], maintain_order=True)
    return spread(each, "fairness", ["setting"]), fairness_axis(), {"color": {"value": ONE_COLOUR}}, []


def _plot(means: pl.DataFrame, y: Part, channels: Part, apart: list[str], x: Part) -> Part:
    return {"width": PANEL_WIDTH, "height": HEIGHT, **banded_lines(inline(means), x, y, channels, apart)}


def _x(sweep: SweptAxis, *, labelled: bool) -> Part:
    """Returns the x axis; among plots one above the other, only the last one has labels."""
    x = sweep.channel()
    return x if labelled else x | {"title": None, "axis": x["axis"] | {"labels": False}}
