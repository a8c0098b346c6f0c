"""Compares how goodput per interval is distributed in the runs of a condition."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.counters import COUNTED_BY
from ccmix.analysis.results import Result
from ccmix.analysis.tables import as_archived
from ccmix.archive import ArchiveError, parquet
from ccmix.model import Traffic, run_files

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
ROWS_AT_ONCE = 100_000  # of several runs, in memory
_OF_EACH = (pl.col("group").cast(pl.String), pl.col("goodput_bps").cast(pl.Float64))


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


def interval_goodputs(results: Sequence[Result], unread: list[str]) -> Mapping[object, NDArray[np.float64]]:
    """Returns for each group the sorted goodputs (bit/s) of its flows together in the measured time.

    Leaves runs out whose intervals can't be read, and adds to `unread` why.
    """
    of_runs: dict[object, list[NDArray[np.float64]]] = {}
    for rows in _some_at_a_time(_measured(results, unread)):
        together = rows.group_by("run", "group", "moment").agg(pl.col("goodput_bps").sum())
        for (group,), own in together.partition_by("group", as_dict=True).items():
            of_runs.setdefault(group, []).append(own["goodput_bps"].to_numpy())
    return {group: np.sort(np.concatenate(of_group)) for group, of_group in of_runs.items()}


def _measured(results: Sequence[Result], unread: list[str]) -> Iterator[pl.DataFrame]:
    """Yields the intervals of each run that has any, without those that are left out at its start.

    Adds to `unread` why those of a run can't be read.
    """
    for number, result in enumerate(results):
        if (result.folder / run_files.INTERVALS).exists():
            try:
                yield _of_run(number, result)
            except ArchiveError as error:
                unread.append(str(error))


def _of_run(number: int, result: Result) -> pl.DataFrame:
    """Returns the intervals of a run. Raises ArchiveError."""
    with parquet.scanned(result.folder / run_files.INTERVALS) as table:
        # all sockets are sampled at the same moments; iperf3's intervals of several flows end a little apart
        interval_s = None if COUNTED_BY in table.collect_schema() else _traffic(result).goodput_interval_s
        moment = pl.col("time_s") if interval_s is None else (pl.col("time_s") / interval_s).round()
        own = table.filter(~pl.col("omitted")).select(*_OF_EACH, moment=moment.cast(pl.Float64), run=pl.lit(number))
        return own.collect()


def _some_at_a_time(tables: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yields the rows of several tables together, which takes Polars no longer than those of one."""
    waiting: list[pl.DataFrame] = []
    for table in tables:
        waiting.append(table)
        if sum(each.height for each in waiting) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _traffic(result: Result) -> Traffic:
    return as_archived(result.finished, result.folder).traffic


def _interval_s(results: Sequence[Result]) -> float:
    """Returns how long the intervals are, by the first run of which they can be read."""
    for result in results:
        with contextlib.suppress(ArchiveError):
            counted_by_sockets = parquet.has_column(result.folder / run_files.INTERVALS, COUNTED_BY)
            return _traffic(result).interval_s if counted_by_sockets else _traffic(result).goodput_interval_s
    raise AssertionError("a group of runs has intervals, so those of a run can be read")


def distributions(
    a: Sequence[Result], b: Sequence[Result], groups: Iterable[tuple[str, str]], unread: list[str]
) -> dict[str, Distributions]:
    """Returns the distributions of both by the name in A; `groups` are pairs of names.

    Leaves out a group of which one of them has no intervals, and runs whose intervals can't be read: adds to `unread`
    why.
    """
    every_a, every_b = interval_goodputs(a, unread), interval_goodputs(b, unread)
    return {
        name: _of_group(_interval_s(a), _interval_s(b), every_a[name], every_b[name_in_b])
        for name, name_in_b in groups
        if name in every_a and name_in_b in every_b
    }


def _of_group(
    a_interval_s: float, b_interval_s: float, of_a: NDArray[np.float64], of_b: NDArray[np.float64]
) -> Distributions:
    every = np.concatenate([of_a, of_b])
    shares = [np.searchsorted(own, every, side="right") / own.size for own in (of_a, of_b)]
    quantiles = [tuple(float(value) for value in np.quantile(own, SHARES)) for own in (of_a, of_b)]
    return Distributions(
        a_interval_s=a_interval_s,
        b_interval_s=b_interval_s,
        a_quantiles_bps=quantiles[0],
        b_quantiles_bps=quantiles[1],
        apart=float(np.max(np.abs(shares[0] - shares[1]))),
    )
