"""Reads third-party JSON safely: refuses NaN, numbers of more than 64 bits, and too deep nesting.

Such numbers break later arithmetic, and such nesting would exhaust the stack.
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
    """Is raised for NaN, an infinite number, or a whole number that no 64-bit counter can have."""


def loads(text: str | bytearray) -> Any:
    """Parses JSON, as json.loads() does.

    Raises NotFiniteError for numbers that are refused, and ValueError if the text is not valid JSON
    or is nested too deeply.
    """
    with _explain_recursion_error():
        return _check_nesting(
            json.loads(
                text,
                parse_constant=_finite_number,
                parse_float=_finite_number,
                parse_int=_number_of_64_bits,
            )
        )


def load_object(text: str | bytearray) -> dict[str, Any]:
    """Parses JSON that must be an object. Raises ValueError for other values, for invalid JSON, and
    for NaN, infinite or too long numbers (NotFiniteError).
    """
    value = loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004
    return value


def first(text: str, begin: int) -> Any:
    """Parses the JSON value that begins at position `begin` of the text, and ignores the text after
    it. Raises the same errors as loads().
    """
    with _explain_recursion_error():
        decoder = json.JSONDecoder(
            parse_constant=_finite_number, parse_float=_finite_number, parse_int=_number_of_64_bits
        )
        return _check_nesting(decoder.raw_decode(text, begin)[0])


@contextlib.contextmanager
def _explain_recursion_error() -> Iterator[None]:
    """Turns the RecursionError of a deeply nested text into a ValueError."""
    try:
        yield
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _check_nesting(value: Any) -> Any:
    """Returns the value; raises ValueError if lists and objects are nested too deeply in it."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        containers = [
            child  # a list or object one level below
            for parent in containers
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not containers:
            return value
    raise ValueError("its values are nested too deeply")


def _finite_number(number: str) -> float:
    """Converts a number with a fraction or exponent for the json module (as its parse_float).

    Raises NotFiniteError if it is infinite, such as 1e999. As its parse_constant, the function gets
    'NaN', 'Infinity' or '-Infinity', and refuses them all.
    """
    value = float(number)
    if not math.isfinite(value):
        raise NotFiniteError(f"{number[:LONGEST_NUMBER]} is not a finite number")
    return value


def _number_of_64_bits(digits: str) -> int:
    """Converts a whole number for the json module (as its parse_int).

    Raises NotFiniteError if it has more than 64 bits, signed or unsigned.
    """
    if len(digits) > LONGEST_NUMBER or not -(2**63) <= (value := int(digits)) < 2**64:
        raise NotFiniteError(f"{digits[:LONGEST_NUMBER]} has more than 64 bits")
    return value
