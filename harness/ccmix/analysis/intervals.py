"""Computes distribution functions, confidence intervals of means, and needed sample sizes."""

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

_NORMAL = statistics.NormalDist()

LEAST_FOR_INTERVAL = 3  # iterations; with fewer, an interval is too wide to be useful
# iterations; beyond, both intervals agree, and resamples would be too many
BOOTSTRAP_FROM, BOOTSTRAP_TO = 15, 1000
RESAMPLES = 5000
SEED = 10
PRECISION = 0.05  # of the mean: half of an interval that is narrow enough to be useful
MOST_ITERATIONS = 10_000  # that a report recommends


@functools.cache
def _special() -> ModuleType:
    """Imports scipy.special only when it is needed, because that takes 0.2 s and few commands need
    it.
    """
    from scipy import special  # noqa: PLC0415  # slow

    return special  # type: ignore[no-any-return]


def normal_cdf(z: float) -> float:
    """Returns the probability that a standard normal variable is at most `z`."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """Returns the value below which this share of the standard normal distribution lies, for 0 <
    share < 1.
    """
    return _NORMAL.inv_cdf(share)


def t_cdf(t: float, degrees: float) -> float:
    """Returns the probability that a variable with Student's t distribution is at most `t`, for any
    degrees of freedom above 0.
    """
    return float(_special().stdtr(degrees, t))


def t_quantile(share: float, degrees: float) -> float:
    """Returns the value below which this share of Student's t distribution lies, for 0 < share < 1
    and any degrees of freedom above 0.
    """
    return float(_special().stdtrit(degrees, share))


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """Returns the probability of at most this number of successes in independent trials (DLMF
    8.17.5), each of which succeeds with `probability`, 0 and 1 included.
    """
    if not 0 <= successes < trials:
        return float(successes >= trials)
    return float(_special().betaincc(successes + 1, trials - successes, probability))


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Returns the probability of at least this number of successes in independent trials, each of
    which succeeds with `probability`.
    """
    if not 0 < successes <= trials:
        return float(successes <= 0)
    return float(_special().betainc(successes, trials - successes + 1, probability))


def beta_quantile(share: float, a: float, b: float) -> float:
    """Returns the value below which this share of the beta distribution lies; a and b are its
    parameters.
    """
    return float(_special().betaincinv(a, b, share))


def gamma_quantile(share: float, shape: float) -> float:
    """Returns the value below which this share of the gamma distribution of scale 1 lies."""
    return float(_special().gammaincinv(shape, share))


def chi_square_tail(chi_square: float, degrees: float) -> float:
    """Returns the probability that a variable with a chi-square distribution exceeds `chi_square`:
    the p-value of a chi-square test.
    """
    return float(_special().chdtrc(degrees, chi_square))


def confidence_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Returns the confidence interval (low, high) of the mean of a metric over iterations; None for
    fewer than 3 values.

    It is Student's interval, with n-1 degrees of freedom. For 15 to 1000 values that differ, it is
    a bootstrap interval, whose random numbers are the same in each call, so that the same values
    always give the same interval.
    """
    if len(values) < LEAST_FOR_INTERVAL:
        return None
    if BOOTSTRAP_FROM <= len(values) <= BOOTSTRAP_TO and min(values) < max(values):
        return _bootstrap(np.asarray(values, float), level)
    mean = statistics.fmean(values)
    half_width = (
        t_quantile((1 + level) / 2, len(values) - 1)
        * statistics.stdev(values)
        / math.sqrt(len(values))
    )
    return mean - half_width, mean + half_width


def confidence_interval_of_positive(
    values: Sequence[float], level: float = 0.95
) -> tuple[float, float] | None:
    """Returns the confidence interval of the mean of a number that cannot be below 0, such as a
    goodput, a time or a ratio; None for fewer than 3 values.

    For fewer than 15 values, it is Student's interval on a logarithmic scale, by the delta method:
    (standard error of the logarithm of the mean) = (standard error of the mean) / mean. So its
    limits are above 0, and differ from the mean by the same factor in both directions.

    For more values, or if a value is not above 0 and has no logarithm, it is the interval of
    confidence_interval().
    """
    if not LEAST_FOR_INTERVAL <= len(values) < BOOTSTRAP_FROM or min(values) <= 0:
        return confidence_interval(values, level)
    mean = statistics.fmean(values)
    relative_error = statistics.stdev(values) / math.sqrt(len(values)) / mean
    factor = math.exp(t_quantile((1 + level) / 2, len(values) - 1) * relative_error)
    return mean / factor, mean * factor


def iterations_for_precision(values: Sequence[float], precision: float = PRECISION) -> int | None:
    """Returns how many iterations are needed to know the mean with this precision: half of its 95%
    interval (by Student's t) is then at most this fraction of the mean.

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
    """Returns the smallest number of iterations, at least 3, for which `enough` returns True; None
    if it is more than MOST_ITERATIONS. Searches by bisection, which assumes that every larger
    number is enough, too.
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
    """Returns the bootstrap confidence interval of the mean, corrected for bias and skewness (BCa,
    Efron and Tibshirani 1993, chapter 14). Its quantiles are expanded for few values as in
    Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 4.3.

    This method was chosen by its coverage in simulations (docs/explanation/statistics.md). The
    jackknife's acceleration of the mean has a closed form.
    """
    count, mean = len(values), values.mean()
    means = _resamples(count) @ values
    share_below = float(np.mean(means < mean) + np.mean(means == mean) / 2)
    bias = normal_quantile(min(max(share_below, 1 / RESAMPLES), 1 - 1 / RESAMPLES))
    deviations = values - mean
    acceleration = float((deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5))
    reach = math.sqrt(count / (count - 1)) * t_quantile((1 + level) / 2, count - 1)
    shares = [
        normal_cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-reach, reach)
    ]
    low, high = np.quantile(means, shares)
    return float(low), float(high)


@functools.lru_cache(maxsize=8)
def _resamples(count: int) -> NDArray[np.float64]:
    """Draws RESAMPLES random resamples of `count` values, always the same ones. Returns a row of
    weights for each resample: the row times the values is the mean of the resample.
    """
    times_drawn = np.random.default_rng([SEED, count]).multinomial(
        count, np.full(count, 1 / count), size=RESAMPLES
    )
    return times_drawn / count
