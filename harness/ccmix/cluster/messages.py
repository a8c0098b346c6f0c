"""Defines the messages between the client and the workers of a cluster: jobs, replies, and the
parts of a machine that determine a run's bytes. Only equal machines may work on a campaign.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ccmix import tools
from ccmix.archive import ArchiveError
from ccmix.failures import WrongInput
from ccmix.lab.spec import GuestError, identify_userland
from ccmix.model import Run
from ccmix.run.machines import PACKAGE_FOLDER

# Parts that a guest takes from its host with host-root: docs/explanation/reproducibility.md
SYSTEM_PROGRAMS = ("sh", "mount", "ip", "tc", "ping", "ldd")
PACKAGES = (
    "distributed",
    "numpy",
    "polars",
    "scipy",
)  # the transport, and packages that make tables and metrics
CODE = (".py", "init", "fstab")  # endings of the files of ccmix that determine bytes
KERNEL, USERLAND = "the lab's kernel", "the lab's userland"
PROGRAMS = {
    KERNEL: tools.find_kernel,
    "iperf3": tools.find_iperf3,
    "sockmon": tools.find_sockmon,
    "rtt": tools.find_rtt,
    "capflow": tools.find_capflow,
    "confine": tools.find_confine,
}
NAMED_KERNEL = "kernel "  # begins the name of a part that only some campaigns need
NONE = "none"
RESOURCE = (
    "ccmix-"  # begins the names of resources that jobs ask for, so that only equal workers get them
)


@functools.cache
def parts() -> dict[str, str]:
    """Returns the version or hash of each part of this machine by its name, NONE if it
    lacks one.
    """
    have = {
        "ccmix": code_hash(PACKAGE_FOLDER / "ccmix"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    } | dict.fromkeys((*PROGRAMS, USERLAND), NONE)
    for name, find in PROGRAMS.items():
        with contextlib.suppress(tools.ToolError, OSError):
            have[name] = _file_hash(find())
    with contextlib.suppress(tools.ToolError, GuestError):
        have[USERLAND] = str(identify_userland(tools.find_userland()).userland_sha256)
    return have


@functools.cache
def host_parts() -> dict[str, str]:
    """Returns the parts that matter only for guests with the host's file system as root."""
    content = hashlib.sha256()
    for name in SYSTEM_PROGRAMS:
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        content.update(f"{name}\n".encode() + (Path(path).read_bytes() if path else b""))
    return {
        "the host's Python": f"{platform.python_version()} at {Path(sys.executable).resolve()}",
        "the C library": " ".join(platform.libc_ver()),
        "the system's programs": content.hexdigest()[:12],
    }


@functools.cache
def kernel_parts() -> dict[str, str]:
    """Returns the named kernels from lab/build."""
    return {NAMED_KERNEL + name: _file_hash(file) for name, file in tools.named_kernels().items()}


def resources(have: Mapping[str, str]) -> set[str]:
    """Returns the names of the resources of a worker with these parts."""
    kernels = {name for name in have if name.startswith(NAMED_KERNEL)}
    others = json.dumps(
        {name: value for name, value in have.items() if name not in kernels}, sort_keys=True
    )
    fingerprint = hashlib.sha256(others.encode()).hexdigest()[:12]
    return {RESOURCE + fingerprint, *(f"{RESOURCE}{name} {have[name]}" for name in kernels)}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Returns the differing parts, with both values shortened, and the remedy; '' if nothing
    differs.
    """
    names = [name for name in here if here[name] != there.get(name)]
    if not names:
        return ""
    remedy = "install the same wheel or commit of ccmix there"
    if all(name.startswith(NAMED_KERNEL) for name in names):
        remedy = f"build it there with: lab/build --name {names[0].removeprefix(NAMED_KERNEL)}"
    differing = "; ".join(
        f"{name} ({there.get(name, NONE):.20}, here {here[name]:.20})" for name in names
    )
    return f"{differing}: {remedy}, and start the worker again"


def code_hash(folder: Path) -> str:
    """Returns a hash of the code of ccmix in a folder."""
    content = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.name.endswith(CODE) and file.is_file():
            content.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return content.hexdigest()[:12]


def _file_hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


MOST_THROUGH_DASK_BYTES = 64 * 2**20
MEMORY = "ccmix-memory"  # a resource of a worker, in bytes
ABOUT = "ccmix-about"  # the key under which a worker tells the scheduler its ID and its parts
ENDLESS = 1e9  # of a resource: more than all jobs together need
_SEPARATOR = b"\n"


class ClusterError(WrongInput):
    """Says why a cluster can't be used, with a remedy."""


@dataclass(frozen=True)
class Job:
    """Describes a run for a worker."""

    key: str
    topic: str  # of the events that a worker reports
    run: Run
    shared: str | None  # prefix of the paths of the campaign's files in the shared folder


@dataclass(frozen=True)
class Reply:
    """Describes the end of a job, and holds the packed files of the run's folder."""

    outcome: Literal["finished", "failed", "unfit"]
    worker: str  # its address; '' if it is unknown
    worker_id: str = ""  # of Dask, which another worker at that address would not have
    reason: str = ""
    folder: str = ""  # folder of the run at the worker; reasons may contain it
    shared: str = ""  # the name of the file in the shared folder that has the files instead
    sha256: str = ""  # of it
    files: bytes = field(default=b"", repr=False)


_REPLY = TypeAdapter(Reply)


def encoded(answer: Reply) -> bytes:
    """Returns the reply as bytes. Dask sends bytes unchanged, so the client never unpickles an
    object from a worker.
    """
    head = {name: value for name, value in asdict(answer).items() if name != "files"}
    return json.dumps(head).encode() + _SEPARATOR + answer.files


def decoded(content: object) -> Reply:
    """Decodes a reply. Raises ArchiveError if it is invalid."""
    try:
        head, _, files = bytes(content).partition(_SEPARATOR)  # type: ignore[call-overload]
        return _REPLY.validate_python({**json.loads(head), "files": files})
    except (ValueError, TypeError, ValidationError) as error:
        raise ArchiveError(f"the answer of a worker can't be understood: {error!r:.200}") from error
