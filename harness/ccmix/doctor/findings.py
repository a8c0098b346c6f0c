"""Defines the result of a check: a status, what was seen, why it matters, and the commands that mend it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

NAMESPACE = "netns:"
OF_THE_MACHINE = ("tcp_mem", "tcp_allowed_congestion_control")  # other namespaces don't have them, or only to read
LONGEST_SEEN = 300  # characters of a host's output


class Status(StrEnum):
    """Lists the statuses. FAIL: an entry needs it and can't have it. WARN: results get worse, or something else may
    need it.
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class DoctorFinding:
    """Describes the result of a check on one host.

    `mend` are command lines, all of them to be run, `instead` other ways to the same end; `root`: they need it.
    """

    check: str
    status: Status
    seen: str
    why: str = ""  # one sentence; empty if all is well
    mend: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    root: bool = True


def line(*arguments: str) -> str:
    """Returns a command line that quotes every argument for a shell, whatever a host has answered."""
    return shlex.join(arguments)


def problem(needed: bool) -> Status:
    """Returns the status of something that is missing: a failure if an entry needs it."""
    return Status.FAIL if needed else Status.WARN


def to_run(lines: Sequence[str], where: str, uid: int | None, root: bool) -> list[str]:
    """Returns the lines as the login's user runs them on the machine of the host `where`."""
    prefix = "sudo " if root and uid != 0 else ""
    enter = ""
    if where.startswith(NAMESPACE):
        enter = line("ip", "netns", "exec", where.removeprefix(NAMESPACE)) + " "
    return [prefix + (enter if _is_of_a_namespace(command) else "") + command if root else command for command in lines]


def _is_of_a_namespace(command: str) -> bool:
    """Returns whether the line sets something of a network namespace, not of the whole machine."""
    if command.startswith("sysctl -w"):
        return "net.ipv4." in command and not any(name in command for name in OF_THE_MACHINE)
    return command.startswith(("ip ", "tc ", "ethtool "))


def plain(text: str) -> str:
    """Returns a host's output in one line of printable characters and bounded length."""
    line_of_text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line_of_text if len(line_of_text) <= LONGEST_SEEN else line_of_text[: LONGEST_SEEN - 1] + "…"
