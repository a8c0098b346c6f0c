"""Bounds a number by samples before and after the moment in question: the number lies between two
bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
TICK_S = 1e-3  # of the lab's kernel


@dataclass(frozen=True)
class Bounds:
    """Bounds a number; `or_none`: it may also have no value."""

    low: float
    high: float
    or_none: bool = False

    @classmethod
    def exactly(cls, value: float) -> Bounds:
        return cls(value, value)

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Bounds | None:
        """Bounds a number by all the values that it may have; None if it can have none."""
        every = list(values)
        known = [value for value in every if value is not None]
        return cls(min(known), max(known), or_none=len(known) < len(every)) if known else None

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        return Bounds(max(0.0, self.low - other.high), max(0.0, self.high - other.low))

    def __mul__(self, factor: float) -> Bounds:
        return Bounds(self.low * factor, self.high * factor)

    def __truediv__(self, other: Bounds) -> Bounds | None:
        """Divides by a number that may be zero only if all of it is."""
        return (
            Bounds(self.low / other.high, self.high / (other.low or other.high))
            if other.high
            else None
        )

    def wider(self, by: float) -> Bounds:
        return Bounds(self.low - by, self.high + by, self.or_none)

    def allows(self, shown: float | None) -> bool:
        if shown is None:
            return self.or_none
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return self.low - slack <= shown <= self.high + slack

    def __str__(self) -> str:
        return f"{self.low:.6g}" if self.low == self.high else f"{self.low:.6g} to {self.high:.6g}"


NOTHING = Bounds(0.0, 0.0)


def total(every: Iterable[Bounds]) -> Bounds:
    return sum(every, NOTHING)


@dataclass(frozen=True)
class Counter:
    """A counter of the kernel that only grows, with the moments at which it was read; 0 before the
    first one.
    """

    times_s: Numbers
    values: Numbers

    @classmethod
    def read(cls, times_s: Sequence[float] | Numbers, values: Any, step_s: float) -> Counter:
        """Reads a counter. `step_s`: how long before the first moment the counter did not exist
        yet.
        """
        times = np.asarray(times_s, float)
        if not len(times):
            return cls(np.zeros(1), np.zeros(1))
        return cls(np.r_[times[0] - step_s, times], np.r_[0.0, np.asarray(values, float)])

    def at(self, moment_s: float) -> Bounds:
        low, high = (float(side[0]) for side in self.sides([moment_s]))
        return Bounds(low, high)

    def sides(self, moments_s: Sequence[float]) -> tuple[Numbers, Numbers]:
        """Returns the counter's values from the last reading before each moment, and from the first
        reading after it.

        Another probe that reads it at the same tick of the kernel may do so before a packet of that
        tick.
        """
        moments = np.asarray(moments_s, float)
        before = np.searchsorted(self.times_s, moments - TICK_S / 2, "right") - 1
        after = np.minimum(
            np.searchsorted(self.times_s, moments + TICK_S / 2, "left"), len(self.values) - 1
        )
        return np.where(before >= 0, self.values[before], 0.0), self.values[after]

    def growth(self, begin_s: float, end_s: float) -> Bounds:
        """Returns how much it grew, without its value before the first moment."""
        return self.at(end_s) - self.at(begin_s)

    def likely(self, moments_s: Sequence[float] | Numbers) -> Numbers:
        """Returns its values by linear interpolation."""
        return np.interp(moments_s, self.times_s, self.values)


def percentile(samples: Sequence[tuple[float, float]], share: float, unsure: int) -> Bounds | None:
    """Bounds a percentile, interpolated linearly, of samples that each lie between two bounds. It
    is exact to one sample, and to the samples for which it is `unsure` whether they count.
    """
    if not samples:
        return None
    lows, highs = (np.sort(side) for side in np.transpose(samples))
    rank, last = share * (len(samples) - 1), len(samples) - 1
    low = lows[max(0, int(np.floor(rank)) - 1 - unsure)]
    high = highs[min(last, int(np.ceil(rank)) + 1 + unsure)]
    return Bounds(float(low), float(high), or_none=len(samples) <= unsure)
