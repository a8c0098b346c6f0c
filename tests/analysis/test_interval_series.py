"""Tests series of goodput per interval, on hand-made counters: which intervals exist, and their
contents.
"""

import itertools
import math

import polars as pl
import pytest

from ccmix.analysis.counters import count_flows, interval_series
from ccmix.analysis.iperf3_tables import INTERVAL_COLUMNS
from ccmix.model import Group, Iperf3Source, Traffic

FLOWS = pl.DataFrame({"host": ["h1"], "port": [5000], "group": ["cubic"]})


def traffic(duration_s: float, omit_s: float) -> Traffic:
    return Traffic(
        (Iperf3Source("", "h1", (Group("cubic", 1),), 1),), duration_s, omit_s, interval_s=1.0
    )


def series(
    omit_s: float, interval_s: float, end_s: float, begin_s: float = 0.0, step_s: float = 0.25
) -> pl.DataFrame:
    """Returns the series of a flow that receives 1000 bytes/s from its beginning on, and
    retransmits a segment each second.

    It is sampled each `step_s`; the first sample is a second before the traffic.
    """
    times_s = [(number * step_s) - 1 for number in range(math.ceil((end_s + 1) / step_s) + 1)]
    received = [round(1000 * max(0.0, time_s - begin_s)) for time_s in times_s]
    again = [int(max(0.0, time_s - begin_s)) for time_s in times_s]
    of_sender = {
        name: [0] * len(times_s)
        for name in ("bytes_sent", "bytes_retransmitted", "bytes_acked", "data_segs_out")
    }
    sockets = pl.concat(
        [
            pl.DataFrame({"time_s": times_s, "end": "receiver", "bytes_received": received}),
            pl.DataFrame({"time_s": times_s, "end": "sender", "retransmits": again, **of_sender}),
        ],
        how="diagonal",
    ).with_columns(host=pl.lit("h1"), port=pl.lit(5000))
    counters = count_flows(sockets, pl.DataFrame(schema=INTERVAL_COLUMNS), {("h1", 5000): begin_s})
    return interval_series(counters, FLOWS, traffic(end_s - omit_s, omit_s), interval_s, end_s)


@pytest.mark.parametrize(
    ("omit_s", "interval_s", "end_s", "ends_s", "omitted"),
    {
        "no omitted time": (0.0, 1.0, 3.0, [1.0, 2.0, 3.0], 0),
        "one that is a multiple": (2.0, 1.0, 4.0, [1.0, 2.0, 3.0, 4.0], 2),
        "one that is not": (2.5, 1.0, 4.5, [0.5, 1.5, 2.5, 3.5, 4.5], 3),
        "shorter than an interval": (0.25, 1.0, 2.25, [0.25, 1.25, 2.25], 1),
        "a rest of less than half an interval": (0.0, 1.0, 3.25, [1.0, 2.0, 3.0], 0),
        "a longer rest": (0.0, 1.0, 3.75, [1.0, 2.0, 3.0, 3.75], 0),
        "an interval of the whole time": (1.0, 4.0, 5.0, [1.0, 5.0], 1),
        "one that is longer": (0.0, 10.0, 3.0, [3.0], 0),
        "tenths, which no float is": (0.3, 0.1, 0.6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 3),
    }.values(),
)
def test_intervals_are_counted_from_the_end_of_the_omitted_time(
    omit_s: float, interval_s: float, end_s: float, ends_s: list[float], omitted: int
) -> None:
    found = series(omit_s, interval_s, end_s)
    assert found["time_s"].to_list() == pytest.approx(ends_s)
    assert found["seconds"].to_list() == pytest.approx(
        [end - begin for begin, end in itertools.pairwise([0, *ends_s])]
    )
    assert found["omitted"].to_list() == [True] * omitted + [False] * (len(ends_s) - omitted)
    assert found["goodput_bps"].to_list() == pytest.approx([8000] * len(ends_s)), (
        "never an empty interval"
    )


def test_a_flow_that_begins_later_has_nothing_before() -> None:
    """It begins at 1.5 s, in the middle of its second interval. Segments are retransmitted at 2.5 s
    and 3.5 s.
    """
    found = series(0.0, 1.0, 4.0, begin_s=1.5)
    assert found["goodput_bps"].to_list() == pytest.approx([0, 4000, 8000, 8000])
    assert found["retransmits"].to_list() == [0, 0, 1, 1]
    assert set(found["counted_by"]) == {"receiver"}
    assert set(found["group"]) == {"cubic"}


def test_between_rare_samples_a_flow_is_even() -> None:
    """Samples are taken each 2.5 s, at -1, 1.5, 4 and 6.5 s; the beginning of the flow is known."""
    found = series(0.0, 1.0, 4.0, step_s=2.5)
    assert found["goodput_bps"].to_list() == pytest.approx([8000] * 4)
    assert found["retransmits"].sum() == 4


def test_intervals_may_be_shorter_than_the_generator_s() -> None:
    found = series(0.01, 0.001, 0.03, step_s=0.001)
    assert found["time_s"].to_list() == pytest.approx([number / 1000 for number in range(1, 31)])
    assert found["goodput_bps"].to_list() == pytest.approx([8000] * 30)
    assert found["omitted"].to_list() == [True] * 10 + [False] * 20


def test_flows_that_nobody_counted_are_left_out() -> None:
    counters = count_flows(
        pl.DataFrame(
            schema={"time_s": pl.Float64, "end": pl.String, "host": pl.String, "port": pl.Int64}
        ),
        pl.DataFrame(schema=INTERVAL_COLUMNS),
        {},
    )
    assert interval_series(counters, FLOWS, traffic(1.0, 0.0), 1.0, 1.0).is_empty()
