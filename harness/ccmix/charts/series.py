"""The files of runs as tidy frames for charts over time."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from ccmix.archive import ArchiveError
from ccmix.report.results import Result

INTERVALS = "intervals.parquet"  # not there where neither the generator nor the sockets told of any
MOST_STEPS = 300  # of a line: one a pixel


def has_intervals(result: Result) -> bool:
    return (result.folder / INTERVALS).exists()


def over_time(results: Sequence[Result]) -> pl.DataFrame:
    """The frame that time_series() takes: goodput and retransmitted segments, summed over the flows of a group.

    Interval ends of flows, and of iterations, differ a little: they are put at multiples of the interval. Where there
    would be more than MOST_STEPS of these, several intervals are one. Raises ArchiveError.
    """
    return pl.concat([_of_run(result) for result in results])


def _of_run(result: Result) -> pl.DataFrame:
    intervals = read(result.folder / INTERVALS, ["time_s", "seconds", "group", "port", "goodput_bps", "retransmits"])
    ccas = {group["group"]: group["cca"] for group in result.summary["metrics"]["groups"]}
    interval_s = float(f"{float(intervals.select(pl.col('seconds').median()).item()):.2g}")
    end_s = float(intervals.select(pl.col("time_s").max()).item())
    joined = max(1, -int(-end_s / interval_s // MOST_STEPS))
    step_s = interval_s * joined
    number = ((pl.col("time_s") / interval_s).round() / joined).ceil()
    known = pl.col("retransmits").is_not_null()
    return (
        intervals.with_columns(number=number)
        .group_by("number", "group", "port", maintain_order=True)
        .agg(
            bits=(pl.col("goodput_bps") * pl.col("seconds")).sum(),
            seconds=pl.col("seconds").sum(),
            retransmits=pl.when(known.any()).then(pl.col("retransmits").sum()),
        )
        .group_by("number", "group", maintain_order=True)
        .agg(
            goodput_bps=pl.col("bits").sum() / pl.col("seconds").max(),
            retransmits=pl.when(known.any()).then(pl.col("retransmits").sum()),
        )
        .sort("number", maintain_order=True)
        .select(
            entry=pl.lit(result.run.entry),
            iteration=pl.lit(result.run.iteration),
            group="group",
            cca=pl.col("group").replace_strict(ccas, default="-", return_dtype=pl.String),
            time_s=pl.col("number") * step_s,
            begin_s=(pl.col("number") - 1) * step_s,
            goodput_bps="goodput_bps",
            retransmits="retransmits",
        )
    )


def read(file: Path, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of a series. Raises ArchiveError."""
    try:
        return pl.read_parquet(file, columns=list(columns))
    except (PolarsError, OSError) as error:
        raise ArchiveError(f"{file}: can't be read: {str(error).splitlines()[0]}") from error
