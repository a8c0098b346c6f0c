"""Tests the growth of counters of sockets and queues between two moments, on hand-made counters."""

import numpy as np
import polars as pl
import pytest

from ccmix.analysis.counters import FlowCounters, count_flows, growth
from ccmix.analysis.iperf3_tables import INTERVAL_COLUMNS
from support.commands import assert_has

FLOW = ("h1", 1000)
NO_INTERVALS = pl.DataFrame(schema=INTERVAL_COLUMNS)


def received(*counts: tuple[float, int], cookie: int = 1, port: int = 1000) -> pl.DataFrame:
    """Returns samples (time_s, bytes) of a receiver's socket."""
    rows = [
        {
            "time_s": time_s,
            "end": "receiver",
            "host": "h1",
            "port": port,
            "cookie": cookie,
            "bytes_received": count,
        }
        for time_s, count in counts
    ]
    return pl.DataFrame(rows, schema_overrides={"bytes_received": pl.UInt64, "cookie": pl.UInt64})


def sent(*counts: tuple[float, int], **changed: int) -> pl.DataFrame:
    """Returns samples of a sender's socket that has sent these bytes in segments of ten, all of
    which were acknowledged.
    """
    rows = [
        {
            "time_s": time_s,
            "end": "sender",
            "host": "h1",
            "port": 1000,
            "cookie": 7,
            "bytes_sent": count,
            "bytes_retransmitted": 0,
            "bytes_acked": count,
            "data_segs_out": count // 10,
            "retransmits": 0,
        }
        | changed
        for time_s, count in counts
    ]
    counters = {"bytes_sent": pl.UInt64, "bytes_retransmitted": pl.UInt64, "bytes_acked": pl.UInt64}
    return pl.DataFrame(
        rows,
        schema_overrides=counters
        | {"cookie": pl.UInt64, "data_segs_out": pl.UInt32, "retransmits": pl.UInt32},
    )


def grown(counters: FlowCounters, begin_s: float, end_s: float) -> dict[str, float | str | None]:
    spans = pl.DataFrame({"host": ["h1"], "port": [1000], "begin_s": [begin_s], "end_s": [end_s]})
    [row] = counters.with_growth(spans).to_dicts()
    return row


@pytest.mark.parametrize(
    ("counts", "expected"),
    {
        "all the time": ([(0.0, 0), (2.0, 200), (10.0, 1000)], 400),
        "edges between samples": ([(1.0, 0), (3.0, 400), (5.0, 400), (7.0, 800)], 400 - 200 + 200),
        "began within": ([(3.0, 300), (5.0, 500)], 500),
        "too short for a second sample": ([(4.0, 123)], 123),
        "ended before": ([(0.0, 0), (1.0, 777)], 0),
        "began afterwards": ([(6.5, 777)], 0),
        "ended within": ([(1.0, 100), (3.0, 300)], 100),
    }.values(),
)
def test_bytes_from_2_s_to_6_s(counts: list[tuple[float, int]], expected: float) -> None:
    """The counters of a connection whose beginning is not known were 0 before its first sample."""
    counters = count_flows(received(*counts), NO_INTERVALS, {})
    assert grown(counters, 2.0, 6.0)["received"] == pytest.approx(expected)


def test_a_port_that_comes_again_is_another_socket() -> None:
    both = pl.concat([received((3.0, 500)), received((5.0, 300), cookie=2)])
    assert grown(count_flows(both, NO_INTERVALS, {}), 2.0, 6.0)["received"] == 800
    # the second one is not taken for one that grew since the flow began
    counters = count_flows(both, NO_INTERVALS, {FLOW: 1.0})
    assert grown(counters, 4.0, 4.9)["received"] == 0


def test_a_flow_sends_nothing_before_it_begins() -> None:
    """At 2 s, as at 1 s, it has sent only the 40 bytes of iperf3's cookie; at 2.5 s, midway between
    the samples at 2 s and 3 s, half of the other bytes.
    """
    counters = count_flows(sent((1.0, 40), (3.0, 1040)), NO_INTERVALS, {FLOW: 2.0})
    assert grown(counters, 2.0, 3.0)["sent"] == 1000
    assert grown(counters, 2.0, 2.5)["sent"] == pytest.approx(500)
    assert grown(counters, 0.0, 2.0)["sent"] == 0
    assert grown(counters, 2.0, 9.0)["data_segments"] == 104 - 4
    # a sample a moment after the begin is not that of the begin: the first data leave at once
    late = count_flows(sent((1.999, 40), (2.0001, 180), (3.0, 1040)), NO_INTERVALS, {FLOW: 2.0})
    assert grown(late, 2.0, 3.0)["sent"] == 1000


def test_a_sample_that_was_due_at_a_moment_is_that_of_the_moment() -> None:
    """This holds for samples at 5.00001 s: of a connection that had sent nothing before, and of one
    that sends nothing after.
    """
    counters = count_flows(received((5.00001, 300), (6.00001, 300), (7.0, 900)), NO_INTERVALS, {})
    assert grown(counters, 0.0, 5.0)["received"] == 300
    assert grown(counters, 5.0, 6.0)["received"] == 0
    assert grown(counters, 5.0, 6.5)["received"] == pytest.approx(300, rel=1e-3)


