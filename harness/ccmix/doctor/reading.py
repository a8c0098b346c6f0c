"""How checks ask a host, and how they read what it says: whatever can't be understood is a ValueError."""

import json
import re
from collections.abc import Sequence
from typing import Any

from ccmix.hosts import Host

WAITS_S = 8.0  # for one command; none that is asked here takes a second on a host that is well
MOST_CHARACTERS = 2**20  # of an answer
DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}", re.ASCII)  # what ccmix takes for a network device's name
NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)

# Both outputs and the exit status, whatever it is; the command is the shell's arguments, never a part of its line.
_TRANSCRIPT = ("sh", "-c", 'LC_ALL=C "$@" 2>&1; echo "exit status $?"', "sh")
# The files that can be read, each line after the file's name
_FILES = ("grep", "-s", "")


def ask(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> str:
    """Standard output of a command that must succeed. Raises CommandError, and ValueError where it says too much."""
    return _bounded(host.run(argv, timeout_s=timeout_s))


def transcript(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> tuple[int, str]:
    """Exit status and both outputs of a command that may fail. Raises CommandError where it takes too long."""
    said, _, status = ask(host, [*_TRANSCRIPT, *argv], timeout_s).rstrip("\n").rpartition("exit status ")
    return whole(status, "its exit status"), said


def files(host: Host, *patterns: str) -> dict[str, str]:
    """The first lines of the files that the patterns name and that can be read; of none where there are none.

    The patterns are this program's own: a shell expands them.
    """
    _, said = transcript(host, ["sh", "-c", f"{' '.join(_FILES[:2])} '' /dev/null {' '.join(patterns)}"])
    found: dict[str, str] = {}
    for one in said.splitlines():
        name, colon, text = one.partition(":")
        if colon:
            found.setdefault(name, text.strip())
    return found


def whole(text: str, what: str, least: int | None = None) -> int:
    """A whole number. Raises ValueError."""
    text = text.strip()
    if not NUMBER.fullmatch(text) or (least is not None and int(text) < least):
        raise ValueError(f"{what} is {text[:40]!r}, no number that it can be")
    return int(text)


def numbers(text: str, count: int, what: str) -> list[int]:
    """So many whole numbers, none negative. Raises ValueError."""
    words = text.split()
    if len(words) != count:
        raise ValueError(f"{what} is {text[:40]!r}, not {count} numbers")
    return [whole(word, what, 0) for word in words]


def objects(text: str, what: str) -> list[dict[str, Any]]:
    """A JSON list of objects, as iproute2 says it; nothing at all is an empty one. Raises ValueError."""
    try:
        found = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not the JSON that it should be") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{what} is no list of JSON objects")
    return [one for one in found if one]  # iproute2 leaves empty ones for what it filtered out


def text_of(one: dict[str, Any], key: str, what: str) -> str:
    """Raises ValueError."""
    value = one.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{what} has no {key}")  # noqa: TRY004
    return value


def count_of(one: dict[str, Any], key: str, default: int | None, what: str) -> int:
    """A whole number that is not negative; `default` where the key is missing. Raises ValueError."""
    value = one.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{what} has no number {key}")
    return value


def device_name(text: object) -> str:
    """Raises ValueError for what no device is called."""
    if not isinstance(text, str) or not DEVICE.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is no name of a network device")
    return text


def _bounded(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it says {len(text)} characters, more than anyone reads")
    return text
