"""Defines jobs and replies of a cluster, and the parts in which its machines must be equal.

Parts are the kernel, programs and packages that determine a run's bytes: only machines with equal
parts may work on a campaign.
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
from dataclasses import asdict, dataclass, field, replace
from ipaddress import ip_address
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
    """Returns the version or hash of each part of this machine that determines the bytes of a run's
    files: {"Python": "3.12", "iperf3": SHA-256, ...}. A part that is missing here has NONE.
    """
    found = {
        "ccmix": code_hash(PACKAGE_FOLDER / "ccmix"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    } | dict.fromkeys((*PROGRAMS, USERLAND), NONE)
    for name, find in PROGRAMS.items():
        with contextlib.suppress(tools.ToolError, OSError):
            found[name] = _file_hash(find())
    with contextlib.suppress(tools.ToolError, GuestError):
        found[USERLAND] = str(identify_userland(tools.find_userland()).userland_sha256)
    return found


@functools.cache
def host_parts() -> dict[str, str]:
    """Returns the version or hash of each part that matters only for guests whose root is the
    host's file system, by the part's name.
    """
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
    """Returns the hash of each kernel that lab/build has built under a name, by 'kernel NAME'. Only
    some campaigns use these kernels.
    """
    return {NAMED_KERNEL + name: _file_hash(file) for name, file in tools.named_kernels().items()}


def resources(parts_of_machine: Mapping[str, str]) -> set[str]:
    """Returns names of Dask resources for a machine with these parts: one that has a fingerprint of
    all parts, and one for each named kernel. Jobs require these resources, so only workers with
    equal parts get them.
    """
    kernels = {name for name in parts_of_machine if name.startswith(NAMED_KERNEL)}
    others = json.dumps(
        {name: value for name, value in parts_of_machine.items() if name not in kernels},
        sort_keys=True,
    )
    fingerprint = hashlib.sha256(others.encode()).hexdigest()[:12]
    return {
        RESOURCE + fingerprint,
        *(f"{RESOURCE}{name} {parts_of_machine[name]}" for name in kernels),
    }


def differences(own_parts: Mapping[str, str], worker_parts: Mapping[str, str]) -> str:
    """Returns in which parts a worker differs from this machine, with both values shortened, and
    the remedy; '' if nothing differs.
    """
    names = [name for name in own_parts if own_parts[name] != worker_parts.get(name)]
    if not names:
        return ""
    remedy = "install the same wheel or commit of ccmix there"
    if all(name.startswith(NAMED_KERNEL) for name in names):
        remedy = f"build it there with: lab/build --name {names[0].removeprefix(NAMED_KERNEL)}"
    differing = "; ".join(
        f"{name} ({worker_parts.get(name, NONE):.20}, here {own_parts[name]:.20})" for name in names
    )
    return f"{differing}: {remedy}, and start the worker again"


def code_hash(folder: Path) -> str:
    """Returns a hash of the files of ccmix in a folder that can change the bytes of a run's files.

    These are its modules, and the lab's init and fstab.
    """
    content = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.name.endswith(CODE) and file.is_file():
            content.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return content.hexdigest()[:12]


def _file_hash(file: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


MOST_THROUGH_DASK_BYTES = 64 * 2**20
MEMORY = "ccmix-memory"  # a resource of a worker, in bytes
ABOUT = "ccmix-about"  # the key under which a worker tells the scheduler its ID and its parts
MOST_OF_REPLY_BYTES = 2 * MOST_THROUGH_DASK_BYTES  # of the files, and of the rest
ENDLESS = 1e9  # of a resource: more than all jobs together need
_SEPARATOR = b"\n"


@dataclass(frozen=True)
class WorkerAbout:
    """Holds what a worker tells the scheduler about itself."""

    id: str
    parts: dict[str, str]


_ABOUT = TypeAdapter(WorkerAbout)


def about(described: Mapping[str, object]) -> WorkerAbout | None:
    """Returns the facts that a worker tells about itself, from the scheduler's description of it;
    None if it tells nothing that ccmix understands.
    """
    try:
        return _ABOUT.validate_python(described.get(ABOUT))
    except ValidationError:
        return None


class ClusterError(WrongInput):
    """Says why a cluster can't be used, with a remedy."""


def check_encrypted(address: str) -> None:
    """Raises ClusterError if an address in Dask's form, such as tcp://HOST:PORT, leads beyond this
    machine without TLS: anyone who reaches a part of the cluster can run commands as its user.
    """
    scheme, _, place = address.partition("://")
    host = place.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        if scheme == "tls" or host == "localhost" or ip_address(host).is_loopback:
            return
    raise ClusterError(
        f"{address}: leads beyond this machine without TLS, and anyone who reaches a part of the "
        "cluster can run commands as its user: start all parts with certificates, and give "
        "dask+tls://HOST:PORT"
    )


@dataclass(frozen=True)
class Job:
    """Describes a run that a worker makes."""

    key: str
    topic: str  # of the events that a worker reports
    run: Run
    shared: str | None  # prefix of the paths of the campaign's files in the shared folder


@dataclass(frozen=True)
class Reply:
    """Describes how a job ended, and has the packed files of the run's folder. "unfit" means that
    another worker may be able to make the run.
    """

    outcome: Literal["finished", "failed", "unfit"]
    reason: str = ""
    folder: str = ""  # folder of the run at the worker; reasons may contain it
    shared: str = ""  # the name of the file in the shared folder that has the files instead
    sha256: str = ""  # of it
    files: bytes = field(default=b"", repr=False)


_REPLY = TypeAdapter(Reply)


def encoded(answer: Reply) -> bytes:
    """Returns the reply as bytes. Dask passes bytes on unchanged, so a worker with another version
    of ccmix can't break the client. That is no protection from a hostile worker: Dask itself
    unpickles exceptions, which may execute code (SECURITY.md).
    """
    head = {name: value for name, value in asdict(answer).items() if name != "files"}
    return json.dumps(head).encode() + _SEPARATOR + answer.files


def decoded(content: object) -> Reply:
    """Returns the reply that a worker has encoded. Raises ArchiveError if it is invalid."""
    try:
        head, _, files = bytes(content).partition(_SEPARATOR)  # type: ignore[call-overload]
        head_text = head.decode(errors="replace")
        reply = _REPLY.validate_python({**json.loads(head_text), "files": files})
        return replace(reply, reason=reply.reason.encode(errors="replace").decode())
    except (ValueError, TypeError, RecursionError, ValidationError) as error:
        raise ArchiveError(f"the answer of a worker can't be understood: {error!r:.200}") from error
