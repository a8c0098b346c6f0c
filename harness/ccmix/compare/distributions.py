"""Compares how goodput per interval is distributed in the runs of a condition."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.results import Result
from ccmix.analysis.tables import COUNTED_BY, as_archived
from ccmix.archive import parquet
from ccmix.model import run_files

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Distributions:
    """Holds quantiles at SHARES of a group's goodput in intervals, over all valid runs, and how far they are apart.

    `apart` is the largest distance of the distribution functions (Kolmogorov and Smirnov's D): 0 alike, 1 disjoint. It
    is no test: intervals of a run depend on each other. Intervals of another length are distributed otherwise.
    """

    a_interval_s: float
    b_interval_s: float
    a_quantiles_bps: tuple[float, ...]
    b_quantiles_bps: tuple[float, ...]
    apart: float


def interval_goodputs(results: Sequence[Result], group: str) -> NDArray[np.float64]:
    """Returns the sorted goodputs (bit/s) of the group's flows together in the measured time. Raises ArchiveError."""
    of_runs = []
    for result in results:
        file = result.folder / run_files.INTERVALS
        if not file.exists():
            continue
        series = parquet.read(file, ["time_s", "group", "omitted", "goodput_bps"])
        # all sockets are sampled at the same moments; iperf3's intervals of several flows end a little apart
        together = (
            pl.col("time_s")
            if parquet.has_column(file, COUNTED_BY)
            else (pl.col("time_s") / _interval_s(result)).round()
        )
        own = series.filter(pl.col("group") == group, ~pl.col("omitted")).group_by(together)
        of_runs.append(own.agg(pl.col("goodput_bps").sum())["goodput_bps"].to_numpy())
    return np.sort(np.concatenate(of_runs)) if of_runs else np.empty(0)


def _interval_s(result: Result) -> float:
    traffic = as_archived(result.finished, result.folder).traffic
    return (
        traffic.interval_s
        if parquet.has_column(result.folder / run_files.INTERVALS, COUNTED_BY)
        else traffic.goodput_interval_s
    )


def distributions(a: Sequence[Result], b: Sequence[Result], group_a: str, group_b: str) -> Distributions | None:
    """Returns the distributions of both; None if one of them has no intervals. Raises ArchiveError."""
    of_a, of_b = interval_goodputs(a, group_a), interval_goodputs(b, group_b)
    if not of_a.size or not of_b.size:
        return None
    every = np.concatenate([of_a, of_b])
    shares = [np.searchsorted(own, every, side="right") / own.size for own in (of_a, of_b)]
    quantiles = [tuple(float(value) for value in np.quantile(own, SHARES)) for own in (of_a, of_b)]
    return Distributions(
        a_interval_s=_interval_s(a[0]),
        b_interval_s=_interval_s(b[0]),
        a_quantiles_bps=quantiles[0],
        b_quantiles_bps=quantiles[1],
        apart=float(np.max(np.abs(shares[0] - shares[1]))),
    )
