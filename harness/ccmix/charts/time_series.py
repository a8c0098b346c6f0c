"""Goodput over time per group with retransmissions under it, as in figures 2 to 14 of Tierney et al. 2021.

A chart is of one condition of the path, its entries side by side on the same scales: so all-CUBIC, all-BBR and the mix
of both can be compared at a glance.
"""

import math
from dataclasses import dataclass

import polars as pl

from ccmix.charts import encodings
from ccmix.charts.encodings import FAINT, LINE_WIDTH, Part, largest, names_in_order, plain, quantity, rows

PANEL_WIDTH, GOODPUT_HEIGHT, RETRANSMITS_HEIGHT = 300, 180, 80
MOST_THIN_LINES = 5  # iterations of a panel that are drawn each; of more, the range


def goodput_lines(channels: Part) -> Part:
    """A line for each group of rows with time_s, goodput_bps, group and cca; for Kibana too."""
    return {
        "mark": {"type": "line", "tooltip": True, "strokeWidth": LINE_WIDTH},
        "encoding": {
            "x": encodings.time(), "y": encodings.goodput(), "detail": encodings.name("group"), **channels,
        },
    }  # fmt: skip


def time_series(series: pl.DataFrame, omit_s: dict[str, float]) -> Part:
    """A panel for each entry: the mean over iterations bold, each thin, or their range where they are many.

    `series`: a row per entry, iteration, group and interval: entry, group, cca (str); iteration (int); time_s and
    begin_s (the interval's end and begin), goodput_bps, retransmits (segments in the interval, null where nobody
    counted). omit_s: seconds at the start of each entry's runs that aren't measured; they are grey.
    """
    series = series.with_columns(pl.col("goodput_bps").round_sig_figs(4), pl.col("time_s", "begin_s").round(4))
    mean = series.group_by("entry", "time_s", "group", "cca", maintain_order=True).agg(
        pl.col("begin_s").mean().round(4),
        pl.col("goodput_bps").mean().round_sig_figs(4),
        pl.col("retransmits").mean().round_sig_figs(3),
    )
    channels = encodings.of_cca(series["cca"].unique())
    if series.select("group", "cca").unique().height > series["cca"].n_unique():
        channels |= encodings.dash("group", "group")
    scales = Scales(
        time={"domain": [0, math.ceil(largest(mean, "time_s"))], "nice": False},
        goodput={"domain": [0, largest(series, "goodput_bps")]},
        retransmits={"domain": [0, largest(mean, "retransmits")]},
    )
    return {
        "spacing": 24,
        "hconcat": [
            _panel(
                entry,
                series.filter(pl.col("entry") == entry).drop("entry"),
                mean.filter(pl.col("entry") == entry).drop("entry"),
                omit_s[entry],
                channels,
                scales,
            )
            for entry in names_in_order(series, "entry")
        ],
    }


@dataclass(frozen=True)
class Scales:
    """What all panels share."""

    time: Part
    goodput: Part
    retransmits: Part


def _panel(title: str, series: pl.DataFrame, mean: pl.DataFrame, omit_s: float, channels: Part, scales: Scales) -> Part:
    omitted = {
        "data": {"values": [{"from_s": 0, "to_s": omit_s}]},
        "mark": {"type": "rect", "color": FAINT},
        "encoding": {"x": plain("from_s"), "x2": {"field": "to_s"}},
    }
    bold = goodput_lines(channels)
    bold["encoding"] |= {
        "x": quantity("time_s", None, {"labels": False}, **scales.time),
        "y": encodings.goodput(**scales.goodput),
        "tooltip": [
            encodings.name("group", "group"),
            quantity("time_s", "s"),
            quantity("goodput_bps", "bit/s") | {"format": ".3s"},
        ],
    }
    retransmitted = quantity(
        "retransmits", ["retransmitted", "segments / interval"], {"tickCount": 3, "format": "~s"}, **scales.retransmits
    )
    lost = {
        "data": rows(_outline(mean)),
        "mark": {"type": "area", "opacity": 0.45, "interpolate": "step-before"},
        "encoding": {
            "x": encodings.time(**scales.time),
            "y": retransmitted | {"stack": None},
            "detail": encodings.name("group"), "color": channels["color"],
        },
    }  # fmt: skip
    return {
        "title": title,
        "data": rows(mean),
        "spacing": 4,
        "vconcat": [
            {
                "width": PANEL_WIDTH, "height": GOODPUT_HEIGHT,
                "layer": [omitted, _spread(series, channels), bold],
            },
            {"width": PANEL_WIDTH, "height": RETRANSMITS_HEIGHT, "layer": [omitted, lost]},
        ],
    }  # fmt: skip


def _spread(series: pl.DataFrame, channels: Part) -> Part:
    """The iterations: thin lines, or the range of all."""
    if series["iteration"].n_unique() <= MOST_THIN_LINES:
        return {
            "data": rows(series.select("time_s", "goodput_bps", "group", "cca", "iteration")),
            "mark": {"type": "line", "strokeWidth": 0.7, "opacity": 0.4},
            "encoding": {
                "x": plain("time_s"), "y": plain("goodput_bps"),
                "detail": [encodings.name("group"), encodings.name("iteration")], "color": channels["color"],
            },
        }  # fmt: skip
    ranges = series.group_by("time_s", "group", "cca", maintain_order=True).agg(
        least_bps=pl.col("goodput_bps").min(), most_bps=pl.col("goodput_bps").max()
    )
    return {
        "data": rows(ranges),
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {
            "x": plain("time_s"), "y": plain("least_bps"), "y2": {"field": "most_bps"},
            "detail": encodings.name("group"), "color": channels["color"],
        },
    }  # fmt: skip


def _outline(mean: pl.DataFrame) -> pl.DataFrame:
    """The tops of the bars of each group's intervals, which one path of steps goes along; 0 where nobody counted, and
    where an interval is missing.
    """
    tops = mean.select("begin_s", "time_s", "group", "cca", pl.col("retransmits").fill_null(0.0))
    before = pl.col("time_s").shift().over("group")
    after_gaps = tops.filter(pl.col("begin_s").ne_missing(before))
    begins = after_gaps.with_columns(time_s="begin_s", retransmits=pl.lit(0.0))
    return pl.concat([tops, begins]).sort("time_s", maintain_order=True).drop("begin_s")
