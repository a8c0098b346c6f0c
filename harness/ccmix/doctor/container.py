"""In a container: which capability, mount or network is missing, and for what; as in docs/containers.md."""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from ccmix.doctor.findings import Finding, Status, problem

MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # of Docker; of podman
# include/uapi/linux/capability.h
CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "NET_ADMIN": 12, "NET_RAW": 13, "SYS_ADMIN": 21}
# What makes a tree writable that engines mount read-only
MOUNTS = {
    "/proc/sys": ("--security-opt systempaths=unconfined",),
    "/sys/module": ("--security-opt systempaths=unconfined", "-v /sys/module:/sys/module"),
}
LAB_MEMORY = "docker run --tmpfs /tmp:exec ..."
_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)


@dataclass(frozen=True)
class Use:
    """What root in a container needs beside an engine's defaults, all of which may be dropped."""

    feature: str
    capabilities: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


CAPTURES = Use("captures", ("NET_RAW",))
QUEUES = Use("pacing, netem, any CCA", ("NET_ADMIN",))
NAMESPACES = Use("topologies without --lab", ("NET_ADMIN", "SYS_ADMIN"), ("/proc/sys",))
SYSCTLS = Use("sysctls", ("NET_ADMIN",), ("/proc/sys",))
PARAMETERS = Use("module parameters", (), ("/sys/module",))
RESULTS = Use("root's results in a user's folder", ("CHOWN", "DAC_OVERRIDE"))
USES = (CAPTURES, QUEUES, SYSCTLS, PARAMETERS, NAMESPACES, RESULTS)


@dataclass(frozen=True)
class Rights:
    """Of this process. `read_only`: of /proc/sys and /sys/module."""

    uid: int
    capabilities: frozenset[str]
    read_only: tuple[str, ...]


def inside() -> bool:
    """Whether this is a container; systemd-nspawn and others say so by a variable."""
    return any(mark.exists() for mark in MARKS) or "container" in os.environ


def capabilities(status: str) -> frozenset[str]:
    """The effective ones, from /proc/self/status. Raises ValueError."""
    mask = _EFFECTIVE.search(status)
    if not mask:
        raise ValueError("the process has no capability sets")
    return frozenset(name for name, bit in CAPABILITIES.items() if int(mask[1], 16) >> bit & 1)


def judge(rights: Rights, needed: Collection[Use]) -> Iterator[Finding]:
    """For each use, what is missing. `needed`: those that the entries have."""
    for use in USES:
        missing = [name for name in use.capabilities if name not in rights.capabilities]
        read_only = [tree for tree in use.writes if tree in rights.read_only]
        seen = [f"user {rights.uid} is not root"] * (rights.uid != 0)
        seen += [f"no {name}" for name in missing] + [f"{tree} is read-only" for tree in read_only]
        if not seen:
            yield Finding(f"container: {use.feature}", Status.OK, "has all that it needs")
            continue
        mounts = dict.fromkeys(option for tree in read_only for option in MOUNTS[tree])
        words = ["--user root"] * (rights.uid != 0) + [f"--cap-add {name}" for name in missing] + list(mounts)
        yield Finding(
            f"container: {use.feature}", problem(use in needed), ", ".join(seen),
            "The engine gives a container what it is started with, and nothing later. The lab needs none of it.",
            instead=(f"docker run {' '.join(words)} ...",), root=False,
        )  # fmt: skip


def judge_state(folder: Path) -> Iterator[Finding]:
    """Whether what root has changed can be undone after the container is gone: by the journals in this folder."""
    what = "container: restore after a kill"
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if existing.stat().st_dev != Path("/").stat().st_dev:
        yield Finding(what, Status.OK, f"{folder} outlives the container")
        return
    yield Finding(
        what, Status.WARN, f"{folder} is lost with the container",
        "The journals of what was changed on the host lie there.",
        instead=(f"docker run -v state:{folder} ...",), root=False,
    )  # fmt: skip


def judge_network(devices: dict[str, bool]) -> Iterator[Finding]:
    """`devices`: by name, but lo, whether its other end is in another namespace."""
    if any(not elsewhere for elsewhere in devices.values()):
        yield Finding("container: network", Status.OK, "the host's, or a device of the host's")
        return
    yield Finding(
        "container: network", Status.WARN, f"a private one, with {', '.join(devices) or 'no device'}",
        "What is measured is then the engine's bridge and address translation, too.",
        instead=("docker run --network host ...",), root=False,
    )  # fmt: skip


def read_devices(folder: Path = Path("/sys/class/net")) -> dict[str, bool]:
    """For `judge_network`. Raises OSError or ValueError."""
    return {
        one.name: int((one / "iflink").read_text()) != int((one / "ifindex").read_text())
        for one in sorted(folder.iterdir())
        if one.name != "lo" and (one / "iflink").exists()
    }
