"""Tails of the binomial distribution, and quantiles of Student's t: what statistics and verdicts ask of a library.

A library that has them is a quarter of ccmix's image; both are one function, the regularized incomplete beta function.
"""

import math

TINY = 1e-300  # in place of a zero denominator
PRECISION = 1e-15
MOST_TERMS = 1_000_000


def binomial_at_most(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes) of a binomial distribution (DLMF 8.17.5)."""
    if successes >= trials:
        return 1.0
    if successes < 0:
        return 0.0
    return incomplete_beta(trials - successes, successes + 1, 1 - probability)


def binomial_more_than(successes: int, trials: int, probability: float) -> float:
    """P(X > successes), exact also where it is tiny."""
    if successes >= trials:
        return 0.0
    if successes < 0:
        return 1.0
    return incomplete_beta(successes + 1, trials - successes, probability)


def student_t_quantile(level: float, degrees: int) -> float:
    """The t that Student's distribution of so many degrees of freedom exceeds with probability 1 - level.

    For 0.75 <= level < 1; nearer to 0.5, digits are lost. By bisection of the tail, half of I_x(degrees/2, 1/2) at
    x = degrees / (degrees + t^2) (Abramowitz & Stegun 26.5.27).
    """
    low, high = 0.0, 1.0
    while _student_t_tail(high, degrees) > 1 - level:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _student_t_tail(middle, degrees) > 1 - level else (low, middle)
    return middle


def _student_t_tail(t: float, degrees: int) -> float:
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b) for a, b > 0: its continued fraction (DLMF 8.17.22).

    Relative precision 1e-12 for small a and b, 1e-6 for ten million.
    """
    if x <= 0 or x >= 1:
        return float(x > 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)  # where the fraction converges slowly
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) by the modified method of Lentz (Thompson and Barnett 1986)."""
    value, upper, lower = 1.0, 1.0, 0.0
    for term in range(1, MOST_TERMS):
        m = term // 2
        if term % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        lower = 1 / (1 + d * lower or TINY)
        upper = 1 + d / upper or TINY
        value *= upper * lower
        if abs(upper * lower - 1) < PRECISION:
            return value
    raise ArithmeticError(f"the incomplete beta function of {a}, {b} at {x} does not converge")
