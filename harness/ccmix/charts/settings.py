"""Draws measures against a swept setting of the path, and describes a path's settings in a line.

Also draws shares of the goodput against shares of the flows, as in figure 10 of Gomez et al. 2024.
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
    ordered_names,
    plain,
    quantity,
    side_by_side,
    without_labels,
)
from ccmix.charts.frames import SweptAxis
from ccmix.model import HostPath, Queue
from ccmix.units import format_bytes, format_rate, format_time


def describe(result: Result) -> str:
    """Describes the path of a run in a single line: '10 Mbit/s, base RTT 20 ms, ...'."""
    return ", ".join(_settings_of_path(result))


def in_common(results: Sequence[Result]) -> str:
    """Describes in a line the settings that the paths of all runs share. Settings that are swept
    (varied), or that differ between entries, are left out.
    """
    one_of_each = {(each.run.entry, each.run.condition_name): each for each in results}
    paths = [_settings_of_path(result) for result in one_of_each.values()]
    return ", ".join(part for part in paths[0] if all(part in path for path in paths))


def _settings_of_path(result: Result) -> list[str]:
    """Returns the settings of a run's path as texts, such as '10 Mbit/s' and 'base RTT 20 ms'."""
    kernel = f"Linux {result.finished.facts.kernel}"
    if isinstance(result.run.path, HostPath):
        return [*_settings_between_hosts(result.run.path, result.run.traffic.pacing_bps), kernel]
    topology = result.run.path
    buffer = f"{topology.buffer.amount:g} BDP = " if topology.buffer.kind == "bdp" else ""
    queue = "FIFO" if topology.queue == Queue() else str(topology.queue)
    queues = dict.fromkeys(path_text.sender_queue(sender) for sender in topology.senders)
    further_settings = [] if list(queues) == ["fq"] else [f"sender's queue {' or '.join(queues)}"]
    further_settings += [f"{len(topology.senders)} senders"] if len(topology.senders) > 1 else []
    windows = dict.fromkeys(filter(None, map(path_text.receiver_window, topology.senders)))
    further_settings += [f"receiver's window {' or '.join(windows)}"] if windows else []
    further_settings += [f"{len(topology.changes)} changes"] if topology.changes else []
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
        *further_settings,
        kernel,
    ]


def _settings_between_hosts(path: HostPath, pacing_bps: float | None) -> list[str]:
    """Returns the settings of a path between real hosts as texts: its two hosts, and the netem and
    pacing that ccmix sets there.
    """
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
    """Returns the mean and the spread of a metric over iterations: the columns `by`, mean, low and
    high. low and high are the ends of the 95% interval; with fewer than 3 iterations, they are the
    smallest and the largest value.

    frame: a row per run, with the column `metric`
    by: the columns whose combinations of values get a mean each
    """
    values_by_key = frame.drop_nulls(metric).group_by(by, maintain_order=True).agg(pl.col(metric))
    intervals = [_mean_and_interval(values) for values in values_by_key[metric].to_list()]
    return values_by_key.drop(metric).with_columns(
        pl.Series(name, [band[position] for band in intervals], pl.Float64).round_sig_figs(4)
        for position, name in enumerate(("mean", "low", "high"))
    )


def _mean_and_interval(values: list[float]) -> tuple[float, float, float]:
    """Returns three numbers: the mean, and both ends of its 95% interval. If there are too few
    values for an interval, the ends are the smallest and the largest value.
    """
    low, high = confidence_interval(values) or (min(values), max(values))
    return sum(values) / len(values), low, high


def banded_lines(
    source: ChartSource, x: Part, y: Part, channels: Part, apart: Sequence[str] = ()
) -> Part:
    """Returns a view of means as lines, with a band for their spread, and with a point at each
    value of the setting.

    Rows of the source: mean, low, high (the ends of the band), the fields of x and of the channels,
    and the columns `apart`
    y: the title, axis and scale of the mean
    channels: the channels of the colours, dashes and opacity
    apart: columns that separate lines of the same colour
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
                {"mark": encodings.BAND, "encoding": band},
                {
                    "mark": encodings.LINE,
                    "encoding": {"x": x, "y": y | plain("mean"), "detail": detail, **channels},
                },
                {"mark": encodings.POINTS, "encoding": {"x": x, "y": plain("mean"), **of_points}},
            ]
        }
    )


def fairness_axis() -> Part:
    """Returns the y channel of Jain's index, from 0 to 1."""
    return quantity("mean", "Jain's index", {"tickCount": 5}, domain=[0, 1])


def goodput_axis(**scale: Any) -> Part:
    """Returns the y channel of a mean goodput, with parameters of its scale."""
    return quantity("mean", "goodput (bit/s)", RATE_AXIS, **scale)


def retransmissions_axis(**scale: Any) -> Part:
    """Returns the y channel of a mean retransmission rate, with parameters of its scale."""
    return quantity("mean", "retransmission rate", PERCENT_AXIS, **scale)


