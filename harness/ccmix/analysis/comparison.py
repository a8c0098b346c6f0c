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
    """Returns whether a test is significant; the p-value of a test that could not be made is
    None.
    """
    return p_value is not None and p_value <= SIGNIFICANCE


@dataclass(frozen=True)
class Paired:
    """Describes the values minus those of the baseline, in their unit, over the blocks with both.

    If several blocks all have the same values, they are `alike`: they are a single observation,
    without an interval and a test.
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
        """Returns the iterations that detect such a difference with POWER as one of several
        comparisons, each of which is tested at its part of SIGNIFICANCE (Bonferroni): that many are
        enough for Holm, too. None: unknown, or too many.
        """
        if self.effect_size is None:
            return None
        size = abs(self.effect_size) / _small_sample(self.blocks)
        needed = _fewest_blocks(size, SIGNIFICANCE / comparisons)
        return needed and max(needed, self.blocks + 1)


def paired(values: Sequence[float], baseline: Sequence[float]) -> Paired | None:
    """Compares values with the baseline's values of the same blocks, in the same order. Returns
    None if there are no values.
    """
    if not values:
        return None
    differences = [value - other for value, other in zip(values, baseline, strict=True)]
    difference, baseline_mean = statistics.fmean(differences), statistics.fmean(baseline)
    alike = MetricSample(tuple(values)).alike and MetricSample(tuple(baseline)).alike
    telling = [] if alike else differences
    return Paired(
        blocks=len(differences),
        baseline_mean=baseline_mean,
        difference=difference,
        interval=confidence_interval(telling),
        gain_percent=difference / baseline_mean * 100 if baseline_mean else None,
        effect_size=_hedges_g(telling),
        p_value=_p_value(telling),
        iterations_needed=_blocks_for(telling),
        alike=alike,
    )


def _hedges_g(differences: Sequence[float]) -> float | None:
    """Returns the mean over the standard deviation, corrected for few values: Hedges 1981, with the
    usual approximation of J, which is 0 for two values.
    """
    if len(differences) < LEAST_FOR_INTERVAL or not (deviation := statistics.stdev(differences)):
        return None
    return statistics.fmean(differences) / deviation * _small_sample(len(differences))


def _small_sample(count: int) -> float:
    return 1 - 3 / (4 * (count - 1) - 1)


def _p_value(differences: Sequence[float]) -> float | None:
    """Returns the two-sided p-value of Student's paired test; from 15 blocks on, that of a
    randomisation test of signs.
    """
    if len(differences) < LEAST_FOR_INTERVAL:
        return None
    if len(differences) >= BOOTSTRAP_FROM:
        sums = np.abs(_signs(len(differences)) @ np.asarray(differences))
        seen = abs(math.fsum(differences))
        return float((1 + np.count_nonzero(sums >= seen * (1 - 1e-12))) / (FLIPS + 1))
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return _two_sided(statistics.fmean(differences), error, len(differences) - 1)


@functools.lru_cache(maxsize=8)
def _signs(count: int) -> NDArray[np.float64]:
    return np.random.default_rng([SEED, count]).choice([-1.0, 1.0], size=(FLIPS, count))


def _two_sided(difference: float, error: float, degrees: float) -> float:
    if not error:
        return 0.0 if difference else 1.0
    return 2 * t_cdf(-abs(difference) / error, degrees)


def _one_sided(excess: float, error: float, degrees: float) -> float:
    """Returns the p-value of the hypothesis that an excess is not above 0."""
    return t_cdf(-excess / error, degrees)


def _reach(degrees: float, share: float, power: float) -> float:
    """Returns how many standard errors a value must be away from a limit to be detected with
    that power.
    """
    return t_quantile(share, degrees) + t_quantile(power, degrees)


def _blocks_for(differences: Sequence[float]) -> int | None:
    """Returns the blocks that detect such a difference with POWER; None if there are fewer than 2
    differences.
    """
    if len(differences) < 2 or not (difference := abs(statistics.fmean(differences))):
        return None
    deviation = statistics.stdev(differences)
    return _fewest_blocks(difference / deviation if deviation else math.inf, SIGNIFICANCE)


def _fewest_blocks(size: float, level: float) -> int | None:
    """Returns the blocks that detect differences whose mean is so many standard deviations.

    Chow, Shao and Wang 2008, Sample Size Calculations in Clinical Research, 3.1.1, with quantiles
    of Student's t instead of the normal ones.
    """
    count = fewest(lambda count: size * math.sqrt(count) >= _reach(count - 1, 1 - level / 2, POWER))
    by_signs = count is not None and count >= BOOTSTRAP_FROM
    return None if by_signs and level * (FLIPS + 1) < 1 else count


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusts p-values for their number (Holm 1979): if each is compared with a level, the chance
    of any false alarm stays below that level.

    A comparison without a p-value is left out, and not counted.
    """
    known = sorted((p_value, at) for at, p_value in enumerate(p_values) if p_value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p_value, at) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p_value))
        adjusted[at] = largest
    return adjusted


