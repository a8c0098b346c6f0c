"""Computes what counters of flows and queues were at any moment, from samples taken by the probes.

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
    """Returns how many packets a device's root qdisc dropped ('drops') or sent ('packets') during
    the test, from its statistics before and after.
    """
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
    """Returns by how much each of the `counters` of a queue grew between two moments of a run. If
    the first sample is later than `begin_s`, the growth counts from that sample on.

    samples: of one queue, with the columns time_s and `counters`; values between two samples are
        interpolated linearly
    """
    ordered = samples.sort("time_s", maintain_order=True)
    values = {
        name: np.interp([begin_s, end_s], ordered["time_s"].to_numpy(), _unwrapped(ordered[name]))
        for name in counters
    }
    return {name: float(last - first) for name, (first, last) in values.items()}


def _unwrapped(counter: pl.Series) -> Numbers:
    """Returns the values of a 32-bit counter as if it had not wrapped from 2^32 - 1 to 0.

    The differences of unsigned 32-bit numbers are right in spite of a wrap, so they are added up.
    """
    counts = counter.to_numpy()
    return np.append(counts[:1], np.diff(counts)).astype(float).cumsum()


@dataclass(frozen=True)
class FlowCounters:
    """Holds samples of the counters of each flow, from which they can be computed at any moment.

    counted_by: for each flow, the end that counted its received bytes, or 'generator'
    samples: for each flow and counter (a key of COUNTERS), one pair of arrays for each of the
        flow's connections: times in seconds, and the values of the counter at these times. A flow
        may have several connections, one after the other.
    """

    counted_by: Mapping[Flow, CountedBy] = field(default_factory=dict)
    samples: Mapping[tuple[Flow, str], list[tuple[Numbers, Numbers]]] = field(default_factory=dict)

    def values_at(
        self, flow: Flow, counter: str, moments_s: Sequence[float] | Numbers
    ) -> Numbers | None:
        """Returns the values of one of COUNTERS at these moments, summed over the flow's
        connections; None if it was not counted.

        If a sample was due at a moment, the sample's value is returned; otherwise values are
        interpolated linearly between samples.
        """
        samples = self.samples.get((flow, counter))
        return (
            np.sum([_interpolated(np.asarray(moments_s), *each) for each in samples], axis=0)
            if samples
            else None
        )

    def with_growth(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Adds a column for each of COUNTERS to `spans`: by how much the flow's counter grew in the
        span, or null if it was not counted. Also adds the column counted_by.

        spans: host, port, begin_s, end_s and other columns; a row for each flow, or several
        """
        rows: list[dict[str, object]] = []
        for *flow, begin_s, end_s in spans.select(*FLOW, "begin_s", "end_s").iter_rows():
            values = {
                name: self.values_at(tuple(flow), name, (begin_s, max(begin_s, end_s)))
                for name in COUNTERS
            }
            growths = {
                name: float(value[1] - value[0])
                for name, value in values.items()
                if value is not None
            }
            rows.append({COUNTED_BY: self.counted_by.get(tuple(flow)), **growths})
        return spans.hstack(
            pl.DataFrame(rows, schema={COUNTED_BY: pl.String} | dict.fromkeys(COUNTERS, pl.Float64))
        )


def _interpolated(moments_s: Numbers, times_s: Numbers, values: Numbers) -> Numbers:
    """Returns a counter at these moments, interpolated linearly between samples (times_s, values).

    A probe wakes up to LATE_S after a sample is due, so a sample that is that little later than a
    moment counts as taken at the moment.
    """
    next_s = times_s[np.minimum(np.searchsorted(times_s, moments_s), len(times_s) - 1)]
    was_due = (moments_s < next_s) & (next_s < moments_s + LATE_S)
    interpolated: Numbers = np.interp(np.where(was_due, next_s, moments_s), times_s, values)
    return interpolated


