"""The programs that ccmix brings along, and where they were installed."""

import shutil
import sys
from pathlib import Path


class ToolError(Exception):
    """A program is missing; the message says what installs it."""


def find_iperf3() -> Path:
    """The patched iperf3: beside this Python, where `make setup` puts it, else on PATH. Raises ToolError."""
    installed = Path(sys.prefix) / "bin" / "ccmix-iperf3"
    if installed.exists():
        return installed.resolve()
    if found := shutil.which("ccmix-iperf3"):
        return Path(found).resolve()
    raise ToolError(f"the patched iperf3 is not at {installed}: run 'make setup' in ccmix's folder")
