"""Splits the data from an agent into messages, and separates the text that a login prints before
them.

Refuses data that ccmix's agent does not send. docs/development.md lists the messages.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from ccmix import foreign_json
from ccmix.agent.messages import AgentMessage
from ccmix.hosts.caps import LOGIN, MESSAGE, Cap
from ccmix.hosts.output_text import printable

BEGINNING = b'{"'  # of a message
LONGEST_LINE = 300  # characters of data that is not a message


class TooLong(Exception):
    """Reports that the received data exceeds a cap."""

    def __init__(self, cap: Cap) -> None:
        super().__init__(cap.what)
        self.cap = cap


class ReceivedLines:
    """Takes received data in parts, and yields the lines of messages.

    `begun` says whether a message has come, and `no_message` is the last line before it.
    """

    def __init__(self) -> None:
        self.begun = False
        self.no_message = ""
        self._login_bytes = 0
        self._rest = bytearray()  # a line whose end has not been received

    def take(self, part: memoryview) -> Iterator[bytearray]:
        """Yields the lines that are complete now. Raises TooLong."""
        for line in self._whole_lines(part):
            if self.begun or line.startswith(BEGINNING):
                self.begun = True
                _check_cap(MESSAGE, len(line))
                yield line
            else:
                self._login_bytes += len(line) + 1
                self.no_message = printable(line[-LONGEST_LINE:].decode(errors="replace"))
        if not self.begun and not self._rest.startswith(BEGINNING):
            _check_cap(LOGIN, self._login_bytes + len(self._rest))
        _check_cap(MESSAGE, len(self._rest))

    def _whole_lines(self, part: memoryview) -> list[bytearray]:
        searched = len(self._rest)
        self._rest += part
        if self._rest.find(b"\n", searched) < 0:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        return lines


def _check_cap(cap: Cap, size: int) -> None:
    if size > cap.bytes:
        raise TooLong(cap)


Check = Callable[[object], bool]


def _is(*kinds: type) -> Check:
    """Returns a check of the type. A bool does not count as a number here, although Python has it
    as an int.
    """
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is_change(value: object) -> bool:
    """Returns whether the value is a pair: a change, and the reason why it was not undone, or
    None.
    """
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and _is(str, type(None))(value[1])
    )


_TEXT, _NUMBER, _TIME, _FLAG = _is(str), _is(int), _is(int, float), _is(bool)
_HELLO: Mapping[str, Check] = {
    "pid": _NUMBER,
    "uid": _NUMBER,
    "hostname": _TEXT,
    "boot_id": _TEXT,
    "python": _TEXT,
    "kernel": _TEXT,
    "folder": _TEXT,
    "state": _TEXT,
}
_LEFT: Mapping[str, Check] = {"restored": _is_list_of(_is_change), "left": _is_list_of(_TEXT)}
_COMMAND: Mapping[str, Check] = {
    "id": _NUMBER,
    "stdout": _TEXT,
    "stderr": _TEXT,
    "failed": _TEXT,
    "exit": _NUMBER,
    "gone": _FLAG,
    "left": _is_list_of(_NUMBER),
}
_REPLY: Mapping[str, Check] = {
    "reply": _NUMBER,
    "error": _TEXT,
    "wall_s": _TIME,
    "number": _NUMBER,
    "tcp": _is_list_of(_NUMBER),
    "udp": _is_list_of(_NUMBER),
    "commands": _is_list_of(_TEXT),
}
_OTHERS: Mapping[str, Check] = {
    "waits": _TEXT,
    "refused": _TEXT,
    "beat": _FLAG,
    "left": _is_list_of(_is_change),
}


def read_message(line: bytearray) -> AgentMessage:
    """Returns the message of a line. Raises ValueError."""
    message = foreign_json.load_object(line)
    if "hello" in message:
        hello = message["hello"]
        if not isinstance(hello, dict) or len(message) > 1:
            raise ValueError("its hello is not a single JSON object")
        _check(hello, {**_HELLO, **_LEFT})
        if missing := [name for name in _HELLO if name not in hello]:
            raise ValueError(f"its hello lacks {missing[0]}")
    else:
        _check(message, _COMMAND if "id" in message else _REPLY if "reply" in message else _OTHERS)
    return cast(AgentMessage, message)


def _check(message: Mapping[str, object], checks: Mapping[str, Check]) -> None:
    for name, value in message.items():
        if name not in checks:
            raise ValueError(f"it sends {name[:40]!r}, which no message of an agent has")
        if not checks[name](value):
            raise ValueError(f"its {name} can't be {value!r:.40}")
