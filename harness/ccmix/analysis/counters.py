"""Reads cumulative counters at any moment, from samples of queues, and of both ends of each flow.

Goodput is what the receiver's kernel received in order (tcpi_bytes_received). Where its socket was not sampled it is
what the sender's kernel knows to be acknowledged (tcpi_bytes_acked), and where no socket was, what the generator counts
at the end of each interval.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S

LATE_S = 1e-4  # of a sample, at most: a probe wakes a little after it is due
Flow = tuple[str, int]  # host and port
Numbers = NDArray[np.float64]
CountedBy = Literal["receiver", "sender", "generator"]
COUNTED_BY = "counted_by"
OF_SENDER = {
    "sent": "bytes_sent", "retransmitted": "bytes_retransmitted", "acked": "bytes_acked",
    "data_segments": "data_segs_out", "retransmitted_segments": "retransmits",
}  # fmt: skip
COUNTERS = {"received": "bytes_received"} | OF_SENDER  # and the probes' names of them


def growth(samples: pl.DataFrame, begin_s: float, end_s: float, counters: Sequence[str]) -> dict[str, float]:
    """Returns how much the counters of a queue grew between two moments; from its first sample on at the earliest."""
    ordered = samples.sort("time_s", maintain_order=True)
    values = {
        name: np.interp([begin_s, end_s], ordered["time_s"].to_numpy(), _unwrapped(ordered[name])) for name in counters
    }
    return {name: float(last - first) for name, (first, last) in values.items()}


def _unwrapped(counter: pl.Series) -> Numbers:
    """Returns the values of a counter, which go on where it starts again at 0 after 32 bits."""
    counts = counter.to_numpy()
    return np.append(counts[:1], np.diff(counts)).astype(float).cumsum()


@dataclass(frozen=True)
class FlowCounters:
    """Holds who counted what each flow received, and the times and values of each counter, by flow and connection."""

    counted_by: Mapping[Flow, CountedBy] = field(default_factory=dict)
    samples: Mapping[tuple[Flow, str], list[tuple[Numbers, Numbers]]] = field(default_factory=dict)

    def at(self, flow: Flow, counter: str, moments_s: Sequence[float] | Numbers) -> Numbers | None:
        """Returns one of COUNTERS at these moments, of a sample that was due then, else interpolated linearly; None if
        nobody counted it.
        """
        samples = self.samples.get((flow, counter))
        return np.sum([_interpolated(np.asarray(moments_s), *each) for each in samples], axis=0) if samples else None

    def grown(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Returns `spans` (host, port, begin_s, end_s and others) with the growth of COUNTERS in each, and counted_by.

        Null where nobody counted.
        """
        rows: list[dict[str, object]] = []
        for *flow, begin_s, end_s in spans.select(*FLOW, "begin_s", "end_s").iter_rows():
            values = {name: self.at(tuple(flow), name, (begin_s, max(begin_s, end_s))) for name in COUNTERS}
            grown = {name: float(value[1] - value[0]) for name, value in values.items() if value is not None}
            rows.append({COUNTED_BY: self.counted_by.get(tuple(flow)), **grown})
        return spans.hstack(pl.DataFrame(rows, schema={COUNTED_BY: pl.String} | dict.fromkeys(COUNTERS, pl.Float64)))


def _interpolated(moments_s: Numbers, times_s: Numbers, values: Numbers) -> Numbers:
    next_s = times_s[np.minimum(np.searchsorted(times_s, moments_s), len(times_s) - 1)]
    was_due = (moments_s < next_s) & (next_s < moments_s + LATE_S)
    interpolated: Numbers = np.interp(np.where(was_due, next_s, moments_s), times_s, values)
    return interpolated


def count_flows(sockets: pl.DataFrame, intervals: pl.DataFrame, begins_s: Mapping[Flow, float | None]) -> FlowCounters:
    """Returns the counters of flows whose sockets were sampled, all states of them, and of those of `intervals` alone.

    intervals: INTERVAL_COLUMNS of a generator
    begins_s: a flow sends nothing before that, so its counters are then what they were at the sample before. Other
        connections, and a flow's later ones, begin with their first sample. One that was not yet there when others
        were sampled had nothing then. None: it began before the run, and counts from the first sample of each end.
    """
    counted_by: dict[Flow, CountedBy] = {}
    samples: dict[tuple[Flow, str], list[tuple[Numbers, Numbers]]] = defaultdict(list)
    connection = [*FLOW, "cookie"] if "cookie" in sockets.columns else FLOW  # the kernel never gives a cookie twice
    ordered = sockets.sort("time_s", maintain_order=True)
    ends: tuple[tuple[CountedBy, Mapping[str, str]], ...] = (
        ("receiver", {"received": COUNTERS["received"]}), ("sender", OF_SENDER),
    )  # fmt: skip
    for end, counters in ends:
        firsts_s, of_end = dict(begins_s), ordered.filter(pl.col("end") == end)
        sampled_s = of_end["time_s"].unique(maintain_order=True).to_numpy()
        for (host, port, *_), own in of_end.group_by(connection, maintain_order=True):
            before_s = own["time_s"][0] - JITTER_S
            earlier_s = sampled_s[: np.searchsorted(sampled_s, before_s)][-1:]
            first_s = firsts_s.pop((host, port), before_s)
            begin_s = own["time_s"][0] if first_s is None else max([first_s, *earlier_s])
            had_s = begin_s if first_s is None else begin_s - JITTER_S / 2
            for name, column in counters.items():
                known = own.select("time_s", column).drop_nulls() if column in own.columns else own.clear()
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
    for (host, port), own in intervals.sort("time_s", maintain_order=True).group_by(FLOW, maintain_order=True):
        if (host, port) not in counted_by:
            grown = (own["goodput_bps"] * own["seconds"] / 8).fill_null(0.0)
            bounds_s = (own["time_s"] - own["seconds"]).clip(begins_s.get((host, port))), own["time_s"]
            received = grown.cum_sum()
            both = [np.ravel(np.transpose(each)) for each in (bounds_s, (received - grown, received))]
            samples[(host, port), "received"].append((np.maximum.accumulate(both[0]), both[1]))
            counted_by[host, port] = "generator"
    acked = {(flow, "received"): samples[flow, "acked"] for flow, by in counted_by.items() if by == "sender"}
    return FlowCounters(counted_by, samples | acked)
