"""Tests the metrics of one run, from hand-made tables (see conftest.py)."""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.analysis.dynamics import jain_index
from ccmix.analysis.tables import RunTables, with_counters
from ccmix.model import (
    Group,
    HttpSource,
    Iperf3Source,
    Measurement,
    RateChange,
    Run,
    Sender,
    UdpSource,
)
from support.model import metrics_of, with_groups


def seen(run: Run, tables: RunTables, sockets: pl.DataFrame) -> RunTables:
    """Returns the tables of a run whose probe saw these sockets."""
    series = replace(tables.series, sockets=sockets)
    return with_counters(run.traffic, replace(tables, series=series), sockets, run.traffic.total_s)


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([5.0, 5.0, 5.0], 1.0),
        ([7.0], 1.0),
        ([4.0, 0.0, 0.0, 0.0], 0.25),
        ([1.0, 3.0], 0.8),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_jain_s_index(values: list[float], index: float | None) -> None:
    assert jain_index(values) == index


def test_a_run_as_a_whole(run: Run, tables: RunTables, measurement: Measurement) -> None:
    metrics = metrics_of(run, tables, measurement)
    assert metrics.goodput_bps == 800e6
    assert metrics.utilisation == 0.8
    assert metrics.fairness == pytest.approx(0.8)  # of 1 and 3


