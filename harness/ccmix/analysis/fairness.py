"""Measures how evenly something is shared."""

from collections.abc import Sequence

from ccmix.analysis.addition import added


def jain_index(values: Sequence[float]) -> float | None:
    """Jain's fairness index, (sum x)^2 / (n sum x^2), RFC 5166 section 2.3; None where all are zero."""
    squares = added(value * value for value in values)
    return added(values) ** 2 / (len(values) * squares) if squares else None
