"""Holds the findings of `ccmix doctor`, prints them, and runs commands on hosts for the checks.

Unexpected output of a command raises ValueError.
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
    """Lists how a check can end.

    FAIL: an entry needs something that the host lacks. WARN: results get worse, or the host lacks
    something that no planned entry needs. UNKNOWN: the host does not show it.
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class DoctorFinding:
    """Describes the result of a check on one host: what was `seen`, and `why` it matters.

    `remedy` are command lines that fix a problem if all of them are run; `instead` are
    alternatives, one of which is enough. `root` means that these commands need root.
    """

    check: str
    status: Status
    seen: str
    why: str = ""  # one sentence; empty if all is well
    remedy: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    root: bool = True


def line(*arguments: str) -> str:
    """Returns a command line with every argument quoted for a shell, because arguments may come
    from a host, which may answer anything.
    """
    return shlex.join(arguments)


Findings = Iterator[DoctorFinding]


def ok(check: str, seen: str) -> DoctorFinding:
    """Returns the finding of a check that found nothing to fix; `seen` says what it found."""
    return DoctorFinding(check, Status.OK, seen)


def _problem(
    status: Status, check: str, seen: str, why: str = "", *remedy: str, **other_fields: Any
) -> DoctorFinding:
    """Returns a finding that is not OK; warn(), fail() and unknown() are made from it.

    `remedy` are command lines that fix it, all of which must be run; `other_fields` sets more
    fields.
    """
    return DoctorFinding(check, status, seen, why, remedy, **other_fields)


warn, fail, unknown = (
    partial(_problem, status) for status in (Status.WARN, Status.FAIL, Status.UNKNOWN)
)


def problem(needed: bool) -> Status:
    """Returns the status for something missing: FAIL if an entry needs it, otherwise WARN."""
    return Status.FAIL if needed else Status.WARN


def lack(
    needed: bool, check: str, seen: str, why: str = "", *remedy: str, **other_fields: Any
) -> DoctorFinding:
    """Returns a finding on something that is missing: a failure if an entry needs it (`needed`).

    The other arguments are the fields of the DoctorFinding.
    """
    return _problem(problem(needed), check, seen, why, *remedy, **other_fields)


def to_run(commands: Sequence[str], host: str, uid: int | None, root: bool) -> list[str]:
    """Returns commands as the user must type them on the host's machine, with sudo if needed.

    `uid` is the number of the user as whom ccmix logs in (None: it could not log in); `root` means
    that the commands need root. A host 'netns:NAME' is a network namespace: commands that change it
    begin with `ip netns exec NAME`.
    """
    prefix = "sudo " if root and uid != 0 else ""
    enter_namespace = ""
    if host.startswith(NAMESPACE):
        enter_namespace = line("ip", "netns", "exec", host.removeprefix(NAMESPACE)) + " "
    if not root:
        return list(commands)
    return [
        prefix + (enter_namespace if _changes_namespace_only(command) else "") + command
        for command in commands
    ]


def _changes_namespace_only(command: str) -> bool:
    """Returns whether the command changes a network namespace, and not the whole machine."""
    if command.startswith("sysctl -w"):
        return "net.ipv4." in command and not any(name in command for name in OF_THE_MACHINE)
    return command.startswith(("ip ", "tc ", "ethtool "))


def plain(text: str) -> str:
    """Returns a host's output as one printable line, cut after LONGEST_SEEN characters."""
    one_line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return one_line if len(one_line) <= LONGEST_SEEN else one_line[: LONGEST_SEEN - 1] + "…"


T = TypeVar("T")


@dataclass
class Report:
    """Holds the findings on a host. `uid` is the number of the user as whom ccmix logs in there
    (None: it could not log in).
    """

    host: str
    uid: int | None = None
    findings: list[DoctorFinding] = field(default_factory=list)

    def check(self, check_name: str, judge: Callable[[], Iterable[DoctorFinding]]) -> None:
        """Runs a check and adds its findings.

        `judge` asks the host and yields them. If the host does not answer, or its answer is not
        understood, a finding `unknown` takes their place, named `check_name`.
        """
        self.read(check_name, lambda: self.findings.extend(judge()))

    def read(
        self,
        check_name: str,
        ask: Callable[[], T],
        why_needed: str = "",
        remedy: tuple[str, ...] = (),
    ) -> T | None:
        """Returns the answer that `ask` gets; if it fails, adds a finding and returns None.

        `check_name` names the finding. `why_needed` says why nothing works without the answer: the
        finding is then a failure, otherwise `unknown`. `remedy` are commands (without root) that
        show the failure.
        """
        try:
            return ask()
        except CommandError as error:
            reason = error.reason
        except (ValueError, OSError) as error:
            reason = str(error)
        status = Status.FAIL if why_needed else Status.UNKNOWN
        self.findings.append(
            DoctorFinding(check_name, status, reason, why_needed, remedy, root=False)
        )
        return None


@dataclass(frozen=True)
class Seen:
    """Describes what a source has measured on the way to a destination.

    `rtt_s` is the smallest round-trip time of a ping, and `speed_bps` the speed of the source's NIC
    (None: not known). `addresses` are the addresses of the destination.
    """

    rtt_s: float | None
    speed_bps: float | None
    addresses: tuple[str, ...]


