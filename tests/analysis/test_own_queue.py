"""Tests the packets that left a sender's device if the sender's own queue dropped some, against
results worked out by hand.
"""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.analysis.path_metrics import left_device
from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, Run
from support.model import metrics_of


def with_own_queue(tables: RunTables, packets: int, drops: int) -> RunTables:
    """Returns the tables with samples of the sender's own queue, which grows by these amounts each
    second.
    """
    second = pl.col("time_s").cast(pl.Int64)
    own = tables.series.queues.with_columns(
        place=pl.lit("sender-queue"),
        packets=packets * second,
        bytes=1000 * packets * second,
        drops=drops * second,
    )
    return replace(
        tables, series=replace(tables.series, queues=pl.concat([tables.series.queues, own]))
    )


def test_only_queues_that_dropped_count(run: Run, tables: RunTables) -> None:
    assert left_device(run, tables, 1.0, 5.0) == {}
    assert left_device(run, with_own_queue(tables, 1500, 0), 1.0, 5.0) == {}
    assert left_device(run, with_own_queue(tables, 1500, 40), 1.0, 5.0) == {"h1": (6000, 6_000_000)}


def test_segments_that_the_queue_refused_were_not_sent(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """In 4 s, the two senders count 8000 data segments, 440 of which (40 and 400) are
    retransmissions. All bytes are acknowledged except for retransmissions and bytes in flight:
    25,000,000 of cubic's 26,264,480 bytes a second, and 75,000,000 of bbr's 78,894,800. So 3807.4
    and 3802.5 of the segments were first transmissions. If 7700 packets left the device, 90.1 of
    them were retransmissions, of which the flows get a tenth and nine tenths.
    """
    metrics = metrics_of(run, with_own_queue(tables, 7700 // 4, 1), measurement)
    cubic, bbr = metrics.flows
    again = 7700 - 4000 * 25_000_000 / 26_264_480 - 4000 * 75_000_000 / 78_894_800
    assert (cubic.retransmitted_segments, bbr.retransmitted_segments) == (
        round(again * 40 / 440),
        round(again * 400 / 440),
    )
    assert (cubic.data_segments, bbr.data_segments) == (
        3807 + cubic.retransmitted_segments,
        3803 + bbr.retransmitted_segments,
    )
    assert metrics.retransmission_rate == pytest.approx(again / 7700, rel=0.02)
    assert [flow.throughput_bps for flow in metrics.flows] == [200e6, 600e6]
    assert [flow.goodput_bps for flow in metrics.flows] == [200e6, 600e6]


def test_what_a_queue_passed_is_all_that_was_sent(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """The sockets gave 526 MB to the queue in 5 s, but only 10 MB left the device."""
    assert metrics_of(run, tables, measurement).bytes_sent == 5 * (26_264_480 + 78_894_800)
    refused = with_own_queue(tables, 1925, 1)
    assert metrics_of(run, refused, measurement).bytes_sent == 5 * 1_925_000
