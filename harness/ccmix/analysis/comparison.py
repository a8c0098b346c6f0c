"""Tests whether two settings differ, by how much, and whether they are the same within a margin.

Runs of one campaign are paired by block: a block is an iteration, in which every setting was run
once. Runs of two campaigns share no blocks, so they are compared as two samples. The formulas, and
the simulations behind them, are in docs/explanation/statistics.md.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccmix.analysis.intervals import (
    BOOTSTRAP_FROM,
    LEAST_FOR_INTERVAL,
    confidence_interval,
    fewest,
    t_cdf,
    t_quantile,
)

SIGNIFICANCE = 0.05
POWER = 0.8  # of a comparison with as many iterations as recommended
FLIPS = 9999  # of signs: the smallest p-value is 1 / 10,000
SEED = 11
HALVINGS = 30  # of the range that holds an end of an interval
MARGIN = 0.1  # of the mean, within which two settings count as the same
# of the mean: values no further apart count as equal, as in runs in which nothing is random
ALIKE = 1e-6


def significant(p_value: float | None) -> bool:
    """Returns whether a p-value is at most SIGNIFICANCE. It is None if the test could not be made,
    and then not significant.
    """
    return p_value is not None and p_value <= SIGNIFICANCE


@dataclass(frozen=True)
class Paired:
    """Holds the comparison of a setting's values with the baseline's, over the blocks (iterations)
    that have both. Differences are the value minus the baseline's, in the unit of the values.

    `alike` says that all blocks have the same values, as in runs in which nothing is random. These
    blocks count as a single observation, so there is no interval and no test.
    """

    blocks: int
    baseline_mean: float
    difference: float
    interval: tuple[float, float] | None  # 95%, of the difference
    gain_percent: float | None  # of the baseline's mean: GpGain, where the values are goodputs
    effect_size: float | None  # Hedges' g of the differences
    p_value: float | None
    iterations_needed: int | None  # to see such a difference
    alike: bool = False

    def iterations_among(self, comparisons: int) -> int | None:
        """Returns how many iterations are needed to detect this difference with probability POWER,
        if it is one of several comparisons. Returns None if there is no effect size, or if too many
        iterations would be needed.

        Each comparison is then tested at SIGNIFICANCE / comparisons (Bonferroni). The number is
        also enough for Holm's correction, which is less strict.
        """
        if self.effect_size is None:
            return None
        size = abs(self.effect_size) / _small_sample_factor(self.blocks)
        needed = _fewest_blocks(size, SIGNIFICANCE / comparisons)
        return needed and max(needed, self.blocks + 1)


def paired(values: Sequence[float], baseline: Sequence[float]) -> Paired | None:
    """Compares the values of a setting with those of the baseline, pair by pair: both have a value
    for each block (an iteration), in the same order. Returns None if there are no values.
    """
    if not values:
        return None
    differences = [value - other for value, other in zip(values, baseline, strict=True)]
    difference, baseline_mean = statistics.fmean(differences), statistics.fmean(baseline)
    alike = all_alike(values, baseline)
    observations = [] if alike else differences
    return Paired(
        blocks=len(differences),
        baseline_mean=baseline_mean,
        difference=difference,
        interval=confidence_interval(observations),
        gain_percent=difference / baseline_mean * 100 if baseline_mean else None,
        effect_size=_hedges_g(observations),
        p_value=_p_value(observations),
        iterations_needed=_blocks_needed(observations),
        alike=alike,
    )


def all_alike(*samples: Sequence[float]) -> bool:
    """Returns whether the values of each sample are alike: see MetricSample.alike."""
    return all(MetricSample(tuple(sample)).alike for sample in samples)


def _hedges_g(differences: Sequence[float]) -> float | None:
    """Returns the effect size Hedges' g: the mean over the standard deviation, corrected for few
    values (Hedges 1981). Returns None for fewer than 3 values, or if they are all equal.
    """
    if len(differences) < LEAST_FOR_INTERVAL or not (deviation := statistics.stdev(differences)):
        return None
    return statistics.fmean(differences) / deviation * _small_sample_factor(len(differences))


def _small_sample_factor(count: int) -> float:
    """Returns the usual approximation of Hedges' correction factor J, which is 0 for two values."""
    return 1 - 3 / (4 * (count - 1) - 1)


def _p_value(differences: Sequence[float]) -> float | None:
    """Returns the two-sided p-value of the hypothesis that the mean difference is 0; None for fewer
    than 3 differences.

    Up to 14 differences, it is the p-value of Student's paired test. From 15 on, it is that of a
    randomisation test, which gives the differences random signs FLIPS times: the share of the
    resulting sums that are at least as far from 0 as the actual sum.
    """
    if len(differences) < LEAST_FOR_INTERVAL:
        return None
    if len(differences) >= BOOTSTRAP_FROM:
        sums = np.abs(_signs(len(differences)) @ np.asarray(differences))
        observed_sum = abs(math.fsum(differences))
        return float((1 + np.count_nonzero(sums >= observed_sum * (1 - 1e-12))) / (FLIPS + 1))
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return _two_sided(statistics.fmean(differences), error, len(differences) - 1)


