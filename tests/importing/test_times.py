"""Tests the estimate of the times that a user asked for, at the limits of their distance from
measured times.
"""

import pytest

from ccmix.importing.times import duration_s, interval_s, sampled_duration_s, sampling_interval_s


@pytest.mark.parametrize(
    ("lengths_s", "asked_s"),
    [
        ([0.499, 0.4991, 0.5004], 0.5),  # as iperf3 3.1 measured in CI
        ([1.000123, 1.001, 0.9999, 0.02], 1.0),
        ([0.1019] * 3, 0.1),
        ([0.105] * 3, 0.105),  # no timer is that late
        ([0.0114] * 3, 0.01),
        ([0.005] * 3, 0.005),
        ([0.0012] * 3, 0.001),
        ([0.0001], 0.001),  # no iperf3 reports more often
        ([], 0.0),
    ],
)
def test_intervals(lengths_s: list[float], asked_s: float) -> None:
    assert interval_s(lengths_s) == asked_s


@pytest.mark.parametrize(("samples", "step_s"), [(40, 0.1), (60, 0.101)])
def test_a_loop_whose_delays_add_up_to_a_sample(samples: int, step_s: float) -> None:
    assert sampling_interval_s([0.101] * samples) == step_s


def test_a_gap_in_a_log_is_no_delay() -> None:
    assert sampling_interval_s([*[0.1] * 50, 7.0]) == 0.1


@pytest.mark.parametrize(
    ("measured_s", "asked_s"),
    [
        (10.000123, 10.0),
        (9.9995, 10.0),
        (10.04, 10.0),
        (10.11, 10.11),
        (60.09, 60.0),
        (1.04, 1.0),
        (1.06, 1.06),
        (0.04, 0.04),
        (33.7, 33.7),
        (0.0, 0.0),
    ],
)
def test_durations(measured_s: float, asked_s: float) -> None:
    assert duration_s(measured_s) == asked_s


@pytest.mark.parametrize(
    ("measured_s", "step_s", "asked_s"),
    [
        (1.85, 0.1, 2.0),
        (2.0, 0.1, 2.0),
        (2.001, 0.1, 2.0),
        (1.75, 0.1, 1.75),
        (9.0, 1.0, 9.0),
        (8.3, 1.0, 8.3),
    ],
)
def test_durations_by_samples(measured_s: float, step_s: float, asked_s: float) -> None:
    assert sampled_duration_s(measured_s, step_s) == asked_s
