"""Computes the ratio of two means over the same blocks, with its interval."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ccmix.analysis.comparison import MetricSample
from ccmix.analysis.distributions import t_quantile
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL


@dataclass(frozen=True)
class Ratio:
    """Describes the ratio of the mean of some values to the baseline's mean.

    `interval` is None if there are few blocks, if all have the same values, or if the baseline does not differ
    significantly from 0.
    """

    value: float
    interval: tuple[float, float] | None  # 95%


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Ratio | None:
    """Returns the ratio of values to the baseline's values in the same blocks, in the same order; None unless the
    baseline's mean is above 0.

    The interval is Fieller's for paired values (Fieller 1954, with the covariance): all ratios r for which Student's
    paired test of values - r x baseline, with n-1 degrees of freedom, is not significant at 5%.
    """
    if not values or statistics.fmean(baseline) <= 0:
        return None
    of_values, of_baseline = statistics.fmean(values), statistics.fmean(baseline)
    ratio = of_values / of_baseline
    alike = MetricSample(tuple(values)).alike and MetricSample(tuple(baseline)).alike
    if alike or len(values) < LEAST_FOR_INTERVAL:
        return Ratio(ratio, None)
    reach = t_quantile(0.975, len(values) - 1) ** 2 / len(values)
    square = of_baseline**2 - reach * statistics.variance(baseline)
    if square <= 0:
        return Ratio(ratio, None)
    cross = of_values * of_baseline - reach * statistics.covariance(values, baseline)
    rest = of_values**2 - reach * statistics.variance(values)
    root = math.sqrt(max(0.0, cross**2 - square * rest))
    return Ratio(ratio, (max(0.0, (cross - root) / square), (cross + root) / square))
