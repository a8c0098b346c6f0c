"""Checks that numbers from outside are possible: a source may have anything that can be written."""

import math
from typing import Any

MOST_RATE_BPS = 1e15  # beyond what any path has
MOST_TIME_S = 1e9  # 30 years
MOST_COUNT = 2**53  # of bytes or segments: what JSON's numbers are exact to
MOST_CLOCK_S = 4e9  # since 1970: to 2096
NO_NUMBER = "is no number"
LEAST_INTERVAL_S = 1e-3  # of the patched iperf3


def number_in(text: str) -> float:
    """Reads digits that any program understands. Raises ValueError with what is wrong, for a sentence."""
    if "_" in text or not text.isascii():
        raise ValueError(NO_NUMBER)
    try:
        return float(text)
    except ValueError:
        raise ValueError(NO_NUMBER) from None


def bounded(value: float, most: float) -> float:
    """Returns the number if it is from 0 to `most`. Raises ValueError with what is wrong with it, for a sentence."""
    if not math.isfinite(value):
        raise ValueError("is no finite number")
    if not 0 <= value <= most:
        raise ValueError(f"is not from 0 to {most:g}")
    return value


def known(value: Any, most: float) -> float | None:
    """Returns a number from 0 to `most`; None, a gap, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return bounded(float(value), most)
    except (ValueError, OverflowError):
        return None


def known_count(value: Any) -> int | None:
    """Returns a count as a whole number; None, a gap, for anything else."""
    return int(value) if isinstance(value, int | float) and known(value, MOST_COUNT) is not None else None
