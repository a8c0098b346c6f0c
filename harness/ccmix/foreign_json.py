"""Reads JSON that others wrote: it may hold no number that is not finite or has more than 64 bits, and no nesting that
exhausts the stack.
"""

import contextlib
import json
import math
from collections.abc import Iterator
from typing import Any

# Lists and objects in each other. Real JSON has a dozen; what is deeper could be read, and then not be written or
# compared, since Python's stack has a thousand calls.
MOST_LEVELS = 100
LONGEST_NUMBER = 40  # characters; a number of 64 bits has 20


class NotFiniteError(ValueError):
    """The JSON holds NaN, an infinite number, or one that no counter can have."""


def loads(text: str | bytearray) -> Any:
    """Returns the value. Raises NotFiniteError, and ValueError if the text is no JSON or is nested too deeply."""
    with _bounded():
        return _flat_enough(json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_of_64_bits))


def load_object(text: str | bytearray) -> dict[str, Any]:
    """Returns the value, which is an object. Raises as loads() does, and ValueError for another value."""
    value = loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004
    return value


def first(text: str, begin: int) -> Any:
    """Returns the value that begins at `begin`, whatever follows. Raises as loads() does."""
    with _bounded():
        decoder = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_of_64_bits)
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
        raise NotFiniteError(f"{number[:LONGEST_NUMBER]} is no finite number")
    return value


def _of_64_bits(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER or not -(2**63) <= (value := int(digits)) < 2**64:
        raise NotFiniteError(f"{digits[:LONGEST_NUMBER]} has more than 64 bits")
    return value
