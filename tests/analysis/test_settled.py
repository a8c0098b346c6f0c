"""Tests whether a run has settled, on hand-made series and on random series with fixed seeds."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from ccmix.analysis.counting import settling_sentence
from ccmix.analysis.lengths import (
    BBR_CYCLE_S,
    cubic_period_s,
    reno_period_s,
    rounded_up,
    slowest_period,
    too_short,
    too_short_warnings,
)
from ccmix.analysis.settled import (
    BATCHES,
    batch_means,
    critical_value,
    likelihood_ratios,
    mser_5,
    settling,
    steps_seen,
    trends_seen,
)
from ccmix.model import Buffer, Group, Iperf3Source, Loss, Queue, RateChange, Run, Topology
from ccmix.model.results import Settling
from support.model import iperf3_traffic, one_sender

Floats = NDArray[np.float64]
Noise = Callable[[int, np.random.Generator], Floats]

INTERVALS = 200
TIMES = (np.arange(INTERVALS) + 0.5) / INTERVALS  # of the measured time
CORRELATED_OVER = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.15,
    0.2,
)  # of the measured time: until noise is correlated by 1/e
FALSE_ALARMS = 0.05  # at most
FINDS = 0.9  # of drifts by a factor of 2, at least
DEVIATION = 0.075  # of the noise, over the mean goodput


def ar1(over: float, deviation: float = DEVIATION) -> Noise:
    def noise(runs: int, random: np.random.Generator) -> Floats:
        correlation = np.exp(-1 / (over * INTERVALS))
        steps = random.standard_normal((runs, INTERVALS)) * np.sqrt(1 - correlation**2)
        start = correlation * random.standard_normal((runs, 1))
        series: Floats = lfilter([1], [1, -correlation], steps, axis=1, zi=start)[0]
        return deviation * series

    return noise


def sawtooth(periods: float, shape: str) -> Noise:
    """Returns noise with this number of periods in the measured time, with another phase in each
    run: it ramps by 30%, or drops to nothing for 2% of the period as in BBR's ProbeRTT, and the
    queue is refilled in the rest of it.
    """

    def noise(runs: int, random: np.random.Generator) -> Floats:
        phase = (TIMES * periods + random.random((runs, 1))) % 1
        teeth = {"ramp": 0.6 * (phase - 0.5), "dip": np.where(phase < 0.02, -1.0, 0.1 * phase)}[
            shape
        ]
        return teeth + 0.02 * random.standard_normal((runs, INTERVALS))

    return noise


def detected(
    noise: Noise, runs: int, seed: int, groups: int = 1, mean: Floats | float = 1.0
) -> float:
    """Returns the share of runs in which the goodput of any group has a trend; all groups have the
    same mean.
    """
    series = mean / np.mean(mean) + noise(runs * groups, np.random.default_rng(seed))
    return float(trends_seen(batch_means(series), groups).reshape(runs, groups).any(axis=1).mean())


@pytest.mark.parametrize(
    ("groups", "over"), [*((1, over) for over in CORRELATED_OVER), (2, 0.2), (8, 0.2)]
)
def test_noise_that_wanders_is_no_trend(groups: int, over: float) -> None:
    """At most 5% of runs have a trend. The noise is so large that LEAST_CHANGE does not matter."""
    assert detected(ar1(over, 0.5), 2000, 1, groups) <= FALSE_ALARMS


@pytest.mark.parametrize("shape", ["ramp", "dip"])
@pytest.mark.parametrize("periods", [5, 5.5, 6, 7.3, 12])
def test_a_sawtooth_is_no_trend(shape: str, periods: float) -> None:
    """BBR has one of 10 s; a measured time that is judged holds at least 5 periods."""
    assert detected(sawtooth(periods, shape), 500, 2) <= FALSE_ALARMS


DRIFTS = {
    "rises": 1 + TIMES,
    "falls": 2 - TIMES,
    "approaches": 2 - np.exp(-TIMES / 0.3),
    "warms up": 2 + 10 * np.exp(-TIMES / 0.05),
}


@pytest.mark.parametrize("over", CORRELATED_OVER)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("drift", DRIFTS)
def test_a_drift_by_a_factor_of_two_is_a_trend(drift: str, groups: int, over: float) -> None:
    """It is found in at least 90% of runs. Noise deviates by 7.5% of the mean goodput. If there are
    two groups, each drifts.
    """
    assert detected(ar1(over), 500, 3, groups, DRIFTS[drift]) >= FINDS


@pytest.mark.parametrize(
    ("groups", "drift", "over", "finds"),
    [
        (1, "rises", 0.01, 1.0),
        (1, "rises", 0.05, 0.8),
        (1, "falls", 0.1, 0.75),
        (1, "approaches", 0.2, 0.85),
        (2, "rises", 0.01, 1.0),
        (2, "approaches", 0.1, 0.83),
        (2, "falls", 0.2, 0.93),
    ],
)
def test_a_drift_in_more_noise_is_found_less_often(
    groups: int, drift: str, over: float, finds: float
) -> None:
    """Noise deviates by 10%. According to the page on settling, between 75 and 100% are found,
    depending on the correlation.
    """
    assert detected(ar1(over, 0.1), 500, 3, groups, DRIFTS[drift]) == pytest.approx(finds, abs=0.06)


@pytest.mark.long
@pytest.mark.parametrize("drift", DRIFTS)
def test_three_of_four_drifts_are_found_in_noise_of_10_percent(drift: str) -> None:
    """With one group and any correlation, these are 75% of 4000 runs. Chance allows fewer in 1000
    runs.
    """
    for over in CORRELATED_OVER:
        assert detected(ar1(over, 0.1), 1000, 3, 1, DRIFTS[drift]) >= 0.73


def test_a_drift_is_found_beside_a_sawtooth() -> None:
    assert detected(sawtooth(6, "dip"), 1000, 4, mean=DRIFTS["rises"]) >= FINDS


@pytest.mark.long
def test_the_critical_values_are_those_of_a_simulation() -> None:
    """A trend is seen in 3 to 5% of runs without a trend if noise has the longest correlation,
    otherwise in fewer, for any number of groups.
    """
    for over in CORRELATED_OVER:
        parts = (1 + ar1(over)(20_000, np.random.default_rng([5, part])) for part in range(10))
        ratios = np.concatenate([likelihood_ratios(batch_means(part)) for part in parts])
        for groups in (1, 2, 4, 8, 16):
            alarms = groups * float((ratios > critical_value(groups)).mean())
            assert alarms <= FALSE_ALARMS
            assert alarms >= 0.03 or over < max(CORRELATED_OVER)
    for periods in np.arange(5, 20, 0.5):
        for shape in ("ramp", "dip"):
            assert detected(sawtooth(float(periods), shape), 4000, 6) <= FALSE_ALARMS


def steps(
    noise: Noise, runs: int, seed: int, groups: int = 1, mean: Floats | float = 1.0
) -> list[int | None]:
    """Returns after how many batches the goodput of each group steps, if it does."""
    series = mean / np.mean(mean) + noise(runs * groups, np.random.default_rng(seed))
    return steps_seen(batch_means(series), groups)


@pytest.mark.long
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_critical_value_of_a_step_is_that_of_a_simulation(groups: int) -> None:
    """8000 runs have no step. A step is seen in 1% if noise has the longest correlation, otherwise
    in fewer; chance adds 0.3%.
    """
    for over in CORRELATED_OVER:
        alarms = sum(
            step is not None for step in steps(ar1(over, 0.5), 8000 // groups, 5, groups)
        ) / (8000 // groups)
        assert alarms <= 0.013
        assert alarms >= 0.004 or over < max(CORRELATED_OVER)


def test_noise_that_wanders_and_a_drift_are_no_steps() -> None:
    """A step is seen in 1% of runs; chance adds 1% for 500 runs."""
    assert sum(step is not None for step in steps(ar1(0.2, 0.5), 500, 1)) <= 10
    assert (
        sum(step is not None for step in steps(ar1(0.02, 0.02), 500, 1, mean=DRIFTS["rises"])) <= 10
    )


@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_a_step_by_a_factor_of_two_is_found_where_it_is(part: float) -> None:
    """It is found in at least 90% of runs, within one of 20 batches."""
    found = steps(ar1(0.1), 100, 3, mean=np.where(part > TIMES, 1.0, 2.0))
    near = [step for step in found if step is not None and abs(step - part * BATCHES) <= 1]
    assert len(near) >= 90


def test_batches_cover_equal_times() -> None:
    """30 intervals make batches of one and a half: with 0, 1, 2, 3 ... the first batch is (0 + 1 /
    2) / 1.5.
    """
    means = batch_means(np.arange(30.0)[np.newaxis])[0]
    assert len(means) == BATCHES
    assert means[:2] == pytest.approx([(0 + 0.5) / 1.5, (0.5 + 2) / 1.5])
    assert means.mean() == pytest.approx(14.5)


def test_goodput_without_any_noise_has_a_trend_only_if_it_changes() -> None:
    constant, rising = np.full(100, 990e6), np.linspace(1e6, 2e6, 100)
    assert trends_seen(batch_means(np.array([constant, rising, np.zeros(100)])), 1).tolist() == [
        False,
        True,
        False,
    ]
    barely = np.linspace(
        1e6, 1.05e6, 100
    )  # no noise, so certainly a trend; but less than LEAST_CHANGE
    assert not trends_seen(batch_means(barely[np.newaxis]), 1)[0]


def test_the_warm_up_is_what_mser_5_leaves_out() -> None:
    """That is 10 intervals of nothing before noise, nothing if there is only noise, and never more
    than half.
    """
    noise = np.random.default_rng(7).normal(100, 1, 60)
    assert mser_5(np.concatenate([np.zeros(10), noise])) == 10
    assert mser_5(np.tile([99.0, 101.0, 100.0, 98.0, 102.0], 12)) == 0
    assert mser_5(np.concatenate([np.zeros(45), noise[:35]])) == 40
    assert mser_5(np.zeros(3)) == 0


def test_durations_are_rounded_up_to_what_people_write() -> None:
    assert [rounded_up(seconds) for seconds in (0.1, 10, 31, 3601, 8000)] == [
        10,
        10,
        60,
        7200,
        10800,
    ]


def topology(
    rate_bps: float, delay_s: float, bdp: float, loss: Loss | None = None, mtu_bytes: int = 1500
) -> Topology:
    return one_sender(
        rate_bps=rate_bps,
        delay_s=delay_s,
        loss=loss,
        buffer=Buffer(bdp, "bdp"),
        mtu_bytes=mtu_bytes,
        offloads=False,
    )


def run_of(run: Run, ccas: str, path: Topology, duration_s: float, **traffic: float) -> Run:
    groups = tuple(Group(cca) for cca in ccas.split(","))
    known = {"omit_s": 0.0, "interval_s": 0.5} | traffic
    made = iperf3_traffic(groups, streams=len(groups), duration_s=duration_s, **known)
    return replace(run, path=path, traffic=made)


def test_cubic_s_period_is_k_of_rfc_9438() -> None:
    """500 Mbit/s, 60 ms and 4 BDP: half of 18.75 MB is 6474 segments of 1448 bytes, and cbrt(6474 x
    0.3 / 0.4) is 16.9 s. Ten packets at 10 ms grow in the Reno-friendly region: 3 packets / (0.9 /
    1.7) x 10 ms.
    """
    assert cubic_period_s(6474.4, 0.3, 0) == pytest.approx(16.934, abs=0.001)
    assert cubic_period_s(10, 0.01, 0) == pytest.approx(3 / (0.9 / 1.7) * 0.01)
    # with 0.1% of loss the response function has 1.054 x 0.3^0.75 / 0.001^0.75 = 75.9 packets
    assert cubic_period_s(6474.4, 0.3, 0.001) == pytest.approx((75.93 * 0.75) ** (1 / 3), rel=1e-3)


def test_reno_s_period_is_half_its_window_in_rtts() -> None:
    assert reno_period_s(1000, 0.1, 0) == pytest.approx(50)
    assert reno_period_s(1000, 0.1, 0.015) == pytest.approx(0.5)  # 10 packets


def test_the_slowest_thing_of_a_path(run: Run) -> None:
    issue = topology(500e6, 0.03, 4)
    both = slowest_period(run_of(run, "cubic,bbr", issue, 10))
    assert both
    assert (both.name, both.enough_s) == ("CUBIC periods", pytest.approx(5 * 16.934, abs=0.01))
    bbr = slowest_period(run_of(run, "bbr", issue, 10))
    assert bbr
    assert (bbr.name, bbr.seconds) == ("BBR cycles", BBR_CYCLE_S)
    vegas = slowest_period(run_of(run, "vegas", issue, 10))
    assert vegas
    assert (vegas.name, vegas.enough_s) == ("RTTs", pytest.approx(100 * 0.3))


def test_a_short_queue_and_pacing_make_periods_shorter(run: Run) -> None:
    """fq_codel keeps less than 1 BDP, so the window of the single flow is 2 BDP: 5179.6 segments.
    At 10 Mbit/s and 120 ms, it is 103.6.
    """
    path = replace(topology(500e6, 0.03, 4), queue=Queue("fq_codel"))
    aqm = run_of(run, "cubic", path, 60)
    period = slowest_period(aqm)
    assert period
    assert period.seconds == pytest.approx((5179.6 * 0.75) ** (1 / 3), rel=1e-4)
    paced = slowest_period(replace(aqm, traffic=replace(aqm.traffic, pacing_bps=10e6)))
    assert paced
    assert paced.enough_s == pytest.approx(5 * (103.59 * 0.75) ** (1 / 3), rel=1e-3)


def flows_of(run: Run, **goodputs_bps: Floats) -> pl.DataFrame:
    """Returns dynamics.goodputs() of a flow for each group, from the start of the run."""
    return pl.DataFrame(
        [
            {
                "interval": interval,
                "host": "h1",
                "port": 40000 + 2 * number,
                "group": group,
                "goodput_bps": float(value),
            }
            for number, (group, values) in enumerate(goodputs_bps.items())
            for interval, value in enumerate(values)
        ]
    )


def judged(run: Run, **goodputs_bps: Floats) -> Settling:
    return settling(run, flows_of(run, **goodputs_bps), ())


SHORT = topology(100e6, 0.005, 1)


def noisy(mean: Floats | float, count: int, seed: int) -> Floats:
    return mean * np.random.default_rng(seed).normal(1, 0.05, count)


def test_a_steady_run_that_is_long_enough_has_settled(run: Run) -> None:
    verdict = judged(
        run_of(run, "cubic,bbr", SHORT, 60), cubic=noisy(40e6, 120, 1), bbr=noisy(55e6, 120, 2)
    )
    assert (verdict.settled, verdict.reasons, verdict.enough_s) == (True, (), None)
    assert [(trend.group, trend.quantity) for trend in verdict.trends] == [
        ("cubic", "goodput"),
        ("bbr", "goodput"),
        ("cubic", "share"),
        ("bbr", "share"),
    ]
    assert settling_sentence(verdict) == ""


def test_a_run_with_a_trend_has_not_settled(run: Run) -> None:
    """bbr's goodput in the last quarter is 54 / 36 times that of the first; the change of 0.4 is 4
    times too large.
    """
    rising = np.linspace(33e6, 57e6, 120)
    verdict = judged(run_of(run, "bbr", SHORT, 60), bbr=noisy(rising, 120, 3))
    [trend] = verdict.trends
    assert (verdict.settled, trend.seen, trend.factor) == (
        False,
        True,
        pytest.approx(54 / 36, rel=0.05),
    )
    assert settling_sentence(verdict) == (
        "not settled: bbr's goodput still rises (x1.5 from the first to the last quarter); "
        "duration = 300s would do"
    )


def test_a_share_may_have_a_trend_where_goodput_has_none(run: Run) -> None:
    """Both goodputs jump up and down together, so neither shows the trend of the share."""
    together = np.repeat(np.random.default_rng(9).uniform(0.1, 2, 20), 6)
    share = np.linspace(0.3, 0.5, 120)
    verdict = judged(
        run_of(run, "cubic,bbr", SHORT, 60),
        cubic=50e6 * together * share,
        bbr=50e6 * together * (1 - share),
    )
    assert not any(trend.seen for trend in verdict.trends if trend.quantity == "goodput")
    assert verdict.reasons[0].startswith("cubic's share still rises")


def test_what_only_its_warm_up_unsettles_needs_a_longer_omit(run: Run) -> None:
    """In 10 of 60 s the goodput is a tenth; 3 s were omitted already."""
    values = np.concatenate([noisy(90e6, 6, 1), noisy(9e6, 20, 4), noisy(90e6, 100, 5)])
    verdict = judged(run_of(run, "bbr", SHORT, 60, omit_s=3.0), bbr=values)
    assert (verdict.settled, verdict.warm_up_s, verdict.enough_omit_s, verdict.enough_s) == (
        False,
        10.0,
        20.0,
        60.0,
    )
    assert settling_sentence(verdict).endswith("; omit = 20s, duration = 60s would do")


def test_a_step_is_named_and_no_longer_time_would_do(run: Run) -> None:
    """Another flow ends after 30 of 60 s; from then on, the goodput is 4.9 times as large."""
    values = np.concatenate([noisy(18e6, 60, 1), noisy(88.2e6, 60, 2)])
    verdict = judged(run_of(run, "bbr", SHORT, 60), bbr=values)
    [trend] = verdict.trends
    assert (verdict.settled, trend.step_s, trend.factor) == (
        False,
        30.0,
        pytest.approx(4.9, rel=0.05),
    )
    assert (verdict.enough_s, verdict.enough_omit_s) == (None, None)
    assert settling_sentence(verdict) == (
        "not settled: bbr's goodput steps up after 30 s of the measured time (x4.9); find out "
        "what changed"
    )


def test_a_measured_time_of_too_few_periods_is_too_short_to_tell(run: Run) -> None:
    """The example is from the issue: steady or not, 10 s hold less than one period of CUBIC."""
    verdict = judged(
        run_of(run, "cubic,bbr", topology(500e6, 0.03, 4), 10),
        cubic=noisy(4e8, 20, 1),
        bbr=noisy(8e7, 20, 2),
    )
    assert settling_sentence(verdict) == (
        "not settled: 10 s are too short to tell: they hold 0.59 CUBIC periods of 17 s, and 5 "
        "are needed; "
        "duration = 120s would do"
    )
    assert (verdict.slowest, verdict.slowest_period_s) == (
        "CUBIC periods",
        pytest.approx(16.934, abs=0.001),
    )


def test_too_few_intervals_are_too_short_to_tell(run: Run) -> None:
    verdict = judged(run_of(run, "cubic", SHORT, 10, interval_s=1.0), cubic=noisy(9e7, 10, 1))
    assert (verdict.settled, verdict.trends, verdict.enough_s) == (False, (), 20)
    assert verdict.reasons == ("10 intervals of 1 s are too few to tell: 20 are needed",)


@pytest.mark.parametrize(
    ("cca", "duration_s", "interval_s", "clauses"),
    [
        (
            "bbr",
            10,
            0.5,
            ("10 s are too short to tell: they hold 1 BBR cycle of 10 s, and 5 are needed",),
        ),
        (
            "bbr",
            1,
            0.01,
            ("1 s is too short to tell: it holds 0.1 BBR cycles of 10 s, and 5 are needed",),
        ),
        ("bbr", 50, 50, ("1 interval of 50 s is too few to tell: 20 are needed",)),
        ("bbr", 50, 25, ("2 intervals of 25 s are too few to tell: 20 are needed",)),
    ],
)
def test_a_clause_has_the_number_of_its_nouns(
    run: Run, cca: str, duration_s: float, interval_s: float, clauses: tuple[str, ...]
) -> None:
    made = run_of(run, cca, SHORT, duration_s, interval_s=interval_s)
    assert tuple(clause for clause, _ in too_short(made, slowest_period(made))) == clauses


def test_what_changes_by_design_is_not_judged(run: Run) -> None:
    steady = run_of(run, "cubic", SHORT, 60)
    later = Iperf3Source("late", "h1", (Group("bbr"),), 1, start_s=30.0)
    staggered = replace(
        steady, traffic=replace(steady.traffic, sources=(*steady.traffic.sources, later))
    )
    by_group = Iperf3Source("", "h1", (Group("cubic"), Group("bbr", delay_s=20.0)), 2)
    delayed = replace(steady, traffic=replace(steady.traffic, sources=(by_group,)))
    changing = replace(steady, path=replace(SHORT, changes=(RateChange(20.0, 50e6),)))
    for unjudged, at_s in ((staggered, 30), (delayed, 20), (changing, 20)):
        verdict = judged(unjudged, cubic=noisy(9e7, 120, 1))
        assert verdict.settled is None
        assert f"after {at_s} s" in verdict.reasons[0]
    unknown = replace(steady, traffic=replace(steady.traffic, duration_s=None))
    assert judged(unknown, cubic=noisy(9e7, 120, 1)).settled is None
    assert judged(steady, cubic=np.array([])).settled is None


def test_a_plan_warns_of_durations_that_cannot_do(run: Run) -> None:
    """Of three conditions, the one with 4 BDP holds too few periods of CUBIC, and the one with 1
    MB/s too few RTTs.
    """
    fits = replace(run_of(run, "cubic", SHORT, 60), condition={"buffer": "1bdp"})
    large = replace(
        run_of(run, "cubic,bbr", topology(500e6, 0.03, 4), 60), condition={"buffer": "4bdp"}
    )
    slow = replace(run_of(run, "vegas", topology(8e6, 0.1, 4), 60), condition={"buffer": "slow"})
    assert list(too_short_warnings([fits, large, slow, replace(large, iteration=2)])) == [
        "one: 2 of 3 conditions can't settle, such as buffer=slow: 60 s are too short to tell: "
        "they hold 60 RTTs of "
        "1 s, and 100 are needed; duration = 120s would do"
    ]
    assert list(too_short_warnings([fits])) == []
    by_design = replace(large, path=replace(large.topology, changes=(RateChange(20.0, 50e6),)))
    unknown = replace(large, traffic=replace(large.traffic, duration_s=None))
    assert list(too_short_warnings([by_design, unknown])) == []
