"""Captures packets beside the traffic by tcpdump, with the user's own arguments and up to a size."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.hosts import CommandError
from ccmix.hosts.host import RealHost
from ccmix.hosts.output_text import last_line
from ccmix.model import Capture, run_files

STARTS_WITHIN_S = 10.0
DRAINS_WITHIN_S = 1.2  # the kernel gives libpcap packets in blocks, each at most a second after its first packet
COMPRESSES_WITHIN_S = 3600.0
_COUNTS = re.compile(r"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")


@dataclass
class CaptureReport:
    """Holds tcpdump's own counts of packets; `complete` is false if the capture ended at its size limit."""

    counts: dict[str, int]
    complete: bool = True
    bytes: int = 0  # compressed


@contextmanager
def capturing(host: RealHost, capture: Capture, folder: Path) -> Iterator[CaptureReport]:
    """Captures on the host until the context ends, into the run's folder. Raises CommandError.

    The capture lies in the host's temporary folder until then, at most `most_bytes` of it.
    """
    for tool in ("tcpdump", "zstd"):
        try:
            host.run(["sh", "-c", f"command -v {tool}"])
        except CommandError as error:
            raise CommandError(
                host.name, ["tcpdump"], f"captures need {tool} there: install the package {tool}"
            ) from error
    file = f"{host.temporary}/capture.pcap"
    errors = folder / run_files.LOGS / run_files.TCPDUMP_ERRORS
    report = CaptureReport({})
    argv = ["prlimit", f"--fsize={capture.most_bytes}", "tcpdump", "-Z", "root", "-w", file, *capture.arguments]
    try:
        with host.start(
            argv, stdout=folder / run_files.LOGS / run_files.TCPDUMP_OUTPUT, stderr=errors, privileged=True
        ) as process:
            deadline = Deadline(STARTS_WITHIN_S)
            while "listening on" not in errors.read_text(errors="replace"):
                if process.ended() or deadline.expired:
                    raise CommandError(host.name, argv, last_line(errors) or "does not start to capture")
                time.sleep(0.02)
            yield report
            time.sleep(DRAINS_WITHIN_S)
            report.complete = not process.ended()
        counts = _COUNTS.findall(errors.read_text(errors="replace"))
        report.counts = {what: int(number) for number, what in counts}
        host.run(["zstd", "-q", "-f", file, "-o", f"{file}.zst"], timeout_s=COMPRESSES_WITHIN_S)
        host.fetch(f"{file}.zst", folder / run_files.CAPTURE)
        report.bytes = (folder / run_files.CAPTURE).stat().st_size
    finally:
        host.run(["rm", "-f", file, f"{file}.zst"])
