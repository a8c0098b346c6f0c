"""Checks what only the machine that ccmix runs on has: the lab, ccmix's own programs."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ccmix.doctor import container
from ccmix.doctor.ccas import judge_lab_ccas
from ccmix.doctor.findings import DoctorFinding, Status, line, problem
from ccmix.doctor.login import read_only
from ccmix.lab.confinement import way_here, why_not_confined
from ccmix.lab.errors import GuestError
from ccmix.lab.host import launch_parent, memory_dir
from ccmix.lab.kernel_config import ccas_of_kernel
from ccmix.lab.memory import guest_memory_bytes
from ccmix.lab.userlands import identify_userland
from ccmix.model import STOCK_KERNEL, Topology
from ccmix.tools import ToolError, find_iperf3, find_kernel, find_userland, named_kernels, unpinned
from ccmix.units import format_bytes

LEAST_GUEST_BYTES = 2**29  # without anything in flight
SMALL_TMPFS = "docker run --tmpfs /tmp:exec ..."


def _found(what: str, program: Path) -> DoctorFinding:
    """Returns what is said of a program that is there: a warning if it was not built from the pinned source."""
    warning = unpinned(program)
    if warning is None:
        return DoctorFinding(what, Status.OK, str(program))
    build = "Remove its folder and set up again, where the mirror has the pinned version or CCMIX_DEBIAN_MIRROR does."
    return DoctorFinding(what, Status.WARN, f"{program} was {warning}", build)


def judge_iperf3(needed: bool) -> Iterator[DoctorFinding]:
    try:
        yield _found("patched iperf3", find_iperf3())
    except ToolError as error:
        yield DoctorFinding(
            "patched iperf3", problem(needed), str(error), "Entries without a src-cmd of their own are run by it.",
            (line("make", "setup"),), root=False,
        )  # fmt: skip


def judge_lab(topologies: Sequence[Topology], in_lab: bool) -> Iterator[DoctorFinding]:
    """Judges whether `--lab` works here, with as much memory as one guest of these topologies takes."""
    bad = problem(in_lab)
    why = "Runs with --lab start this kernel as an ordinary process."
    try:
        kernel = find_kernel()
    except ToolError as error:
        yield DoctorFinding("lab: kernel", bad, str(error), why, (line("make", "setup"),), root=False)
    else:
        yield _found("lab: kernel", kernel)
    yield _judge_userland(bad)
    memory = max((guest_memory_bytes(topology) for topology in topologies), default=LEAST_GUEST_BYTES)
    places: dict[str, Callable[[], Path]] = {
        f"lab: {format_bytes(memory)} of memory for a guest": lambda: memory_dir(memory),
        "lab: launch folder": launch_parent,
    }
    for what, place in places.items():
        try:
            yield DoctorFinding(what, Status.OK, str(place()))
        except (GuestError, FileNotFoundError) as error:  # no temporary folder can be written to
            why = "A guest's memory is a file that is executed: it needs room, on a file system without noexec."
            if container.inside():
                yield DoctorFinding(what, bad, str(error), why, instead=(container.LAB_MEMORY,), root=False)
            else:
                remount = line("mount", "-o", "remount,exec,size=75%", "/dev/shm")
                yield DoctorFinding(what, bad, str(error), why, (remount,), (SMALL_TMPFS,))
    yield _judge_confinement(bad)


def _judge_confinement(bad: Status) -> DoctorFinding:
    what = "lab: confinement"
    try:
        way = way_here()
    except GuestError as error:
        return DoctorFinding(what, bad, str(error), "The lab starts its guests by ccmix-confine.",
                             (line("make", "setup"),), root=False)  # fmt: skip
    if reasons := why_not_confined(way):
        return DoctorFinding(
            what, Status.WARN, f"guests are not confined ({reasons})",
            "What runs in a guest can read and change every file that you can.",
            instead=("sysctl -w user.max_user_namespaces=10000",),
        )  # fmt: skip
    return DoctorFinding(what, Status.OK, way)


def _judge_userland(bad: Status) -> DoctorFinding:
    what, why = "lab: userland", "Guests of the lab have their Python and all tools from it."
    try:
        userland = find_userland()
        identify_userland(userland)
    except (ToolError, GuestError) as error:
        return DoctorFinding(what, bad, str(error), why, (line("make", "setup"),), root=False)
    return _found(what, userland)


def judge_ccas_of_lab(wanted: Mapping[str, Iterable[str]]) -> Iterator[DoctorFinding]:
    """Judges the kernels of the lab that are there, by the CCAs that runs ask of each, and names those that are not."""
    named = named_kernels()
    for name, ccas in wanted.items():
        if name == STOCK_KERNEL:
            with contextlib.suppress(ToolError):  # which judge_lab() says
                yield from judge_lab_ccas(ccas_of_kernel(find_kernel()), ccas)
        elif name in named:
            yield DoctorFinding(f"lab: kernel {name}", Status.OK, str(named[name]))
            yield from judge_lab_ccas(ccas_of_kernel(named[name]), ccas, name)
        else:
            yield DoctorFinding(
                f"lab: kernel {name}", Status.FAIL, f"the lab has {', '.join((STOCK_KERNEL, *named))}",
                "Topologies ask for this kernel by its name, which it gets when it is built.",
                instead=(f"lab/build --name {name} --cca DIR",), root=False,
            )  # fmt: skip


def read_rights() -> container.Rights:
    """Reads the rights of this process. Raises OSError or ValueError."""
    status, mounts = (Path("/proc/self", name).read_text() for name in ("status", "mounts"))
    return container.Rights(os.geteuid(), container.capabilities(status), read_only(mounts))


def judge_namespaces(uid: int) -> Iterator[DoctorFinding]:
    """Judges whether topologies without --lab can be built here: only root can, and sudo is not used for them."""
    if uid == 0 and (lacks := [name for name in ("ip", "tc", "sysctl") if shutil.which(name) is None]):
        yield DoctorFinding(
            "namespaces", Status.FAIL, f"the shell's PATH leads to no {', '.join(lacks)}",
            "Without --lab a topology is built by them; a shell of plain su has a user's PATH.",
            ("export PATH=$PATH:/usr/sbin:/sbin",), root=False,
        )  # fmt: skip
        return
    if uid == 0:
        yield DoctorFinding("namespaces", Status.OK, "root may make them")
        return
    yield DoctorFinding(
        "namespaces", Status.FAIL, f"user {uid} is not root",
        "Without --lab a topology is built in network namespaces.",
        instead=("ccmix run --lab ...", "sudo ccmix run ..."), root=False,
    )  # fmt: skip
