"""Draws a run's goodput over time as a small SVG, which needs no script in the browser.

A page may have thousands of these drawings, so each has only as many points as can be seen, and is
made in milliseconds.
"""

import math
import statistics
from pathlib import Path
from xml.sax.saxutils import quoteattr

import polars as pl

from ccmix.analysis.statistics import shown
from ccmix.archive import parquet
from ccmix.model import run_files
from ccmix.units import format_rate

WIDTH, HEIGHT = 640, 150
LEFT, RIGHT, TOP, BOTTOM = 78, 8, 10, 24  # margins of the drawing
MOST_POINTS = 120  # in each line
OTHER = "#555555"


def strip(folder: Path, colours: dict[str, str], omit_s: float) -> str:
    """Draws the goodput of each group over time; '' if the run has no intervals.

    `colours` has the colour of each group; the first `omit_s` seconds are shaded, because metrics
    leave them out. Raises ArchiveError if the intervals can't be read.
    """
    file = folder / run_files.INTERVALS
    if not file.exists():
        return ""
    with parquet.name_file_in_errors(file):
        return _series_svg(_goodput_series(file), colours, omit_s)


def _series_svg(series: pl.DataFrame, colours: dict[str, str], omit_s: float) -> str:
    """Draws the series, scaled to its end and its largest goodput; '' if it is empty."""
    if series.is_empty():
        return ""
    end_s, most_bps = float(series["end_s"].max()), float(series["goodput_bps"].max())  # type: ignore[arg-type]
    return _svg(series, max(end_s, 1e-9), max(most_bps, 1.0), colours, omit_s)


def _goodput_series(file: Path) -> pl.DataFrame:
    """Reads the goodput of each group as a table with the columns group, end_s and goodput_bps.

    A long run has at most MOST_POINTS rows per group, each the mean of several intervals.
    """
    intervals = parquet.read(file, ["time_s", "seconds", "group", "goodput_bps"]).drop_nulls()
    if intervals.is_empty():
        return intervals.with_columns(end_s=pl.col("time_s"))
    step_s = float(intervals["seconds"].median())  # type: ignore[arg-type]
    end_s = float(intervals["time_s"].max())  # type: ignore[arg-type]
    bin_s = max(1, math.ceil(end_s / step_s / MOST_POINTS)) * step_s
    bits = pl.col("goodput_bps") * pl.col("seconds")
    return (
        intervals.with_columns(bin=((pl.col("time_s") - step_s / 2) / bin_s).floor())
        .group_by("group", "bin", maintain_order=True)
        .agg(bits=bits.sum())
        .with_columns(
            end_s=pl.min_horizontal((pl.col("bin") + 1) * bin_s, end_s)
        )  # the last may have less
        .with_columns(goodput_bps=pl.col("bits") / (pl.col("end_s") - pl.col("bin") * bin_s))
        .sort("end_s", maintain_order=True)
    )


def _svg(
    series: pl.DataFrame, end_s: float, most_bps: float, colours: dict[str, str], omit_s: float
) -> str:
    """Returns the SVG of the table `series`, which has the columns of _goodput_series().

    Each group is a line, in its colour in `colours`. `end_s` and `most_bps` are the ends of the
    axes; the first `omit_s` seconds are shaded.
    """
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(time_s: float) -> float:
        return LEFT + time_s / end_s * width

    def y_of(goodput_bps: float) -> float:
        return TOP + height * (1 - goodput_bps / most_bps)

    lines = []
    for (group,), of_group in series.group_by("group", maintain_order=True):
        points = (
            f"{x_of(time_s):.0f},{y_of(bps):.0f}"
            for time_s, bps in of_group.select("end_s", "goodput_bps").rows()
        )
        colour = colours.get(str(group), OTHER)
        lines.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" '
            f'points="{" ".join(points)}"/>'
        )
    bottom, omitted_width = TOP + height, x_of(min(omit_s, end_s)) - LEFT
    label = quoteattr(_description(series))
    return "".join(
        [
            f'<svg class="strip" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label={label}>',
            f'<rect class="omitted" x="{LEFT}" y="{TOP}" width="{omitted_width:.0f}" '
            f'height="{height}"/>',
            f'<path class="axis" d="M{LEFT},{TOP}V{bottom}H{WIDTH - RIGHT}"/>',
            f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{format_rate(most_bps)}</text>',
            f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
            f'<text x="{LEFT}" y="{HEIGHT - 6}">0 s</text>',
            f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{end_s:.3g} s</text>',
            *lines,
            "</svg>",
        ]
    )


def _description(series: pl.DataFrame) -> str:
    """Returns a text for screen readers: the mean, least and largest goodput of each group.

    Example: 'Goodput over time: bbr on average 9 Mbit/s, from 5 Mbit/s to 10 Mbit/s'.
    """
    parts = []
    for (group,), of_group in series.group_by("group", maintain_order=True):
        bps = of_group["goodput_bps"].to_list()
        mean, least, most = (
            shown("goodput_bps", value) for value in (statistics.fmean(bps), min(bps), max(bps))
        )
        parts.append(f"{group} on average {mean}, from {least} to {most}")
    return f"Goodput over time: {'; '.join(parts)}"
