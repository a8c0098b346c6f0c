"""Splits the data from an agent into messages, after the text that a login prints before them.

Refuses data that ccmix's agent does not send. docs/development.md lists the messages.
"""

import functools
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import cast, get_args, get_origin, get_type_hints

from ccmix import foreign_json
from ccmix.agent.messages import AgentHello, AgentMessage, CommandMessage, HostDescription
from ccmix.hosts.caps import LOGIN, MESSAGE, Cap
from ccmix.text.printable import printable

MESSAGE_BEGIN = b'{"'  # of a message
LONGEST_LINE = 300  # characters of data that is not a message


class TooLong(Exception):
    """Reports that the data of a host exceeds a cap. The connection then ends."""

    def __init__(self, cap: Cap) -> None:
        super().__init__(cap.what)
        self.cap = cap


class ReceivedLines:
    """Takes received data in parts of any size, and yields the lines that are messages.

    A login may print text first: `begun` says whether a message has come, and `no_message` is the
    last line before it.
    """

    def __init__(self) -> None:
        """Begins before any data was received."""
        self.begun = False
        self.no_message = ""
        self._login_bytes = 0
        self._incomplete_line = bytearray()  # a line whose end has not been received

    def take(self, data: memoryview) -> Iterator[bytearray]:
        """Yields the messages' lines that are complete with this data. Raises TooLong."""
        for line in self._complete_lines(data):
            if self.begun or line.startswith(MESSAGE_BEGIN):
                self.begun = True
                _check_cap(MESSAGE, len(line))
                yield line
            else:
                self._login_bytes += len(line) + 1
                self.no_message = printable(line[-LONGEST_LINE:].decode(errors="replace"))
        if not self.begun and not self._incomplete_line.startswith(MESSAGE_BEGIN):
            _check_cap(LOGIN, self._login_bytes + len(self._incomplete_line))
        _check_cap(MESSAGE, len(self._incomplete_line))

    def _complete_lines(self, data: memoryview) -> list[bytearray]:
        """Returns the lines that are complete with this data, and keeps the beginning of the next
        one.
        """
        already_searched = len(self._incomplete_line)
        self._incomplete_line += data
        if self._incomplete_line.find(b"\n", already_searched) < 0:
            return []
        *lines, self._incomplete_line = self._incomplete_line.split(b"\n")
        return lines


def _check_cap(cap: Cap, size: int) -> None:
    if size > cap.bytes:
        raise TooLong(cap)


def read_message(line: bytearray) -> AgentMessage:
    """Returns the agent's message in a line of JSON. Raises ValueError if it is not valid JSON, or
    has unknown fields or values of a wrong type.
    """
    message = foreign_json.load_object(line)
    if "hello" in message:
        hello = message["hello"]
        if not isinstance(hello, dict) or len(message) > 1:
            raise ValueError("its hello is not a single JSON object")
        _check_fields(hello, AgentHello)
        if missing := HostDescription.__required_keys__ - hello.keys():
            raise ValueError(f"its hello lacks {min(missing)}")
    else:
        _check_fields(message, CommandMessage if "id" in message else AgentMessage)
    return cast(AgentMessage, message)


_field_types = functools.cache(get_type_hints)


def _check_fields(message: Mapping[str, object], declaration: type) -> None:
    """Raises ValueError for a field that the declaration of the message does not have, or whose
    value has another type.
    """
    types = _field_types(declaration)
    for name, value in message.items():
        if name not in types:
            raise ValueError(f"it sends {name[:40]!r}, which no message of an agent has")
        if not _has_type(value, types[name]):
            raise ValueError(f"its {name} can't be {value!r:.40}")


def _has_type(value: object, declared: object) -> bool:
    """Returns whether a value of JSON has a declared type, such as list[int] or str | None. JSON
    has tuples as lists. A bool is not accepted as an int, although Python has it as a subclass.
    """
    parts = get_args(declared)
    if isinstance(declared, UnionType):
        return any(_has_type(value, part) for part in parts)
    if get_origin(declared) is list:
        return isinstance(value, list) and all(_has_type(item, parts[0]) for item in value)
    if get_origin(declared) is tuple:
        return (
            isinstance(value, list)
            and len(value) == len(parts)
            and all(map(_has_type, value, parts))
        )
    return type(value) in ((int, float) if declared is float else (declared,))
