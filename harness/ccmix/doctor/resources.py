"""Checks a host's processors, room on disks, synchronisation of its clock, and programs."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix import foreign_json
from ccmix.doctor.device import Device
from ccmix.doctor.report import (
    DoctorFinding,
    Findings,
    Status,
    ask,
    fail,
    files,
    lack,
    line,
    ok,
    plain,
    transcript,
    warn,
    whole,
)
from ccmix.hosts import Host
from ccmix.isolated import python_command
from ccmix.units import format_bytes

GOVERNORS = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
BALANCED_BPS = (
    40e9  # from this rate on, interrupts that move between cores and sockets cost throughput
)


def read_governors(host: Host) -> Mapping[str, str]:
    """Reads the CPU governors (which choose the clock rate), by file.

    Empty if the hardware or a hypervisor chooses it. Raises CommandError.
    """
    return files(host, GOVERNORS)


def judge_governors(governor_by_file: Mapping[str, str]) -> Findings:
    """Judges the CPU governors, by file: any but 'performance' makes throughput vary."""
    counts = Counter(governor_by_file.values())
    if not counts:
        return
    if any(not name.replace("_", "").isalpha() for name in counts):
        raise ValueError("the names of the kernel's CPU governors are not understood")
    seen = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    if set(counts) == {"performance"}:
        yield ok("CPU governor", seen)
        return
    yield warn(
        "CPU governor",
        seen,
        "A processor that slows down between packets makes throughput low and different from run "
        "to run.",
        line("cpupower", "frequency-set", "-g", "performance"),
    )


def read_cores(host: Host) -> int:
    """Reads the number of usable cores. Raises CommandError or ValueError."""
    return whole(ask(host, ["nproc"]), "the number of cores", 1)


def judge_cores(cores: int) -> Findings:
    """Judges the number of cores: traffic and the probes that measure it should not share one."""
    if cores > 1:
        yield ok("cores", str(cores))
    else:
        yield warn(
            "cores", "1", "Interrupts, traffic and probes share one core, and disturb each other."
        )


def read_near(host: Host, device: Device) -> str:
    """Reads the cores on the NUMA node of the device, as in '0-7,16-23'. Raises CommandError."""
    return ask(host, ["cat", f"/sys/devices/system/node/node{device.numa_node}/cpulist"]).strip()


def judge_near(device: Device, cores: str) -> Findings:
    """Reports the cores on the NUMA node of the device, which have the fastest access to its
    packets. `cores` is the kernel's list of them, such as '0-7,16-23'. Raises ValueError.
    """
    if not cores.replace(",", "").replace("-", "").isdigit():
        raise ValueError("the kernel's list of cores is not understood")
    yield ok(f"cores near {device.name}", f"{cores} (NUMA node {device.numa_node})")


def read_irqbalance(host: Host) -> bool:
    """Returns whether irqbalance runs, a daemon that moves interrupts between cores.

    Raises CommandError or ValueError.
    """
    status, output = transcript(host, ["ps", "-C", "irqbalance", "-o", "pid="])
    if status not in (0, 1) or "not found" in output:
        raise ValueError("ps does not list the processes")
    return status == 0


def judge_irqbalance(is_running: bool, device: Device) -> Findings:
    """Warns if irqbalance moves the interrupts of a fast NIC, which should stay on their cores."""
    if not (device.speed_bps and device.speed_bps >= BALANCED_BPS):
        return
    if not is_running:
        yield ok("irqbalance", "does not run")
        return
    yield warn(
        "irqbalance",
        "runs",
        f"It moves the interrupts of {device.name} between cores; at this speed they are better "
        "bound to some.",
        line("systemctl", "stop", "irqbalance"),
    )


def look_near(host: Host, device: Device) -> Findings:
    """Reads and judges the cores near a device. Raises CommandError or ValueError."""
    return judge_near(device, read_near(host, device))


def look_at_irqbalance(host: Host, device: Device) -> Findings:
    """Reads and judges irqbalance. Raises CommandError or ValueError."""
    return judge_irqbalance(read_irqbalance(host), device)


RUN_BYTES = 2_000_000  # room for a run's results and series, without its capture
COPIES = 2  # for a while, a capture is on the source's disk both uncompressed and compressed
TEMPORARY = "/tmp"


def existing(folder: Path) -> Path:
    """Returns the folder, or its nearest parent that exists, in which it will be created."""
    folder = folder.absolute()
    return next(candidate for candidate in (folder, *folder.parents) if candidate.exists())


def judge_outdir(outdir: Path, runs: int, capture_bytes: int) -> Findings:
    """Judges whether results can be written to OUTDIR, and whether they fit on its disk.

    `runs` is the number of planned runs; `capture_bytes` is the maximum size of all their
    uncompressed captures. Raises OSError.
    """
    folder = existing(outdir)
    status = os.statvfs(folder)
    if status.f_flag & os.ST_RDONLY:
        yield fail(
            "results",
            f"{folder} is mounted read-only",
            "The results of the runs go there.",
            instead=(line("ccmix", "run", "-o", "/another/folder", "..."),),
            root=False,
        )
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield fail(
            "results",
            f"{folder} can't be written to",
            "The results go there, or to the folder of -o.",
            line("chown", str(os.getuid()), str(folder)),
        )
        return
    free = status.f_bavail * status.f_frsize
    yield from judge_room("results", str(folder), free, runs * RUN_BYTES, capture_bytes)


def read_free(host: Host, folder: str) -> str:
    """Returns the output of df for a folder on the host. Raises CommandError."""
    return ask(host, ["env", "LC_ALL=C", "df", "-P", "-k", folder])


def free_bytes(output: str) -> int:
    """Returns the free bytes from the output of `df -P -k` for one folder. Raises ValueError."""
    lines = output.splitlines()
    fields = lines[1].split() if len(lines) == 2 else []
    percent_columns = [at for at, field in enumerate(fields) if field.endswith("%")]
    if not percent_columns or percent_columns[-1] < 3:
        raise ValueError("df does not say how much is free")
    return whole(fields[percent_columns[-1] - 1], "what df calls available", 0) * 1024


def judge_room(check_name: str, folder: str, free: int, certain: int, at_most: int) -> Findings:
    """Judges whether there is room for `certain` bytes, which will be written, and for the up to
    `at_most` bytes that may be written in addition.

    `free` is the number of free bytes in `folder`; `check_name` names the finding.
    """
    least, most = certain, certain + at_most
    planned = (
        format_bytes(least) if least == most else f"{format_bytes(least)} to {format_bytes(most)}"
    )
    seen = f"{format_bytes(free)} free in {folder}, {planned} planned"
    if free >= most:
        yield ok(check_name, seen)
        return
    yield DoctorFinding(
        check_name,
        Status.FAIL if free < least else Status.WARN,
        seen,
        "A full disk ends a run, and its capture is lost: make room, or give tcpdump-size a "
        "smaller cap.",
        instead=(line("du", "-xhd1", folder),),
    )


def judge_temporary(folder: str, free: int, capture_bytes: int) -> Findings:
    """Judges whether the folder for captures has room: a capture is there twice for a while."""
    yield from judge_room("room for captures", folder, free, COPIES * capture_bytes, 0)


STA_UNSYNC = 0x40  # include/uapi/linux/timex.h
MOST_ERROR_S = 0.1  # if the kernel reports a larger error of the clock, the doctor warns
# The beginning of struct timex, with room after it; modes 0 only reads, which needs no rights
_READ = """
import ctypes, json
class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint)]
    _fields_ += [(name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")]
    _fields_ += [("status", ctypes.c_int), ("room", ctypes.c_char * 512)]
timex = Timex()
state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
print(json.dumps({"state": state, "status": timex.status, "maxerror_us": timex.maxerror}))
"""


def read_clock(host: Host) -> str:
    """Reads the state of the host's clock with adjtimex(2), as JSON. Raises CommandError."""
    return ask(host, python_command(_READ))


def judge_clock(output: str) -> Findings:
    """Judges from the result of read_clock() whether the clock is synchronised.

    Raises ValueError.
    """
    try:
        timex = foreign_json.loads(output)
        state, status, error_us = (timex[name] for name in ("state", "status", "maxerror_us"))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("the kernel's clock can't be read") from error
    if (
        not all(isinstance(value, int) for value in (state, status, error_us))
        or state < 0
        or error_us < 0
    ):
        raise ValueError("the kernel refuses to report on its clock")
    why = "Times of two hosts can be compared only if both clocks are synchronised."
    if status & STA_UNSYNC:
        yield warn(
            "clock",
            "nothing synchronises it",
            why,
            line("apt-get", "install", "-y", "chrony"),
            instead=(
                line("systemctl", "enable", "--now", "chronyd"),
                line("timedatectl", "set-ntp", "true"),
            ),
        )
    elif error_us / 1e6 > MOST_ERROR_S:
        yield warn(
            "clock",
            f"synchronised, wrong by up to {error_us / 1e6:.3g} s",
            why,
            instead=(line("chronyc", "makestep"),),
        )
    else:
        yield ok("clock", f"synchronised, wrong by {error_us / 1e3:.3g} ms at most")


# The option for the version of each program; other programs aren't started
VERSION = {
    "ethtool": "--version",
    "iperf3": "--version",
    "ping": "-V",
    "python3": "--version",
    "ss": "-V",
    "tc": "-V",
    "tcpdump": "--version",
    "zstd": "--version",
    "mpstat": "-V",
}
# The packages of Debian and similar distributions, and those of Red Hat
PACKAGES = {
    "ethtool": ("ethtool", "ethtool"),
    "getent": ("libc-bin", "glibc-common"),
    "ip": ("iproute2", "iproute"),
    "iperf3": ("iperf3", "iperf3"),
    "mpstat": ("sysstat", "sysstat"),
    "ping": ("iputils-ping", "iputils"),
    "prlimit": ("util-linux", "util-linux-core"),
    "pscheduler": ("perfsonar-tools", "perfsonar-tools"),
    "python3": ("python3", "python3"),
    "ss": ("iproute2", "iproute"),
    "sudo": ("sudo", "sudo"),
    "sysctl": ("procps", "procps-ng"),
    "tc": ("iproute2", "iproute-tc"),
    "tcpdump": ("tcpdump", "tcpdump"),
    "zstd": ("zstd", "zstd"),
}
THREADS_SINCE = (
    3,
    16,
)  # since this iperf3, each stream has a thread; before, all streams share one core
OLDEST_PYTHON = (3, 9)  # for the agent; hosts/pool.py refuses an older Python
_WHERE = """
while [ $# -gt 1 ]; do
    name=$1 option=$2; shift 2
    path=$(command -v -- "$name" 2>/dev/null)
    version=
    [ -z "$path" ] || [ -z "$option" ] ||
        version=$(timeout 3 "$name" "$option" 2>&1 </dev/null | head -n 1)
    printf '%s\\t%s\\t%s\\n' "$name" "$path" "$version"
done
"""
_NUMBERS = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True)
class Program:
    """Describes a program on a host: its path ('' if it is missing), and its version text."""

    name: str
    path: str
    version: str


def read_programs(host: Host, names: Iterable[str]) -> list[Program]:
    """Looks for programs on the host's PATH, and asks them for their versions.

    Raises CommandError or ValueError.
    """
    names_and_options = [
        word for name in dict.fromkeys(names) for word in (name, VERSION.get(name, ""))
    ]
    if not names_and_options:
        return []
    return programs_of(
        ask(host, ["sh", "-c", _WHERE, "sh", *names_and_options], timeout_s=30),
        names_and_options[::2],
    )


def programs_of(output: str, names: Sequence[str]) -> list[Program]:
    """Reads paths and versions of programs from the output of the shell program _WHERE.

    The output has a line for each program: name, path and version, separated by tabs. The version
    is the first line that the program prints, so it may contain more tabs.

    `names` are the programs that _WHERE has looked for, in this order. Raises ValueError if the
    output does not have a line for each of these programs.
    """
    lines = [row.split("\t") for row in output.splitlines()]
    if [row[0] for row in lines] != list(names) or any(len(row) < 3 for row in lines):
        raise ValueError("the host's shell does not list the programs that it finds")
    return [Program(row[0], row[1], plain(" ".join(row[2:]))) for row in lines]


def is_red_hat(host: Host) -> bool:
    """Returns whether the host has a distribution whose packages are named as Red Hat's, by its
    os-release(5). Raises CommandError.
    """
    os_release = ask(
        host, ["sh", "-c", "grep -hE '^ID(_LIKE)?=' /etc/os-release 2>/dev/null; true"]
    )
    return any(kind in os_release for kind in ("rhel", "fedora", "centos"))


def judge_programs(
    programs: Iterable[Program], used_by: Mapping[str, str], red_hat: bool, needed: bool = True
) -> Findings:
    """Judges whether programs are installed and new enough.

    `used_by` says for each name what needs the program; `red_hat` chooses the names of packages in
    the remedy; `needed` makes a missing program a failure.
    """
    installed = []
    for program in programs:
        if program.path:
            installed.append(program)
            yield from _judge_version(program)
            continue
        use = used_by.get(program.name, "an entry")
        package = PACKAGES.get(program.name, (None, None))[red_hat]
        install = ("dnf", "install", "-y") if red_hat else ("apt-get", "install", "-y")
        yield lack(
            needed,
            program.name,
            "not installed",
            f"{use} needs it.",
            *((line(*install, package),) if package else ()),
        )
    if installed:
        yield ok("programs", ", ".join(name_and_version(program) for program in installed))


def name_and_version(program: Program) -> str:
    """Returns 'tcpdump 4.99.3', or only the name if the version is not known."""
    match = re.search(r"\d+(?:\.\d+)+|\d{8}", program.version)
    return f"{program.name} {match[0]}" if match else program.name


def _judge_version(program: Program) -> Findings:
    """Judges the version of iperf3 and Python; others may have any."""
    match = _NUMBERS.search(program.version)
    major_minor = (int(match[1]), int(match[2])) if match else None
    if program.name == "iperf3" and major_minor and major_minor < THREADS_SINCE:
        yield warn(
            "iperf3",
            f"{major_minor[0]}.{major_minor[1]}",
            "Before 3.16 all streams of a test share one core, which limits them together: "
            "install a newer one.",
        )
    if program.name == "python3" and major_minor and major_minor < OLDEST_PYTHON:
        yield fail(
            "python3",
            f"{major_minor[0]}.{major_minor[1]}",
            "ccmix's agent needs Python 3.9 or newer.",
        )
