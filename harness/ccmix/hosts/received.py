"""Splits the data from an agent into messages, after the text that a login prints before them.

Refuses data that ccmix's agent does not send. docs/development.md lists the messages.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from ccmix import foreign_json
from ccmix.agent.messages import AgentMessage
from ccmix.hosts.caps import LOGIN, MESSAGE, Cap
from ccmix.hosts.output_text import printable

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


Check = Callable[[object], bool]


def _is_type(*kinds: type) -> Check:
    """Returns a function that checks whether a value has one of these types. A bool is not accepted
    as an int, although Python has it as a subclass.
    """
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_list_of(check: Check) -> Check:
    """Returns a function that checks whether a value is a list whose items all pass the given
    check.
    """
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is_change(value: object) -> bool:
    """Returns whether the value describes a change of the host that the agent was to undo. It is a
    list of two items: the change's description; and the reason why the change could not be undone,
    or None if it was undone.
    """
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and _is_type(str, type(None))(value[1])
    )


_TEXT, _NUMBER, _TIME, _FLAG = _is_type(str), _is_type(int), _is_type(int, float), _is_type(bool)
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
    """Returns the agent's message in a line of JSON. Raises ValueError if it is not valid JSON, or
    has unknown fields or values of a wrong type.
    """
    message = foreign_json.load_object(line)
    if "hello" in message:
        hello = message["hello"]
        if not isinstance(hello, dict) or len(message) > 1:
            raise ValueError("its hello is not a single JSON object")
        _check_fields(hello, {**_HELLO, **_LEFT})
        if missing := [name for name in _HELLO if name not in hello]:
            raise ValueError(f"its hello lacks {missing[0]}")
    elif "id" in message:
        _check_fields(message, _COMMAND)
    else:
        _check_fields(message, _REPLY if "reply" in message else _OTHERS)
    return cast(AgentMessage, message)


def _check_fields(message: Mapping[str, object], checks: Mapping[str, Check]) -> None:
    """Raises ValueError for a field that is not in `checks`, or whose value does not pass its
    check.
    """
    for name, value in message.items():
        if name not in checks:
            raise ValueError(f"it sends {name[:40]!r}, which no message of an agent has")
        if not checks[name](value):
            raise ValueError(f"its {name} can't be {value!r:.40}")
