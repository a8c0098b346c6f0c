"""Reads and writes ISO 8601 durations as pScheduler does (its type Duration has no years and no months)."""

from __future__ import annotations

import math
import re
from datetime import datetime

_DURATION = re.compile(
    r"P(?=\d|T\d)(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?=\d)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_UNITS_S = (604800, 86400, 3600, 60, 1)


def seconds(text: str) -> float:
    """Returns a duration in seconds; raises ValueError for any other text."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as PT30S")
    return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS_S) if part)


def text(whole_seconds: float) -> str:
    """Writes a duration in whole seconds, rounded up."""
    return f"PT{math.ceil(whole_seconds)}S"


def moment(text: str) -> float:
    """Returns an ISO 8601 date and time with its zone, in seconds since 1970; raises ValueError for any other text."""
    # Python 3.10 doesn't read the Z
    when = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    if when.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return when.timestamp()
