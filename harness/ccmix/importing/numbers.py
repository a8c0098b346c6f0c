"""Numbers that can be what they are said to be: from outside may come anything that can be written."""

import math
from typing import Any

MOST_RATE_BPS = 1e15  # beyond what any path has
MOST_TIME_S = 1e9  # 30 years
MOST_COUNT = 2**53  # of bytes or segments: what JSON's numbers are exact to
MOST_CLOCK_S = 4e9  # since 1970: to 2096
NO_NUMBER = "is no number"
LEAST_INTERVAL_S = 1e-3  # of the patched iperf3


def number_in(text: str) -> float:
    """In digits that any program understands. Raises ValueError with what is wrong, for a sentence."""
    if "_" in text or not text.isascii():
        raise ValueError(NO_NUMBER)
    try:
        return float(text)
    except ValueError:
        raise ValueError(NO_NUMBER) from None


def bounded(value: float, most: float) -> float:
    """The number, where it is from 0 to `most`. Raises ValueError with what is wrong with it, for a sentence."""
    if not math.isfinite(value):
        raise ValueError("is no finite number")
    if not 0 <= value <= most:
        raise ValueError(f"is not from 0 to {most:g}")
    return value


def known(value: Any, most: float) -> float | None:
    """The number, where it is one from 0 to `most`; None for anything else: a gap."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return bounded(float(value), most)
    except (ValueError, OverflowError):
        return None


def known_count(value: Any) -> int | None:
    """The same of what is counted."""
    return int(value) if isinstance(value, int | float) and known(value, MOST_COUNT) is not None else None