def count_flows(
    sockets: pl.DataFrame, intervals: pl.DataFrame, begins_s: Mapping[Flow, float | None]
) -> FlowCounters:
    """Collects the counters of each flow from samples of its sockets. If no socket of a flow was
    sampled, takes them from the generator's report (such as iperf3's).

    sockets: samples of both ends of all connections, with host, port, end, time_s and counters
    intervals: the generator's goodputs, with INTERVAL_COLUMNS
    begins_s: when each flow begins to send: until then its counters do not grow. None for a flow
        that began before the run: it counts from the first sample of each end. A flow that is
        missing here begins with its first sample, and so does each later connection of a flow.

    A connection's counters are known to be 0 as long as its sender has sent nothing, and at each
    sample of other sockets that was taken before its first one.
    """
    counted_by: dict[Flow, CountedBy] = {}
    samples: dict[tuple[Flow, str], list[tuple[Numbers, Numbers]]] = defaultdict(list)
    # the kernel never gives a cookie twice
    connection = [*FLOW, "cookie"] if "cookie" in sockets.columns else FLOW
    ordered = sockets.sort("time_s", maintain_order=True)
    silent = (
        ordered.filter(pl.col("bytes_sent") == 0, pl.col("end") == "sender")
        if "bytes_sent" in ordered.columns
        else ordered.clear()
    )
    silent_s = {
        flow: rows["time_s"].to_numpy() for flow, rows in silent.group_by(FLOW, maintain_order=True)
    }
    ends: tuple[tuple[CountedBy, Mapping[str, str]], ...] = (
        ("receiver", {"received": COUNTERS["received"]}),
        ("sender", OF_SENDER),
    )
    for end, counters in ends:
        pending_begins_s, end_samples = dict(begins_s), ordered.filter(pl.col("end") == end)
        sampled_s = end_samples["time_s"].unique(maintain_order=True).to_numpy()
        for (host, port, *_), rows in end_samples.group_by(connection, maintain_order=True):
            first_sample_s = rows["time_s"][0]
            before_s = first_sample_s - JITTER_S
            # the counters were still 0 at the samples of other sockets before this connection's
            # first sample, and at the samples whose sender had sent nothing: take the last of each
            zero_times_s = (sampled_s, silent_s.get((host, port), sampled_s))
            last_zeros_s = np.concatenate(
                [times_s[: np.searchsorted(times_s, before_s)][-1:] for times_s in zero_times_s]
            )
            flow_begin_s = pending_begins_s.pop((host, port), before_s)
            begin_s = first_sample_s if flow_begin_s is None else max([flow_begin_s, *last_zeros_s])
            initial_s = begin_s if flow_begin_s is None else begin_s - JITTER_S / 2
            for name, column in counters.items():
                if points := _points_since(rows, column, begin_s, initial_s):
                    samples[(host, port), name].append(points)
            counted_by.setdefault((host, port), end)
    for (host, port), rows in intervals.sort("time_s", maintain_order=True).group_by(
        FLOW, maintain_order=True
    ):
        if (host, port) not in counted_by:
            points = _points_of_intervals(rows, begins_s.get((host, port)))
            samples[(host, port), "received"].append(points)
            counted_by[host, port] = "generator"
    acked = {
        (flow, "received"): samples[flow, "acked"]
        for flow, by in counted_by.items()
        if by == "sender"
    }
    return FlowCounters(counted_by, samples | acked)


def _points_since(
    rows: pl.DataFrame, column: str, begin_s: float, initial_s: float
) -> tuple[Numbers, Numbers] | None:
    """Returns a connection's counter from `begin_s` on: the times, and the values at these times.
    Its first value is that of the last sample until `initial_s`, or 0 without such a sample.
    Returns None if no sample has the counter.

    rows: the samples of one end of the connection, in the order of time
    column: the name of the counter in the samples
    """
    if column not in rows.columns:
        return None
    known = rows.select("time_s", column).drop_nulls()
    if known.is_empty():
        return None
    times_s, values = known["time_s"].to_numpy(), _unwrapped(known[column])
    initial = values[times_s <= initial_s][-1:]
    is_later = times_s > begin_s + JITTER_S / 2
    return (
        np.append(begin_s, times_s[is_later]),
        np.append(initial if initial.size else 0.0, values[is_later]),
    )


def _points_of_intervals(rows: pl.DataFrame, begin_s: float | None) -> tuple[Numbers, Numbers]:
    """Returns the received bytes of a flow as the generator reports them: times, and the bytes
    until then. Each interval has two points, at its beginning and at its end.

    rows: the flow's intervals (INTERVAL_COLUMNS), in the order of time
    begin_s: when the flow begins to send: no interval begins earlier. None if it is not known
    """
    interval_bytes = (rows["goodput_bps"] * rows["seconds"] / 8).fill_null(0.0)
    bounds_s = (rows["time_s"] - rows["seconds"]).clip(begin_s), rows["time_s"]
    received = interval_bytes.cum_sum()
    times_s, values = (
        np.ravel(np.transpose(pair)) for pair in (bounds_s, (received - interval_bytes, received))
    )
    return np.maximum.accumulate(times_s), values


def omitted_intervals(traffic: Traffic, interval_s: float) -> int:
    """Returns how many intervals lie in the omitted time at the start of the traffic (iperf3's
    --omit). The first of them may be shorter than the others.
    """
    return math.ceil(traffic.omit_s / interval_s - _EPSILON)


def interval_series(
    counters: FlowCounters, flows: pl.DataFrame, traffic: Traffic, interval_s: float, end_s: float
) -> pl.DataFrame:
    """Returns the goodput and the retransmissions of each flow in each interval, in SERIES_COLUMNS.

    One interval begins exactly when the omitted time ends; the others precede and follow it, until
    `end_s`. `flows` has the columns host, port and group. Flows without counters are left out.
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
        received = counters.values_at((host, port), "received", bounds_s)
        retransmitted = counters.values_at((host, port), "retransmitted_segments", bounds_s)
        if received is not None:
            flow_series = intervals.with_columns(
                host=pl.lit(host),
                port=pl.lit(port),
                group=pl.lit(group),
                goodput_bps=np.diff(received) * 8 / seconds,
                retransmits=None
                if retransmitted is None
                else pl.Series(np.diff(retransmitted.round())),
                counted_by=pl.lit(counters.counted_by[host, port]),
            )
            series.append(flow_series.select(*SERIES_COLUMNS).cast(SERIES_COLUMNS))  # type: ignore[arg-type]
    return pl.concat(series).sort("time_s", maintain_order=True)
