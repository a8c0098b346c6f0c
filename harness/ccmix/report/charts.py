"""Goodput over time per CCA with retransmissions under it, as in figures 2 to 5 of Tierney et al. 2021.

One chart for each condition of the path, its entries side by side on the same scales: so all-CUBIC, all-BBR and the mix
of both can be compared at a glance. Charts are Vega-Lite, which serves HTML, PNG and SVG alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from polars.exceptions import PolarsError

from ccmix.archive import ArchiveError
from ccmix.model import HostPath, Queue
from ccmix.report import words
from ccmix.report.colours import COLOURS, OTHER_COLOURS
from ccmix.report.results import Result, Results
from ccmix.units import format_bytes, format_percent, format_rate, format_time

INTERVALS = "intervals.parquet"  # not there where neither the generator nor the sockets told of any
PANEL_WIDTH, GOODPUT_HEIGHT, RETRANSMITS_HEIGHT = 300, 180, 80

alt.data_transformers.disable_max_rows()  # 5000; ten minutes at 100 ms have 6000 of each group


@dataclass(frozen=True)
class ConditionChart:
    """A chart, the condition that it shows, and the path's settings in one line."""

    condition: str
    settings: str
    chart: alt.VConcatChart | alt.HConcatChart


def condition_charts(results: Results) -> list[ConditionChart]:
    """One chart a condition, in the order of the plan; runs that are not valid are left out.

    Entries on different paths may have a condition of one name: each path has a chart of its own then, with a number.
    """
    shown: dict[str, dict[str, list[Result]]] = {}
    for result in results.runs:
        valid = shown.setdefault(result.run.condition_name, {}).setdefault(describe(result), [])
        if result.valid and (result.folder / INTERVALS).exists():
            valid.append(result)
    return [
        ConditionChart(f"{name} ({number})" if len(paths) > 1 else name, settings, _chart(valid, settings))
        for name, paths in shown.items()
        for number, (settings, valid) in enumerate(paths.items(), start=1)
        if valid
    ]


def describe(result: Result) -> str:
    """The path's settings as they are written on a chart."""
    if isinstance(result.run.path, HostPath):
        return describe_hosts(result.run.path, result.run.traffic.pacing_bps, result.summary)
    topology = result.run.path
    buffer = f"{topology.buffer.amount:g} BDP = " if topology.buffer.kind == "bdp" else ""
    queue = "FIFO" if topology.queue == Queue() else " ".join([topology.queue.kind, *topology.queue.parameters])
    more = [f"{len(topology.hosts)} senders"] if len(topology.hosts) > 1 else []
    more += [f"{len(topology.changes)} changes"] if topology.changes else []
    return ", ".join(
        [
            format_rate(topology.rate_bps),
            f"base RTT {words.base_rtts(topology)}",
            f"loss {words.losses(topology)} per {'packet' if not topology.offloads else 'super-packet'}",
            f"buffer {buffer}{format_bytes(topology.buffer_bytes)} {queue}",
            f"MTU {topology.mtu_bytes}",
            f"offloads {'on' if topology.offloads else 'off'}",
            *(["ECN"] if topology.ecn else []),
            *more,
            f"Linux {result.summary['facts']['kernel']}",
        ]
    )


def describe_hosts(path: HostPath, pacing_bps: float | None, summary: dict[str, Any]) -> str:
    """The ends of a path between hosts, and what was set on it."""
    parts = [f"{path.src} to {path.dst.name}"]
    if path.netem:
        parts.append(f"netem delay {format_time(path.netem.delay_s)} each way")
        if path.netem.loss:
            shares = " ".join(format_percent(share) for share in path.netem.loss.parameters)
            parts.append(f"netem loss {path.netem.loss.model} {shares}")
        if path.netem.limit_packets is not None:
            parts.append(f"netem limit {path.netem.limit_packets} packets")
    if pacing_bps is not None:
        parts.append(f"paced to {format_rate(pacing_bps)} a flow")
    return ", ".join([*parts, f"Linux {summary['facts']['kernel']}"])


