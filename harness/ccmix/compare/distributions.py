"""How goodput per interval is distributed in the runs of a condition."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.archive import parquet
from ccmix.report.results import Result

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Distributions:
    """Of a group's goodput in intervals, over all valid runs: quantiles at SHARES, and how far they are apart.

    `apart` is the largest distance of the distribution functions (Kolmogorov and Smirnov's D): 0 alike, 1 disjoint. It
    is no test: intervals of a run depend on each other. Intervals of another length are distributed otherwise.
    """

    a_interval_s: float
    b_interval_s: float
    a_quantiles_bps: tuple[float, ...]
    b_quantiles_bps: tuple[float, ...]
    apart: float


def interval_goodputs(results: Sequence[Result], group: str) -> NDArray[np.float64]:
    """In bit/s, of the measured time, summed over the group's flows; sorted. Raises ArchiveError."""
    found = []
    for result in results:
        file = result.folder / parquet.INTERVALS
        if not file.exists():
            continue
        series = parquet.read(file, ["time_s", "group", "omitted", "goodput_bps"])
        number = (pl.col("time_s") / result.run.traffic.interval_s).round()
        own = series.filter(pl.col("group") == group, ~pl.col("omitted")).group_by(number)
        found.append(own.agg(pl.col("goodput_bps").sum())["goodput_bps"].to_numpy())
    return np.sort(np.concatenate(found)) if found else np.empty(0)


def distributions(a: Sequence[Result], b: Sequence[Result], group_a: str, group_b: str) -> Distributions | None:
    """None where one of them has no intervals. Raises ArchiveError."""
    of_a, of_b = interval_goodputs(a, group_a), interval_goodputs(b, group_b)
    if not of_a.size or not of_b.size:
        return None
    every = np.concatenate([of_a, of_b])
    shares = [np.searchsorted(own, every, side="right") / own.size for own in (of_a, of_b)]
    quantiles = [tuple(float(value) for value in np.quantile(own, SHARES)) for own in (of_a, of_b)]
    return Distributions(
        a_interval_s=a[0].run.traffic.interval_s,
        b_interval_s=b[0].run.traffic.interval_s,
        a_quantiles_bps=quantiles[0],
        b_quantiles_bps=quantiles[1],
        apart=float(np.max(np.abs(shares[0] - shares[1]))),
    )
