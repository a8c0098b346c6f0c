"""Says what the kernels of the lab are, by their files: the stock one, and those that lab/build builds beside it."""

import functools
import hashlib
import json
import subprocess
from pathlib import Path

from ccmix.lab.errors import GuestError
from ccmix.model import LabKernel

_BUILD = "build.json"  # beside the kernel, by lab/build
PRINTS_WITHIN_S = 60.0


@functools.cache
def identify(name: str, file: Path) -> LabKernel:
    """Returns what tells a kernel from others; reads its file once. Raises GuestError("start") where the file is no
    kernel.
    """
    try:
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        printed = subprocess.run(
            [file, "--version"], capture_output=True, text=True, check=True, timeout=PRINTS_WITHIN_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise GuestError("start", f"{file} is no kernel that runs here: {error}") from error
    return LabKernel(name, sha256, printed.stdout.strip())


def build_of(file: Path) -> dict[str, str]:
    """Returns what lab/build noted of a kernel's inputs; nothing of a kernel that it did not build."""
    try:
        noted = json.loads((file.parent / _BUILD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in noted.items()} if isinstance(noted, dict) else {}
