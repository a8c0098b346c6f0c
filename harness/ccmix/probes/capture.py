"""Captures packets with tcpdump during a run, with the user's options and a size limit."""

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.hosts import CommandError
from ccmix.hosts.caps import CAPTURE, capture_bytes
from ccmix.hosts.host import Host, Process, RealHost
from ccmix.hosts.local import LocalHost, entered
from ccmix.hosts.output_text import beginning, ending, last_line
from ccmix.model import Capture, run_files

STARTS_WITHIN_S = 10.0
DRAINS_WITHIN_S = (
    1.2  # the kernel gives libpcap packets in blocks, each at most a second after its first packet
)
COMPRESSES_WITHIN_S = 3600.0
_COUNTS = re.compile(
    r"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)"
)


@dataclass
class CaptureReport:
    """Holds tcpdump's own counts of packets, such as {'dropped by kernel': 0}.

    `complete` is false if the capture ended at its size limit.
    """

    counts: dict[str, int]
    complete: bool = True
    bytes: int = 0  # compressed


@contextmanager
def capturing(host: RealHost, capture: Capture, folder: Path) -> Iterator[CaptureReport]:
    """Captures packets on a real host until the context ends.

    The capture is a file in the host's temporary folder, with at most `capture.most_bytes`. At the
    end, the file is compressed there, and fetched into the run's folder. Raises CommandError.
    """
    _check_tools(host)
    file = f"{host.temporary}/capture.pcap"
    errors = folder / run_files.LOGS / run_files.TCPDUMP_ERRORS
    report = CaptureReport({})
    argv = _tcpdump_command(capture, file, capture.arguments)
    try:
        with host.start(
            argv,
            stdout=folder / run_files.LOGS / run_files.TCPDUMP_OUTPUT,
            stderr=errors,
            privileged=True,
        ) as process:
            _wait_until_capturing(host, process, argv, errors)
            yield report
            time.sleep(DRAINS_WITHIN_S)
            report.complete = not process.ended()
        report.counts = _packet_counts(errors)
        host.run(["zstd", "-q", "-f", file, "-o", f"{file}.zst"], timeout_s=COMPRESSES_WITHIN_S)
        host.fetch(
            f"{file}.zst", folder / run_files.CAPTURE, CAPTURE, capture_bytes(capture.most_bytes)
        )
        report.bytes = (folder / run_files.CAPTURE).stat().st_size
    finally:
        host.run(["rm", "-f", file, f"{file}.zst"])


@contextmanager
def capturing_in_namespace(
    router: Host, devices: Sequence[str], capture: Capture, folder: Path
) -> Iterator[CaptureReport]:
    """Captures packets on devices of a network namespace of this machine until the context ends.

    `router` runs commands in the namespace. The capture is written to the run's folder. A packet
    that passes several devices of the namespace is captured only at the given ones. Raises
    CommandError.
    """
    machine = LocalHost()
    _check_tools(machine)
    with entered(router.name):
        indexes = [socket.if_nametoindex(device) for device in devices]
    *options, packet_filter = capture.arguments
    arguments = [
        *options,
        "-i",
        "any",
        f"({packet_filter}) and ({' or '.join(f'ifindex {index}' for index in indexes)})",
    ]
    compressed = folder / run_files.CAPTURE
    file = compressed.with_suffix("")
    errors = folder / run_files.LOGS / run_files.TCPDUMP_ERRORS
    report = CaptureReport({})
    # tcpdump writes to standard output: it would change the owner of a file that it creates itself,
    # which an ordinary user's guest (a lab kernel that runs as a process) refuses
    argv = _tcpdump_command(capture, "-", arguments)
    try:
        with router.start(argv, stdout=file, stderr=errors) as process:
            _wait_until_capturing(router, process, argv, errors)
            yield report
            time.sleep(DRAINS_WITHIN_S)
            report.complete = not process.ended()
        report.counts = _packet_counts(errors)
        machine.run(
            ["zstd", "-q", "-f", str(file), "-o", str(compressed)], timeout_s=COMPRESSES_WITHIN_S
        )
        report.bytes = compressed.stat().st_size
    finally:
        file.unlink(missing_ok=True)


def _check_tools(host: Host) -> None:
    """Raises CommandError if the host lacks tcpdump or zstd."""
    for tool in ("tcpdump", "zstd"):
        try:
            host.run(["sh", "-c", f"command -v {tool}"])
        except CommandError as error:
            raise CommandError(
                host.name, ["tcpdump"], f"captures need {tool} there: install the package {tool}"
            ) from error


def _tcpdump_command(capture: Capture, file: str, arguments: Sequence[str]) -> list[str]:
    """Returns the command that captures into a file of limited size; '-' is standard output."""
    return [
        "prlimit",
        f"--fsize={capture.most_bytes}",
        "tcpdump",
        "-Z",
        "root",
        "-w",
        file,
        *arguments,
    ]


def _wait_until_capturing(host: Host, process: Process, argv: Sequence[str], errors: Path) -> None:
    """Waits until tcpdump says on standard error that it listens, so that no packet is missed.

    Raises CommandError if it ends or takes longer than STARTS_WITHIN_S.
    """
    deadline = Deadline(STARTS_WITHIN_S)
    while "listening on" not in beginning(errors):
        if process.ended() or deadline.expired:
            raise CommandError(host.name, argv, last_line(errors) or "does not start to capture")
        time.sleep(0.02)


def _packet_counts(errors: Path) -> dict[str, int]:
    """Reads tcpdump's last words: {'captured': 9, 'received by filter': 9, ...}."""
    counts = _COUNTS.findall(ending(errors))
    return {outcome: int(number) for number, outcome in counts}
