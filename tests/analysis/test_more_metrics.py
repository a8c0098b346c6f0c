"""Delays, queue, losses, processor time and start-up of one run, against numbers worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from ccmix.analysis.completions import completion_metrics
from ccmix.analysis.dynamics import convergence_of_flows_s, convergence_s, goodputs, start_up
from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.path_metrics import mean_rate_bps
from ccmix.analysis.tables import RunTables
from ccmix.model import (
    CommandSource,
    DelayChange,
    Destination,
    Group,
    HostPath,
    HttpSource,
    Measurement,
    Policer,
    RateChange,
    Run,
    UdpSource,
)
from ccmix.model.results import PolicerMetrics, StartupMetrics
from support import add_sources, with_groups


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


def test_percentiles_of_the_rtt_and_of_queueing(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """Samples of 11, 12, 13, 14 and 15 ms over a base RTT of 10 ms: the 95th percentile is at 3.8 of 4 steps."""
    cubic, bbr = run_metrics(run, tables, measurement.ping_rtt_s, measurement).groups
    assert cubic.rtt_p95_s == pytest.approx(0.0148)
    assert cubic.rtt_p99_s == pytest.approx(0.01496)
    assert cubic.queueing_delay_median_s == pytest.approx(0.003)
    assert bbr.queueing_delay_p95_s == pytest.approx(0.0048)
    of_flow = run_metrics(run, tables, measurement.ping_rtt_s, measurement).flows[0]
    assert (of_flow.rtt_median_s, of_flow.rtt_p95_s) == (pytest.approx(0.013), pytest.approx(0.0148))


def test_flow_completion_times(run: Run) -> None:
    """Of 1, 2, 3, 4 and 10 s the mean is 4 s, the 95th percentile at 3.8 of 4 steps; one flow was cut off."""
    source = HttpSource("web", "h1", 6, 1000, 1, "cubic")
    requests = replace(run, traffic=replace(run.traffic, sources=(source,)))
    seconds = [2.0, 1.0, None, 10.0, 4.0, 3.0]
    completions = pl.DataFrame({"group": ["web"] * 6, "seconds": seconds})
    [found] = completion_metrics(requests, completions)
    assert (found.begun, found.completed, found.mean_s, found.median_s) == (6, 5, 4.0, 3.0)
    assert (found.p95_s, found.p99_s) == (pytest.approx(8.8), pytest.approx(9.76))
    [none] = completion_metrics(requests, completions.filter(pl.col("seconds").is_null()))
    assert (none.begun, none.completed, none.mean_s, none.p99_s) == (1, 0, None, None)


def test_queueing_is_over_the_base_rtt_of_the_moment(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """From 3 s on the delay is 6 ms: 1, 2, then 13 - 12, 14 - 12 and 15 - 12 ms."""
    path = replace(run.topology, changes=(DelayChange(3.0, None, 0.006),))
    metrics = run_metrics(replace(run, path=path), tables, measurement.ping_rtt_s, measurement)
    assert metrics.queueing_delay_median_s == pytest.approx(0.002)
    assert metrics.queueing_delay_p99_s == pytest.approx(0.003)


def test_between_hosts_the_base_rtt_is_the_smallest_seen(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """Sockets saw 10.1 ms at least; the pings of 9 ms are less."""
    path = HostPath(src="src", dst=Destination("far", "192.0.2.1", "far"), label="iperf3")
    real = replace(run, path=path)
    metrics = run_metrics(real, tables, {"src": (0.2,)}, measurement)
    assert metrics.queueing_delay_median_s == pytest.approx(0.013 - 0.0101)
    metrics = run_metrics(real, tables, {"src": (0.009,)}, measurement)
    assert metrics.queueing_delay_median_s == pytest.approx(0.004)
    assert (metrics.bottleneck, metrics.utilisation) == (None, None)


def test_shares_and_fairness_of_groups(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """200 and 600 Mbit/s; a third flow, of cubic, has 200 too: cubic's flows have 200 each, bbr's one 600."""
    third = tables.flows.filter(pl.col("port") == 40000).with_columns(port=pl.lit(40004, pl.Int64))
    metrics = run_metrics(
        run, replace(tables, flows=pl.concat([tables.flows, third])), measurement.ping_rtt_s, measurement
    )
    cubic, bbr = metrics.groups
    assert (cubic.share, cubic.fair_share) == (pytest.approx(0.4), pytest.approx(2 / 3))
    assert (bbr.share, bbr.fair_share) == (pytest.approx(0.6), pytest.approx(1 / 3))
    assert (cubic.fairness, bbr.fairness) == (pytest.approx(1), 1)
    assert metrics.fairness == pytest.approx(1000**2 / (3 * (200**2 + 200**2 + 600**2)))
    assert metrics.fairness_of_groups == pytest.approx(0.8)  # 200 and 600 a flow
    assert metrics.flows[1].share == pytest.approx(0.6)


def test_beside_udp_no_share_is_the_fair_one(run: Run, tables: RunTables, measurement: Measurement) -> None:
    traffic = replace(run.traffic, sources=(UdpSource("bbr", "h1", 1e6, 1),))
    groups = run_metrics(replace(run, traffic=traffic), tables, measurement.ping_rtt_s, measurement).groups
    assert [group.fair_share for group in groups] == [None, None]


def test_cross_traffic_is_none_of_the_run_s_goodput_shares_and_fairness(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Of cubic's 200 Mbit/s and bbr's 600, the latter are of a command beside the test; they fill the bottleneck."""
    alone = with_groups(run.traffic, Group("cubic"), streams=1)
    beside = replace(run, traffic=add_sources(alone, CommandSource("bbr", "h1", "true")))
    metrics = run_metrics(beside, tables, measurement.ping_rtt_s, measurement)
    of_all = run_metrics(run, tables, measurement.ping_rtt_s, measurement)
    assert (metrics.goodput_bps, metrics.utilisation) == (200e6, of_all.utilisation)
    assert (metrics.fairness, metrics.fairness_of_groups, metrics.convergence_s) == (1, 1, None)
    cubic, bbr = metrics.groups
    assert (cubic.share, cubic.fair_share, bbr.share, bbr.fair_share, bbr.goodput_bps) == (1, 1, None, None, 600e6)
    assert [flow.share for flow in metrics.flows] == [1, None]
    assert (metrics.retransmission_rate, metrics.startup_s) == (cubic.retransmission_rate, cubic.startup_s)
    assert metrics.rtt_p99_s == cubic.rtt_p99_s != of_all.rtt_p99_s


