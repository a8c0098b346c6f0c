"""Checks the programs that the entries need on a host, their versions, and the packages that they come in."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.doctor.findings import DoctorFinding, Status, line, plain, problem
from ccmix.doctor.reading import ask
from ccmix.hosts import Host

# The option by which each prints its version; other programs aren't started
VERSION = {
    "ethtool": "--version", "iperf3": "--version", "ping": "-V", "python3": "--version", "ss": "-V", "tc": "-V",
    "tcpdump": "--version", "zstd": "--version", "mpstat": "-V",
}  # fmt: skip
# The packages of Debian and its kind, and those of Red Hat's
PACKAGES = {
    "ethtool": ("ethtool", "ethtool"), "getent": ("libc-bin", "glibc-common"), "ip": ("iproute2", "iproute"),
    "iperf3": ("iperf3", "iperf3"), "mpstat": ("sysstat", "sysstat"), "ping": ("iputils-ping", "iputils"),
    "prlimit": ("util-linux", "util-linux-core"), "pscheduler": ("perfsonar-tools", "perfsonar-tools"),
    "python3": ("python3", "python3"), "ss": ("iproute2", "iproute"), "sudo": ("sudo", "sudo"),
    "sysctl": ("procps", "procps-ng"), "tc": ("iproute2", "iproute-tc"), "tcpdump": ("tcpdump", "tcpdump"),
    "zstd": ("zstd", "zstd"),
}  # fmt: skip
THREADS_SINCE = (3, 16)  # of iperf3: a thread for each stream; before that, all streams share one core
OLDEST_PYTHON = (3, 6)  # the agent's
_WHERE = """
while [ $# -gt 1 ]; do
    name=$1 option=$2; shift 2
    path=$(command -v -- "$name" 2>/dev/null)
    version=
    [ -z "$path" ] || [ -z "$option" ] || version=$(timeout 3 "$name" "$option" 2>&1 </dev/null | head -n 1)
    printf '%s\\t%s\\t%s\\n' "$name" "$path" "$version"
done
"""
_NUMBERS = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True)
class Program:
    """Describes a program; `path` is '' if it is not there."""

    name: str
    path: str
    version: str


def read_programs(host: Host, names: Iterable[str]) -> list[Program]:
    """Reads where the programs are, and their versions. Raises CommandError or ValueError."""
    asked = [word for name in dict.fromkeys(names) for word in (name, VERSION.get(name, ""))]
    if not asked:
        return []
    return programs_of(ask(host, ["sh", "-c", _WHERE, "sh", *asked], timeout_s=30), asked[::2])


def programs_of(output: str, names: Sequence[str]) -> list[Program]:
    """Reads the programs from the shell's output. Raises ValueError."""
    lines = [row.split("\t") for row in output.splitlines()]
    if [row[0] for row in lines] != list(names) or any(len(row) < 3 for row in lines):
        raise ValueError("the host's shell does not say which programs it finds")
    return [Program(row[0], row[1], plain(" ".join(row[2:]))) for row in lines]


def is_red_hat(host: Host) -> bool:
    """Returns whether packages are of Red Hat's kind (os-release(5)). Raises CommandError."""
    os_release = ask(host, ["sh", "-c", "grep -hE '^ID(_LIKE)?=' /etc/os-release 2>/dev/null; true"])
    return any(kind in os_release for kind in ("rhel", "fedora", "centos"))


def judge_programs(
    programs: Iterable[Program], used_by: Mapping[str, str], red_hat: bool, needed: bool = True
) -> Iterator[DoctorFinding]:
    """Judges programs; `used_by` says what needs each, and `needed` whether entries do."""
    there = []
    for program in programs:
        if program.path:
            there.append(program)
            yield from _version(program)
            continue
        use = used_by.get(program.name, "an entry")
        package = PACKAGES.get(program.name, (None, None))[red_hat]
        install = ("dnf", "install", "-y") if red_hat else ("apt-get", "install", "-y")
        yield DoctorFinding(
            program.name, problem(needed), "not installed", f"{use} needs it.",
            (line(*install, package),) if package else (),
        )  # fmt: skip
    if there:
        yield DoctorFinding("programs", Status.OK, ", ".join(short(program) for program in there))


def short(program: Program) -> str:
    """Returns 'tcpdump 4.99.3', or the name alone if it has no version that can be seen."""
    match = re.search(r"\d+(?:\.\d+)+|\d{8}", program.version)
    return f"{program.name} {match[0]}" if match else program.name


def _version(program: Program) -> Iterator[DoctorFinding]:
    match = _NUMBERS.search(program.version)
    numbers = (int(match[1]), int(match[2])) if match else None
    if program.name == "iperf3" and numbers and numbers < THREADS_SINCE:
        yield DoctorFinding(
            "iperf3", Status.WARN, f"{numbers[0]}.{numbers[1]}",
            "Before 3.16 all streams of a test share one core, which limits them together: install a newer one.",
        )  # fmt: skip
    if program.name == "python3" and numbers and numbers < OLDEST_PYTHON:
        yield DoctorFinding(
            "python3", Status.FAIL, f"{numbers[0]}.{numbers[1]}", "ccmix's agent needs Python 3.6 or newer."
        )
