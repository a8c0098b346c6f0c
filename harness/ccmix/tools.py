"""Finds the programs that ccmix brings along."""

import os
import shutil
import sys
from pathlib import Path


class ToolError(Exception):
    """Says that a program is missing, and what installs it."""


def find_iperf3() -> Path:
    """Returns the patched iperf3. Raises ToolError, as all of these do."""
    return find("ccmix-iperf3", "CCMIX_IPERF3", "the patched iperf3")


def find_kernel() -> Path:
    """Returns the lab's kernel."""
    return find("ccmix-lab-kernel", "CCMIX_LAB_KERNEL", "the lab's kernel")


def find_sockmon() -> Path:
    """Returns the probe that samples sockets, queues and processors."""
    return find("ccmix-sockmon", "CCMIX_SOCKMON", "ccmix-sockmon")


def find_capflow() -> Path:
    """Returns the program that turns a capture into series."""
    return find("ccmix-capflow", "CCMIX_CAPFLOW", "ccmix-capflow")


def find_rtt() -> Path:
    """Returns the probe that measures RTTs beside the traffic."""
    return find("ccmix-rtt", "CCMIX_RTT", "ccmix-rtt")


def find(name: str, variable: str, what: str) -> Path:
    """Returns what the variable names, else the program beside this Python, where `make setup` puts it, else on PATH.

    `what` names the program in the message of ToolError.
    """
    installed = Path(sys.prefix) / "bin" / name
    program = os.environ.get(variable) or (installed if os.access(installed, os.X_OK) else shutil.which(name))
    if not program:
        raise ToolError(f"{what} is not at {installed}: run 'make setup' in ccmix's folder, or set {variable}")
    if not os.access(program, os.X_OK):
        raise ToolError(f"{what} at {program} can't be run by this user")
    return Path(program).resolve()
