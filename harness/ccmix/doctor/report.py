"""Holds the doctor's findings on a host, writes them as a table and as JSON, and runs commands on
hosts for the checks. Unexpected output raises ValueError.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from ccmix import foreign_json
from ccmix.hosts import CommandError, Host

NAMESPACE = "netns:"
OF_THE_MACHINE = (
    "tcp_mem",
    "tcp_allowed_congestion_control",
)  # other namespaces lack them, or can only read them
LONGEST_SEEN = 300  # characters of a host's output


class Status(StrEnum):
    """Lists the statuses. FAIL: an entry needs something that the host lacks. WARN: results get
    worse, or something else may need it.
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class DoctorFinding:
    """Describes the result of a check on one host.

    `remedy` are command lines, all of which must be run. `instead` are alternatives. `root` means
    that these commands need root.
    """

    check: str
    status: Status
    seen: str
    why: str = ""  # one sentence; empty if all is well
    remedy: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    root: bool = True


def line(*arguments: str) -> str:
    """Returns a command line with every argument quoted for a shell, because a host may answer
    anything.
    """
    return shlex.join(arguments)


Findings = Iterator[DoctorFinding]


def ok(check: str, seen: str) -> DoctorFinding:
    return DoctorFinding(check, Status.OK, seen)


def _problem(
    status: Status, check: str, seen: str, why: str = "", *remedy: str, **more: Any
) -> DoctorFinding:
    return DoctorFinding(check, status, seen, why, remedy, **more)


warn, fail, unknown = (
    partial(_problem, status) for status in (Status.WARN, Status.FAIL, Status.UNKNOWN)
)


def problem(needed: bool) -> Status:
    """Returns the status of something that is missing: a failure if an entry needs it."""
    return Status.FAIL if needed else Status.WARN


def lack(
    needed: bool, check: str, seen: str, why: str = "", *remedy: str, **more: Any
) -> DoctorFinding:
    """Returns a finding on something that is missing: a failure if an entry needs it."""
    return _problem(problem(needed), check, seen, why, *remedy, **more)


def to_run(lines: Sequence[str], where: str, uid: int | None, root: bool) -> list[str]:
    """Returns the lines in the form for the login's user on the machine of the host `where`."""
    prefix = "sudo " if root and uid != 0 else ""
    enter = ""
    if where.startswith(NAMESPACE):
        enter = line("ip", "netns", "exec", where.removeprefix(NAMESPACE)) + " "
    return [
        prefix + (enter if _is_of_a_namespace(command) else "") + command if root else command
        for command in lines
    ]


def _is_of_a_namespace(command: str) -> bool:
    """Returns whether the line changes a network namespace, not the whole machine."""
    if command.startswith("sysctl -w"):
        return "net.ipv4." in command and not any(name in command for name in OF_THE_MACHINE)
    return command.startswith(("ip ", "tc ", "ethtool "))


def plain(text: str) -> str:
    """Returns a host's output as one printable line of bounded length."""
    line_of_text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return (
        line_of_text
        if len(line_of_text) <= LONGEST_SEEN
        else line_of_text[: LONGEST_SEEN - 1] + "…"
    )


T = TypeVar("T")


@dataclass
class Report:
    """Holds the findings on a host; `uid` is None if nobody could log in."""

    host: str
    uid: int | None = None
    findings: list[DoctorFinding] = field(default_factory=list)

    def check(self, what: str, judge: Callable[[], Iterable[DoctorFinding]]) -> None:
        """Adds the findings of a check. If the host doesn't answer, or its answer is not
        understood, adds the finding "unknown".
        """
        self.read(what, lambda: self.findings.extend(judge()))

    def read(
        self, what: str, ask: Callable[[], T], needed: str = "", remedy: tuple[str, ...] = ()
    ) -> T | None:
        """Returns the host's answer; without one, returns None, and the reason becomes a finding.

        `needed` is the reason why nothing works without the answer; a missing answer is then a
        failure. `remedy` shows the failure (without root).
        """
        try:
            return ask()
        except CommandError as error:
            reason = error.reason
        except (ValueError, OSError) as error:
            reason = str(error)
        status = Status.FAIL if needed else Status.UNKNOWN
        self.findings.append(DoctorFinding(what, status, reason, needed, remedy, root=False))
        return None


@dataclass(frozen=True)
class Seen:
    """Describes the measurements of the source towards a destination."""

    rtt_s: float | None
    speed_bps: float | None
    addresses: tuple[str, ...]


