"""Draws the goodput of a run over time as a small SVG that needs neither script nor library in a
browser.

A page may have thousands of these drawings, so each has only as many points as can be seen, and is
made in milliseconds.
"""

import math
from collections.abc import Sequence
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
    """Returns an SVG element, or nothing if the run has no series. Raises ArchiveError if the
    series can't be read.
    """
    file = folder / run_files.INTERVALS
    if not file.exists():
        return ""
    with parquet.understood(file):
        return _of_series(_series(file), colours, omit_s)


def _of_series(series: pl.DataFrame, colours: dict[str, str], omit_s: float) -> str:
    if series.is_empty():
        return ""
    end_s, most_bps = float(series["end_s"].max()), float(series["goodput_bps"].max())  # type: ignore[arg-type]
    return _drawn(series, max(end_s, 1e-9), max(most_bps, 1.0), colours, omit_s)


def _series(file: Path) -> pl.DataFrame:
    """Returns end_s and the goodput of each group's flows; in a long run, a point is the mean of
    several intervals.
    """
    intervals = parquet.read(file, ["time_s", "seconds", "group", "goodput_bps"]).drop_nulls()
    if intervals.is_empty():
        return intervals.with_columns(end_s=pl.col("time_s"))
    step_s = float(intervals["seconds"].median())  # type: ignore[arg-type]
    end_s = float(intervals["time_s"].max())  # type: ignore[arg-type]
    together = max(1, math.ceil(end_s / step_s / MOST_POINTS)) * step_s
    bits = pl.col("goodput_bps") * pl.col("seconds")
    return (
        intervals.with_columns(bin=((pl.col("time_s") - step_s / 2) / together).floor())
        .group_by("group", "bin", maintain_order=True)
        .agg(bits=bits.sum())
        .with_columns(
            end_s=pl.min_horizontal((pl.col("bin") + 1) * together, end_s)
        )  # the last may have less
        .with_columns(goodput_bps=pl.col("bits") / (pl.col("end_s") - pl.col("bin") * together))
        .sort("end_s", maintain_order=True)
    )


def _drawn(
    series: pl.DataFrame, end_s: float, most_bps: float, colours: dict[str, str], omit_s: float
) -> str:
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(time_s: float) -> float:
        return LEFT + time_s / end_s * wide

    def up(goodput_bps: float) -> float:
        return TOP + high * (1 - goodput_bps / most_bps)

    lines = []
    for (group,), of_group in series.group_by("group", maintain_order=True):
        points = (
            f"{across(time_s):.0f},{up(bps):.0f}"
            for time_s, bps in of_group.select("end_s", "goodput_bps").rows()
        )
        colour = colours.get(str(group), OTHER)
        lines.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" '
            f'points="{" ".join(points)}"/>'
        )
    ground, omitted = TOP + high, across(min(omit_s, end_s)) - LEFT
    label = quoteattr(_description(series))
    return "".join(
        [
            f'<svg class="strip" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label={label}>',
            f'<rect class="omitted" x="{LEFT}" y="{TOP}" width="{omitted:.0f}" height="{high}"/>',
            f'<path class="axis" d="M{LEFT},{TOP}V{ground}H{WIDTH - RIGHT}"/>',
            f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{format_rate(most_bps)}</text>',
            f'<text x="{LEFT - 6}" y="{ground}" text-anchor="end">0</text>',
            f'<text x="{LEFT}" y="{HEIGHT - 6}">0 s</text>',
            f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{end_s:.3g} s</text>',
            *lines,
            "</svg>",
        ]
    )


def _description(series: pl.DataFrame) -> str:
    """Describes the lines as text."""
    means = series.group_by("group", maintain_order=True).agg(
        pl.col("goodput_bps").mean().alias("mean"),
        pl.col("goodput_bps").min().alias("least"),
        pl.col("goodput_bps").max().alias("most"),
    )
    return "Goodput over time: " + "; ".join(_group_description(row) for row in means.rows())


def _group_description(row: Sequence[object]) -> str:
    group, mean, least, most = row
    assert isinstance(mean, float)
    assert isinstance(least, float)
    assert isinstance(most, float)
    rates = [shown("goodput_bps", value) for value in (mean, least, most)]
    return f"{group} on average {rates[0]}, from {rates[1]} to {rates[2]}"
