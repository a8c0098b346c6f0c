"""What a check found: a status, what was seen, why it matters, and the commands that mend it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

NAMESPACE = "netns:"
OF_THE_MACHINE = ("tcp_mem", "tcp_allowed_congestion_control")  # other namespaces don't have them, or only to read
LONGEST_SEEN = 300  # characters of what a host said


class Status(StrEnum):
    """FAIL: an entry asks for it and can't have it. WARN: results get worse, or something else may need it."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """The result of a check on one host.

    `mend` are command lines, all of them to be run, `instead` other ways to the same end; `root`: they need it.
    """

    check: str
    status: Status
    seen: str
    why: str = ""  # one sentence; empty where all is well
    mend: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    root: bool = True


def line(*words: str) -> str:
    """A command line whose words are nothing but words to a shell, whatever a host has said."""
    return shlex.join(words)


def problem(needed: bool) -> Status:
    """What it is that something isn't there: a failure where an entry needs it."""
    return Status.FAIL if needed else Status.WARN


def to_run(lines: Sequence[str], where: str, uid: int | None, root: bool) -> list[str]:
    """The lines as they are to be run on the machine of the host `where`, by the login's user."""
    prefix = "sudo " if root and uid != 0 else ""
    enter = ""
    if where.startswith(NAMESPACE):
        enter = line("ip", "netns", "exec", where.removeprefix(NAMESPACE)) + " "
    return [prefix + (enter if _is_of_a_namespace(one) else "") + one if root else one for one in lines]


def _is_of_a_namespace(one: str) -> bool:
    """Whether what the line sets is a network namespace's own, not the whole machine's."""
    if one.startswith("sysctl -w"):
        return "net.ipv4." in one and not any(name in one for name in OF_THE_MACHINE)
    return one.startswith(("ip ", "tc ", "ethtool "))


def plain(text: str) -> str:
    """What a host said, in one line of printable characters and bounded length."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return words if len(words) <= LONGEST_SEEN else words[: LONGEST_SEEN - 1] + "…"
