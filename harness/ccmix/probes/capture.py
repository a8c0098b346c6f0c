"""A packet capture beside the traffic: tcpdump with the user's own arguments, capped, compressed, its losses told."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.hosts import CommandError
from ccmix.hosts.host import RealHost
from ccmix.hosts.words import last_line
from ccmix.model import Capture

FILE = "capture.pcap.zst"
STARTS_WITHIN_S = 10.0
DRAINS_WITHIN_S = (
    1.2  # libpcap has the kernel hand packets over in blocks, each a second after its first packet at most
)
COMPRESSES_WITHIN_S = 3600.0
_COUNTS = re.compile(r"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")


@dataclass
class CaptureReport:
    """What tcpdump said at its end, in packets; `complete` is false where the capture ended at its cap."""

    counts: dict[str, int]
    complete: bool = True
    bytes: int = 0  # compressed


@contextmanager
def capturing(host: RealHost, capture: Capture, folder: Path) -> Iterator[CaptureReport]:
    """Captures on the host until the context ends, into FILE of the folder. Raises CommandError.

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
    errors = folder / "logs" / "tcpdump.log"
    report = CaptureReport({})
    argv = ["prlimit", f"--fsize={capture.most_bytes}", "tcpdump", "-Z", "root", "-w", file, *capture.arguments]
    try:
        with host.start(argv, stdout=folder / "logs" / "tcpdump.out", stderr=errors, privileged=True) as process:
            deadline = time.monotonic() + STARTS_WITHIN_S
            while "listening on" not in errors.read_text(errors="replace"):
                if process.ended() or time.monotonic() > deadline:
                    raise CommandError(host.name, argv, last_line(errors) or "does not start to capture")
                time.sleep(0.02)
            yield report
            time.sleep(DRAINS_WITHIN_S)
            report.complete = not process.ended()
        told = _COUNTS.findall(errors.read_text(errors="replace"))
        report.counts = {what: int(number) for number, what in told}
        host.run(["zstd", "-q", "-f", file, "-o", f"{file}.zst"], timeout_s=COMPRESSES_WITHIN_S)
        host.fetch(f"{file}.zst", folder / FILE)
        report.bytes = (folder / FILE).stat().st_size
    finally:
        host.run(["rm", "-f", file, f"{file}.zst"])
