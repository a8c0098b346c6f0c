"""Whether plain data is of the types that its classes are annotated with: JSON may have anything in their place."""

import functools
import math
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any


def check(value: Any, kind: Any, name: str) -> None:
    """Raises TypeError with the name of what is not of its type, or no finite number, and UnicodeEncodeError."""
    if not _fits(value, kind, name):
        raise TypeError(f"{name}: {value!r:.40} is no {getattr(kind, '__name__', kind)}")


def _fits(value: Any, kind: Any, name: str) -> bool:
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return any(_is(value, choice, name) for choice in choices)
    if origin is typing.Literal:
        return value in choices
    if origin is tuple and isinstance(value, tuple):
        several = choices[:1] * len(value) if choices[-1] is ... else choices
        for number, (item, of_item) in enumerate(zip(value, several, strict=True), 1):
            check(item, of_item, f"{name}.{number}")
        return True
    if origin is dict and isinstance(value, dict):
        for key, item in value.items():
            check(key, choices[0], name)
            check(item, choices[1], f"{name}.{key}")
        return True
    return origin is None and _is(value, kind, name)


@functools.cache
def _members(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = typing.get_type_hints(kind)
    return tuple((part.name, hints[part.name]) for part in fields(kind))


def _is(value: Any, kind: Any, name: str) -> bool:
    """Of a class: its members are checked, too; a whole number is a float as well."""
    if typing.get_origin(kind) is not None:
        return _fits(value, kind, name)
    if is_dataclass(kind) and isinstance(value, kind):  # type: ignore[arg-type]
        for part, hint in _members(type(value)):
            check(getattr(value, part), hint, f"{name}.{part}")
        return True
    if isinstance(value, str):
        value.encode()  # halves of characters, which no file and no terminal takes, are a ValueError
    if isinstance(value, bool) or not isinstance(value, int | float):
        return isinstance(value, kind)
    return kind in (float, type(value)) and math.isfinite(value)
