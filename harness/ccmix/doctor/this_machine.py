"""What only the machine that ccmix runs on has: the lab, the journals of runs that died, ccmix's own programs."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ccmix.agent import journal
from ccmix.agent.lock import ADDRESS
from ccmix.doctor.container import Rights, capabilities
from ccmix.doctor.findings import Finding, Status, line, problem
from ccmix.doctor.login import read_only
from ccmix.lab.errors import GuestError
from ccmix.lab.host import launch_parent, memory_dir, program
from ccmix.model import Topology
from ccmix.tools import ToolError, find_iperf3, find_kernel
from ccmix.units import format_bytes

LOCK = ADDRESS.replace("\0", "@")  # as /proc/net/unix writes an abstract name
LAB_PROGRAMS = ("setpriv", "sh", "taskset")
LEAST_GUEST_BYTES = 2**29  # without anything in flight
SMALL_TMPFS = "docker run --tmpfs /tmp:exec ..."


def judge_iperf3(needed: bool) -> Iterator[Finding]:
    try:
        yield Finding("patched iperf3", Status.OK, str(find_iperf3()))
    except ToolError as error:
        yield Finding(
            "patched iperf3", problem(needed), str(error), "Entries without a src-cmd of their own are run by it.",
            (line("make", "setup"),), root=False,
        )  # fmt: skip


def judge_lab(topologies: Sequence[Topology], in_lab: bool) -> Iterator[Finding]:
    """Whether `--lab` works here, with as much memory as one guest of these topologies takes."""
    bad = problem(in_lab)
    why = "Runs with --lab start this kernel as an ordinary process."
    try:
        kernel = find_kernel()
    except ToolError as error:
        yield Finding("lab: kernel", bad, str(error), why, (line("make", "setup"),), root=False)
    else:
        yield Finding("lab: kernel", Status.OK, str(kernel))
    memory = max((guest_bytes(one) for one in topologies), default=LEAST_GUEST_BYTES)
    places: dict[str, Callable[[], Path]] = {
        f"lab: {format_bytes(memory)} of memory for a guest": lambda: memory_dir(memory),
        "lab: launch folder": launch_parent,
    }
    for what, place in places.items():
        try:
            yield Finding(what, Status.OK, str(place()))
        except GuestError as error:
            yield Finding(
                what, bad, str(error), "A guest's memory is a file that is executed: it takes room, and no noexec.",
                (line("mount", "-o", "remount,exec,size=75%", "/dev/shm"),), (SMALL_TMPFS,),
            )  # fmt: skip
    for name in LAB_PROGRAMS:
        try:
            program(name)
        except GuestError as error:
            yield Finding(f"lab: {name}", bad, str(error), "The lab starts its guests by it.",
                          (line("apt-get", "install", "-y", "util-linux"),))  # fmt: skip


def guest_bytes(topology: Topology) -> int:
    """As ccmix.run.machines gives it to a guest."""
    from ccmix.run.machines import guest_memory_bytes  # noqa: PLC0415

    return guest_memory_bytes(topology)


def judge_journals(folder: Path | None = None) -> Iterator[Finding]:
    """What runs that died have left changed."""
    left = journal.left(folder)
    if not left:
        yield Finding("left by dead runs", Status.OK, "nothing")
        return
    yield Finding(
        "left by dead runs", Status.WARN, f"{len(left)} changes: {'; '.join(undo.what for undo in left)}",
        "The host is not as its administrator set it up; the next run would put it back first.",
        (line("ccmix", "restore"),), root=os.geteuid() == 0,
    )  # fmt: skip


def read_rights() -> Rights:
    """Raises OSError or ValueError."""
    status, mounts = (Path("/proc/self", name).read_text() for name in ("status", "mounts"))
    return Rights(os.geteuid(), capabilities(status), read_only(mounts))


def read_sockets() -> str:
    """The unix sockets of this machine, or of its namespace. Raises OSError."""
    return Path("/proc/net/unix").read_text(errors="replace")


def judge_lock(sockets: str, needed: bool) -> Iterator[Finding]:
    """`sockets`: /proc/net/unix. Raises ValueError."""
    lines = sockets.splitlines()
    if not lines or "Path" not in lines[0]:
        raise ValueError("the kernel does not list its sockets")
    if any(one.split()[-1:] == [LOCK] for one in lines[1:]):
        yield Finding(
            "other campaigns", problem(needed), "one runs here now",
            "Two at a time would disturb each other, so a second one is refused: wait for it.",
        )  # fmt: skip
    else:
        yield Finding("other campaigns", Status.OK, "none")


def judge_namespaces(uid: int) -> Iterator[Finding]:
    """Topologies without --lab are built here, by root alone: sudo is not used for them."""
    if uid == 0 and (lacks := [name for name in ("ip", "tc", "sysctl") if shutil.which(name) is None]):
        yield Finding(
            "namespaces", Status.FAIL, f"the shell's PATH leads to no {', '.join(lacks)}",
            "Without --lab a topology is built by them; a shell of plain su has a user's PATH.",
            ("export PATH=$PATH:/usr/sbin:/sbin",), root=False,
        )  # fmt: skip
        return
    if uid == 0:
        yield Finding("namespaces", Status.OK, "root may make them")
        return
    yield Finding(
        "namespaces", Status.FAIL, f"user {uid} is not root",
        "Without --lab a topology is built in network namespaces.",
        instead=("ccmix run --lab ...", "sudo ccmix run ..."), root=False,
    )  # fmt: skip
