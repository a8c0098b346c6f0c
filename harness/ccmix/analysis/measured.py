"""Selects the samples in the measured time of a run, which follows the omitted time."""

import math
from typing import Any

import polars as pl

from ccmix.model import Run, Topology

# between samples of the same nominal moment: they are taken one after the other, by a clock that
# counts in steps
JITTER_S = 1e-3


def increase(name: str) -> pl.Expr:
    """Returns an expression for the difference between the last and the first value of a column."""
    return pl.col(name).last() - pl.col(name).first()


def percentiles(values: pl.Expr | pl.Series, name: str) -> dict[str, Any]:
    """Returns the percentiles of values that metrics have, interpolated linearly, by their names.
    `name` has {} for that of the percentile: 'rtt_{}_s'.
    """
    return {
        name.format(percentile): values.quantile(share, "linear")
        for percentile, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


def measured(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of a series of samples that lie in the measured time: from the end of the
    omitted time (iperf3's --omit) to the end of the configured duration.

    frame: with the column time_s, in seconds from the start of the traffic

    If only a user's command between real hosts makes the traffic, all samples after the omitted
    time count, because the measured time lasts as long as the command.
    """
    seconds = run.traffic.seconds if run.traffic.groups or isinstance(run.path, Topology) else None
    end_s = math.inf if seconds is None else seconds
    return frame.filter(
        pl.col("time_s").is_between(run.traffic.omit_s - JITTER_S / 2, end_s + JITTER_S / 2)
    )
