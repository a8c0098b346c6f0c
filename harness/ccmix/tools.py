"""The programs that ccmix brings along, and where they were installed."""

import os
import shutil
import sys
from pathlib import Path


class ToolError(Exception):
    """A program is missing; the message says what installs it."""


def find_iperf3() -> Path:
    """The patched iperf3: $CCMIX_IPERF3, or as `find` says. Raises ToolError."""
    return find("ccmix-iperf3", "CCMIX_IPERF3", "the patched iperf3")


def find_kernel() -> Path:
    """The lab's kernel: $CCMIX_LAB_KERNEL, or as `find` says. Raises ToolError."""
    return find("ccmix-lab-kernel", "CCMIX_LAB_KERNEL", "the lab's kernel")


def find_sockmon() -> Path:
    """What samples sockets, queues and processors: $CCMIX_SOCKMON, or as `find` says. Raises ToolError."""
    return find("ccmix-sockmon", "CCMIX_SOCKMON", "ccmix-sockmon")


def find_capflow() -> Path:
    """What turns a capture into series: $CCMIX_CAPFLOW, or as `find` says. Raises ToolError."""
    return find("ccmix-capflow", "CCMIX_CAPFLOW", "ccmix-capflow")


def find_rtt() -> Path:
    """What measures RTTs beside the traffic: $CCMIX_RTT, or as `find` says. Raises ToolError."""
    return find("ccmix-rtt", "CCMIX_RTT", "ccmix-rtt")


def find(name: str, variable: str, what: str) -> Path:
    """What the variable names, else the program beside this Python, where `make setup` puts it, else on PATH."""
    installed = Path(sys.prefix) / "bin" / name
    found = os.environ.get(variable) or (installed if os.access(installed, os.X_OK) else shutil.which(name))
    if not found:
        raise ToolError(f"{what} is not at {installed}: run 'make setup' in ccmix's folder, or set {variable}")
    if not os.access(found, os.X_OK):
        raise ToolError(f"{what} at {found} is no program that this user can run")
    return Path(found).resolve()