def against_setting(runs: pl.DataFrame, sweep: SweptAxis) -> Part:
    """Returns a chart of measures against a swept setting. Each panel is a column of plots: the
    fairness of a run's flows, and the goodput and the retransmission rate of each group. Lines are
    means over iterations, and bands are their 95% intervals.

    runs: a row per run and group: panel, group, cca (str), setting (a number on the sweep's axis),
        flows (number in the run), fairness, goodput_bps, retransmission_rate (may be null)
    """
    colour_by_cca = encodings.colour_by_cca(runs["cca"].unique())
    by_group = ["panel", "group", "cca", "setting"]
    goodputs, losses = (
        spread(runs, metric, by_group) for metric in ("goodput_bps", "retransmission_rate")
    )
    runs_with_fairness = runs.filter(pl.col("flows") > 1, pl.col("fairness").is_not_null())
    panels = {}
    for panel in names_in_order(runs, "panel"):
        of_panel = pl.col("panel") == panel
        several_groups_per_cca = (
            runs.filter(of_panel).group_by("cca").agg(pl.col("group").n_unique())["group"].max()
            != 1
        )
        channels = (
            colour_by_cca
            | encodings.lighter_if_not_valid(runs["group"])
            | (encodings.dash("group", "group") if several_groups_per_cca else {})
        )
        plot_parts = (
            []
            if runs_with_fairness.is_empty()
            else [_fairness_plot(runs_with_fairness.filter(of_panel), colour_by_cca)]
        )
        plot_parts += [
            (means.filter(of_panel).drop("panel"), y, channels, ["group"])
            for means, y in (
                (goodputs, goodput_axis(domain=[0, largest(goodputs, "high")])),
                (losses, retransmissions_axis(domain=[0, largest(losses, "high")])),
            )
        ]
        x = sweep.channel()
        plots = [_plot(*plot, without_labels(x)) for plot in plot_parts[:-1]]
        panels[panel] = {"spacing": 6, "vconcat": [*plots, _plot(*plot_parts[-1], x)]}
    return side_by_side(panels, COLUMNS)


Plot = tuple[
    pl.DataFrame, Part, Part, list[str]
]  # rows, y, further channels, columns that separate lines


def _fairness_plot(runs: pl.DataFrame, colour_by_cca: Part) -> Plot:
    """Returns the plot of fairness. There is a line for each CCA if each run has only one CCA, and
    a single line if several CCAs compete in a run.
    """
    mixes_of_ccas = runs.group_by("panel", "cca").agg(pl.col("mix").n_unique())
    if mixes_of_ccas.height > 1 and not runs["mix"].str.contains(r"\+").any():
        return spread(runs, "fairness", ["cca", "setting"]), fairness_axis(), colour_by_cca, []
    runs_once = runs.unique(["entry", "condition", "iteration"], maintain_order=True)
    return (
        spread(runs_once, "fairness", ["setting"]),
        fairness_axis(),
        {"color": {"value": ONE_COLOUR}},
        [],
    )


def _plot(means: pl.DataFrame, y: Part, channels: Part, apart: list[str], x: Part) -> Part:
    """Returns the view of one plot: lines of means with bands.

    means: mean, low, high, and the fields of x and of the channels
    apart: columns that separate lines of the same colour
    """
    return {
        "width": PANEL_WIDTH,
        "height": HEIGHT,
        **banded_lines(inline(means), x, y, channels, apart),
    }


STEP, LEAST_WIDTH, SHARE_HEIGHT, SHARE_COLUMNS = 60, 240, 200, 2
PERCENT = {"format": ".0%", "tickCount": 5}


def shares(source: ChartSource, x: Part, channels: Part) -> Part:
    """Returns a view of a CCA's share of the goodput: the measured mean as a solid line with a
    band, and the fair share as a dashed line.

    Rows of the source: the field of x, cca, mean, low, high and fair_share. Shares are fractions of
    the run's goodput.
    """
    y = quantity("mean", "share of the goodput", PERCENT, domain=[0, 1])
    dash = encodings.dash("line", "share", domain=["measured", "fair"], range=[[1, 0], [5, 4]])
    band = {"x": x, "y": plain("low"), "y2": {"field": "high"}, "color": channels["color"]}

    def line(name: str, field: str) -> Part:
        """Returns the layer of the line 'measured' or 'fair', which shows the column `field`."""
        return {
            "transform": [{"calculate": f"'{name}'", "as": "line"}],
            "mark": encodings.LINE,
            "encoding": {"x": x, "y": y | {"field": field}, **dash, **channels},
        }

    return source.view(
        {
            "layer": [
                {"mark": encodings.BAND, "encoding": band},
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
    """Returns a chart of the CCAs' shares of the goodput against their numbers of flows, with a
    panel for each value of the column `panel`. Bands are the 95% intervals.

    runs: a row per panel, numbers of flows, CCA and iteration: panel, flows_of ('9 : 1', in the
        order of the axis), cca, share and fair_share (fractions of the run's goodput)
    """
    channels = encodings.colour_by_cca(runs["cca"].unique())
    panels = {}
    for panel in names_in_order(runs, "panel"):
        panel_rows = runs.filter(pl.col("panel") == panel)
        order = names_in_order(panel_rows, "flows_of")
        x = ordered_names("flows_of", x_title, order, axis={"labelAngle": 0})
        key_columns = ["flows_of", "cca"]
        fair = panel_rows.group_by(key_columns, maintain_order=True).agg(
            pl.col("fair_share").first()
        )
        means = spread(panel_rows, "share", key_columns).join(
            fair, on=key_columns, maintain_order="left"
        )
        width = max(LEAST_WIDTH, STEP * len(order))
        view = shares(inline(means), x, channels)
        panels[panel] = {"width": width, "height": SHARE_HEIGHT, **view}
    return side_by_side(panels, SHARE_COLUMNS)
