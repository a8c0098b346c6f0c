"""Formats a metric's value for people, by the unit in its name."""

from ccmix.analysis.statistics import Spread
from ccmix.units import format_bytes, format_percent, format_rate, format_time

FRACTIONS = ("rate", "loss", "utilisation", "share", "occupancy_mean", "overshoot")


def shown(metric: str, value: float | None) -> str:
    """Returns '110 Mbit/s', '12.5 ms', '0.1%'; a dash if there is no value."""
    if value is None:
        return "–"
    sign, size = "-" if value < 0 else "", abs(value)
    if metric.endswith("_bps"):
        return sign + format_rate(size)
    if metric.endswith("_bytes"):
        return sign + format_bytes(size)
    if metric.endswith("_s"):
        return sign + format_time(float(f"{size:.4g}"))
    if metric.endswith(FRACTIONS):
        return sign + format_percent(size)
    return f"{sign}{size:.4g}"


def shown_mean(metric: str, spread: Spread) -> str:
    """Returns '961 Mbit/s ± 12 Mbit/s': the mean, and half of its 95% interval if it has one."""
    half = f" ± {shown(metric, (spread.ci95[1] - spread.ci95[0]) / 2)}" if spread.ci95 else ""
    return shown(metric, spread.mean) + half