@functools.lru_cache(maxsize=8)
def _signs(count: int) -> NDArray[np.float64]:
    """Returns FLIPS rows of `count` random signs (1 or -1), always the same ones."""
    return np.random.default_rng([SEED, count]).choice([-1.0, 1.0], size=(FLIPS, count))


def _two_sided(difference: float, error: float, degrees: float) -> float:
    """Returns the p-value of the hypothesis that a difference with this standard error is 0, by
    Student's t with these degrees of freedom.
    """
    if not error:
        return 0.0 if difference else 1.0
    return 2 * t_cdf(-abs(difference) / error, degrees)


def one_sided(excess: float, error: float, degrees: float) -> float:
    """Returns the p-value of a one-sided test by Student's t: a small value says that `excess`, a
    value with this standard error, is above 0.
    """
    return t_cdf(-excess / error, degrees)


def _detectable_errors(degrees: float, confidence: float, power: float) -> float:
    """Returns how far a value must be from a limit, in standard errors, so that a one-sided test
    detects it. `confidence` is 1 minus the test's level, such as 0.975; `power` is the probability
    that the test detects such a value.
    """
    return t_quantile(confidence, degrees) + t_quantile(power, degrees)


def _blocks_needed(differences: Sequence[float]) -> int | None:
    """Returns how many blocks (iterations) are needed to detect this mean difference with
    probability POWER, if further differences vary as these do. Returns None if there are fewer than
    2 differences, if their mean is 0, or if too many blocks would be needed.
    """
    if len(differences) < 2 or not (difference := abs(statistics.fmean(differences))):
        return None
    deviation = statistics.stdev(differences)
    return _fewest_blocks(difference / deviation if deviation else math.inf, SIGNIFICANCE)