@pytest.mark.parametrize(
    "others",
    [
        received((1.0, 0), (2.0, 0), (3.0, 0), cookie=2, port=2000),  # sampled, and ours was not
        sent((2.0, 0), (3.0, 700)),  # our sender had sent nothing
    ],
)
def test_what_shows_that_a_socket_had_nothing_at_a_sample(others: pl.DataFrame) -> None:
    """The flow began at 1.5 s, but its receiver's socket was first sampled at 3 s."""
    sockets = pl.concat([others, received((3.0, 600))], how="diagonal")
    counters = count_flows(sockets, NO_INTERVALS, {FLOW: 1.5})
    assert grown(counters, 0.0, 2.0)["received"] == 0
    assert grown(counters, 2.0, 2.5)["received"] == pytest.approx(300)


def test_a_flow_that_began_before_the_run_counts_from_the_first_sample_of_each_end() -> None:
    """Its receiver's socket was sampled 0.1 s after its sender's."""
    ends = pl.concat(
        [sent((1.0, 5000), (3.0, 9000)), received((1.1, 5100), (3.0, 8900))], how="diagonal"
    )
    counters = count_flows(ends, NO_INTERVALS, {FLOW: None})
    assert grown(counters, 1.0, 3.0)["received"] == 3800
    assert grown(counters, 1.0, 3.0)["sent"] == 4000


def test_an_interval_that_the_generator_left_out_takes_nothing_from_the_next() -> None:
    """iperf3's server leaves out the last interval of the omitted time."""
    rows = [
        {"time_s": time_s, "seconds": 1.0, "host": "h1", "port": 1000, "goodput_bps": 80.0}
        for time_s in (1, 3, 4)
    ]
    intervals = pl.DataFrame(rows, schema=INTERVAL_COLUMNS)
    counters = count_flows(sent((0.0, 0)).clear(), intervals, {})
    found = counters.values_at(FLOW, "received", np.arange(5.0))
    assert found is not None
    assert found.tolist() == pytest.approx([0, 10, 10, 20, 30])


def test_the_receiver_counts_and_else_the_sender_and_else_the_generator() -> None:
    at_both_ends = pl.concat(
        [received((0.0, 0), (2.0, 200)), sent((0.0, 0), (2.0, 300))], how="diagonal"
    )
    generator = pl.DataFrame(
        [
            {
                "time_s": 2.5,
                "seconds": 2.0,
                "omitted": False,
                "host": "h1",
                "port": 1000,
                "goodput_bps": 80.0,
            }
        ],
        schema=INTERVAL_COLUMNS,
    )
    nothing = sent((0.0, 0)).clear()
    for sockets, expected, counted_by in (
        (at_both_ends, 200, "receiver"),
        (sent((0.0, 0), (2.0, 300)), 300, "sender"),
        (nothing, 15, "generator"),
    ):
        counters = count_flows(sockets, generator, {})
        found = grown(
            counters, 0.0, 2.0
        )  # the generator's interval is from 0.5 to 2.5 s, 10 bytes a second
        assert (found["received"], found["counted_by"]) == (pytest.approx(expected), counted_by)
    nobody = grown(count_flows(nothing, NO_INTERVALS, {}), 0.0, 2.0)
    assert_has(nobody, received=None, sent=None, counted_by=None)


def test_counters_of_32_bits_start_again_at_0() -> None:
    segments = sent((0.0, 0), (1.0, 0), (2.0, 0)).with_columns(
        data_segs_out=pl.Series([2**32 - 100, 2**32 - 1, 99], dtype=pl.UInt32)
    )
    assert grown(count_flows(segments, NO_INTERVALS, {}), 0.5, 2.0)[
        "data_segments"
    ] == pytest.approx(49.5 + 100)
    queue = pl.DataFrame(
        {
            "time_s": [0.0, 1.0],
            "drops": pl.Series([2**32 - 10, 5], dtype=pl.UInt32),
            "bytes": pl.Series([7, 9], dtype=pl.UInt64),
        }
    )
    assert growth(queue, 0.0, 1.0, ("drops", "bytes")) == {"drops": 15, "bytes": 2}


def test_the_growth_of_a_queue_s_counter() -> None:
    """Before the first sample nothing is known, and after the last one nothing changes."""
    queue = pl.DataFrame({"time_s": [1.0, 2.0, 4.0], "packets": [10, 20, 60]})
    assert growth(queue, 1.5, 3.0, ("packets",)) == {"packets": pytest.approx(40 - 15)}
    assert growth(queue, 0.0, 9.0, ("packets",)) == {"packets": 50}
    assert growth(queue.sample(fraction=1, shuffle=True, seed=1), 0.0, 9.0, ("packets",)) == {
        "packets": 50
    }


def test_all_connections_of_a_flow_count_together() -> None:
    """For instance those of a source of short flows, which come one after the other."""
    one_after_the_other = pl.concat(
        [received((number + 0.5, 100), cookie=number) for number in range(50)]
    )
    counters = count_flows(one_after_the_other, NO_INTERVALS, {})
    found = counters.values_at(FLOW, "received", np.arange(51.0))
    assert found is not None
    assert found.tolist() == pytest.approx([100 * number for number in range(51)])
