"""Judges a container: which capability, mount or network is missing, as docs/howto/run-in-containers.md lists them."""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from ccmix.doctor.findings import DoctorFinding, Status, problem

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
    """Describes what root in a container needs beyond an engine's defaults, all of which may be dropped."""

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
    """Describes the rights of this process. `read_only` lists which of /proc/sys and /sys/module are read-only."""

    uid: int
    capabilities: frozenset[str]
    read_only: tuple[str, ...]


def inside() -> bool:
    """Returns whether this is a container; systemd-nspawn and others set a variable."""
    return any(mark.exists() for mark in MARKS) or "container" in os.environ


def capabilities(status: str) -> frozenset[str]:
    """Returns the effective capabilities, from /proc/self/status. Raises ValueError."""
    mask = _EFFECTIVE.search(status)
    if not mask:
        raise ValueError("the process has no capability sets")
    return frozenset(name for name, bit in CAPABILITIES.items() if int(mask[1], 16) >> bit & 1)


def judge(rights: Rights, needed: Collection[Use]) -> Iterator[DoctorFinding]:
    """Judges what is missing for each use; `needed` are the uses that the entries have."""
    for use in USES:
        missing = [name for name in use.capabilities if name not in rights.capabilities]
        read_only = [tree for tree in use.writes if tree in rights.read_only]
        seen = [f"user {rights.uid} is not root"] * (rights.uid != 0)
        seen += [f"no {name}" for name in missing] + [f"{tree} is read-only" for tree in read_only]
        if not seen:
            yield DoctorFinding(f"container: {use.feature}", Status.OK, "has all that it needs")
            continue
        mounts = dict.fromkeys(option for tree in read_only for option in MOUNTS[tree])
        options = ["--user root"] * (rights.uid != 0) + [f"--cap-add {name}" for name in missing] + list(mounts)
        yield DoctorFinding(
            f"container: {use.feature}", problem(use in needed), ", ".join(seen),
            "A container gets its rights when it is started, and none later. The lab needs none of them.",
            instead=(f"docker run {' '.join(options)} ...",), root=False,
        )  # fmt: skip


def judge_state(folder: Path) -> Iterator[DoctorFinding]:
    """Judges whether what root has changed can be undone after the container is gone: by the journals in this
    folder.
    """
    what = "container: restore after a kill"
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if existing.stat().st_dev != Path("/").stat().st_dev:
        yield DoctorFinding(what, Status.OK, f"{folder} outlives the container")
        return
    yield DoctorFinding(
        what, Status.WARN, f"{folder} is lost with the container",
        "The journals of what was changed on the host lie there.",
        instead=(f"docker run -v state:{folder} ...",), root=False,
    )  # fmt: skip


def judge_network(devices: dict[str, bool]) -> Iterator[DoctorFinding]:
    """Judges the network; `devices` says by name, except lo, whether the device's other end is in another namespace."""
    if any(not elsewhere for elsewhere in devices.values()):
        yield DoctorFinding("container: network", Status.OK, "the host's, or a device of the host's")
        return
    yield DoctorFinding(
        "container: network", Status.WARN, f"a private one, with {', '.join(devices) or 'no device'}",
        "Runs then measure the engine's bridge and address translation, too.",
        instead=("docker run --network host ...",), root=False,
    )  # fmt: skip


def read_devices(folder: Path = Path("/sys/class/net")) -> dict[str, bool]:
    """Reads the devices for `judge_network`. Raises OSError or ValueError."""
    return {
        entry.name: int((entry / "iflink").read_text()) != int((entry / "ifindex").read_text())
        for entry in sorted(folder.iterdir())
        if entry.name != "lo" and (entry / "iflink").exists()
    }
