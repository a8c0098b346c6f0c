"""Turns swept settings into numbers for axes: '0.1bdp' into 0.1 BDP, '44ms' into 44 ms."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ccmix.charts.json_types import Part
from ccmix.units import RATE_BPS, SIZE_BYTES, TIME_S

LOG_FROM = 20.0  # largest over smallest value
TITLES = {
    "delay": "delay in each direction", "netem-lat": "delay in each direction", "netem-loss": "loss",
    "rate": "bottleneck rate", "streams": "flows", "mtu": "MTU", "pacing": "pacing of a flow",
}  # fmt: skip
_BARE = {"netem-lat": "ms", "netem-loss": "%", "mtu": "B"}  # the units of values that are written without one
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z%]*)", re.ASCII)
_SHOWN = {
    "time": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    "rate": (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)),
    "size": (("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
}
Spacing = Literal["linear", "log", "even"]
AXIS = {"format": ".6~g", "labelOverlap": "greedy", "labelFlush": False, "grid": False}


@dataclass(frozen=True)
class SweptAxis:
    """Describes a swept key all of whose values are numbers of one dimension.

    `values` are those of an axis with `title`, by the text in the INI file, in ascending order. Spacing "even" gives
    one place to each of the values that span decades from 0 on.
    """

    key: str
    title: str
    values: dict[str, float]
    spacing: Spacing

    def channel(self) -> Part:
        """Returns the channel of an axis with a tick at each value; rows have the number as `setting`."""
        numbers = list(self.values.values())
        axis: Part = AXIS | {"values": numbers}
        if self.spacing == "even":
            return even(self.title) | {"axis": axis | {"labelAngle": 0}}
        scale = {"type": self.spacing, "domain": [numbers[0], numbers[-1]], "nice": False, "zero": False}
        return {"field": "setting", "type": "quantitative", "title": self.title, "axis": axis, "scale": scale}

    def label(self, text: str) -> str:
        """Returns a value without its unit, for axes of names."""
        return f"{self.values[text]:.6g}"

    @property
    def labels(self) -> list[str]:
        return [self.label(text) for text in self.values]


def even(title: str) -> Part:
    """Returns the channel of an axis with a place for each value of `setting`, in ascending order."""
    return {"field": "setting", "type": "ordinal", "title": title, "axis": AXIS | {"labelAngle": 0}}


def numbers(key: str, texts: Iterable[str]) -> SweptAxis | None:
    """Returns the values of a key; None where they aren't two or more numbers of one dimension."""
    read = {text: _read(key, text) for text in dict.fromkeys(texts)}
    known = {text: value for text, value in read.items() if value is not None}
    dimensions = {dimension for _, dimension in known.values()}
    if len(known) < len(read) or len(dimensions) != 1 or len({value for value, _ in known.values()}) < 2:
        return None
    largest = max(value for value, _ in known.values())
    unit, size = _unit(dimensions.pop(), largest)
    title = TITLES.get(key, key) + (f" ({unit})" if unit else "")
    values = {text: float(f"{value / size:.10g}") for text, (value, _) in known.items()}
    ascending = dict(sorted(values.items(), key=lambda pair: pair[1]))
    return SweptAxis(key, title, ascending, _spacing(list(ascending.values())))


def _read(key: str, text: str) -> tuple[float, str] | None:
    """Returns the number in SI units, and its dimension."""
    match = _NUMBER.fullmatch(text.strip().lower())
    if not match:
        return None
    number, unit = float(match[1]), match[2] or _BARE.get(key, "").lower()
    for dimension, units in (("rate", RATE_BPS), ("time", TIME_S), ("size", SIZE_BYTES)):
        if unit in units:
            return number * units[unit], dimension
    if unit in {"", "%", "bdp", "p"}:
        return number, unit
    return None


def _unit(dimension: str, largest: float) -> tuple[str, float]:
    if dimension in _SHOWN:
        return next((unit for unit in _SHOWN[dimension] if largest >= unit[1]), _SHOWN[dimension][-1])
    return {"bdp": "BDP", "p": "packets"}.get(dimension, dimension), 1.0


def _spacing(ascending: list[float]) -> Spacing:
    least = next(value for value in ascending if value > 0)
    if ascending[-1] / least < LOG_FROM:
        return "linear"
    return "log" if ascending[0] > 0 else "even"
