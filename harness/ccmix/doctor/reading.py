"""Asks a host for the checks, and reads its answers. What can't be understood is a ValueError."""

import re
from collections.abc import Sequence
from typing import Any

from ccmix import foreign_json
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
    """Returns standard output of a command that must succeed. Raises CommandError, and ValueError if it is too long."""
    return _bounded(host.run(argv, timeout_s=timeout_s))


def transcript(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> tuple[int, str]:
    """Returns exit status and both outputs of a command that may fail. Raises CommandError if it takes too long."""
    output, _, status = ask(host, [*_TRANSCRIPT, *argv], timeout_s).rstrip("\n").rpartition("exit status ")
    return whole(status, "its exit status"), output


def files(host: Host, *patterns: str) -> dict[str, str]:
    """Returns the first lines of those files that the patterns name and that can be read.

    The patterns are this program's own: a shell expands them.
    """
    _, output = transcript(host, ["sh", "-c", f"{' '.join(_FILES[:2])} '' /dev/null {' '.join(patterns)}"])
    first_lines: dict[str, str] = {}
    for row in output.splitlines():
        name, colon, text = row.partition(":")
        if colon:
            first_lines.setdefault(name, text.strip())
    return first_lines


def whole(text: str, what: str, least: int | None = None) -> int:
    """Returns a whole number. Raises ValueError."""
    text = text.strip()
    if not NUMBER.fullmatch(text) or (least is not None and int(text) < least):
        raise ValueError(f"{what} is {text[:40]!r}, which is not a possible number")
    return int(text)


def numbers(text: str, count: int, what: str) -> list[int]:
    """Returns `count` whole numbers, none negative. Raises ValueError."""
    words = text.split()
    if len(words) != count:
        raise ValueError(f"{what} is {text[:40]!r}, not {count} numbers")
    return [whole(word, what, 0) for word in words]


def objects(text: str, what: str) -> list[dict[str, Any]]:
    """Returns a JSON list of objects, as iproute2 prints it; an empty one for no output. Raises ValueError."""
    try:
        records = foreign_json.loads(text) if text.strip() else []
    except ValueError as error:
        raise ValueError(f"{what} is not the JSON that it should be") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(f"{what} is not a list of JSON objects")
    return [record for record in records if record]  # iproute2 leaves empty ones for what it filtered out


def text_of(record: dict[str, Any], key: str, what: str) -> str:
    """Returns a text of a JSON object. Raises ValueError."""
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{what} has no {key}")  # noqa: TRY004
    return value


def count_of(record: dict[str, Any], key: str, default: int | None, what: str) -> int:
    """Returns a whole number that is not negative; `default` if the key is missing. Raises ValueError."""
    value = record.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{what} has no number {key}")
    return value


def device_name(text: object) -> str:
    """Returns the name of a network device. Raises ValueError if it can't be one."""
    if not isinstance(text, str) or not DEVICE.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not the name of a network device")
    return text


def _bounded(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"its answer has {len(text)} characters, more than the {MOST_CHARACTERS} that ccmix reads")
    return text
