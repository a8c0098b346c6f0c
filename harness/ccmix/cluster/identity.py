"""Identifies what decides a run's bytes on a machine, besides the files that ccmix sends there.

Only machines with the same parts may work on one campaign.
"""

import functools
import hashlib
import importlib.metadata
import json
import platform
import shutil
import sys
from pathlib import Path

from ccmix.run.machines import PACKAGE_FOLDER

# What a guest takes of a host whose file system is its root, docs/explanation/reproducibility.md
SYSTEM_PROGRAMS = ("sh", "mount", "ip", "tc", "ping", "ldd")
PACKAGES = ("distributed", "numpy", "polars", "scipy")  # the transport, and what makes tables and metrics
SENT = (".py", "init", "fstab")  # endings of the files of ccmix that decide


@functools.cache
def parts(host_root: bool) -> dict[str, str]:
    """Returns the version or hash of each part of this machine, by its name.

    With `host_root`, parts count, too, that only matter to guests whose root is the host's file system.
    """
    have = {
        "ccmix": code_hash(PACKAGE_FOLDER / "ccmix"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }
    if host_root:
        have |= {
            "Python": f"{platform.python_version()} at {Path(sys.executable).resolve()}",
            "the C library": " ".join(platform.libc_ver()),
            "the system's programs": _programs_hash(),
        }
    return have


def fingerprint(of: dict[str, str]) -> str:
    """Returns a short hash of parts()."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


def differences(here: dict[str, str], there: dict[str, str]) -> list[str]:
    """Returns what differs, each with both values; hashes are shortened."""
    names = [name for name in here if here[name] != there.get(name)]
    return [f"{name} ({there.get(name, 'none'):.40}, here {here[name]:.40})" for name in names]


def code_hash(folder: Path) -> str:
    """Returns a hash of the code of ccmix in a folder."""
    content = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.name.endswith(SENT) and file.is_file():
            content.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return content.hexdigest()[:12]


def _programs_hash() -> str:
    content = hashlib.sha256()
    for name in SYSTEM_PROGRAMS:
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        content.update(f"{name}\n".encode() + (Path(path).read_bytes() if path else b""))
    return content.hexdigest()[:12]
