"""Builds bbr2 and bbr3 as modules of a stock kernel, with the headers that Debian has for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from support.commands import REPOSITORY

# Of each kernel whose headers are installed.
HEADERS = sorted(Path("/usr/src").glob("linux-headers-*-amd64"))


def build_modules(headers: Path, folder: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Builds in a copy, because make writes into the folder of the sources. Returns the folder of
    the modules, and make's output.

    All warnings of the kernel's own build are errors.
    """
    copy = folder / "cca"
    shutil.copytree(REPOSITORY / "cca", copy)
    argv: list[str | Path] = [
        "make",
        "-C",
        headers,
        f"M={copy / 'module'}",
        "KCFLAGS=-Werror",
        "modules",
    ]
    return copy / "module", subprocess.run(argv, check=False, capture_output=True, text=True)
