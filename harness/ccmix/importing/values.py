"""Values of JSON documents that others wrote: what is not of the expected type is a gap."""

from collections.abc import Mapping
from typing import Any

from ccmix.importing.text import writable

Object = Mapping[str, Any]


def object_in(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[Object]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_in(value: Any) -> str | None:
    return writable(value) if isinstance(value, str) and value else None
