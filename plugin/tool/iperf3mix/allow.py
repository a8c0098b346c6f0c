"""Allows congestion control algorithms (CCAs) to users without privileges, such as pScheduler's runner.

It runs as root, at the host's start and when the package is installed. A list in sysctl.d would take away what the
administrator or a module allowed; this only adds. A file capability on iperf3 would do too, but would give
cap_net_admin to a program that talks to strangers.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import NAME, config

SYSCTLS = Path("/proc/sys/net/ipv4")


def main() -> None:
    """Allows the CCAs of the configuration file; ends with status 1 and a sentence where one is missing."""
    try:
        missing = add(config.load().allow)
    except (config.ToolConfigError, OSError) as error:
        sys.exit(f"{NAME}: {error}")
    if missing:
        sys.exit(f"{NAME}: this kernel has no {' '.join(missing)}; see allow in {config.FILE}")


def add(ccas: Sequence[str], sysctls: Path = SYSCTLS) -> list[str]:
    """Adds CCAs to the allowed ones, with their modules; returns those that the kernel lacks. Raises OSError."""
    file = sysctls / "tcp_allowed_congestion_control"
    for cca in ccas:
        if cca not in _names(sysctls / "tcp_available_congestion_control"):
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["modprobe", "--quiet", f"tcp_{cca}"], check=False)
    available = _names(sysctls / "tcp_available_congestion_control")
    allowed = _names(file)
    new = [cca for cca in ccas if cca in available and cca not in allowed]
    if new:
        try:
            file.write_text(" ".join([*allowed, *new]), encoding="ascii")
        except OSError as error:
            raise OSError(f"{' '.join(new)} can't be allowed from here ({error}): allow it on the host") from error
    return [cca for cca in ccas if cca not in available]


def _names(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").split()
