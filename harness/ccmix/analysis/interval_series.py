"""Makes series of goodput and retransmissions per interval from the counters of flows."""

import math

import numpy as np
import polars as pl

from ccmix.analysis.counters import COUNTED_BY, FlowCounters
from ccmix.analysis.iperf3_tables import INTERVAL_COLUMNS
from ccmix.model import Traffic

SPLINTER = 0.5  # of an interval: a shorter rest at the end has no row
_EPSILON = 1e-9  # of an interval: rounding
SERIES_COLUMNS = {**INTERVAL_COLUMNS, COUNTED_BY: pl.String}


def omitted_intervals(traffic: Traffic, interval_s: float) -> int:
    """Returns how many intervals, the first of them perhaps a shorter one, the omitted time has."""
    return math.ceil(traffic.omit_s / interval_s - _EPSILON)


def interval_series(
    counters: FlowCounters, flows: pl.DataFrame, traffic: Traffic, interval_s: float, end_s: float
) -> pl.DataFrame:
    """Returns what the receiver of each flow got, and what was sent again, in each interval: SERIES_COLUMNS.

    Intervals are counted from the end of the omitted time, both ways, until `end_s`. `flows` have the columns host,
    port and group; those that nothing counted are left out.
    """
    omitted = omitted_intervals(traffic, interval_s)
    measured = max(1, math.floor((end_s - traffic.omit_s) / interval_s + 1 - SPLINTER + _EPSILON))
    numbers = np.arange(-omitted, measured + 1)
    bounds_s = np.clip(traffic.omit_s + numbers * interval_s, 0.0, end_s)
    seconds = np.diff(bounds_s)
    intervals = pl.DataFrame({"time_s": bounds_s[1:], "seconds": seconds, "omitted": numbers[1:] <= 0})
    series = [pl.DataFrame(schema=SERIES_COLUMNS)]
    for host, port, group in flows.select("host", "port", "group").iter_rows():
        received = counters.at((host, port), "received", bounds_s)
        again = counters.at((host, port), "retransmitted_segments", bounds_s)
        if received is not None:
            own = intervals.with_columns(
                host=pl.lit(host), port=pl.lit(port), group=pl.lit(group),
                goodput_bps=np.diff(received) * 8 / seconds,
                retransmits=None if again is None else pl.Series(np.diff(again.round())),
                counted_by=pl.lit(counters.counted_by[host, port]),
            )  # fmt: skip
            series.append(own.select(*SERIES_COLUMNS).cast(SERIES_COLUMNS))  # type: ignore[arg-type]
    return pl.concat(series).sort("time_s", maintain_order=True)
