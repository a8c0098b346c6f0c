"""Describes the settings of a path on charts, and draws measures against a setting, and shares of
the goodput against shares of the flows, as in figure 10 of Gomez et al. 2024.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ccmix.analysis import path_text
from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.results import Result
from ccmix.charts import encodings
from ccmix.charts.encodings import (
    ONE_COLOUR,
    PERCENT_AXIS,
    RATE_AXIS,
    ChartSource,
    Part,
    inline,
    largest,
    names_in_order,
    plain,
    quantity,
)
from ccmix.charts.frames import SweptAxis
from ccmix.model import HostPath, Queue
from ccmix.units import format_bytes, format_rate, format_time


def describe(result: Result) -> str:
    """Describes the path of a run in a single line."""
    return ", ".join(_parts(result))


def in_common(results: Sequence[Result]) -> str:
    """Describes in a single line the settings that the paths of all runs share, without those that
    are swept or differ between entries.
    """
    parts = [
        _parts(result)
        for result in {(each.run.entry, each.run.condition_name): each for each in results}.values()
    ]
    return ", ".join(part for part in parts[0] if all(part in other for other in parts))


def _parts(result: Result) -> list[str]:
    kernel = f"Linux {result.finished.facts.kernel}"
    if isinstance(result.run.path, HostPath):
        return [*_between_hosts(result.run.path, result.run.traffic.pacing_bps), kernel]
    topology = result.run.path
    buffer = f"{topology.buffer.amount:g} BDP = " if topology.buffer.kind == "bdp" else ""
    queue = "FIFO" if topology.queue == Queue() else str(topology.queue)
    queues = dict.fromkeys(path_text.sender_queue(sender) for sender in topology.senders)
    more = [] if list(queues) == ["fq"] else [f"sender's queue {' or '.join(queues)}"]
    more += [f"{len(topology.senders)} senders"] if len(topology.senders) > 1 else []
    windows = dict.fromkeys(filter(None, map(path_text.receiver_window, topology.senders)))
    more += [f"receiver's window {' or '.join(windows)}"] if windows else []
    more += [f"{len(topology.changes)} changes"] if topology.changes else []
    return [
        format_rate(topology.rate_bps),
        f"base RTT {path_text.base_rtts(topology)}",
        f"loss {path_text.losses(topology)} per "
        f"{'packet' if not topology.offloads else 'super-packet'}",
        f"buffer {buffer}{format_bytes(topology.buffer_bytes)} {queue}",
        f"MTU {topology.mtu_bytes}",
        f"offloads {'on' if topology.offloads else 'off'}",
        *(["ECN"] if topology.ecn else []),
        *([path_text.policer(topology.policer)] if topology.policer else []),
        *([f"ACKs {path_text.ack_bottleneck(topology)}"] if topology.ack_bottleneck else []),
        *more,
        kernel,
    ]


def _between_hosts(path: HostPath, pacing_bps: float | None) -> list[str]:
    """Describes the ends of a path between hosts, and its settings."""
    parts = [f"{path.src} to {path.dst.name}"]
    if path.netem:
        parts.append(f"netem delay {format_time(path.netem.delay_s)} each way")
        if path.netem.loss:
            parts.append(f"netem loss {path.netem.loss}")
        if path.netem.limit_packets is not None:
            parts.append(f"netem limit {path.netem.limit_packets} packets")
    if pacing_bps is not None:
        parts.append(f"paced to {format_rate(pacing_bps)} a flow")
    return parts


PANEL_WIDTH, HEIGHT, COLUMNS = 280, 130, 3


def spread(frame: pl.DataFrame, metric: str, by: list[str]) -> pl.DataFrame:
    """Returns over iterations `mean`, and `low` and `high`: its 95% interval or, below 3
    iterations, their range.
    """
    each = frame.drop_nulls(metric).group_by(by, maintain_order=True).agg(pl.col(metric))
    bands = [_band(values) for values in each[metric].to_list()]
    return each.drop(metric).with_columns(
        pl.Series(name, [band[at] for band in bands], pl.Float64).round_sig_figs(4)
        for at, name in enumerate(("mean", "low", "high"))
    )


def _band(values: list[float]) -> tuple[float, float, float]:
    low, high = confidence_interval(values) or (min(values), max(values))
    return sum(values) / len(values), low, high


def banded_lines(
    source: ChartSource, x: Part, y: Part, channels: Part, apart: Sequence[str] = ()
) -> Part:
    """Draws a line of means with a band, with a point at each value of the setting, as a single
    view.

    Rows: mean, low, high, the fields of x and of the channels, and columns that separate lines of
        the same colour (`apart`).
    y: the title, axis and scale of the mean.
    """
    detail = [encodings.name(column) for column in apart]
    of_points = {name: channels[name] for name in ("color", "opacity") if name in channels}
    band = {
        "x": x,
        "y": plain("low"),
        "y2": {"field": "high"},
        "color": channels["color"],
        "detail": detail,
    }
    return source.view(
        {
            "layer": [
                {"mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
                {
                    "mark": {"type": "line", "strokeWidth": encodings.LINE_WIDTH},
                    "encoding": {"x": x, "y": y | plain("mean"), "detail": detail, **channels},
                },
                {"mark": encodings.POINTS, "encoding": {"x": x, "y": plain("mean"), **of_points}},
            ]
        }
    )


def fairness_axis() -> Part:
    return quantity("mean", "Jain's index", {"tickCount": 5}, domain=[0, 1])


def goodput_axis(**scale: Any) -> Part:
    return quantity("mean", "goodput (bit/s)", RATE_AXIS, **scale)


def retransmissions_axis(**scale: Any) -> Part:
    return quantity("mean", "retransmission rate", PERCENT_AXIS, **scale)


def against_setting(runs: pl.DataFrame, sweep: SweptAxis) -> Part:
    """Draws a column of plots for each panel: fairness of a run's flows, goodput and retransmission
    rate by group.

    runs: a row per run and group: panel, group, cca (str), setting (a number on the sweep's axis),
        flows (of the run), fairness, goodput_bps, retransmission_rate (or null).
    Lines are means over iterations, bands as in spread().
    """
    of_cca = encodings.of_cca(runs["cca"].unique())
    by_group = ["panel", "group", "cca", "setting"]
    goodputs, losses = (
        spread(runs, metric, by_group) for metric in ("goodput_bps", "retransmission_rate")
    )
    shared = runs.filter(pl.col("flows") > 1, pl.col("fairness").is_not_null())
    plots = []
    for panel in names_in_order(runs, "panel"):
        own = pl.col("panel") == panel
        several = (
            runs.filter(own).group_by("cca").agg(pl.col("group").n_unique())["group"].max() != 1
        )
        channels = (
            of_cca
            | encodings.lighter(runs["group"])
            | (encodings.dash("group", "group") if several else {})
        )
        column = [] if shared.is_empty() else [_fairness(shared.filter(own), of_cca)]
        column += [
            (means.filter(own).drop("panel"), y, channels, ["group"])
            for means, y in (
                (goodputs, goodput_axis(domain=[0, largest(goodputs, "high")])),
                (losses, retransmissions_axis(domain=[0, largest(losses, "high")])),
            )
        ]
        drawn = [
            _plot(*plot, _x(sweep, labelled=number == len(column)))
            for number, plot in enumerate(column, 1)
        ]
        plots.append({"title": panel, "spacing": 6, "vconcat": drawn})
    return {"concat": plots, "columns": COLUMNS, "spacing": 24}


Plot = tuple[
    pl.DataFrame, Part, Part, list[str]
]  # rows, y, further channels, columns that separate lines


def _fairness(runs: pl.DataFrame, of_cca: Part) -> Plot:
    """Returns a single line if the flows of a run have several CCAs, otherwise a line per CCA."""
    alone = runs.group_by("panel", "cca").agg(pl.col("mix").n_unique())
    if alone.height > 1 and not runs["mix"].str.contains(r"\+").any():
        return spread(runs, "fairness", ["cca", "setting"]), fairness_axis(), of_cca, []
    each = runs.unique(["entry", "condition", "iteration"], maintain_order=True)
    return (
        spread(each, "fairness", ["setting"]),
        fairness_axis(),
        {"color": {"value": ONE_COLOUR}},
        [],
    )


def _plot(means: pl.DataFrame, y: Part, channels: Part, apart: list[str], x: Part) -> Part:
    return {
        "width": PANEL_WIDTH,
        "height": HEIGHT,
        **banded_lines(inline(means), x, y, channels, apart),
    }


def _x(sweep: SweptAxis, *, labelled: bool) -> Part:
    """Returns the x axis; among plots one above the other, only the last one has labels."""
    x = sweep.channel()
    return x if labelled else x | {"title": None, "axis": x["axis"] | {"labels": False}}


STEP, LEAST_WIDTH, SHARE_HEIGHT, SHARE_COLUMNS = 60, 240, 200, 2
PERCENT = {"format": ".0%", "tickCount": 5}


def shares(source: ChartSource, x: Part, channels: Part) -> Part:
    """Draws solid lines of the mean share with a band, and dashed lines of the fair share, as a
    single view.

    Rows: the field of x, cca, mean, low, high and fair_share (1.0 is all of the run's goodput).
    """
    y = quantity("mean", "share of the goodput", PERCENT, domain=[0, 1])
    dash = encodings.dash("line", "share", domain=["measured", "fair"], range=[[1, 0], [5, 4]])
    band = {"x": x, "y": plain("low"), "y2": {"field": "high"}, "color": channels["color"]}

    def line(name: str, field: str) -> Part:
        return {
            "transform": [{"calculate": f"'{name}'", "as": "line"}],
            "mark": {"type": "line", "strokeWidth": encodings.LINE_WIDTH},
            "encoding": {"x": x, "y": y | {"field": field}, **dash, **channels},
        }

    return source.view(
        {
            "layer": [
                {"mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
                line("fair", "fair_share"),
                line("measured", "mean"),
                {
                    "mark": encodings.POINTS | {"filled": False},
                    "encoding": {"x": x, "y": plain("fair_share"), "color": channels["color"]},
                },
                {
                    "mark": encodings.POINTS,
                    "encoding": {"x": x, "y": plain("mean"), "color": channels["color"]},
                },
            ]
        }
    )


def share_against_fair_share(runs: pl.DataFrame, x_title: str) -> Part:
    """Draws a panel for each value of `panel`, with bands as in setting.spread().

    runs: a row per panel, numbers of flows, CCA and iteration: panel, flows_of ('9 : 1', in the
        order of the axis), cca, share and fair_share (of the run's goodput; 1.0 is all).
    """
    channels = encodings.of_cca(runs["cca"].unique())
    panels = []
    for panel in names_in_order(runs, "panel"):
        own = runs.filter(pl.col("panel") == panel)
        order = names_in_order(own, "flows_of")
        x: Part = {
            "field": "flows_of",
            "type": "ordinal",
            "title": x_title,
            "sort": None,
            "scale": {"domain": order},
            "axis": {"labelAngle": 0},
        }
        by = ["flows_of", "cca"]
        fair = own.group_by(by, maintain_order=True).agg(pl.col("fair_share").first())
        means = spread(own, "share", by).join(fair, on=by, maintain_order="left")
        width = max(LEAST_WIDTH, STEP * len(order))
        panels.append(
            {
                "title": panel,
                "width": width,
                "height": SHARE_HEIGHT,
                **shares(inline(means), x, channels),
            }
        )
    return {"concat": panels, "columns": SHARE_COLUMNS, "spacing": 24}
