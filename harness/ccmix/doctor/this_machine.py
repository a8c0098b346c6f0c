"""Checks for `ccmix doctor` what only this machine has: the lab's kernels, and ccmix's programs."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ccmix.config.problems import nearest
from ccmix.doctor import rights
from ccmix.doctor.kernel import judge_lab_ccas
from ccmix.doctor.report import DoctorFinding, Findings, Status, fail, lack, line, ok, problem, warn
from ccmix.doctor.rights import capabilities, read_only
from ccmix.lab.confinement import confinement_way, why_not_confined
from ccmix.lab.host import LackError, check_room, guest_memory_bytes, launch_parent
from ccmix.lab.spec import PARAMETERS, GuestError, Parameter, ccas_of_kernel, identify_userland
from ccmix.model import STOCK_KERNEL, ModuleParameter, Topology
from ccmix.tools import ToolError, find_iperf3, find_kernel, find_userland, named_kernels, unpinned
from ccmix.units import format_bytes


def refusal(topology: Topology) -> str | None:
    """Returns why the lab's own kernel refuses the module parameter of an emulated path.

    None if it accepts the parameter, or if only a run can show this: for other kernels, and for
    modules other than those of bbr2 and bbr3.
    """
    if topology.kernel != STOCK_KERNEL or topology.module_parameter is None:
        return None
    return _why_stock_kernel_refuses(topology.module_parameter)


def judge_lab_parameters(topologies: Iterable[Topology]) -> Findings:
    """Yields a failure for each emulated path whose module parameter the lab's kernel refuses."""
    for topology in topologies:
        if (parameter := topology.module_parameter) and (reason := refusal(topology)):
            yield fail(
                f"lab: parameter {parameter.path}",
                reason,
                "The entries set it, and each run would fail.",
            )


def _why_stock_kernel_refuses(wanted: ModuleParameter) -> str | None:
    """Returns why the stock kernel refuses a module parameter: its name or its value.

    None if it accepts it, or if it is a parameter of another module.
    """
    module, _, name = wanted.path.partition("/parameters/")
    if module not in PARAMETERS:
        return None
    if name not in PARAMETERS[module]:
        return f"{module} has no parameter '{name}'{nearest(name, PARAMETERS[module])}"
    return _why_value_is_impossible(wanted, PARAMETERS[module][name])


def _why_value_is_impossible(wanted: ModuleParameter, parameter: Parameter) -> str | None:
    """Returns why a module parameter can't get the wanted value; None if it can.

    `parameter` describes the parameter. It may be an array; `wanted.element` is then the number of
    the element that gets the value, counted from 1 (None: the whole array).
    """
    if parameter.read_only:
        return f"{wanted.path} can only be read"
    if wanted.element is None and parameter.elements > 1:
        return (
            f"{wanted.path} has {parameter.elements} elements: name one, by sys-module-vector-list"
        )
    if (wanted.element or 1) > parameter.elements:
        return f"{wanted.path} has no element {wanted.element}: it has {parameter.elements}"
    if not parameter.least <= int(wanted.value) <= parameter.most:
        return (
            f"{wanted.path} takes no {wanted.value}: it takes {parameter.least} to {parameter.most}"
        )
    return None


LEAST_GUEST_BYTES = 2**29  # without anything in flight


def _judge_found_program(check_name: str, program: Path) -> DoctorFinding:
    """Reports where a program is, with a warning if it was not built from the pinned source."""
    warning = unpinned(program)
    if warning is None:
        return ok(check_name, str(program))
    build = (
        "Remove its folder and set up again, where the mirror has the pinned version or "
        "CCMIX_DEBIAN_MIRROR does."
    )
    return warn(check_name, f"{program} was {warning}", build)


def judge_iperf3(needed: bool) -> Findings:
    """Judges whether ccmix's patched iperf3 is installed. If it is missing, that is a failure if
    the runs need it (`needed`), otherwise a warning.
    """
    try:
        yield _judge_found_program("patched iperf3", find_iperf3())
    except ToolError as error:
        yield lack(
            needed,
            "patched iperf3",
            str(error),
            "It runs entries without a src-cmd of their own.",
            line("make", "setup"),
            root=False,
        )