def failed(reports: Sequence[Report]) -> bool:
    """Returns whether anything must be fixed before the entries run."""
    return any(finding.status is Status.FAIL for report in reports for finding in report.findings)


INDENT = " " * 9


def to_json(reports: Sequence[Report]) -> str:
    """Returns the reports as JSON: a list of hosts, each with its checks."""
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
    """Returns the reports as text: for each host a line for each check.

    Below a check that is not ok are the reason, the commands of its remedy, and alternatives.
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
                lines += [f"{INDENT}$ {command}" for command in _remedy_commands(report, finding)]
                lines += [
                    f"{INDENT}or: {command}" for command in _alternative_commands(report, finding)
                ]
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
    """Returns a finding for JSON, with commands as the user must type them."""
    return {
        "check": plain(finding.check),
        "status": finding.status.value,
        "seen": plain(finding.seen),
        "why": plain(finding.why),
        "remedy": _remedy_commands(report, finding),
        "instead": _alternative_commands(report, finding),
    }


def _remedy_commands(report: Report, finding: DoctorFinding) -> list[str]:
    """Returns the commands that fix the problem, as the user must type them on that host."""
    return to_run(finding.remedy, report.host, report.uid, finding.root)


def _alternative_commands(report: Report, finding: DoctorFinding) -> list[str]:
    """Returns alternatives to the remedy, as the user must type them on that host."""
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
# Prints each line of the readable files after the file's name; /dev/null makes grep print the name
# even if there is only one file
_PRINT_LINES = "grep -s '' /dev/null"


def ask(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> str:
    """Runs a command on the host that must succeed; returns its standard output.

    Raises CommandError, and ValueError if the output is longer than ccmix reads.
    """
    return _bounded(host.run(argv, timeout_s=timeout_s))


def transcript(host: Host, argv: Sequence[str], timeout_s: float = WAITS_S) -> tuple[int, str]:
    """Runs a command on the host that may fail; returns its exit status and both outputs.

    Raises CommandError if it takes too long.
    """
    output, _, status = (
        ask(host, [*_TRANSCRIPT, *argv], timeout_s).rstrip("\n").rpartition("exit status ")
    )
    return whole(status, "its exit status"), output


def files(host: Host, *patterns: str) -> dict[str, str]:
    """Reads files such as those of /proc and /sys; returns the first line of each, by path.

    The patterns, which come only from ccmix, are expanded by a shell on the host. Files that are
    missing or unreadable are left out.
    """
    _, output = transcript(host, ["sh", "-c", f"{_PRINT_LINES} {' '.join(patterns)}"])
    first_lines: dict[str, str] = {}
    for row in output.splitlines():
        name, colon, text = row.partition(":")
        if colon:
            first_lines.setdefault(name, text.strip())
    return first_lines


def whole(text: str, description: str, least: int | None = None) -> int:
    """Reads a whole number of at least `least` from a host's output.

    Raises ValueError for anything else; `description` names it in the message.
    """
    text = text.strip()
    if not NUMBER.fullmatch(text) or (least is not None and int(text) < least):
        raise ValueError(f"{description} is {text[:40]!r}, which is not a possible number")
    return int(text)


def numbers(text: str, count: int, description: str) -> list[int]:
    """Reads `count` whole numbers, separated by spaces, none of which is negative.

    Raises ValueError for anything else; `description` names the numbers in the message.
    """
    words = text.split()
    if len(words) != count:
        raise ValueError(f"{description} is {text[:40]!r}, not {count} numbers")
    return [whole(word, description, 0) for word in words]


def objects(text: str, description: str) -> list[dict[str, Any]]:
    """Parses the JSON of ip or tc, a list of objects. Empty output means an empty list.

    Raises ValueError for anything else; `description` names the output in the message.
    """
    try:
        records = foreign_json.loads(text) if text.strip() else []
    except ValueError as error:
        raise ValueError(f"{description} is not the JSON that it should be") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(f"{description} is not a list of JSON objects")
    return [
        record for record in records if record
    ]  # iproute2 leaves empty objects for filtered entries


def text_of(record: dict[str, Any], key: str, description: str) -> str:
    """Returns the text under a key of a JSON object. Raises ValueError if there is none;
    `description` names the object in the message.
    """
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{description} has no {key}")  # noqa: TRY004
    return value


def count_of(record: dict[str, Any], key: str, default: int | None, description: str) -> int:
    """Returns the number under a key of a JSON object, or `default` if the key is missing.

    Raises ValueError if the value is not a whole number from 0 on, or if the key is missing and
    `default` is None. `description` names the object in the message.
    """
    value = record.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{description} has no number {key}")
    return value


def device_name(text: object) -> str:
    """Returns the text if it can be the name of a network device, otherwise raises ValueError.

    Names come from hosts, and are used in commands.
    """
    if not isinstance(text, str) or not DEVICE.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not the name of a network device")
    return text


def _bounded(text: str) -> str:
    """Returns the output. Raises ValueError if it is longer than ccmix reads."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"its answer has {len(text)} characters, more than the {MOST_CHARACTERS} that ccmix "
            "reads"
        )
    return text
