"""Fairness, goodput and retransmissions against a swept setting, as in figures 4, 5, 7 and 8 of Gomez et al. 2024."""

import polars as pl

from ccmix.analysis.intervals import confidence_interval
from ccmix.charts import encodings
from ccmix.charts.colours import ONE_COLOUR
from ccmix.charts.encodings import PERCENT_AXIS, RATE_AXIS, Part, largest, names_in_order, plain, quantity, rows
from ccmix.charts.sweep import Sweep

PANEL_WIDTH, HEIGHT, COLUMNS = 280, 130, 3


def spread(frame: pl.DataFrame, metric: str, by: list[str]) -> pl.DataFrame:
    """Over iterations: `mean`, and `low` and `high`, its 95% interval, of fewer than 3 iterations their range."""
    each = frame.drop_nulls(metric).group_by(by, maintain_order=True).agg(pl.col(metric))
    bands = [_band(values) for values in each[metric].to_list()]
    return each.drop(metric).with_columns(
        pl.Series(name, [band[at] for band in bands], pl.Float64).round_sig_figs(4)
        for at, name in enumerate(("mean", "low", "high"))
    )


def _band(values: list[float]) -> tuple[float, float, float]:
    low, high = confidence_interval(values) or (min(values), max(values))
    return sum(values) / len(values), low, high


def against_setting(runs: pl.DataFrame, sweep: Sweep) -> Part:
    """A column of plots for each panel: fairness over all flows of a run, goodput and retransmission rate by group.

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
        dash: Part = encodings.dash("group", "group") if several else {}
        column = []
        if not shared.is_empty():
            column.append(_fairness(shared.filter(own), of_cca))
        goodput = quantity("mean", "goodput (bit/s)", RATE_AXIS, domain=[0, largest(goodputs, "high")])
        column.append(_plot(goodputs.filter(own), goodput, of_cca | dash))
        lost = quantity("mean", "retransmission rate", PERCENT_AXIS, domain=[0, largest(losses, "high")])
        column.append(_plot(losses.filter(own), lost, of_cca | dash))
        plots.append({"title": panel, "spacing": 6, "vconcat": _with_axis(column, sweep)})
    return {"concat": plots, "columns": COLUMNS, "spacing": 24}


def _fairness(runs: pl.DataFrame, of_cca: Part) -> Part:
    """One line where the flows of a run are of several CCAs, else one for each."""
    index = quantity("mean", "Jain's index", {"tickCount": 5}, domain=[0, 1])
    alone = runs.group_by("panel", "cca").agg(pl.col("mix").n_unique())
    if alone.height > 1 and not runs["mix"].str.contains(r"\+").any():
        return _plot(spread(runs, "fairness", ["cca", "setting"]), index, of_cca)
    each = runs.unique(["entry", "condition", "iteration"], maintain_order=True)
    return _plot(spread(each, "fairness", ["setting"]), index, {"color": {"value": ONE_COLOUR}})


def _plot(means: pl.DataFrame, y: Part, channels: Part) -> Part:
    """Bands, lines and points; the x axis comes later."""
    detail = [encodings.name("group")] if "group" in means.columns else []
    band = {"y": plain("low"), "y2": {"field": "high"}, "color": channels["color"], "detail": detail}
    clipped = {"clip": True}
    return {
        "data": rows(means.drop("panel", strict=False)),
        "width": PANEL_WIDTH, "height": HEIGHT,
        "layer": [
            {"mark": {"type": "area", "opacity": 0.2} | clipped, "encoding": band},
            {"mark": {"type": "line", "strokeWidth": encodings.LINE_WIDTH},
             "encoding": {"y": y, "detail": detail, **channels}},
            {"mark": encodings.POINTS, "encoding": {"y": plain("mean"), "color": channels["color"]}},
        ],
    }  # fmt: skip


def _with_axis(column: list[Part], sweep: Sweep) -> list[Part]:
    """Of plots one above the other, only the last one has labels."""
    for number, plot in enumerate(column):
        x = sweep.channel()
        if number < len(column) - 1:
            x["title"], x["axis"] = None, x["axis"] | {"labels": False}
        for layer in plot["layer"]:
            layer["encoding"]["x"] = x
    return column
