"""Reads third-party JSON. Refuses numbers that are not finite or have more than 64 bits, and
nesting that would exhaust the stack.
"""

import contextlib
import json
import math
from collections.abc import Iterator
from typing import Any

# Levels of nested lists and objects. Real JSON has a dozen. Deeper values could be read, but not
# written or compared, because Python's stack has a thousand calls.
MOST_LEVELS = 100
LONGEST_NUMBER = 40  # characters; a number of 64 bits has 20


class NotFiniteError(ValueError):
    """Says that the JSON has NaN, an infinite number, or a number that no counter can have."""


def loads(text: str | bytearray) -> Any:
    """Returns the value. Raises NotFiniteError, and ValueError if the text is not valid JSON or is
    nested too deeply.
    """
    with _bounded():
        return _flat_enough(
            json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_of_64_bits)
        )


def load_object(text: str | bytearray) -> dict[str, Any]:
    """Returns an object. Raises as loads() does, and ValueError if the value is not an object."""
    value = loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004
    return value


def first(text: str, begin: int) -> Any:
    """Returns the value that begins at `begin`; ignores text after it. Raises as loads() does."""
    with _bounded():
        decoder = json.JSONDecoder(
            parse_constant=_finite, parse_float=_finite, parse_int=_of_64_bits
        )
        return _flat_enough(decoder.raw_decode(text, begin)[0])


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _flat_enough(value: Any) -> Any:
    """Returns the value. Raises ValueError if it is nested too deeply."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return value
    raise ValueError("its values are nested too deeply")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise NotFiniteError(f"{number[:LONGEST_NUMBER]} is not a finite number")
    return value


def _of_64_bits(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER or not -(2**63) <= (value := int(digits)) < 2**64:
        raise NotFiniteError(f"{digits[:LONGEST_NUMBER]} has more than 64 bits")
    return value
