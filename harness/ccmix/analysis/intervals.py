"""Distributions and confidence intervals, for single numbers."""

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

_NORMAL = statistics.NormalDist()

LEAST_FOR_INTERVAL = 3  # iterations; with fewer, an interval is too wide to be useful
BOOTSTRAP_FROM, BOOTSTRAP_TO = (
    15,
    1000,
)  # iterations; beyond, both intervals agree, and resamples would be too many
RESAMPLES = 5000
SEED = 10
PRECISION = 0.05  # of the mean: half of an interval that is narrow enough to be useful
MOST_ITERATIONS = 10_000  # that a report recommends


@functools.cache
def _special() -> ModuleType:
    """Returns scipy.special, which takes 0.2 s to import: few commands need it."""
    from scipy import special  # noqa: PLC0415  # slow

    return special  # type: ignore[no-any-return]


def normal_cdf(z: float) -> float:
    """Returns the probability of at most `z`."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """Returns the number below which this share lies, for 0 < share < 1."""
    return _NORMAL.inv_cdf(share)


def t_cdf(t: float, degrees: float) -> float:
    """Returns the probability of at most `t`, for any degrees of freedom above 0."""
    return float(_special().stdtr(degrees, t))


def t_quantile(share: float, degrees: float) -> float:
    """Returns the number below which this share lies, for 0 < share < 1."""
    return float(_special().stdtrit(degrees, share))


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """Returns the probability of at most this number of successes (DLMF 8.17.5), for 0 <=
    probability <= 1.
    """
    if not 0 <= successes < trials:
        return float(successes >= trials)
    return float(_special().betaincc(successes + 1, trials - successes, probability))


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Returns the probability of at least this number of successes."""
    if not 0 < successes <= trials:
        return float(successes <= 0)
    return float(_special().betainc(successes, trials - successes + 1, probability))


def beta_quantile(share: float, a: float, b: float) -> float:
    """Returns the number below which this share of a beta distribution lies."""
    return float(_special().betaincinv(a, b, share))


def gamma_quantile(share: float, shape: float) -> float:
    """Returns the number below which this share of a gamma distribution of scale 1 lies."""
    return float(_special().gammaincinv(shape, share))


def chi_square_tail(chi_square: float, degrees: float) -> float:
    """Returns the probability of more than `chi_square`."""
    return float(_special().chdtrc(degrees, chi_square))


def confidence_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Returns the confidence interval of the mean; None for fewer than 3 values.

    It is Student's with n-1 degrees of freedom; from 15 values on, it is a bootstrap interval. The
    same values always give the same interval.
    """
    if len(values) < LEAST_FOR_INTERVAL:
        return None
    if BOOTSTRAP_FROM <= len(values) <= BOOTSTRAP_TO and min(values) < max(values):
        return _bootstrap(np.asarray(values, float), level)
    mean = statistics.fmean(values)
    half = (
        t_quantile((1 + level) / 2, len(values) - 1)
        * statistics.stdev(values)
        / math.sqrt(len(values))
    )
    return mean - half, mean + half


def confidence_interval_of_positive(
    values: Sequence[float], level: float = 0.95
) -> tuple[float, float] | None:
    """Returns the confidence interval of the mean of a number that cannot be below 0, such as a
    goodput, a time or a ratio; None for fewer than 3 values.

    Below 15 values it is Student's on a logarithmic scale, by the delta method: the logarithm of
    the mean has the standard error of the mean over the mean. So its limits are above 0, and differ
    from the mean by the same factor in both directions. If a value is not above 0, it has no
    logarithm, and the interval is that of confidence_interval().
    """
    if not LEAST_FOR_INTERVAL <= len(values) < BOOTSTRAP_FROM or min(values) <= 0:
        return confidence_interval(values, level)
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values)) / mean
    factor = math.exp(t_quantile((1 + level) / 2, len(values) - 1) * error)
    return mean / factor, mean * factor


def iterations_for_precision(values: Sequence[float], precision: float = PRECISION) -> int | None:
    """Returns how many iterations make half of the 95% interval by Student's t at most this
    fraction of the mean.

    Assumes that further values vary as these do. Returns None if there are fewer than 2 values,
    their mean is 0, or more than MOST_ITERATIONS would be needed.
    """
    if len(values) < 2 or not (mean := abs(statistics.fmean(values))):
        return None
    deviation = statistics.stdev(values)
    return fewest(
        lambda count: (
            t_quantile(0.975, count - 1) * deviation / math.sqrt(count) <= precision * mean
        )
    )


def fewest(enough: Callable[[int], bool]) -> int | None:
    """Returns the smallest number of iterations, at least 3, that is enough; None if it is more
    than MOST_ITERATIONS. Assumes that all larger numbers are enough, too.
    """
    low, high = LEAST_FOR_INTERVAL - 1, LEAST_FOR_INTERVAL
    while not enough(high):
        low, high = high, 2 * high
        if low >= MOST_ITERATIONS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= MOST_ITERATIONS else None


def _bootstrap(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Returns the BCa interval (Efron and Tibshirani 1993, chapter 14), its quantiles expanded for
    few values as in Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 4.3.

    It was chosen by simulated coverage (docs/explanation/statistics.md). The jackknife's
    acceleration of the mean has a closed form.
    """
    count, mean = len(values), values.mean()
    means = _resamples(count) @ values
    below = float(np.mean(means < mean) + np.mean(means == mean) / 2)
    bias = normal_quantile(min(max(below, 1 / RESAMPLES), 1 - 1 / RESAMPLES))
    off = values - mean
    acceleration = float((off**3).sum() / (6 * (off**2).sum() ** 1.5))
    reach = math.sqrt(count / (count - 1)) * t_quantile((1 + level) / 2, count - 1)
    shares = [
        normal_cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-reach, reach)
    ]
    low, high = np.quantile(means, shares)
    return float(low), float(high)


@functools.lru_cache(maxsize=8)
def _resamples(count: int) -> NDArray[np.float64]:
    """Returns the weights of the values in each resample, a row each."""
    drawn = np.random.default_rng([SEED, count]).multinomial(
        count, np.full(count, 1 / count), size=RESAMPLES
    )
    return drawn / count
