"""Tells during a run whether it has settled, so that it may end before its limit.

A look at a run asks more than the verdict afterwards does, since it is not the only one: goodputs and shares must not
have changed, whatever the reason. docs/explanation/settling.md has the error rates that were simulated.

It uses only the standard library, since runs are measured in a guest, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from ccmix.analysis.lengths import LEAST_CHANGE, LEAST_INTERVALS, rounded_up
from ccmix.analysis.periods import slowest
from ccmix.model import Run

LEAST_LOOK_S = 10.0


def looks_s(run: Run) -> Iterator[float]:
    """Yields the measured times after which to look: the first that may be long enough, and then its doublings, below
    the limit.
    """
    period = slowest(run)
    least_s = max(LEAST_LOOK_S, LEAST_INTERVALS * run.traffic.goodput_interval_s, period.enough_s if period else 0.0)
    look_s = rounded_up(least_s)
    while look_s < run.traffic.measured_s:
        yield look_s
        look_s *= 2


def is_steady(goodputs: Mapping[str, Sequence[float]]) -> bool:
    """Returns whether no group's goodput has changed, and of several groups no share; each has its goodput in each
    interval.
    """
    series = list(goodputs.values())
    if len(series) > 1:
        total = [sum(values) for values in zip(*series, strict=True)]
        series += [[value / whole if whole else 0.0 for value, whole in zip(own, total, strict=True)] for own in series]
    return all(abs(change(values)) < LEAST_CHANGE for values in series)


def change(values: Sequence[float]) -> float:
    """Returns the mean of the last quarter less that of the first, over the mean; 0 where that is 0."""
    sums = [0.0, *accumulate(values)]
    if not sums[-1]:
        return 0.0
    quarter, part = divmod(len(values), 4)
    first = sums[quarter] + part / 4 * values[quarter]
    last = sums[-1] - sums[len(values) - quarter] + part / 4 * values[-quarter - 1]
    return 4 * (last - first) / sums[-1]
