"""Defines what is said of a quantity of a path: a value with its interval, or why it can't be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

Unit = Literal["s", "bps", "bytes", "share", "packets", ""]


@dataclass(frozen=True)
class Estimate:
    """Holds what is known of a quantity, in SI units and fractions.

    `low` and `high` are the ends of the 95% interval. Without `high`, the quantity is at least `low`. `word` is the
    value of a quantity that is no number. `origin` says which steps or samples it comes from, and by which method.
    `unknown` is why it can't be told, as a clause after "because"; then there is no value.
    """

    quantity: str
    unit: Unit = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    word: str | None = None
    origin: str = ""
    unknown: str | None = None

    @property
    def known(self) -> bool:
        """Returns whether there is a value or a word."""
        return self.value is not None or self.word is not None

    @property
    def at_least(self) -> bool:
        """Returns whether only a lower bound is known."""
        return not self.known and self.low is not None

    def to_json(self) -> dict[str, str | float | None]:
        """Returns what --format json prints."""
        return asdict(self)


def cannot_be_told(quantity: str, unit: Unit, because: str, low: float | None = None, origin: str = "") -> Estimate:
    """Returns an estimate without a value; `low` is what it is at least, where that is known."""
    return Estimate(quantity, unit, low=low, unknown=because, origin=origin)


def best(estimates: Sequence[Estimate]) -> Estimate:
    """Returns one estimate of what several runs say: those with a value before bounds, and these before nothing.

    Of several values it is the median one, with an interval that holds those of all: runs at other times may have met
    another path. Of several bounds it is the largest.
    """
    valued = [each for each in estimates if each.value is not None]
    if valued:
        middle = sorted(valued, key=lambda each: each.value or 0.0)[(len(valued) - 1) // 2]
        if len(valued) == 1:
            return middle
        lows = [each.low for each in valued if each.low is not None]
        highs = [each.high for each in valued if each.high is not None]
        origin = f"{middle.origin}; {len(valued)} runs"
        return replace(middle, low=min(lows, default=None), high=max(highs, default=None), origin=origin)
    worded = [each for each in estimates if each.word is not None]
    if worded:
        return worded[0]
    return max(estimates, key=lambda each: -1.0 if each.low is None else each.low)