def _fewest_blocks(size: float, level: float) -> int | None:
    """Returns how many blocks are needed to detect a mean difference of `size` standard deviations
    with probability POWER, in a test at the significance `level`. Returns None if too many would be
    needed, or if the randomisation test cannot give a p-value as small as `level`.

    The formula is that of Chow, Shao and Wang 2008, Sample Size Calculations in Clinical Research,
    3.1.1, with quantiles of Student's t instead of the normal ones.
    """
    count = fewest(
        lambda count: size * math.sqrt(count) >= _detectable_errors(count - 1, 1 - level / 2, POWER)
    )
    by_randomisation = count is not None and count >= BOOTSTRAP_FROM
    return None if by_randomisation and level * (FLIPS + 1) < 1 else count


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusts p-values for the number of comparisons (Holm 1979), and returns them in the same
    order. If all adjusted p-values are compared with the same level, such as 0.05, the probability
    of any false positive is at most this level.

    None stands for a comparison without a p-value: it stays None, and is not counted.
    """
    known = sorted(
        (p_value, index) for index, p_value in enumerate(p_values) if p_value is not None
    )
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p_value, index) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p_value))
        adjusted[index] = largest
    return adjusted


def corrected(results: Sequence[Paired | None]) -> list[tuple[float | None, int | None]]:
    """Returns two values for each comparison: its p-value after Holm's correction for all of them,
    and how many iterations would make it significant. Each is None if it is not known.

    Holm's correction tests the smallest of n p-values at SIGNIFICANCE / n. So the iterations are
    those that this level needs, where n is the number of comparisons that are not significant yet.
    """
    adjusted = holm([result.p_value if result else None for result in results])
    not_significant = sum(p is not None and p > SIGNIFICANCE for p in adjusted)
    comparisons = max(not_significant, 1)
    needed = [result.iterations_among(comparisons) if result else None for result in results]
    return list(zip(adjusted, needed, strict=True))


@dataclass(frozen=True)
class MetricSample:
    """Holds the values of a metric from the runs of one setting, a value for each run."""

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @functools.cached_property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @functools.cached_property
    def alike(self) -> bool:
        """Returns whether there are several values, and all are equal except for rounding, as in
        runs in which nothing is random. Such values count as a single observation.
        """
        return self.count > 1 and max(self.values) - min(self.values) <= ALIKE * abs(self.mean)

    @property
    def observations(self) -> int:
        return 1 if self.alike else self.count

    @functools.cached_property
    def variance(self) -> float:
        return statistics.variance(self.values)


@dataclass(frozen=True)
class Unpaired:
    """Holds the comparison of two samples A and B whose runs cannot be paired. A field is None if
    A's mean is not above 0, or if a sample has too few values or only values that are all alike.
    """

    ratio: float | None  # mean of B over mean of A
    interval: (
        tuple[float, float] | None
    )  # 95%, of the ratio; None too if A's mean does not differ significantly from 0
    p_different: float | None  # small: the means differ
    p_same: float | None  # small: the ratio is within the margin; the larger of two one-sided tests


def unpaired(a: MetricSample, b: MetricSample, margin: float = MARGIN) -> Unpaired:
    """Tests two samples A and B for two things: whether their means differ (Welch), and whether
    they are the same within the margin, that is, whether the ratio of B to A is between 1 - margin
    and 1 + margin (two one-sided tests, Schuirmann 1987).

    To test a limit of the ratio, B - limit x A is compared with 0 (Sasabuchi 1988). The interval of
    the ratio is found in the same way (Fieller).
    """
    if min(a.observations, b.observations) < LEAST_FOR_INTERVAL:
        ratio = b.mean / a.mean if a.count and b.count and a.mean > 0 else None
        return Unpaired(ratio, None, None, None)
    p_different = _two_sided(b.mean - a.mean, *_error(a, b, 1.0))
    if a.mean <= 0:
        return Unpaired(None, None, p_different, None)
    below = one_sided((1 + margin) * a.mean - b.mean, *_error(a, b, 1 + margin))
    p_same = max(p_above(a, b, 1 - margin), below)
    return Unpaired(b.mean / a.mean, _fieller(a, b), p_different, p_same)


def p_above(a: MetricSample, b: MetricSample, limit: float = 1.0) -> float:
    """Returns the p-value of Welch's one-sided test: a small value says that the mean of B is above
    `limit` times the mean of A.

    Both samples need two values or more that are not all alike.
    """
    return one_sided(b.mean - limit * a.mean, *_error(a, b, limit))


def _error(a: MetricSample, b: MetricSample, limit: float) -> tuple[float, float]:
    """Returns the standard error of (mean of B - limit x mean of A), and its degrees of freedom
    (Welch and Satterthwaite).
    """
    variance_a, variance_b = limit**2 * a.variance / a.count, b.variance / b.count
    variance = variance_a + variance_b
    degrees = variance**2 / (variance_a**2 / (a.count - 1) + variance_b**2 / (b.count - 1))
    return math.sqrt(variance), degrees


def _fieller(a: MetricSample, b: MetricSample) -> tuple[float, float] | None:
    """Returns the 95% confidence interval of the ratio of B's mean to A's, at least 0 (Fieller
    1954): all ratios that Welch's test at 5%, with its degrees of freedom at each ratio, does not
    reject. Returns None if the interval has no upper end.
    """
    if b.mean <= 0 or not (least_inverse := _least_ratio(b, a)):
        return None
    return _least_ratio(a, b), 1 / least_inverse


def _least_ratio(a: MetricSample, b: MetricSample) -> float:
    """Returns the lower end of the confidence interval of the ratio of B's mean to A's, found by
    bisection: the largest ratio r for which B's mean is significantly above r x A's mean. Returns 0
    if there is none.
    """
    if p_above(a, b, 0.0) > SIGNIFICANCE / 2:
        return 0.0
    rejected, accepted = 0.0, b.mean / a.mean
    for _ in range(HALVINGS):
        middle = (rejected + accepted) / 2
        if p_above(a, b, middle) <= SIGNIFICANCE / 2:
            rejected = middle
        else:
            accepted = middle
    return rejected


def iterations_to_decide(a: MetricSample, b: MetricSample, margin: float = MARGIN) -> int | None:
    """Returns how many iterations of each of two settings are needed, so that unpaired() decides
    between them with probability POWER: that they differ, or that they are the same within the
    margin.

    Assumes that further runs have the means and variances of these samples. Returns None if a
    sample has fewer than 2 values or only equal ones, or if too many iterations would be needed.
    """
    if min(a.observations, b.observations) < 2 or a.mean <= 0:
        return None
    difference = abs(b.mean - a.mean)
    distances_to_limits = [margin * a.mean + sign * (b.mean - a.mean) for sign in (-1, 1)]

    def error(count: int, limit: float) -> float:
        """Returns the standard error of (mean of B - limit x mean of A) with `count` runs each."""
        return math.sqrt((limit**2 * a.variance + b.variance) / count)

    def enough(count: int) -> bool:
        """Returns whether one of the two tests decides with `count` runs of each setting."""
        degrees = 2 * (count - 1)
        errors_different = _detectable_errors(degrees, 1 - SIGNIFICANCE / 2, POWER)
        differ = difference > 0 and difference >= errors_different * error(count, 1.0)
        errors_same = _detectable_errors(degrees, 1 - SIGNIFICANCE, (1 + POWER) / 2)
        return differ or all(
            distance > 0 and distance >= errors_same * error(count, limit)
            for distance, limit in zip(distances_to_limits, (1 + margin, 1 - margin), strict=True)
        )

    return fewest(enough)