def test_short_flows_beside_a_test_leave_its_shares_as_they_are(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    beside = replace(run, traffic=add_sources(run.traffic, HttpSource("web", "h1", 1, 1, 1, "-")))
    short = pl.DataFrame([{"group": "web", "host": "h1", "goodput_bps": 50e6, "throughput_bps": 50e6}])
    completed = pl.DataFrame({"group": ["web"], "seconds": [1.0]})
    metrics = run_metrics(
        beside, replace(tables, short_flows=short, completions=completed), measurement.ping_rtt_s, measurement
    )
    assert (metrics.goodput_bps, metrics.utilisation) == (800e6, 0.85)
    assert [(group.share, group.fair_share) for group in metrics.groups] == [(0.25, 0.5), (0.75, 0.5), (None, None)]


def test_retransmissions_of_the_run_and_of_a_flow(run: Run, tables: RunTables, measurement: Measurement) -> None:
    metrics = run_metrics(run, tables, measurement.ping_rtt_s, measurement)
    assert metrics.retransmission_rate == pytest.approx(440 / 8000)
    assert [flow.retransmission_rate for flow in metrics.flows] == [0.01, 0.1]


def test_loss_is_what_netem_lost(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """5 to 1005 of its drops, and 20 to 999,020 packets that passed."""
    assert run_metrics(run, tables, measurement.ping_rtt_s, measurement).netem_loss == 1000 / 1_000_000
    joined = replace(run, path=replace(run.topology, offloads=True))
    assert run_metrics(joined, tables, measurement.ping_rtt_s, measurement).netem_loss is None
    assert run_metrics(run, tables, {}).netem_loss is None


def test_the_bottleneck_s_queue(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """In the measured time 1, 1.2, 1.249, 1 and 0 MB of 1.25 MB; 82,563 packets a second pass, 7 or so are dropped."""
    dropped = tables.series.queues.with_columns(drops=(pl.col("time_s") * 100).cast(pl.Int64) + 5)
    found = run_metrics(
        run, replace(tables, series=replace(tables.series, queues=dropped)), measurement.ping_rtt_s, measurement
    ).bottleneck
    assert found.backlog_mean_bytes == pytest.approx(4_449_000 / 5)
    assert found.occupancy_mean == pytest.approx(4_449_000 / 5 / run.topology.buffer_bytes)
    assert (found.backlog_median_bytes, found.backlog_max_bytes) == (1_000_000, 1_249_000)
    assert found.backlog_p95_bytes == pytest.approx(1_200_000 + 0.8 * 49_000)
    assert (found.drops, found.drop_rate) == (400, pytest.approx(400 / (400 + 4 * 82_563)))
    assert found.utilisation == pytest.approx(1)


@pytest.mark.parametrize("parent", ["ingress", "ffff:fff1"])  # as ccmix-sockmon and tc say it
def test_what_the_policer_dropped(run: Run, tables: RunTables, measurement: Measurement, parent: str) -> None:
    """From 1 to 5 s, 4000 packets reached the policer, and it dropped 1000 of them."""
    path = replace(run.topology, policer=Policer(5e8, 1_000_000))
    second = pl.col("time_s").cast(pl.Int64)
    of_policer = tables.series.queues.with_columns(
        parent=pl.lit(parent), packets=1000 * second + 9, drops=250 * second + 7
    )
    queues = pl.concat([tables.series.queues, of_policer], how="vertical_relaxed")
    seen = replace(tables, series=replace(tables.series, queues=queues))
    metrics = run_metrics(replace(run, path=path), seen, measurement.ping_rtt_s, measurement)
    assert metrics.policer == PolicerMetrics(drops=1000, drop_rate=0.25)
    assert metrics.bottleneck == run_metrics(run, tables, measurement.ping_rtt_s, measurement).bottleneck
    assert run_metrics(run, seen, measurement.ping_rtt_s, measurement).policer is None


def test_the_mean_rate_of_a_time(run: Run) -> None:
    path = replace(run.topology, changes=(RateChange(2.0, 500e6),))
    assert mean_rate_bps(replace(run, path=path), 1.0, 5.0) == pytest.approx((1000e6 + 3 * 500e6) / 4)


def test_processor_time_per_gigabit(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """Of each second, core 0 was busy for 0.5 s and core 1 for 0.1 s; 0.8 Gbit arrive in it."""
    busy = {0: 0.5, 1: 0.1}
    times = ("user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s")
    cpu = pl.DataFrame(
        [
            {"time_s": float(second), "host": "src", "core": core}
            | dict.fromkeys(times, 0.0)
            | {"user_s": second * share / 2, "softirq_s": second * share / 2, "idle_s": second * (0.9 - share),
               "iowait_s": second * 0.1}
            for second in range(6)
            for core, share in busy.items()
        ]
    )  # fmt: skip
    series = replace(tables.series, cpu=cpu)
    assert run_metrics(run, replace(tables, series=series), measurement.ping_rtt_s, measurement).cpu_s_per_gbit == {
        "src": pytest.approx(0.75)
    }
    no_time = replace(series, cpu=cpu.with_columns(pl.lit(0.0).alias(name) for name in times))
    assert run_metrics(run, replace(tables, series=no_time), measurement.ping_rtt_s, measurement).cpu_s_per_gbit == {}


def test_start_up_ends_at_90_percent_of_the_steady_goodput(run: Run) -> None:
    """Nothing in the first second; the median of 85, 150, 130, 100, 90 and 100 is 100; it is passed by up to 50%."""
    flows = goodputs(run, intervals({40000: [0, 30, 85, 150, 130, 100, 90, 100, 190]}))
    found = start_up(run, flows.filter(pl.col("interval") < 8))
    assert found == StartupMetrics(startup_s=3.0, overshoot=pytest.approx(0.5))
    # what comes after the first excursion, such as 190, is no overshoot; nor is steadiness
    steady = goodputs(run, intervals({40000: [50, 100, 100, 100, 100]}))
    assert start_up(run, steady) == StartupMetrics(startup_s=2.0, overshoot=0)
    assert start_up(run, goodputs(run, intervals({40000: [0, 0, 0]}))) == StartupMetrics(startup_s=None, overshoot=None)


def test_flows_converge_when_they_are_fair_from_then_on(run: Run) -> None:
    """The second begins after 1 s. In the mean over 2 s they have 90:5, 80:20, 65:37.5, 55:47.5, 50:52.5 Mbit/s: from
    the fourth on that is fair, with Jain's index 0.995, and 65:37.5 is not, with 0.933; the fourth ends 5 s after the
    beginning of the second flow.
    """
    flows = goodputs(run, intervals({40000: [100, 90, 90, 70, 60, 50, 50], 40002: [0, 5, 5, 35, 40, 55, 50]}))
    assert convergence_s(run, flows) == 5.0


def test_flows_that_are_fair_only_in_passing_have_not_converged(run: Run) -> None:
    """They cross at 50:50 on their way to 9:91, as a CUBIC flow does that BBR takes the path from."""
    crossing = goodputs(run, intervals({40000: [60, 50, 50, 30, 15, 9, 9], 40002: [40, 50, 50, 70, 85, 91, 91]}))
    assert convergence_s(run, crossing) is None
    assert convergence_of_flows_s(run, crossing) == {}
    # fair again from the fourth second on, in the mean over 2 s: 50:50, 70:30, 90:10, 70:30, 50:50
    again = goodputs(run, intervals({40000: [50, 50, 90, 90, 50, 50], 40002: [50, 50, 10, 10, 50, 50]}))
    assert convergence_s(run, again) == 6.0
    assert convergence_of_flows_s(run, again) == {("h1", 40000): 6.0, ("h1", 40002): 6.0}


def test_who_never_is_fair_or_is_alone_does_not_converge(run: Run) -> None:
    assert convergence_s(run, goodputs(run, intervals({40000: [90] * 5, 40002: [10] * 5}))) is None
    assert convergence_s(run, goodputs(run, intervals({40000: [90] * 5}))) is None
    assert convergence_s(run, goodputs(run, intervals({40000: [90] * 5, 40002: [0] * 5}))) is None
    # shares of 0.6 and 0.4 are just fair: delta is 0.2
    assert convergence_s(run, goodputs(run, intervals({40000: [60] * 5, 40002: [40.01] * 5}))) == 2.0
    assert convergence_s(run, goodputs(run, intervals({40000: [60.1] * 5, 40002: [39.9] * 5}))) is None


def test_each_flow_converges_to_the_mean_of_all(run: Run) -> None:
    """In the mean over 2 s they have 120:90:30, 105:90:45, 90:90:60 and 87.5:85:67.5 of a mean of 80 Mbit/s: the second
    is within 20% at once, the first from the third window on, and the third one in the last.
    """
    shares = {40000: [120, 120, 90, 90, 85], 40002: [90, 90, 90, 90, 80], 40004: [30, 30, 60, 60, 75]}
    flows = goodputs(run, intervals(shares))
    assert convergence_of_flows_s(run, flows) == {("h1", 40000): 4.0, ("h1", 40002): 2.0, ("h1", 40004): 5.0}
    assert convergence_s(run, flows) == 4.0  # Jain's index of 105:90:45 is 0.907, and of 90:90:60 0.97


def test_of_two_flows_each_converges_as_both_do(run: Run) -> None:
    two = goodputs(run, intervals({40000: [100, 90, 90, 70, 60, 50, 50], 40002: [0, 5, 5, 35, 40, 55, 50]}))
    assert convergence_of_flows_s(run, two) == {("h1", 40000): 5.0, ("h1", 40002): 5.0}
    just = goodputs(run, intervals({40000: [60] * 5, 40002: [40] * 5}))
    assert set(convergence_of_flows_s(run, just).values()) == {2.0}
    assert convergence_of_flows_s(run, goodputs(run, intervals({40000: [61] * 5, 40002: [39] * 5}))) == {}
    assert convergence_of_flows_s(run, goodputs(run, intervals({40000: [90] * 5}))) == {}


def test_dynamics_are_in_the_metrics(run: Run, tables: RunTables, measurement: Measurement) -> None:
    series = intervals({40000: [10, 50, 50, 50, 50], 40002: [90, 50, 50, 50, 50]})
    metrics = run_metrics(run, replace(tables, intervals=series), measurement.ping_rtt_s, measurement)
    assert (metrics.startup_s, metrics.overshoot, metrics.convergence_s) == (1.0, 0.0, 3.0)
    assert [group.startup_s for group in metrics.groups] == [2.0, 1.0]
    assert [group.overshoot for group in metrics.groups] == [0.0, pytest.approx(0.8)]
    of_flows = [(flow.startup_s, flow.overshoot, flow.convergence_s) for flow in metrics.flows]
    assert of_flows == [(2.0, 0.0, 3.0), (1.0, pytest.approx(0.8), 3.0)]


def test_dynamics_of_a_run_are_those_of_its_test(run: Run, tables: RunTables, measurement: Measurement) -> None:
    """Beside a command's flow, cubic is alone, so it converges with nobody."""
    series = intervals({40000: [10, 50, 50, 50, 50], 40002: [90, 50, 50, 50, 50]})
    alone = with_groups(run.traffic, Group("cubic"), streams=1)
    beside = replace(run, traffic=add_sources(alone, CommandSource("bbr", "h1", "true")))
    metrics = run_metrics(beside, replace(tables, intervals=series), measurement.ping_rtt_s, measurement)
    assert (metrics.startup_s, metrics.convergence_s) == (2.0, None)
    assert [(flow.startup_s, flow.convergence_s) for flow in metrics.flows] == [(2.0, None), (1.0, None)]
