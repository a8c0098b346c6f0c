"""Reads quantities such as '100mbit' and '44ms' from INI files, and formats numbers for people.

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
"""The units in which people read a number, with their sizes. The key is the end of the number's
name in data: those of rate_bps are under 'bps'.
"""

LEAST_RATE_BPS, MOST_RATE_BPS = 1e3, 1e15  # beyond those of any path, but within those of tc
MOST_TIME_S = 7 * 86400.0
_MOST = 1e15  # of a number before its unit, so that no product of quantities becomes infinite

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(?P<unit>[A-Za-z%/]*)", re.ASCII
)


def quantity(text: str, units: Iterable[str], examples: str) -> tuple[float, str]:
    """Splits a quantity such as '2.4Gbit' into its number and its unit in small letters.

    Raises ValueError for anything else, such as a negative number or a unit that is not in `units`.
    Its message shows the `examples`.
    """
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


def _read_scaled(text: str, units: Mapping[str, float], examples: str) -> float:
    """Reads a quantity such as '44ms' in SI units. `units` has the sizes of the known units.

    Raises ValueError, whose message shows the `examples`.
    """
    number, unit = quantity(text, units, examples)
    return number * units[unit]


def parse_rate(text: str) -> float:
    """Reads '2.4gbit' as bits per second; 1 kbit is 1000 bit, as in tc(8).

    Raises ValueError. tc's own 'bps', which means bytes per second, is refused, because readers
    take it for bits.
    """
    rate_bps = _read_scaled(text, RATE_BPS, "100mbit, 2.4gbit")
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("is not a rate from 1kbit to 1000tbit: write for instance 100mbit")
    return rate_bps


def parse_time(text: str) -> float:
    """Reads '44ms' as seconds; at most a week. Raises ValueError."""
    seconds = _read_scaled(text, TIME_S, "500ms, 10s, 2m")
    if seconds > MOST_TIME_S:
        raise ValueError("is more than a week: write for instance 500ms, 10s, 2m")
    return seconds


def parse_percent(text: str) -> float:
    """Reads '0.1%' as a fraction, 0.001. Raises ValueError, also for more than 100%."""
    fraction = _read_scaled(text, {"%": 0.01}, "0.1%, 0%")
    if fraction > 1:
        raise ValueError("is more than 100%")
    return fraction


def format_rate(rate_bps: float) -> str:
    """Formats bits per second with three significant digits, such as '961 Mbit/s'."""
    # 0.9995: what rounds to 1000 of a unit gets the next larger one
    unit, scale = next(
        (unit, scale) for unit, scale in UNITS["bps"] if rate_bps >= scale * 0.9995 or scale == 1
    )
    return f"{_three_digits(rate_bps / scale)} {unit}"


def format_exact(value: float, unit: str) -> str:
    """Formats a number without rounding it, such as '1.001 Gbit/s'.

    `unit` is a key of UNITS, such as 'bps'; the largest unit that is not larger than the number is
    used.
    """
    smallest = UNITS[unit][-1]
    name, scale = next(
        ((name, scale) for name, scale in UNITS[unit] if scale <= (value or 1)), smallest
    )
    return f"{value / scale:.12g} {name}"


def format_time(seconds: float) -> str:
    """Formats seconds in s, ms or us, such as '88 ms'."""
    if seconds >= 1 or seconds == 0:
        return f"{seconds:g} s"
    return f"{seconds * 1e3:g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:g} us"


def format_percent(fraction: float) -> str:
    """Formats a fraction with three significant digits: 0.001 becomes '0.1%'."""
    percent = fraction * 100
    return f"{percent:.3g}%" if abs(percent) < 999.5 else f"{percent:.0f}%"


def format_exact_percent(fraction: float) -> str:
    """Formats a fraction without rounding it, such as '0.0723261%'."""
    return f"{fraction * 100:.12g}%"


def format_count(count: int, noun: str) -> str:
    """Formats a count with its noun: '1 run', '3 runs'."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_few(texts: Sequence[str], most: int) -> str:
    """Joins the first texts of a list, and counts the others: 'a, b and 45 more'.

    `most` is the number of texts that are written out.
    """
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def format_bytes(size_bytes: float) -> str:
    """Formats a number of bytes with three significant digits, such as '1.25 MB'."""
    unit, scale = next(
        (unit, scale)
        for unit, scale in UNITS["bytes"]
        if size_bytes >= scale * 0.9995 or scale == 1
    )
    value = size_bytes / scale
    return f"{value:.3g} {unit}" if scale > 1 and value < 999.5 else f"{value:.0f} {unit}"


def _three_digits(value: float) -> str:
    """Formats a number from 0 to 1000 with three significant digits: '1.25', '12.5', '125'."""
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"
