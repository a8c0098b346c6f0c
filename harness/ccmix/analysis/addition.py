"""Adds up numbers in a way that does not depend on the version of Python."""

import functools
import operator
from collections.abc import Iterable


def added(values: Iterable[float]) -> float:
    """Returns the sum, rounded at each step from the first value to the last.

    sum() compensates for that since Python 3.12, and so its last bits are not those of 3.11.
    """
    return functools.reduce(operator.add, values, 0.0)