def test_utilisation_is_of_the_mean_rate(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """1 Gbit/s, and 600 Mbit/s in the last of the 4 measured seconds: 900 in the mean."""
    path = replace(run.topology, changes=(RateChange(4.0, 600e6),))
    assert metrics_of(replace(run, path=path), tables, measurement).utilisation == pytest.approx(
        800 / 900
    )


def test_udp_is_no_flow_whose_share_could_be_fair(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Its goodput is its generator's count, because it has no socket that shows the goodput."""
    tcp = Iperf3Source("tcp", "h1", (Group("cubic"),), 1)
    both = replace(
        run, traffic=replace(run.traffic, sources=(tcp, UdpSource("bbr", "h1", 700e6, 1)))
    )
    is_udp = pl.col("port") == 40002
    flows = tables.flows.with_columns(
        udp=is_udp, goodput_bps=pl.when(is_udp).then(650e6).otherwise("goodput_bps")
    )
    sockets = tables.series.sockets.filter(~is_udp)
    metrics = metrics_of(both, seen(both, replace(tables, flows=flows), sockets), measurement)
    assert (metrics.fairness, metrics.fairness_of_groups, metrics.convergence_s) == (1, 1, None)
    assert [flow.goodput_bps for flow in metrics.flows] == [200e6, 650e6]
    assert [flow.counted_by for flow in metrics.flows] == ["receiver", "generator"]
    assert (
        metrics.goodput_bps == 800e6
    )  # of the run: what its intervals have of the measured time, 600 Mbit/s
    assert [group.fairness for group in metrics.groups] == [1, None]


def test_a_sample_a_moment_early_is_of_the_measured_time(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """It is a microsecond early: RTTs come from the same samples, and the growth of counters
    differs by less than a millionth.
    """
    early = tables.series.sockets.with_columns(pl.col("time_s") - 1e-6)
    found = metrics_of(run, seen(run, tables, early), measurement)
    expected = metrics_of(run, tables, measurement)
    assert [group.rtt_p95_s for group in found.groups] == [
        group.rtt_p95_s for group in expected.groups
    ]
    assert found.goodput_bps == pytest.approx(expected.goodput_bps, rel=1e-6)
    assert [flow.retransmitted_segments for flow in found.flows] == [40, 400]


def test_rtts_beside_the_traffic(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """A question is sent each 10 ms, from a second before the traffic to a second after it; each
    tenth is lost.
    """
    assert metrics_of(run, tables, measurement).rtt_probe is None
    asked = pl.DataFrame({"time_s": [number / 100 - 1 for number in range(700)]}).with_columns(
        rtt_s=pl.when(pl.int_range(pl.len()) % 10 != 9).then(pl.col("time_s") / 100)
    )
    series = replace(tables.series, rtt=asked)
    found = metrics_of(run, replace(tables, series=series), measurement).rtt_probe
    assert (found.questions, found.unanswered) == (
        401,
        pytest.approx(40 / 401),
    )  # from 1 s to 5 s, both included
    assert found.median_s == pytest.approx(0.03, abs=1e-4)
    assert found.p95_s == pytest.approx(0.01 + 0.95 * 0.04, abs=1e-4)
    assert found.p99_s == pytest.approx(0.01 + 0.99 * 0.04, abs=1e-4)
    nothing = replace(tables.series, rtt=asked.with_columns(rtt_s=pl.lit(None, pl.Float64)))
    assert metrics_of(run, replace(tables, series=nothing), measurement).rtt_probe.p99_s is None


def test_groups_in_the_order_of_the_ccas(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    cubic, bbr = metrics_of(run, tables, measurement).groups
    # from 1 s (the omitted time) to 5 s: 4000 segments sent, 40 or 400 of them again
    assert cubic.retransmission_rate == 0.01
    assert bbr.retransmission_rate == 0.1
    # RTTs of 11, 12, 13, 14 and 15 ms; that of the omitted time, 510 ms, does not count
    assert cubic.rtt_median_s == pytest.approx(0.013)
    assert (cubic.group, cubic.cca, cubic.streams) == ("cubic", "cubic", 1)
    assert (bbr.goodput_bps, bbr.throughput_bps) == (600e6, 630e6)


def test_a_group_of_two_flows(run: Run, tables: RunTables, measurement: Measurement) -> None:
    same = replace(run, traffic=with_groups(run.traffic, Group("bbr")))
    flows = tables.flows.with_columns(group=pl.lit("bbr"))
    [group] = metrics_of(same, replace(tables, flows=flows), measurement).groups
    assert (group.streams, group.goodput_bps) == (2, 800e6)
    assert group.retransmission_rate == pytest.approx(440 / 8000)


def test_a_group_is_of_one_host(run: Run, tables: RunTables) -> None:
    path = replace(run.topology, senders=(Sender("h1", 0.005), Sender("h2", 0.08)))
    groups = (Group("cubic"), Group("bbr"))
    first, second = Iperf3Source("", "h1", groups, 2), Iperf3Source("", "h2", groups, 2)
    several = replace(run, path=path, traffic=replace(run.traffic, sources=(first, second)))
    assert [
        several.group_name(line, cca) for line in (first, second) for cca in ("cubic", "bbr")
    ] == [
        "cubic@h1",
        "bbr@h1",
        "cubic@h2",
        "bbr@h2",
    ]
    assert run.group_name(run.traffic.sources[0], "cubic") == "cubic"
    named = (
        Iperf3Source("long", "h1", groups, 2),
        Iperf3Source("long", "h2", groups, 2),
        Iperf3Source("short", "h1", groups, 2),
        HttpSource("web", "h1", 1, 1, 1, "-"),
        HttpSource("web", "h2", 1, 1, 1, "-"),
        UdpSource("noise", "h2", 1e6, 1),
    )
    of_named = replace(several, traffic=replace(several.traffic, sources=named))
    assert [of_named.group_name(source, "bbr") for source in named] == [
        "long@h1 bbr",
        "long@h2 bbr",
        "short bbr",
        "web@h1",
        "web@h2",
        "noise",
    ]


def test_flows_keep_their_numbers(run: Run, tables: RunTables, measurement: Measurement) -> None:
    first, second = metrics_of(run, tables, measurement).flows
    assert (first.port, first.data_segments, first.retransmitted_segments) == (40000, 4000, 40)
    assert (second.port, second.goodput_bps, second.retransmitted_segments) == (40002, 600e6, 400)


def test_a_flow_that_no_probe_saw_has_no_rate(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Its goodput is that of its generator."""
    flows = tables.flows.with_columns(goodput_bps=pl.lit(500e6))
    unseen = seen(
        run, replace(tables, flows=flows), tables.series.sockets.filter(pl.col("port") != 40002)
    )
    metrics = metrics_of(run, unseen, measurement)
    cubic, bbr = metrics.groups
    assert (cubic.retransmission_rate, cubic.goodput_bps) == (0.01, 200e6)
    assert (bbr.retransmission_rate, bbr.rtt_median_s, bbr.goodput_bps) == (None, None, 500e6)
    assert [flow.counted_by for flow in metrics.flows] == ["receiver", "generator"]


def test_who_counted_a_flow(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """Bytes that a sender knows to be acknowledged count if its receiver's socket was not
    sampled.
    """
    sockets = tables.series.sockets.filter(
        (pl.col("end") == "sender") | (pl.col("port") == 40000)
    ).with_columns(bytes_acked=(pl.col("bytes_acked") * 0.9).cast(pl.Int64))
    metrics = metrics_of(run, seen(run, tables, sockets), measurement)
    assert [flow.counted_by for flow in metrics.flows] == ["receiver", "sender"]
    assert [flow.goodput_bps for flow in metrics.flows] == [200e6, pytest.approx(540e6)]
