"""Makes series of goodput and retransmissions per interval from the counters of flows."""

import math

import polars as pl

from ccmix.analysis.flow_counters import COUNTED_BY, RECEIVED, SENT, FlowCounters
from ccmix.analysis.iperf3_tables import FLOW, INTERVAL_COLUMNS
from ccmix.model import Traffic

SPLINTER = 0.5  # of an interval: a shorter rest at the end has no row
_EPSILON = 1e-9  # of an interval: rounding
SERIES_COLUMNS = {**INTERVAL_COLUMNS, COUNTED_BY: pl.String}


def omitted_intervals(traffic: Traffic, interval_s: float) -> int:
    """Returns how many intervals, the first of them perhaps a shorter one, the omitted time has."""
    return math.ceil(traffic.omit_s / interval_s - _EPSILON)


def interval_bounds(traffic: Traffic, interval_s: float, end_s: float) -> list[float]:
    """Returns the bounds of the intervals of a run: they are counted from the end of the omitted time, both ways."""
    omitted = omitted_intervals(traffic, interval_s)
    measured = (end_s - traffic.omit_s) / interval_s
    count = max(1, math.floor(measured + 1 - SPLINTER + _EPSILON))
    bounds = [max(0.0, traffic.omit_s + number * interval_s) for number in range(-omitted, count + 1)]
    return [*bounds[:-1], min(bounds[-1], end_s)]


def interval_series(
    counters: FlowCounters, flows: pl.DataFrame, traffic: Traffic, interval_s: float, end_s: float
) -> pl.DataFrame:
    """Returns what the receiver of each flow got, and what was sent again, in each interval: SERIES_COLUMNS.

    `flows` have the columns host, port and group; those that nothing counted are left out. The series ends at `end_s`.
    """
    bounds = interval_bounds(traffic, interval_s, end_s)
    moments = flows.select(FLOW).join(pl.DataFrame({"moment_s": bounds}, schema={"moment_s": pl.Float64}), how="cross")
    values = counters.at(moments, RECEIVED).join(
        counters.at(moments, SENT),
        on=[*FLOW, "moment_s"], how="left", maintain_order="left",
    )  # fmt: skip
    grown = values.sort(*FLOW, "moment_s", maintain_order=True).with_columns(
        seconds=pl.col("moment_s").diff().over(FLOW),
        received=pl.col("received").diff().over(FLOW),
        again=pl.col("retransmitted_segments").diff().over(FLOW),
    )
    return (
        grown.drop_nulls("seconds")
        .join(flows.select(*FLOW, "group"), on=FLOW, maintain_order="left")
        .join(counters.sources, on=FLOW, maintain_order="left")
        .select(
            time_s="moment_s",
            seconds="seconds",
            omitted=pl.col("moment_s") <= traffic.omit_s + _EPSILON,
            host="host",
            port="port",
            goodput_bps=pl.col("received") * 8 / pl.col("seconds"),
            retransmits=pl.col("again").round().cast(pl.Int64),
            group="group",
            counted_by=COUNTED_BY,
        )
        .cast(SERIES_COLUMNS)  # type: ignore[arg-type]
        .sort("time_s", maintain_order=True)
    )
