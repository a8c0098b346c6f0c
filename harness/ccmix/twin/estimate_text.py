"""Writes estimates for people."""

from collections.abc import Callable, Mapping, Sequence

from ccmix.twin.estimate import Estimate
from ccmix.twin.hosts import MTU
from ccmix.twin.twin import Twin
from ccmix.units import format_bytes, format_percent, format_rate

LESS_THAN_S = 1e-3


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms" if seconds >= LESS_THAN_S or not seconds else f"{seconds * 1e6:.3g} us"


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "s": _time,
    "bps": format_rate,
    "bytes": format_bytes,
    "share": format_percent,
    "packets": lambda value: f"{value:.3g} packets",
    "": lambda value: f"{value:g}",
}


def _form(estimate: Estimate) -> Callable[[float], str]:
    """Returns how a quantity is written: an MTU to the byte."""
    return (lambda size: f"{size:.0f} B") if estimate.quantity == MTU else _FORMATS[estimate.unit]


def value(estimate: Estimate) -> str:
    """Returns the value, 'at least' a bound, or 'cannot be told'."""
    form = _form(estimate)
    if estimate.word is not None:
        return estimate.word
    if estimate.value is not None:
        return form(estimate.value)
    if estimate.high is not None:
        return f"at most {form(estimate.high)}"
    if estimate.low:
        return f"at least {form(estimate.low)}"
    return "cannot be told"


def interval(estimate: Estimate) -> str:
    """Returns '9.9 ms to 10.1 ms'; '' where there is no interval."""
    form = _form(estimate)
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    return f"{form(estimate.low)} to {form(estimate.high)}"


def why(estimate: Estimate) -> str:
    """Returns where an estimate comes from, or why there is none."""
    because = f"because {estimate.unknown}" if estimate.unknown else ""
    return "; ".join(filter(None, (because, estimate.origin)))


def described(estimate: Estimate) -> str:
    """Returns an estimate in a line."""
    between = interval(estimate)
    return f"{value(estimate)}{f' ({between})' if between else ''}; {why(estimate)}"


def table(twins: Sequence[Twin]) -> str:
    """Returns a table for each path."""
    parts = []
    for twin in twins:
        rows = [("quantity", "value", "95% interval", "origin, or why unknown")]
        rows += [(each.quantity, value(each), interval(each), why(each)) for each in twin.estimates]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            "  ".join([*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
            for row in rows
        ]
        count = f"{len(twin.runs)} run{'s' if len(twin.runs) > 1 else ''}"
        parts.append("\n".join([f"{twin.name}, {count}", *lines]) + "\n")
    return "\n".join(parts)
