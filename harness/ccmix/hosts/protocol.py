"""Reads the messages of an agent, and refuses what ccmix's agent does not send. docs/development.md lists them."""

from collections.abc import Callable, Mapping
from typing import cast

from ccmix import foreign_json
from ccmix.agent.messages import AgentMessage

Check = Callable[[object], bool]


def _is(*kinds: type) -> Check:
    """Returns a check of the type; a bool is no number here, though Python has it as an int."""
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is_change(value: object) -> bool:
    """Returns whether the value is a pair: a change, and why it was not undone, or None."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and _is(str, type(None))(value[1])


_TEXT, _NUMBER, _TIME, _FLAG = _is(str), _is(int), _is(int, float), _is(bool)
_HELLO: Mapping[str, Check] = {
    "pid": _NUMBER, "uid": _NUMBER, "hostname": _TEXT, "boot_id": _TEXT, "python": _TEXT, "kernel": _TEXT,
    "folder": _TEXT, "state": _TEXT,
}  # fmt: skip
_LEFT: Mapping[str, Check] = {"restored": _is_list_of(_is_change), "left": _is_list_of(_TEXT)}
_COMMAND: Mapping[str, Check] = {
    "id": _NUMBER, "stdout": _TEXT, "stderr": _TEXT, "failed": _TEXT, "exit": _NUMBER, "gone": _FLAG,
    "left": _is_list_of(_NUMBER),
}  # fmt: skip
_REPLY: Mapping[str, Check] = {
    "reply": _NUMBER, "error": _TEXT, "wall_s": _TIME, "number": _NUMBER, "tcp": _is_list_of(_NUMBER),
    "udp": _is_list_of(_NUMBER), "commands": _is_list_of(_TEXT),
}  # fmt: skip
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
            raise ValueError("its hello is not a JSON object alone")
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
