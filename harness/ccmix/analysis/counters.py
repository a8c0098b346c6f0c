"""Reads cumulative counters at any moment, from samples of queues, and of both ends of each flow.

Goodput counts the bytes that the receiver's kernel received in order (tcpi_bytes_received). If the
receiver's socket was not sampled, it counts the bytes that the sender's kernel knows to be
acknowledged (tcpi_bytes_acked); if no socket was sampled, the generator's count at the end of each
interval."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.iperf3_tables import FLOW, INTERVAL_COLUMNS
from ccmix.analysis.measured import JITTER_S
from ccmix.model import Measurement, QdiscCounters, Traffic

LATE_S = 1e-4  # of a sample, at most: a probe wakes a little after it is due
Flow = tuple[str, int]  # host and port
Numbers = NDArray[np.float64]
CountedBy = Literal["receiver", "sender", "generator"]
COUNTED_BY = "counted_by"
OF_SENDER = {
    "sent": "bytes_sent",
    "retransmitted": "bytes_retransmitted",
    "acked": "bytes_acked",
    "data_segments": "data_segs_out",
    "retransmitted_segments": "retransmits",
}
COUNTERS = {"received": "bytes_received"} | OF_SENDER  # and the probes' names of them
SPLINTER = 0.5  # of an interval: a shorter rest at the end has no row
_EPSILON = 1e-9  # of an interval: rounding
SERIES_COLUMNS = {**INTERVAL_COLUMNS, COUNTED_BY: pl.String}


def grown_by(measurement: Measurement, device: str, counter: Literal["drops", "packets"]) -> int:
    """Returns how much a counter of a device's root qdisc grew during the test."""
    before, after = (
        root_qdisc(counters.qdiscs[device]) for counters in (measurement.before, measurement.after)
    )
    return int(getattr(after, counter) - getattr(before, counter))


def root_qdisc(qdiscs: Sequence[QdiscCounters]) -> QdiscCounters:
    """Returns the root among a device's qdiscs. Raises ValueError if there is none."""
    for qdisc in qdiscs:
        if qdisc.parent is None:
            return qdisc
    raise ValueError(f"a device had no root qdisc: {qdiscs!r}")


def growth(
    samples: pl.DataFrame, begin_s: float, end_s: float, counters: Sequence[str]
) -> dict[str, float]:
    """Returns how much the counters of a queue grew between two moments, or from its first sample
    on if that is later.
    """
    ordered = samples.sort("time_s", maintain_order=True)
    values = {
        name: np.interp([begin_s, end_s], ordered["time_s"].to_numpy(), _unwrapped(ordered[name]))
        for name in counters
    }
    return {name: float(last - first) for name, (first, last) in values.items()}


def _unwrapped(counter: pl.Series) -> Numbers:
    """Returns the values of a 32-bit counter as if it did not wrap to 0."""
    counts = counter.to_numpy()
    return np.append(counts[:1], np.diff(counts)).astype(float).cumsum()


