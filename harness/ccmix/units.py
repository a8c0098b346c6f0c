"""Reads quantities as people write them in INI files, and writes them for people.

Values in data are SI numbers: bits per second, bytes, seconds, fractions. A parser raises
ValueError with a sentence that says what would be right; the caller adds the file, the section and
the key.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

RATE_BPS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
TIME_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
SIZE_BYTES = {"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

UNITS: Mapping[str, Sequence[tuple[str, float]]] = {
    "bps": (("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1)),
    "bytes": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)),
    "s": (("s", 1), ("ms", 1e-3), ("us", 1e-6)),
    "hz": (("Hz", 1),),
}
"""The units in which people read a number, with their sizes, by the suffix of its name in data."""

LEAST_RATE_BPS, MOST_RATE_BPS = 1e3, 1e15  # beyond those of any path, but within those of tc
MOST_TIME_S = 7 * 86400.0
_MOST = 1e15  # of a number before its unit, so that no product of quantities becomes infinite

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(?P<unit>[A-Za-z%/]*)", re.ASCII
)


def quantity(text: str, units: Iterable[str], examples: str) -> tuple[float, str]:
    """Returns a number that is not negative, and its unit in small letters."""
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"is not a number with a unit: write for instance {examples}")
    unit = match["unit"].lower()
    if not unit:
        raise ValueError(f"has no unit: write for instance {examples}")
    if unit not in units:
        raise ValueError(f"has the unknown unit '{match['unit']}': use one of {', '.join(units)}")
    if match["number"].startswith("-"):
        raise ValueError(f"is negative: write for instance {examples}")
    if (number := float(match["number"])) > _MOST:
        raise ValueError(f"is too large: write for instance {examples}")
    return number, unit


def _scaled(text: str, units: Mapping[str, float], examples: str) -> float:
    number, unit = quantity(text, units, examples)
    return number * units[unit]


def parse_rate(text: str) -> float:
    """Reads '2.4gbit' as bits per second; 1 kbit = 1000 bit as in tc(8).

    tc's own 'bps' means bytes per second, and is refused, because readers take it for bits.
    """
    rate_bps = _scaled(text, RATE_BPS, "100mbit, 2.4gbit")
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("is not a rate from 1kbit to 1000tbit: write for instance 100mbit")
    return rate_bps


def parse_time(text: str) -> float:
    """Reads '44ms' as seconds."""
    seconds = _scaled(text, TIME_S, "500ms, 10s, 2m")
    if seconds > MOST_TIME_S:
        raise ValueError("is more than a week: write for instance 500ms, 10s, 2m")
    return seconds


def parse_percent(text: str) -> float:
    """Reads '0.1%' as a fraction, 0.001."""
    fraction = _scaled(text, {"%": 0.01}, "0.1%, 0%")
    if fraction > 1:
        raise ValueError("is more than 100%")
    return fraction


def format_rate(rate_bps: float) -> str:
    """Writes bits per second with three significant digits: '961 Mbit/s'."""
    unit, scale = next(
        each for each in UNITS["bps"] if rate_bps >= each[1] * 0.9995 or each[1] == 1
    )
    return f"{_three_digits(rate_bps / scale)} {unit}"


def format_exact(value: float, unit: str) -> str:
    """Writes a number of one of UNITS without rounding it: '1.001 Gbit/s'."""
    name, scale = next((each for each in UNITS[unit] if each[1] <= (value or 1)), UNITS[unit][-1])
    return f"{value / scale:.12g} {name}"


def format_time(seconds: float) -> str:
    """Writes seconds: '88 ms', '10 s'."""
    if seconds >= 1 or seconds == 0:
        return f"{seconds:g} s"
    return f"{seconds * 1e3:g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:g} us"


def format_percent(fraction: float) -> str:
    """Writes a fraction: '0.1%'."""
    percent = fraction * 100
    return f"{percent:.3g}%" if abs(percent) < 999.5 else f"{percent:.0f}%"


def format_exact_percent(fraction: float) -> str:
    """Writes a fraction without rounding it: '0.0723261%'."""
    return f"{fraction * 100:.12g}%"


def format_count(count: int, what: str) -> str:
    """Writes a count with its noun: '1 run', '3 runs'."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def format_few(texts: Sequence[str], most: int) -> str:
    """Writes the first of many: 'a, b and 45 more'."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def format_bytes(size_bytes: float) -> str:
    """Writes bytes: '1.25 MB'."""
    unit, scale = next(
        each for each in UNITS["bytes"] if size_bytes >= each[1] * 0.9995 or each[1] == 1
    )
    value = size_bytes / scale
    return f"{value:.3g} {unit}" if scale > 1 and value < 999.5 else f"{value:.0f} {unit}"


def _three_digits(value: float) -> str:
    return (
        f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    )