def _chart(results: Sequence[Result], settings: str) -> alt.HConcatChart:
    series = _series(results)
    groups = sorted(series["group"].unique().to_list())
    spare = iter(OTHER_COLOURS)
    colour = alt.Color(
        "group:N",
        title="CCA",
        legend=alt.Legend(symbolOpacity=1, symbolType="stroke", symbolStrokeWidth=3),
        scale=alt.Scale(domain=groups, range=[COLOURS.get(group) or next(spare, "#000000") for group in groups]),
    )
    most_mbps = float(series["goodput_mbps"].max() or 1.0)  # type: ignore[arg-type]
    most_retransmits = float(series.group_by("entry", "time_s", "group").agg(
        pl.col("retransmits").mean())["retransmits"].max() or 1.0)  # type: ignore[arg-type]  # fmt: skip
    entries = series["entry"].unique(maintain_order=True).to_list()
    panels = [
        _panel(
            series.filter(pl.col("entry") == entry),
            entry,
            max(result.run.traffic.omit_s for result in results if result.run.entry == entry),
            colour,
            most_mbps,
            most_retransmits,
        )
        for entry in entries
    ]
    return alt.hconcat(*panels, spacing=24).properties(
        title=alt.TitleParams(settings, anchor="start", fontSize=13, fontWeight="normal")
    )


def _panel(
    series: pl.DataFrame, entry: str, omit_s: float, colour: alt.Color, most_mbps: float, most_retransmits: float
) -> alt.VConcatChart:
    """Each iteration thin, the mean over iterations bold; the omitted time is grey."""
    end_s = float(series["time_s"].max())  # type: ignore[arg-type]
    time_scale = alt.Scale(domain=[0, math.ceil(end_s)], nice=False)
    time = alt.X("time_s:Q", title="time (s)", scale=time_scale)
    mean = series.group_by("time_s", "group", maintain_order=True).agg(
        pl.col("begin_s").mean(), pl.col("goodput_mbps").mean(), pl.col("retransmits").mean()
    )
    shade = alt.Chart(pl.DataFrame({"from": [0.0], "to": [omit_s]})).mark_rect(color="#eeeeee").encode(
        x=alt.X("from:Q"), x2="to:Q"
    )  # fmt: skip
    goodput_axis = alt.Y("goodput_mbps:Q", title="goodput (Mbit/s)", scale=alt.Scale(domain=[0, most_mbps]))
    each = (
        alt.Chart(series)
        .mark_line(strokeWidth=0.7, opacity=0.35)
        .encode(x=time, y=goodput_axis, color=colour, detail="iteration:N")
    )
    bold = alt.Chart(mean).mark_line(strokeWidth=2.2).encode(
        x=time, y=goodput_axis, color=colour,
        tooltip=[alt.Tooltip("group:N", title="CCA"), alt.Tooltip("time_s:Q", title="s"),
                 alt.Tooltip("goodput_mbps:Q", title="Mbit/s", format=".0f")],
    )  # fmt: skip
    lost = (
        alt.Chart(mean)
        .mark_rect(opacity=0.45)
        .encode(
            x=alt.X("begin_s:Q", title="time (s)", scale=time_scale),
            x2="time_s:Q",
            y2=alt.datum(0),
            y=alt.Y(
                "retransmits:Q",
                stack=None,
                title=["retransmitted", "segments / interval"],
                scale=alt.Scale(domain=[0, most_retransmits]),
            ),
            color=colour,
        )
    )
    goodput = alt.layer(shade, each, bold).properties(width=PANEL_WIDTH, height=GOODPUT_HEIGHT, title=entry)
    retransmits = alt.layer(shade, lost).properties(width=PANEL_WIDTH, height=RETRANSMITS_HEIGHT)
    return alt.vconcat(goodput, retransmits, spacing=6)


def _intervals(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file, columns=["time_s", "seconds", "group", "omitted", "goodput_bps", "retransmits"])
    except (PolarsError, OSError) as error:
        raise ArchiveError(f"{file}: can't be read: {str(error).splitlines()[0]}") from error


def _series(results: Sequence[Result]) -> pl.DataFrame:
    """Per entry, iteration, interval and group: goodput in Mbit/s and retransmitted segments, summed over flows.

    Retransmissions are null, and not drawn, where the sender's iperf3 told of no such interval.
    """
    known = pl.col("retransmits").is_not_null()
    frames = []
    for result in results:
        intervals = _intervals(result.folder / INTERVALS)
        step_s = float(f"{float(intervals.select(pl.col('seconds').median()).item()):.2g}")
        frames.append(
            # interval ends of flows, and of iterations, differ a little: they are drawn at multiples of the interval
            intervals.with_columns(time_s=((pl.col("time_s") / step_s).round() * step_s).round(6))
            .group_by("time_s", "group", "omitted", maintain_order=True)
            .agg(
                begin_s=pl.col("time_s").first() - step_s,
                goodput_mbps=pl.col("goodput_bps").sum() / 1e6,
                retransmits=pl.when(known.any()).then(pl.col("retransmits").sum()),
            )
            .with_columns(entry=pl.lit(result.run.entry), iteration=pl.lit(result.run.iteration))
        )
    return pl.concat(frames)
