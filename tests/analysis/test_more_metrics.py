"""Delays, queue, losses, processor time and start-up of one run, against numbers worked
out by hand.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from ccmix.analysis.dynamics import (
    convergence_of_flows_s,
    convergence_s,
    goodputs,
    start_up,
    sum_by_unit,
)
from ccmix.analysis.iperf3_tables import FLOW_COLUMNS
from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.path_metrics import mean_rate_bps
from ccmix.analysis.reports import completion_metrics
from ccmix.analysis.tables import RunTables, with_counters
from ccmix.model import (
    CommandSource,
    DelayChange,
    Destination,
    Group,
    HostPath,
    HttpSource,
    Iperf3Source,
    Measurement,
    Policer,
    RateChange,
    Run,
)
from ccmix.model.results import PolicerMetrics, StartupMetrics
from support.model import add_sources, metrics_of, with_groups


def intervals(goodputs_of_ports: dict[int, Sequence[float]]) -> pl.DataFrame:
    """Intervals of a second."""
    return pl.DataFrame(
        [
            {
                "time_s": number + 1.0,
                "seconds": 1.0,
                "omitted": number == 0,
                "host": "h1",
                "port": port,
                "goodput_bps": float(goodput_bps),
                "retransmits": 0,
                "group": "cubic" if port == 40000 else "bbr",
            }
            for port, goodputs_bps in goodputs_of_ports.items()
            for number, goodput_bps in enumerate(goodputs_bps)
        ]
    )


def competing(run: Run, goodputs_of_ports: dict[int, Sequence[float]]) -> pl.DataFrame:
    """Returns the goodputs of flows that each count as one: 'h1 40000' and so on."""
    flows = pl.DataFrame(
        [{"host": "h1", "port": port, "unit": f"h1 {port}"} for port in goodputs_of_ports]
    )
    return sum_by_unit(goodputs(run, intervals(goodputs_of_ports)), flows)


def test_percentiles_of_the_rtt_and_of_queueing(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Samples of 11, 12, 13, 14 and 15 ms over a base RTT of 10 ms: the 95th percentile is at 3.8
    of 4 steps.
    """
    cubic, bbr = metrics_of(run, tables, measurement).groups
    assert cubic.rtt_p95_s == pytest.approx(0.0148)
    assert cubic.rtt_p99_s == pytest.approx(0.01496)
    assert cubic.queueing_delay_median_s == pytest.approx(0.003)
    assert bbr.queueing_delay_p95_s == pytest.approx(0.0048)
    of_flow = metrics_of(run, tables, measurement).flows[0]
    assert (of_flow.rtt_median_s, of_flow.rtt_p95_s) == (
        pytest.approx(0.013),
        pytest.approx(0.0148),
    )


def test_flow_completion_times(run: Run) -> None:
    """Of 1, 2, 3, 4 and 10 s the mean is 4 s, the 95th percentile at 3.8 of 4 steps; one flow was
    cut off, and one of 99 s began in the omitted second.
    """
    source = HttpSource("web", "h1", 6, 1000, 1, "cubic")
    requests = replace(run, traffic=replace(run.traffic, sources=(source,)))
    seconds = [99.0, 2.0, 1.0, None, 10.0, 4.0, 3.0]
    starts_s = [0.9, 1.0, 2.0, 2.0, 2.0, 2.0, 4.9]
    completions = pl.DataFrame({"group": ["web"] * 7, "seconds": seconds, "start_s": starts_s})
    [found] = completion_metrics(requests, completions)
    assert (found.begun, found.completed, found.mean_s, found.median_s) == (6, 5, 4.0, 3.0)
    assert (found.p95_s, found.p99_s) == (pytest.approx(8.8), pytest.approx(9.76))
    [none] = completion_metrics(requests, completions.filter(pl.col("seconds").is_null()))
    assert (none.begun, none.completed, none.mean_s, none.p99_s) == (1, 0, None, None)