@dataclass(frozen=True)
class FlowCounters:
    """Holds for each flow who counted its received bytes, and the times and values of each counter
    by flow and connection.
    """

    counted_by: Mapping[Flow, CountedBy] = field(default_factory=dict)
    samples: Mapping[tuple[Flow, str], list[tuple[Numbers, Numbers]]] = field(default_factory=dict)

    def at(self, flow: Flow, counter: str, moments_s: Sequence[float] | Numbers) -> Numbers | None:
        """Returns one of COUNTERS at these moments: from a sample that was due then, otherwise
        interpolated linearly. Returns None if nobody counted it.
        """
        samples = self.samples.get((flow, counter))
        return (
            np.sum([_interpolated(np.asarray(moments_s), *each) for each in samples], axis=0)
            if samples
            else None
        )

    def grown(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Returns `spans` (host, port, begin_s, end_s and other columns) with the growth of each of
        COUNTERS in each span, and counted_by; null if nobody counted.
        """
        rows: list[dict[str, object]] = []
        for *flow, begin_s, end_s in spans.select(*FLOW, "begin_s", "end_s").iter_rows():
            values = {
                name: self.at(tuple(flow), name, (begin_s, max(begin_s, end_s)))
                for name in COUNTERS
            }
            grown = {
                name: float(value[1] - value[0])
                for name, value in values.items()
                if value is not None
            }
            rows.append({COUNTED_BY: self.counted_by.get(tuple(flow)), **grown})
        return spans.hstack(
            pl.DataFrame(rows, schema={COUNTED_BY: pl.String} | dict.fromkeys(COUNTERS, pl.Float64))
        )


def _interpolated(moments_s: Numbers, times_s: Numbers, values: Numbers) -> Numbers:
    next_s = times_s[np.minimum(np.searchsorted(times_s, moments_s), len(times_s) - 1)]
    was_due = (moments_s < next_s) & (next_s < moments_s + LATE_S)
    interpolated: Numbers = np.interp(np.where(was_due, next_s, moments_s), times_s, values)
    return interpolated


def count_flows(
    sockets: pl.DataFrame, intervals: pl.DataFrame, begins_s: Mapping[Flow, float | None]
) -> FlowCounters:
    """Returns the counters of flows: from samples of their sockets in all states, or from
    `intervals` if no socket of the flow was sampled.

    intervals: INTERVAL_COLUMNS of a generator
    begins_s: a flow sends nothing before that, so its counters are then what they were at the
        sample before. Other connections, and a flow's later ones, begin with their first sample.
        The counters of a connection were 0 when a sample of other sockets did not have it yet, and
        as long as its sender had sent nothing. None: the flow began before the run, and counts from
        the first sample of each end.
    """
    counted_by: dict[Flow, CountedBy] = {}
    samples: dict[tuple[Flow, str], list[tuple[Numbers, Numbers]]] = defaultdict(list)
    connection = (
        [*FLOW, "cookie"] if "cookie" in sockets.columns else FLOW
    )  # the kernel never gives a cookie twice
    ordered = sockets.sort("time_s", maintain_order=True)
    silent = (
        ordered.filter(pl.col("bytes_sent") == 0, pl.col("end") == "sender")
        if "bytes_sent" in ordered.columns
        else ordered.clear()
    )
    silent_s = {
        flow: own["time_s"].to_numpy() for flow, own in silent.group_by(FLOW, maintain_order=True)
    }
    ends: tuple[tuple[CountedBy, Mapping[str, str]], ...] = (
        ("receiver", {"received": COUNTERS["received"]}),
        ("sender", OF_SENDER),
    )
    for end, counters in ends:
        firsts_s, of_end = dict(begins_s), ordered.filter(pl.col("end") == end)
        sampled_s = of_end["time_s"].unique(maintain_order=True).to_numpy()
        for (host, port, *_), own in of_end.group_by(connection, maintain_order=True):
            before_s = own["time_s"][0] - JITTER_S
            without_data_s = (sampled_s, silent_s.get((host, port), sampled_s))
            earlier_s = np.concatenate(
                [each[: np.searchsorted(each, before_s)][-1:] for each in without_data_s]
            )
            first_s = firsts_s.pop((host, port), before_s)
            begin_s = own["time_s"][0] if first_s is None else max([first_s, *earlier_s])
            had_s = begin_s if first_s is None else begin_s - JITTER_S / 2
            for name, column in counters.items():
                known = (
                    own.select("time_s", column).drop_nulls()
                    if column in own.columns
                    else own.clear()
                )
                if known.is_empty():
                    continue
                times_s, values = known["time_s"].to_numpy(), _unwrapped(known[column])
                before, later = values[times_s <= had_s], times_s > begin_s + JITTER_S / 2
                points = (
                    np.append(begin_s, times_s[later]),
                    np.append(before[-1:] if before.size else 0.0, values[later]),
                )
                samples[(host, port), name].append(points)
            counted_by.setdefault((host, port), end)
    for (host, port), own in intervals.sort("time_s", maintain_order=True).group_by(
        FLOW, maintain_order=True
    ):
        if (host, port) not in counted_by:
            grown = (own["goodput_bps"] * own["seconds"] / 8).fill_null(0.0)
            bounds_s = (
                (own["time_s"] - own["seconds"]).clip(begins_s.get((host, port))),
                own["time_s"],
            )
            received = grown.cum_sum()
            both = [
                np.ravel(np.transpose(each)) for each in (bounds_s, (received - grown, received))
            ]
            samples[(host, port), "received"].append((np.maximum.accumulate(both[0]), both[1]))
            counted_by[host, port] = "generator"
    acked = {
        (flow, "received"): samples[flow, "acked"]
        for flow, by in counted_by.items()
        if by == "sender"
    }
    return FlowCounters(counted_by, samples | acked)


def omitted_intervals(traffic: Traffic, interval_s: float) -> int:
    """Returns how many intervals the omitted time has; the first one may be shorter."""
    return math.ceil(traffic.omit_s / interval_s - _EPSILON)


def interval_series(
    counters: FlowCounters, flows: pl.DataFrame, traffic: Traffic, interval_s: float, end_s: float
) -> pl.DataFrame:
    """Returns the goodput and the retransmissions of each flow in each interval: SERIES_COLUMNS.

    Intervals are counted from the end of the omitted time, in both directions, until `end_s`.
    `flows` have the columns host, port and group. Flows that nobody counted are left out.
    """
    omitted = omitted_intervals(traffic, interval_s)
    measured = max(1, math.floor((end_s - traffic.omit_s) / interval_s + 1 - SPLINTER + _EPSILON))
    numbers = np.arange(-omitted, measured + 1)
    bounds_s = np.clip(traffic.omit_s + numbers * interval_s, 0.0, end_s)
    seconds = np.diff(bounds_s)
    intervals = pl.DataFrame(
        {"time_s": bounds_s[1:], "seconds": seconds, "omitted": numbers[1:] <= 0}
    )
    series = [pl.DataFrame(schema=SERIES_COLUMNS)]
    for host, port, group in flows.select("host", "port", "group").iter_rows():
        received = counters.at((host, port), "received", bounds_s)
        again = counters.at((host, port), "retransmitted_segments", bounds_s)
        if received is not None:
            own = intervals.with_columns(
                host=pl.lit(host),
                port=pl.lit(port),
                group=pl.lit(group),
                goodput_bps=np.diff(received) * 8 / seconds,
                retransmits=None if again is None else pl.Series(np.diff(again.round())),
                counted_by=pl.lit(counters.counted_by[host, port]),
            )
            series.append(own.select(*SERIES_COLUMNS).cast(SERIES_COLUMNS))  # type: ignore[arg-type]
    return pl.concat(series).sort("time_s", maintain_order=True)