def corrected(results: Sequence[Paired | None]) -> list[tuple[float | None, int | None]]:
    """Returns each p-value after Holm's correction for all of them, and the iterations that would
    decide if it is not significant then.

    Holm compares the smallest of the p-values that are not significant with SIGNIFICANCE over their
    number.
    """
    adjusted = holm([result.p_value if result else None for result in results])
    left = sum(p is not None and p > SIGNIFICANCE for p in adjusted)
    among = max(left, 1)
    needed = [result.iterations_among(among) if result else None for result in results]
    return list(zip(adjusted, needed, strict=True))


@dataclass(frozen=True)
class MetricSample:
    """Holds the values of one setting."""

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @functools.cached_property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @functools.cached_property
    def alike(self) -> bool:
        """Returns whether several values agree within ALIKE: they are one observation, made
        several times.
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
    """Compares B with A by the ratio of their means. A field is None if A's mean is not above 0, or
    if either sample has too few values or only values that are all alike.
    """

    ratio: float | None
    interval: (
        tuple[float, float] | None
    )  # 95%, of the ratio; None too if A's mean does not differ significantly from 0
    p_different: float | None
    p_same: float | None  # of both one-sided tests: the larger


def unpaired(a: MetricSample, b: MetricSample, margin: float = MARGIN) -> Unpaired:
    """Makes Welch's test for a difference, and two one-sided tests (Schuirmann 1987) for a ratio
    within 1 ± margin.

    A ratio's limits are tested as B - limit x A, whose mean is 0 there (Sasabuchi 1988); so is the
    interval (Fieller).
    """
    if min(a.observations, b.observations) < LEAST_FOR_INTERVAL:
        ratio = b.mean / a.mean if a.count and b.count and a.mean > 0 else None
        return Unpaired(ratio, None, None, None)
    p_different = _two_sided(b.mean - a.mean, *_error(a, b, 1.0))
    if a.mean <= 0:
        return Unpaired(None, None, p_different, None)
    below = _one_sided((1 + margin) * a.mean - b.mean, *_error(a, b, 1 + margin))
    p_same = max(p_above(a, b, 1 - margin), below)
    return Unpaired(b.mean / a.mean, _fieller(a, b), p_different, p_same)


def p_above(a: MetricSample, b: MetricSample, limit: float = 1.0) -> float:
    """Returns the p-value of the one-sided test that mean B is above limit x mean A (Welch).

    Both need two values or more that are not all alike.
    """
    return _one_sided(b.mean - limit * a.mean, *_error(a, b, limit))


def _error(a: MetricSample, b: MetricSample, limit: float) -> tuple[float, float]:
    """Returns the standard error of mean B - limit x mean A, and its degrees of freedom (Welch and
    Satterthwaite).
    """
    of_a, of_b = limit**2 * a.variance / a.count, b.variance / b.count
    degrees = (of_a + of_b) ** 2 / (of_a**2 / (a.count - 1) + of_b**2 / (b.count - 1))
    return math.sqrt(of_a + of_b), degrees


def _fieller(a: MetricSample, b: MetricSample) -> tuple[float, float] | None:
    """Returns the 95% interval of the ratio of the means, at least 0 (Fieller 1954): all ratios
    that Welch's test at 5%, with its degrees of freedom at each ratio, does not refuse. Returns
    None if the interval has no upper end.
    """
    if b.mean <= 0 or not (least_inverse := _least_ratio(b, a)):
        return None
    return _least_ratio(a, b), 1 / least_inverse


def _least_ratio(a: MetricSample, b: MetricSample) -> float:
    """Returns the smallest ratio of mean B to mean A that B does not significantly exceed; 0 if B
    exceeds none.
    """
    if p_above(a, b, 0.0) > SIGNIFICANCE / 2:
        return 0.0
    refused, accepted = 0.0, b.mean / a.mean
    for _ in range(HALVINGS):
        middle = (refused + accepted) / 2
        if p_above(a, b, middle) <= SIGNIFICANCE / 2:
            refused = middle
        else:
            accepted = middle
    return refused


def iterations_to_decide(a: MetricSample, b: MetricSample, margin: float = MARGIN) -> int | None:
    """Returns how many iterations of each setting let one of unpaired()'s tests decide with POWER.

    Assumes the means and variances of these samples. Returns None if there are fewer than 2 values,
    if all values are alike, or if too many iterations would be needed.
    """
    if min(a.observations, b.observations) < 2 or a.mean <= 0:
        return None
    apart = abs(b.mean - a.mean)
    inside = [margin * a.mean + sign * (b.mean - a.mean) for sign in (-1, 1)]

    def error(count: int, limit: float) -> float:
        return math.sqrt((limit**2 * a.variance + b.variance) / count)

    def enough(count: int) -> bool:
        degrees = 2 * (count - 1)
        seen = apart > 0 and apart >= _reach(degrees, 1 - SIGNIFICANCE / 2, POWER) * error(
            count, 1.0
        )
        reach = _reach(degrees, 1 - SIGNIFICANCE, (1 + POWER) / 2)
        return seen or all(
            space > 0 and space >= reach * error(count, limit)
            for space, limit in zip(inside, (1 + margin, 1 - margin), strict=True)
        )

    return fewest(enough)