def failed(reports: Sequence[Report]) -> bool:
    """Returns whether anything must be fixed before the entries run."""
    return any(finding.status is Status.FAIL for report in reports for finding in report.findings)


INDENT = " " * 9


def to_json(reports: Sequence[Report]) -> str:
    """Returns a list of hosts, each with its checks."""
    return json.dumps(
        [
            {
                "host": report.host,
                "checks": [_record(report, finding) for finding in report.findings],
            }
            for report in reports
        ],
        indent=1,
    )


def render(reports: Iterable[Report]) -> str:
    """Returns a block for each host, with a line for each check, and below it the reason and the
    remedy.
    """
    blocks = []
    for report in reports:
        if not report.findings:
            continue
        width = max(len(finding.check) for finding in report.findings)
        lines = [report.host]
        for finding in report.findings:
            lines.append(
                f"  {finding.status.value:<8}{plain(finding.check):<{width}}  "
                f"{plain(finding.seen)}".rstrip()
            )
            if finding.status is not Status.OK:
                lines += [f"{INDENT}{plain(finding.why)}"] if finding.why else []
                lines += [f"{INDENT}$ {command}" for command in _remedy(report, finding)]
                lines += [f"{INDENT}or: {command}" for command in _instead(report, finding)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def summary(reports: Iterable[Report]) -> str:
    """Returns the counts of each status, as in '2 fail, 1 warn, 20 ok'."""
    counts = Counter(finding.status for report in reports for finding in report.findings)
    order = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)
    return (
        ", ".join(f"{counts[status]} {status.value}" for status in order if counts[status])
        or "nothing to check"
    )


def _record(report: Report, finding: DoctorFinding) -> dict[str, str | list[str]]:
    return {
        "check": plain(finding.check),
        "status": finding.status.value,
        "seen": plain(finding.seen),
        "why": plain(finding.why),
        "remedy": _remedy(report, finding),
        "instead": _instead(report, finding),
    }


def _remedy(report: Report, finding: DoctorFinding) -> list[str]:
    return to_run(finding.remedy, report.host, report.uid, finding.root)


def _instead(report: Report, finding: DoctorFinding) -> list[str]:
    return to_run(finding.instead, report.host, report.uid, finding.root)


WAITS_S = 8.0  # for one command; on a healthy host each command here takes less than a second
MOST_CHARACTERS = 2**20  # of an answer
DEVICE = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}", re.ASCII
)  # accepted names of network devices
NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)

# Prints both outputs and the exit status, also of a failure. The command is in the shell's
# arguments, never in its script.
_TRANSCRIPT = ("sh", "-c", 'LC_ALL=C "$@" 2>&1; echo "exit status $?"', "sh")
# Prints the readable files, each line after the file's name
_FILES = ("grep", "-s", "")


def ask(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> str:
    """Returns standard output of a command that must succeed. Raises CommandError, and ValueError
    if it is too long.
    """
    return _bounded(host.run(argv, timeout_s=timeout_s))


def transcript(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> tuple[int, str]:
    """Returns exit status and both outputs of a command that may fail. Raises CommandError if it
    takes too long.
    """
    output, _, status = (
        ask(host, [*_TRANSCRIPT, *argv], timeout_s).rstrip("\n").rpartition("exit status ")
    )
    return whole(status, "its exit status"), output


def files(host: Host, *patterns: str) -> dict[str, str]:
    """Returns the first lines of the readable files that match the patterns.

    The patterns come from this program, and a shell expands them.
    """
    _, output = transcript(
        host, ["sh", "-c", f"{' '.join(_FILES[:2])} '' /dev/null {' '.join(patterns)}"]
    )
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
    """Returns a JSON list of objects from iproute2; an empty list for no output. Raises
    ValueError.
    """
    try:
        records = foreign_json.loads(text) if text.strip() else []
    except ValueError as error:
        raise ValueError(f"{what} is not the JSON that it should be") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(f"{what} is not a list of JSON objects")
    return [
        record for record in records if record
    ]  # iproute2 leaves empty objects for filtered entries


def text_of(record: dict[str, Any], key: str, what: str) -> str:
    """Returns a text of a JSON object. Raises ValueError."""
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{what} has no {key}")  # noqa: TRY004
    return value


def count_of(record: dict[str, Any], key: str, default: int | None, what: str) -> int:
    """Returns a whole number that is not negative; `default` if the key is missing. Raises
    ValueError.
    """
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
        raise ValueError(
            f"its answer has {len(text)} characters, more than the {MOST_CHARACTERS} that ccmix "
            "reads"
        )
    return text