def judge_lab(topologies: Sequence[Topology], in_lab: bool) -> Findings:
    """Judges whether `--lab` works here: kernel, userland, memory for a guest, and confinement.

    `topologies` are the emulated paths of the runs, the largest of which decides the memory. If
    `in_lab` (the runs use the lab), anything that is missing is a failure, otherwise a warning.
    """
    lack_status = problem(in_lab)
    why = "Runs with --lab start this kernel as an ordinary process."
    try:
        kernel = find_kernel()
    except ToolError as error:
        yield DoctorFinding(
            "lab: kernel", lack_status, str(error), why, (line("make", "setup"),), root=False
        )
    else:
        yield _judge_found_program("lab: kernel", kernel)
    yield _judge_userland(lack_status)
    memory_bytes = max(
        (guest_memory_bytes(topology) for topology in topologies), default=LEAST_GUEST_BYTES
    )
    find_folder_by_check: dict[str, Callable[[], Path]] = {
        f"lab: {format_bytes(memory_bytes)} of memory for a guest": lambda: check_room(
            memory_bytes
        ),
        "lab: launch folder": launch_parent,
    }
    for check_name, find_folder in find_folder_by_check.items():
        try:
            yield ok(check_name, str(find_folder()))
        except GuestError as error:
            why = "A guest's memory is a file in memory, which the guest executes."
            instead = error.commands if isinstance(error, LackError) else ()
            yield DoctorFinding(
                check_name, lack_status, str(error), why, instead=instead, root=False
            )
    yield _judge_confinement(lack_status)


def _judge_confinement(lack_status: Status) -> DoctorFinding:
    """Judges whether guests are confined, so that programs in them can't reach the user's files.

    `lack_status` is the status if ccmix-confine does not work at all.
    """
    check_name = "lab: confinement"
    try:
        way = confinement_way()
    except GuestError as error:
        why = "The lab starts its guests with ccmix-confine."
        return DoctorFinding(check_name, lack_status, str(error), why)
    if reasons := why_not_confined(way):
        return warn(
            check_name,
            f"guests are not confined ({reasons})",
            "A program in a guest can read and change every file that you can.",
            instead=("sysctl -w user.max_user_namespaces=10000",),
        )
    return ok(check_name, way)


def _judge_userland(lack_status: Status) -> DoctorFinding:
    """Judges whether the lab's userland (the root of its guests) is installed.

    `lack_status` is the status if it is not.
    """
    check_name, why = "lab: userland", "Guests of the lab get Python and all tools from it."
    try:
        userland = find_userland()
        identify_userland(userland)
    except (ToolError, GuestError) as error:
        return DoctorFinding(
            check_name, lack_status, str(error), why, (line("make", "setup"),), root=False
        )
    return _judge_found_program(check_name, userland)


def judge_ccas_of_lab(wanted: Mapping[str, Iterable[str]]) -> Findings:
    """Judges whether each kernel of the lab exists and has the CCAs that the runs need there.

    `wanted` has these CCAs by the kernel's name.
    """
    named = named_kernels()
    for name, ccas in wanted.items():
        if name == STOCK_KERNEL:
            with contextlib.suppress(ToolError):  # judge_lab() reports this
                yield from judge_lab_ccas(ccas_of_kernel(find_kernel()), ccas)
        elif name in named:
            yield ok(f"lab: kernel {name}", str(named[name]))
            yield from judge_lab_ccas(ccas_of_kernel(named[name]), ccas, name)
        else:
            yield fail(
                f"lab: kernel {name}",
                f"the lab has {', '.join((STOCK_KERNEL, *named))}",
                "Topologies ask for this kernel by name; the name is set when it is built.",
                instead=(f"lab/build --name {name} --cca DIR",),
                root=False,
            )


def read_rights() -> rights.Rights:
    """Reads the rights of this process from /proc/self. Raises OSError or ValueError."""
    status, mounts = (Path("/proc/self", name).read_text() for name in ("status", "mounts"))
    return rights.Rights(os.geteuid(), capabilities(status, "Eff"), read_only(mounts))


def judge_namespaces(uid: int) -> Findings:
    """Judges whether this user can build emulated paths without --lab, in network namespaces.

    That needs root and a few programs; ccmix does not use sudo for it. `uid` is the user's number.
    """
    if uid == 0 and (
        missing_programs := [name for name in ("ip", "tc", "sysctl") if shutil.which(name) is None]
    ):
        yield fail(
            "namespaces",
            f"the shell's PATH does not contain {', '.join(missing_programs)}",
            "Without --lab they build the topology; a shell from plain su has a user's PATH.",
            "export PATH=$PATH:/usr/sbin:/sbin",
            root=False,
        )
        return
    if uid == 0:
        yield ok("namespaces", "root may make them")
        return
    yield fail(
        "namespaces",
        f"user {uid} is not root",
        "Without --lab a topology is built in network namespaces.",
        instead=("ccmix run --lab ...", "sudo ccmix run ..."),
        root=False,
    )
