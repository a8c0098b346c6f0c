"""Probabilities of the normal, Student's t and the binomial distribution.

Python has the normal's; both others are the regularised incomplete beta function, here as a continued fraction.
Relative errors of the binomial are math.lgamma's, some 1e-16 n ln n for n trials: 1e-6 where n is 1e8. Those of t are
below 1e-11 for up to 10,000 degrees of freedom.
"""

import functools
import math
import statistics

_NORMAL = statistics.NormalDist()
_EPSILON = 1e-15
_LARGE = 20.0  # from where on the terms of Stirling's series that are left out are below 2e-15


def normal_cdf(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """For 0 < share < 1."""
    return _NORMAL.inv_cdf(share)


def t_cdf(t: float, degrees: float) -> float:
    """For any degrees of freedom above 0 (DLMF 8.17.24)."""
    square = t * t
    if math.isinf(square):
        return float(t > 0)
    tail = _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + square), square / (degrees + square)) / 2
    return 1 - tail if t > 0 else tail


@functools.lru_cache(maxsize=2**14)
def t_quantile(share: float, degrees: float) -> float:
    """For 0 < share < 1. The same few are asked for again and again."""
    tail = min(share, 1 - share)
    # Begin with two terms of the expansion in 1 / degrees (Abramowitz and Stegun 26.7.5), which is too small, as
    # Newton's steps are in the tail, which is convex: they come nearer from below, with twice as many digits each.
    z = -normal_quantile(tail)
    t = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    log_scale = _log_beta(degrees / 2, 0.5) + math.log(degrees) / 2
    while True:
        density = math.exp(-(degrees + 1) / 2 * math.log1p(t * t / degrees) - log_scale)
        step = (t_cdf(-t, degrees) - tail) / density
        t += step
        if not abs(step) > 1e-8 * t:  # so that nan ends too
            return math.copysign(t, share - 0.5)


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """Of so many successes or fewer (DLMF 8.17.5), for 0 <= probability <= 1."""
    if not 0 <= successes < trials:
        return float(successes >= trials)
    return _incomplete_beta(trials - successes, successes + 1, 1 - probability, probability)


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Of so many successes or more."""
    if not 0 < successes <= trials:
        return float(successes <= 0)
    return _incomplete_beta(successes, trials - successes + 1, probability, 1 - probability)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b), with rest = 1 - x, which the caller may know more exactly."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, rest, x)
    if x == 0:
        return 0.0
    return math.exp(a * math.log(x) + b * math.log(rest) - _log_beta(a, b)) / (a * _continued_fraction(a, b, x))


def _log_beta(a: float, b: float) -> float:
    """Where one is large, without taking two large numbers from each other: by Stirling's series (DLMF 5.11.1)."""
    small, large = min(a, b), max(a, b)
    if large < _LARGE:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    main = small - (large - 0.5) * math.log1p(small / large) - small * math.log(large + small)
    return math.lgamma(small) + main + _stirling(large) - _stirling(large + small)


def _stirling(x: float) -> float:
    """What ln Gamma(x) is more than (x - 1/2) ln x - x + ln(2 pi) / 2."""
    return 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, by the modified Lentz method (DLMF 3.10.iii).

    For x up to the mean, as here, it takes some sqrt(a + b) terms at most, and no divisor comes near 0.
    """
    value, c, d = 1.0, 1.0, 0.0
    m = 0
    while True:
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        m += 1
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + odd * d)
        c = 1 + odd / c
        value *= c * d
        d = 1 / (1 + even * d)
        c = 1 + even / c
        change = c * d
        value *= change
        if not abs(change - 1) > _EPSILON:
            return value
