"""Reads JSON that others wrote: it may hold no number that is not finite, and no nesting that exhausts the stack."""

import contextlib
import json
import math
from collections.abc import Iterator
from typing import Any


class NotFiniteError(ValueError):
    """The JSON holds NaN or an infinite number."""


def loads(text: str | bytearray) -> Any:
    """Returns the value. Raises NotFiniteError, and ValueError if the text is no JSON or is nested too deeply."""
    with _bounded():
        return json.loads(text, parse_constant=_finite, parse_float=_finite)


def first(text: str, begin: int) -> Any:
    """Returns the value that begins at `begin`, whatever follows. Raises as loads() does."""
    with _bounded():
        return json.JSONDecoder(parse_constant=_finite, parse_float=_finite).raw_decode(text, begin)[0]


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise NotFiniteError(f"{number} is no finite number")
    return value
