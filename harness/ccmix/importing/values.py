"""Reads values of JSON documents that others wrote: a value of an unexpected type is a gap."""

from typing import Any

from ccmix.importing.foreign_text import writable
from ccmix.importing.json_types import Object


def object_in(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_in(value: Any) -> str | None:
    return writable(value) if isinstance(value, str) and value else None