def test_queueing_is_over_the_base_rtt_of_the_moment(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """From 3 s on the delay is 6 ms: 1, 2, then 13 - 12, 14 - 12 and 15 - 12 ms."""
    path = replace(run.topology, changes=(DelayChange(3.0, None, 0.006),))
    metrics = metrics_of(replace(run, path=path), tables, measurement)
    assert metrics.queueing_delay_median_s == pytest.approx(0.002)
    assert metrics.queueing_delay_p99_s == pytest.approx(0.003)


def test_between_hosts_the_base_rtt_is_the_smallest_seen(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Sockets saw 10.1 ms at least; the pings of 9 ms are less."""
    path = HostPath(src="src", dst=Destination("far", "192.0.2.1", "far"), label="iperf3")
    real = replace(run, path=path)
    metrics = run_metrics(real, tables, {"src": (0.2,)}, measurement)
    assert metrics.queueing_delay_median_s == pytest.approx(0.013 - 0.0101)
    metrics = run_metrics(real, tables, {"src": (0.009,)}, measurement)
    assert metrics.queueing_delay_median_s == pytest.approx(0.004)
    assert (metrics.bottleneck, metrics.utilisation) == (None, None)


def test_shares_and_fairness_of_groups(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """200 and 600 Mbit/s; a third flow, of cubic, has 200 too: cubic's flows have 200 each,
    bbr's one 600.
    """
    third = tables.flows.filter(pl.col("port") == 40000).with_columns(port=pl.lit(40004, pl.Int64))
    metrics = metrics_of(
        run,
        replace(tables, flows=pl.concat([tables.flows, third])),
        measurement,
    )
    cubic, bbr = metrics.groups
    assert (cubic.share, cubic.fair_share) == (pytest.approx(0.4), pytest.approx(2 / 3))
    assert (bbr.share, bbr.fair_share) == (pytest.approx(0.6), pytest.approx(1 / 3))
    assert (cubic.fairness, bbr.fairness) == (pytest.approx(1), 1)
    assert metrics.fairness == pytest.approx(1000**2 / (3 * (200**2 + 200**2 + 600**2)))
    assert metrics.fairness_of_groups == pytest.approx(0.8)  # 200 and 600 a flow
    assert metrics.flows[1].share == pytest.approx(0.6)


def test_beside_udp_no_share_is_the_fair_one(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    with_udp = tables.flows.with_columns(udp=pl.col("port") == 40002)
    groups = metrics_of(run, replace(tables, flows=with_udp), measurement).groups
    assert [group.fair_share for group in groups] == [None, None]
    assert [group.share for group in groups] == [0.25, 0.75]


def test_cross_traffic_is_none_of_the_run_s_goodput_shares_and_fairness(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """CUBIC has 200 Mbit/s; a command that competes with the test has BBR's 600 Mbit/s. Together
    they fill the bottleneck.
    """
    alone = with_groups(run.traffic, Group("cubic"), streams=1)
    beside = replace(run, traffic=add_sources(alone, CommandSource("bbr", "h1", "true")))
    metrics = metrics_of(beside, tables, measurement)
    of_all = metrics_of(run, tables, measurement)
    assert (metrics.goodput_bps, metrics.utilisation) == (200e6, of_all.utilisation)
    assert (metrics.fairness, metrics.fairness_of_groups, metrics.convergence_s) == (1, 1, None)
    cubic, bbr = metrics.groups
    assert (cubic.share, cubic.fair_share, bbr.share, bbr.fair_share, bbr.goodput_bps) == (
        1,
        1,
        None,
        None,
        600e6,
    )
    assert [flow.share for flow in metrics.flows] == [1, None]
    assert (metrics.retransmission_rate, metrics.startup_s) == (
        cubic.retransmission_rate,
        cubic.startup_s,
    )
    assert metrics.rtt_p99_s == cubic.rtt_p99_s != of_all.rtt_p99_s


def short_flows(
    run: Run, tables: RunTables, begin_s: float = 0.0, end_s: float | None = None
) -> RunTables:
    """Returns the tables with a source of http besides, 'web', that receives 50 Mbit/s while it
    is active.
    """
    seconds = range(6)
    received = [round(6.25e6 * max(0, min(second, end_s or 5) - begin_s)) for second in seconds]
    samples = pl.DataFrame(
        {"time_s": [float(second) for second in seconds], "bytes_received": received}
    ).with_columns(
        end=pl.lit("receiver"),
        host=pl.lit("h1"),
        port=pl.lit(5202, pl.Int64),
        cookie=pl.lit(1, pl.Int64),
        group=pl.lit("web"),
        final=pl.lit(value=False),
        state=pl.lit("established"),
    )
    row = {
        "host": "h1",
        "port": 5202,
        "group": "web",
        "bytes_sent": 10**6,
        "begin_s": begin_s,
        "end_s": end_s,
    }
    short = pl.DataFrame([row | {"reverse": False, "udp": False}], schema=FLOW_COLUMNS)
    completed = pl.DataFrame({"group": ["web"], "seconds": [1.0], "start_s": [1.5]})
    every = replace(tables, short_flows=short, short_sockets=samples, completions=completed)
    return with_counters(run.traffic, every, tables.series.sockets, run.traffic.total_s)


def test_short_flows_beside_a_test_leave_its_shares_as_they_are(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    beside = replace(run, traffic=add_sources(run.traffic, HttpSource("web", "h1", 1, 1, 1, "-")))
    metrics = metrics_of(beside, short_flows(beside, tables), measurement)
    assert (metrics.goodput_bps, metrics.utilisation) == (800e6, pytest.approx(0.85))
    assert [(group.share, group.fair_share) for group in metrics.groups] == [
        (0.25, 0.5),
        (0.75, 0.5),
        (None, None),
    ]
    web = metrics.groups[2]
    assert (web.group, web.host, web.streams, web.goodput_bps) == (
        "web",
        "h1",
        1,
        pytest.approx(50e6),
    )
    assert len(metrics.flows) == 2, "a source of short flows has no row in the table of flows"


def test_a_source_of_short_flows_counts_as_one_flow_while_it_is_active(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """From 2 s to 4 s, of 1 s to 5 s: it has 100 Mbit, 50 Mbit/s over its 2 s and 25 over the run's
    4. Meanwhile the others have 400 and 1200 Mbit, so it has 1/17; each of the three would have its
    fair share with a third.
    """
    test = run.traffic.sources[0]
    assert isinstance(test, Iperf3Source)
    sources = (replace(test, name="tcp"), HttpSource("web", "h1", 1, 1, 1, "-", start_s=2.0))
    every = replace(run, traffic=replace(run.traffic, sources=sources))
    metrics = metrics_of(every, short_flows(every, tables, 2.0, 4.0), measurement)
    web = metrics.groups[2]
    assert (web.active_s, web.goodput_bps) == (2.0, pytest.approx(50e6))
    assert [group.active_s for group in metrics.groups[:2]] == [4.0, 4.0]
    assert metrics.goodput_bps == pytest.approx(825e6)
    assert [group.share for group in metrics.groups] == pytest.approx([4 / 17, 12 / 17, 1 / 17])
    assert [group.fair_share for group in metrics.groups] == pytest.approx([1 / 3] * 3)
    assert metrics.fairness == pytest.approx((4 + 12 + 1) ** 2 / (3 * (4**2 + 12**2 + 1)))
    assert (metrics.startup_s, metrics.overshoot) == (None, None), "it joins, and leaves"


def test_flows_that_are_never_active_together_have_no_shares(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """One is active until 3 s, the other from 3 s on: each has its rate over its 2 s, and the run
    has half of each over its 4 s.
    """
    is_cubic = pl.col("port") == 40000
    flows = tables.flows.with_columns(
        begin_s=pl.when(is_cubic).then(0.0).otherwise(3.0), end_s=pl.when(is_cubic).then(3.0)
    )
    metrics = metrics_of(run, replace(tables, flows=flows), measurement)
    assert [(flow.begin_s, flow.active_s) for flow in metrics.flows] == [(1.0, 2.0), (3.0, 2.0)]
    assert [flow.goodput_bps for flow in metrics.flows] == [200e6, 600e6]
    assert metrics.goodput_bps == 400e6
    assert [flow.share for flow in metrics.flows] == [None, None]
    assert [(group.share, group.fair_share) for group in metrics.groups] == [(None, None)] * 2
    assert (metrics.fairness, metrics.fairness_of_groups) == (None, None)


def test_shares_are_of_the_time_in_which_all_flows_are_active(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """The other one sends from 3 s on, so shares are over 3 to 5 s: 400 of 1600 Mbit. A CCA that
    starts later has fewer bytes in the whole run, 1200 Mbit of 2000, and the same rate over its own
    time.
    """
    late = tables.flows.with_columns(
        begin_s=pl.when(pl.col("port") == 40002).then(3.0).otherwise(0.0)
    )
    metrics = metrics_of(run, replace(tables, flows=late), measurement)
    assert [group.share for group in metrics.groups] == [0.25, 0.75]
    assert metrics.fairness == pytest.approx(0.8)
    assert [(group.goodput_bps, group.active_s) for group in metrics.groups] == [
        (200e6, 4.0),
        (600e6, 2.0),
    ]
    assert metrics.goodput_bps == 500e6
    # only the RTTs from 3 s on: 13, 14 and 15 ms
    assert metrics.groups[1].rtt_median_s == pytest.approx(0.014)


def test_an_rtt_that_no_ack_has_updated_counts_once(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Nothing arrives after 2 s: of 11, 12, 13, 14 and 15 ms, the last three are not
    measurements.
    """
    silent = tables.series.sockets.with_columns(segs_in=pl.min_horizontal("segs_in", 1000))
    series = replace(tables.series, sockets=silent)
    metrics = metrics_of(run, replace(tables, series=series), measurement)
    assert metrics.groups[0].rtt_median_s == pytest.approx(0.0115)


def test_retransmissions_of_the_run_and_of_a_flow(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    metrics = metrics_of(run, tables, measurement)
    assert metrics.retransmission_rate == pytest.approx(440 / 8000)
    assert [flow.retransmission_rate for flow in metrics.flows] == [0.01, 0.1]


def test_loss_is_what_netem_lost(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """5 to 1005 of its drops, and 20 to 999,020 packets that passed."""
    assert metrics_of(run, tables, measurement).netem_loss == 1000 / 1_000_000
    joined = replace(run, path=replace(run.topology, offloads=True))
    assert metrics_of(joined, tables, measurement).netem_loss is None
    assert run_metrics(run, tables, {}).netem_loss is None


def test_the_bottleneck_s_queue(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """In the measured time 1, 1.2, 1.249, 1 and 0 MB of 1.25 MB; 82,563 packets a second pass, 7
    or so are dropped.
    """
    dropped = tables.series.queues.with_columns(drops=(pl.col("time_s") * 100).cast(pl.Int64) + 5)
    found = metrics_of(
        run,
        replace(tables, series=replace(tables.series, queues=dropped)),
        measurement,
    ).bottleneck
    assert found.backlog_mean_bytes == pytest.approx(4_449_000 / 5)
    assert found.occupancy_mean == pytest.approx(4_449_000 / 5 / run.topology.buffer_bytes)
    assert (found.backlog_median_bytes, found.backlog_max_bytes) == (1_000_000, 1_249_000)
    assert found.backlog_p95_bytes == pytest.approx(1_200_000 + 0.8 * 49_000)
    assert (found.drops, found.drop_rate) == (400, pytest.approx(400 / (400 + 4 * 82_563)))
    assert found.utilisation == pytest.approx(1)


@pytest.mark.parametrize("parent", ["ingress", "ffff:fff1"])  # as ccmix-sockmon and tc write it
def test_what_the_policer_dropped(
    run: Run, tables: RunTables, measurement: Measurement, parent: str
) -> None:
    """From 1 to 5 s, 4000 packets reached the policer, which dropped 1000 of them."""
    path = replace(run.topology, policer=Policer(5e8, 1_000_000))
    second = pl.col("time_s").cast(pl.Int64)
    of_policer = tables.series.queues.with_columns(
        parent=pl.lit(parent), packets=1000 * second + 9, drops=250 * second + 7
    )
    queues = pl.concat([tables.series.queues, of_policer], how="vertical_relaxed")
    seen = replace(tables, series=replace(tables.series, queues=queues))
    metrics = metrics_of(replace(run, path=path), seen, measurement)
    assert metrics.policer == PolicerMetrics(drops=1000, drop_rate=0.25)
    assert metrics.bottleneck == metrics_of(run, tables, measurement).bottleneck
    assert metrics_of(run, seen, measurement).policer is None


def test_the_mean_rate_of_a_time(run: Run) -> None:
    path = replace(run.topology, changes=(RateChange(2.0, 500e6),))
    assert mean_rate_bps(replace(run, path=path), 1.0, 5.0) == pytest.approx(
        (1000e6 + 3 * 500e6) / 4
    )


def test_processor_time_per_gigabit(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """Of each second, core 0 was busy for 0.5 s and core 1 for 0.1 s; 0.8 Gbit arrive in it."""
    busy = {0: 0.5, 1: 0.1}
    times = ("user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s")
    cpu = pl.DataFrame(
        [
            {"time_s": float(second), "host": "src", "core": core}
            | dict.fromkeys(times, 0.0)
            | {
                "user_s": second * share / 2,
                "softirq_s": second * share / 2,
                "idle_s": second * (0.9 - share),
                "iowait_s": second * 0.1,
            }
            for second in range(6)
            for core, share in busy.items()
        ]
    )
    series = replace(tables.series, cpu=cpu)
    assert metrics_of(run, replace(tables, series=series), measurement).cpu_s_per_gbit == {
        "src": pytest.approx(0.75)
    }
    no_time = replace(series, cpu=cpu.with_columns(pl.lit(0.0).alias(name) for name in times))
    assert metrics_of(run, replace(tables, series=no_time), measurement).cpu_s_per_gbit == {}


def test_start_up_ends_at_90_percent_of_the_steady_goodput(run: Run) -> None:
    """Nothing in the first second; the median of 85, 150, 130, 100, 90 and 100 is 100; it is
    passed by up to 50%.
    """
    flows = goodputs(run, intervals({40000: [0, 30, 85, 150, 130, 100, 90, 100, 190]}))
    found = start_up(run, flows.filter(pl.col("interval") < 8))
    assert found == StartupMetrics(startup_s=3.0, overshoot=pytest.approx(0.5))
    # values after the first excursion, such as 190, are not overshoot; nor is a steady goodput
    steady = goodputs(run, intervals({40000: [50, 100, 100, 100, 100]}))
    assert start_up(run, steady) == StartupMetrics(startup_s=2.0, overshoot=0)
    assert start_up(run, goodputs(run, intervals({40000: [0, 0, 0]}))) == StartupMetrics(
        startup_s=None, overshoot=None
    )


def test_flows_converge_when_they_are_fair_from_then_on(run: Run) -> None:
    """The second begins after 1 s. In the mean over 2 s they have 90:5, 80:20, 65:37.5, 55:47.5,
    50:52.5 Mbit/s: from the fourth on that is fair, with Jain's index 0.995, and 65:37.5 is not,
    with 0.933; the fourth ends 5 s after the beginning of the second flow.
    """
    flows = competing(run, {40000: [100, 90, 90, 70, 60, 50, 50], 40002: [0, 5, 5, 35, 40, 55, 50]})
    assert convergence_s(run, flows) == 5.0


def test_flows_that_are_fair_only_in_passing_have_not_converged(run: Run) -> None:
    """They cross at 50:50 on their way to 9:91, as if BBR takes the path from a CUBIC flow."""
    crossing = competing(
        run, {40000: [60, 50, 50, 30, 15, 9, 9], 40002: [40, 50, 50, 70, 85, 91, 91]}
    )
    assert convergence_s(run, crossing) is None
    assert convergence_of_flows_s(run, crossing) == {}
    # fair again from the fourth second on, in the mean over 2 s: 50:50, 70:30, 90:10, 70:30, 50:50
    again = competing(run, {40000: [50, 50, 90, 90, 50, 50], 40002: [50, 50, 10, 10, 50, 50]})
    assert convergence_s(run, again) == 6.0
    assert convergence_of_flows_s(run, again) == {"h1 40000": 6.0, "h1 40002": 6.0}


def test_who_never_is_fair_or_is_alone_does_not_converge(run: Run) -> None:
    assert convergence_s(run, competing(run, {40000: [90] * 5, 40002: [10] * 5})) is None
    assert convergence_s(run, competing(run, {40000: [90] * 5})) is None
    assert convergence_s(run, competing(run, {40000: [90] * 5, 40002: [0] * 5})) is None
    # shares of 0.6 and 0.4 are just fair: delta is 0.2
    assert convergence_s(run, competing(run, {40000: [60] * 5, 40002: [40.01] * 5})) == 2.0
    assert convergence_s(run, competing(run, {40000: [60.1] * 5, 40002: [39.9] * 5})) is None


def test_each_flow_converges_to_the_mean_of_all(run: Run) -> None:
    """In the mean over 2 s they have 120:90:30, 105:90:45, 90:90:60 and 87.5:85:67.5 of a mean of
    80 Mbit/s: the second is within 20% at once, the first from the third window on, and the third
    one in the last.
    """
    shares = {
        40000: [120, 120, 90, 90, 85],
        40002: [90, 90, 90, 90, 80],
        40004: [30, 30, 60, 60, 75],
    }
    flows = competing(run, shares)
    assert convergence_of_flows_s(run, flows) == {"h1 40000": 4.0, "h1 40002": 2.0, "h1 40004": 5.0}
    assert (
        convergence_s(run, flows) == 4.0
    )  # Jain's index of 105:90:45 is 0.907, and of 90:90:60 0.97


def test_of_two_flows_each_converges_as_both_do(run: Run) -> None:
    two = competing(run, {40000: [100, 90, 90, 70, 60, 50, 50], 40002: [0, 5, 5, 35, 40, 55, 50]})
    assert convergence_of_flows_s(run, two) == {"h1 40000": 5.0, "h1 40002": 5.0}
    just = competing(run, {40000: [60] * 5, 40002: [40] * 5})
    assert set(convergence_of_flows_s(run, just).values()) == {2.0}
    assert convergence_of_flows_s(run, competing(run, {40000: [61] * 5, 40002: [39] * 5})) == {}
    assert convergence_of_flows_s(run, competing(run, {40000: [90] * 5})) == {}


def test_dynamics_are_in_the_metrics(run: Run, tables: RunTables, measurement: Measurement) -> None:
    series = intervals({40000: [10, 50, 50, 50, 50], 40002: [90, 50, 50, 50, 50]})
    metrics = metrics_of(run, replace(tables, intervals=series), measurement)
    assert (metrics.startup_s, metrics.overshoot, metrics.convergence_s) == (1.0, 0.0, 3.0)
    assert [group.startup_s for group in metrics.groups] == [2.0, 1.0]
    assert [group.overshoot for group in metrics.groups] == [0.0, pytest.approx(0.8)]
    of_flows = [(flow.startup_s, flow.overshoot, flow.convergence_s) for flow in metrics.flows]
    assert of_flows == [(2.0, 0.0, 3.0), (1.0, pytest.approx(0.8), 3.0)]


def test_dynamics_of_a_run_are_those_of_its_test(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """CUBIC competes only with a command's flow, so it has no flow of the test to converge with."""
    series = intervals({40000: [10, 50, 50, 50, 50], 40002: [90, 50, 50, 50, 50]})
    alone = with_groups(run.traffic, Group("cubic"), streams=1)
    beside = replace(run, traffic=add_sources(alone, CommandSource("bbr", "h1", "true")))
    metrics = metrics_of(beside, replace(tables, intervals=series), measurement)
    assert (metrics.startup_s, metrics.convergence_s) == (2.0, None)
    assert [(flow.startup_s, flow.convergence_s) for flow in metrics.flows] == [
        (2.0, None),
        (1.0, None),
    ]
