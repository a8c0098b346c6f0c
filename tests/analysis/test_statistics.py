"""Tests statistics over iterations against numbers worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.statistics import table
from ccmix.model import Run
from ccmix.model.results import BottleneckMetrics, Finding, FinishedRun, Status
from ccmix.terms import IMPORTED
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import with_senders


def finished(
    run: Run,
    goodput_bps: float,
    status: Status = "valid",
    rate: float | None = 0.01,
    rtt_s: float | None = 0.02,
    cca: str = "cubic",
    **of_run: Any,
) -> FinishedRun:
    group = group_metrics(cca, goodput_bps, streams=2, retransmission_rate=rate, rtt_median_s=rtt_s)
    return finished_run(run, metrics([group], fairness=0.5, **of_run), status)


def bottleneck(drop_rate: float) -> BottleneckMetrics:
    return BottleneckMetrics(
        backlog_mean_bytes=0,
        backlog_median_bytes=0,
        backlog_p95_bytes=0,
        backlog_p99_bytes=0,
        backlog_max_bytes=0,
        occupancy_mean=0.5,
        drops=0,
        drop_rate=drop_rate,
        utilisation=1.0,
    )


def test_an_interval_by_hand() -> None:
    # mean 3, s = sqrt(10/4), s/sqrt(5) = sqrt(0.5); t(0.975, 4) = 2.776445 from a printed table
    half = 2.776445 * 0.5**0.5
    assert confidence_interval([1, 2, 3, 4, 5]) == pytest.approx((3 - half, 3 + half), rel=1e-6)
    # t(0.95, 2) = 2.919986; s = 1
    half = 2.919986 / 3**0.5
    assert confidence_interval([1, 2, 3], level=0.9) == pytest.approx(
        (2 - half, 2 + half), rel=1e-6
    )


def test_means_are_over_valid_runs_and_the_others_are_counted(run: Run) -> None:
    runs = [
        finished(run, 90e6, rate=0.01, rtt_s=0.010),
        finished(run, 110e6, rate=0.03, rtt_s=0.030),
        finished(run, 100e6, rate=None, rtt_s=0.011),
        finished(run, 999e6, status="limited", rate=0.9, rtt_s=0.9),
        finished(run, 999e6, status="unknown", rate=0.9, rtt_s=0.9),
    ]
    [row] = table(runs)
    assert (row.runs, row.invalid, row.status) == (5, 2, "valid")
    assert row.goodput_mean_bps == 100e6
    assert row.goodput_cv == pytest.approx(0.1)  # s = 10e6 with n-1 = 2
    half = 4.302653 * 10e6 / 3**0.5  # t(0.975, 2)
    assert row.goodput_ci95_bps == pytest.approx((100e6 - half, 100e6 + half), rel=1e-6)
    assert row.retransmission_rate_mean == pytest.approx(0.02)
    assert row.rtt_median_s == pytest.approx(
        0.017
    )  # the mean of 10, 30 and 11 ms, the runs' medians
    assert row.fairness_mean == 0.5
    assert (row.entry, row.condition, row.group, row.cca, row.streams) == (
        "one",
        {"delay": "5ms"},
        "cubic",
        "cubic",
        2,
    )


def test_without_a_valid_run_the_goodput_of_the_others_is_apart(run: Run) -> None:
    by_host = Finding("cpu", "the processor: core 0 was idle 0% of the time", accepted=False)
    runs = [finished(run, goodput_bps, status="limited") for goodput_bps in (1e6, 3e6)]
    runs = [replace(each, verdict=replace(each.verdict, findings=(by_host,))) for each in runs]
    [row] = table(
        [*runs, finished(run, 9e6, status="unknown"), finished(run, 7e6, status="unknown")]
    )
    assert (row.runs, row.invalid, row.status) == (4, 4, "limited")
    assert [
        (each.meaning, each.limits, each.runs, each.goodput_mean_bps) for each in row.not_valid
    ] == [
        ("lower bound", ("cpu",), 2, 2e6),
        ("unknown", (), 2, 8e6),
    ]
    assert (row.goodput_mean_bps, row.goodput_cv, row.goodput_ci95_bps) == (None, None, None)
    assert (row.retransmission_rate_mean, row.rtt_median_s, row.fairness_mean) == (None, None, None)


def test_the_status_is_that_of_the_runs_that_count(run: Run) -> None:
    imported, early = (
        Finding(IMPORTED, "from a.json", accepted=True),
        Finding("ended-early", "early", accepted=False),
    )
    groups = metrics([group_metrics("cubic")])
    runs = [
        finished_run(run, groups, "limited", [early, imported]),
        finished_run(run, groups, "unknown", [imported]),
    ]
    [row] = table(runs)
    assert (row.status, row.invalid) == ("unknown", 1)


def test_one_run_varies_by_nothing(run: Run) -> None:
    [row] = table([finished(run, 1e6)])
    assert (row.goodput_mean_bps, row.goodput_cv, row.goodput_ci95_bps) == (1e6, None, None)
    [row] = table([finished(run, 0.0), finished(run, 0.0)])
    assert (row.goodput_mean_bps, row.goodput_cv) == (0, None)


def test_a_row_for_each_entry_condition_and_group_in_the_order_of_the_plan(run: Run) -> None:
    other = replace(run, condition={"delay": "44ms"})
    runs = [
        finished(run, 1.0),
        finished(other, 2.0),
        finished(replace(run, entry="two"), 3.0),
        finished(run, 4.0, cca="bbr"),
        finished(replace(other, iteration=2), 6.0),
    ]
    rows = [
        (row.entry, row.condition["delay"], row.group, row.goodput_mean_bps) for row in table(runs)
    ]
    assert rows == [
        ("one", "5ms", "cubic", 1),
        ("one", "44ms", "cubic", 4),
        ("two", "5ms", "cubic", 3),
        ("one", "5ms", "bbr", 4),
    ]


def test_every_metric_has_its_spread_over_the_valid_runs(run: Run) -> None:
    runs = [
        finished(run, 90e6),
        finished(run, 100e6),
        finished(run, 110e6),
        finished(run, 1e6, "limited"),
    ]
    runs = [
        replace(
            run,
            metrics=replace(
                run.metrics,
                bottleneck=bottleneck(0.01 * number),
                convergence_s=2.0 if number == 1 else None,
            ),
        )
        for number, run in enumerate(runs)
    ]
    [row] = table(runs)
    goodput, drops = row.group_metrics["goodput_bps"], row.run_metrics["bottleneck.drop_rate"]
    assert goodput
    assert drops
    assert (goodput.runs, goodput.mean, goodput.deviation, goodput.cv) == (3, 100e6, 10e6, 0.1)
    assert (drops.mean, drops.deviation) == (pytest.approx(0.01), pytest.approx(0.01))
    converged = row.run_metrics["convergence_s"]
    assert converged
    assert (converged.runs, converged.mean, converged.deviation, converged.ci95) == (
        1,
        2.0,
        None,
        None,
    )
    assert row.run_metrics["netem_loss"] is None  # which an archive of an earlier version lacks
    assert (row.iterations_needed, row.too_few) == (18, True)  # see test_intervals.py


def test_from_15_runs_on_the_interval_is_a_bootstrap(run: Run) -> None:
    values = [100e6 + number**2 * 1e5 for number in range(15)]
    [row] = table([finished(run, value) for value in values])
    assert row.goodput_ci95_bps == confidence_interval(values)
    assert not row.too_few


def test_rtt_buckets_pool_what_differs_in_rtt_alone(run: Run) -> None:
    """10 and 20 ms are below 30 ms of base RTT; 30 ms is not."""
    at = {
        delay: replace(
            run,
            condition={"delay": delay, "loss": "1%"},
            path=with_senders(run.topology, delay_s=delay_s),
        )
        for delay, delay_s in (("5ms", 0.005), ("10ms", 0.010), ("15ms", 0.015))
    }
    rows = table(
        [finished(at["5ms"], 1e6), finished(at["10ms"], 3e6), finished(at["15ms"], 9e6)],
        rtt_buckets=True,
    )
    assert [(row.condition, row.runs, row.goodput_mean_bps) for row in rows] == [
        ({"loss": "1%", "base RTT": "< 30ms"}, 2, 2e6),
        ({"loss": "1%", "base RTT": "≥ 30ms"}, 1, 9e6),
    ]
