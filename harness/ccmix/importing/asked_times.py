"""Estimates the times that a person asked a tool for from those that its clock measured, for sources that report only
the latter.
"""

import math
import statistics
from collections.abc import Sequence

from ccmix.importing.numbers import LEAST_INTERVAL_S

GRID_S = 0.01  # people ask for intervals that are multiples of it
LATE_S = 2e-3  # by which timers of iperf3 and of a loop that calls ss are early or late
LATE_END_S = 0.1  # by which a test ends late: its last data is still on the path
LATE_END_FRACTION = 0.05
HALF_A_SAMPLE = 0.5


def interval_s(lengths_s: Sequence[float]) -> float:
    """Returns the asked interval of measured ones: their median, as a multiple of GRID_S if it is within LATE_S of one;
    0 without any.
    """
    if not lengths_s:
        return 0.0
    median_s = statistics.median(lengths_s)
    asked_s = round(median_s / GRID_S) * GRID_S
    near = asked_s > 0 and abs(median_s - asked_s) <= LATE_S
    return max(round(asked_s if near else median_s, 3), LEAST_INTERVAL_S)


def sampling_interval_s(lengths_s: Sequence[float]) -> float:
    """Returns interval_s() of a loop that sleeps between samples; their median if each comes so much later that the
    delays add up to another sample, since samples then have no places on the grid of the asked interval.
    """
    asked_s = interval_s(lengths_s)
    if not asked_s:
        return 0.0
    median_s = statistics.median(lengths_s)
    delayed_by = abs(median_s - asked_s) / asked_s * len(lengths_s)
    return max(median_s, LEAST_INTERVAL_S) if delayed_by > HALF_A_SAMPLE else asked_s


def duration_s(measured_s: float) -> float:
    """Returns the asked duration of a test that took this time: iperf3 takes whole seconds, and ends a little late."""
    asked_s = float(math.floor(measured_s + LATE_S))
    late_s = measured_s - asked_s
    near = asked_s > 0 and late_s <= min(LATE_END_S, LATE_END_FRACTION * asked_s)
    return asked_s if near else measured_s


def sampled_duration_s(measured_s: float, between_samples_s: float) -> float:
    """Returns the asked duration of a test, in whole seconds, if only one can be meant: its first and its last sample
    are this time apart, and it began and ended less than a sample before and after.
    """
    asked_s = float(math.ceil(measured_s - LATE_S))
    beyond_s = 2 * between_samples_s
    return asked_s if asked_s - measured_s <= beyond_s < 1 else measured_s
