"""Checks what a host's kernel can do without loading anything: queue disciplines, policer, CCAs.

Queue disciplines and the policer are found from the kernel's configuration. For CCAs, the users who
may use them are checked, too, and what ccmix needs to load its own as BPF programs.

A socket of root may use any available CCA; the kernel then loads its module. A socket of another
user may use only those in tcp_allowed_congestion_control (ip-sysctl.rst;
tcp_set_congestion_control() in net/ipv4/tcp_cong.c).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ccmix import foreign_json
from ccmix.doctor.report import (
    DoctorFinding,
    Findings,
    Status,
    ask,
    fail,
    files,
    lack,
    line,
    ok,
    transcript,
    unknown,
)
from ccmix.hosts import Host
from ccmix.hosts.agent_host import AgentHost, copied_to_host
from ccmix.terms import BPF_CCAS, CCAS
from ccmix.tools import ToolError, find_cca


@dataclass(frozen=True)
class KernelPart:
    """Says how to find out whether the kernel has a part, such as a queue discipline.

    `option` is its build option without CONFIG_, `function` one of its functions (in /proc/kallsyms
    if it is there), `module` its loadable module.
    """

    option: str
    function: str
    module: str


PARTS: Mapping[str, KernelPart] = {
    "fq": KernelPart("NET_SCH_FQ", "fq_enqueue", "sch_fq"),
    "netem": KernelPart("NET_SCH_NETEM", "netem_enqueue", "sch_netem"),
    "tbf": KernelPart("NET_SCH_TBF", "tbf_enqueue", "sch_tbf"),
    "police": KernelPart("NET_ACT_POLICE", "tcf_police_act", "act_police"),
    "matchall": KernelPart("NET_CLS_MATCHALL", "mall_classify", "cls_matchall"),
    "clsact": KernelPart("NET_SCH_INGRESS", "clsact_init", "sch_ingress"),
}
OF_A_TOPOLOGY, OF_A_POLICER = ("fq", "netem", "tbf"), ("police", "matchall", "clsact")
# The kernel's configuration, the names of its functions, and its loadable modules; each may be
# missing
_SCRIPT = (
    '{ zcat /proc/config.gz || cat "/boot/config-$(uname -r)" || cat "/lib/modules/$(uname '
    '-r)/config"; } 2>/dev/null'
    " | grep -E '^(# )?CONFIG_NET_(SCH|CLS|ACT)_'; "
    f"grep -owE '{'|'.join(part.function for part in PARTS.values())}' /proc/kallsyms "
    "2>/dev/null | sort -u; "
    f"for name in {' '.join(part.module for part in PARTS.values())}; do "
    'modprobe -n -q "$name" 2>/dev/null && echo "module $name"; done; true'
)
_OPTION = re.compile(r"^CONFIG_(\w+)=([ym])$")
WHY = {  # why an entry needs the part
    "fq": "This queue discipline paces each flow on a device.",
    "netem": "This queue discipline makes delay and loss.",
    "tbf": "This queue discipline makes the bottleneck of a topology.",
    **dict.fromkeys(OF_A_POLICER, "The policer of a topology needs it."),
}
# Packages with the modules that not everybody needs
MODULES = ("apt-get install linux-modules-extra-$(uname -r)", "dnf install kernel-modules-extra")


def read_kernel(host: Host) -> dict[str, bool | None]:
    """Finds out which of PARTS (fq, netem, tbf and the parts of a policer) the host's kernel has.

    Returns for the name of each part: True if the kernel has it or can load it, False if the kernel
    was built without it, and None if the host does not show this. Raises CommandError.
    """
    return parts_of(ask(host, ["sh", "-c", _SCRIPT]))


def parts_of(output: str) -> dict[str, bool | None]:
    """Reads from the output of _SCRIPT which PARTS the kernel has, by their names: True (the kernel
    has it or can load it), False (it was built without it) or None (not known).
    """
    lines = set(output.splitlines())
    options = {match[1]: match[2] for text in lines if (match := _OPTION.match(text))}
    has_configuration = any("CONFIG_NET_SCH_" in text for text in lines)
    has: dict[str, bool | None] = {}
    for name, part in PARTS.items():
        is_there = (
            options.get(part.option) == "y"
            or part.function in lines
            or f"module {part.module}" in lines
        )
        is_module = options.get(part.option) == "m"
        is_known_missing = has_configuration and not is_module
        has[name] = True if is_there else False if is_known_missing else None
    return has


def judge_kernel(has: dict[str, bool | None], needed: Iterable[str], emulated: bool) -> Findings:
    """Judges which parts the kernel has; `has` is the result of read_kernel().

    A missing part is a failure if it is in `needed`, otherwise a warning. `emulated` means that the
    entries could also run in the lab; the remedy then says this.
    """
    needed = set(needed)
    for name, is_there in has.items():
        if is_there:
            yield ok(f"kernel: {name}", "the kernel has it")
        elif is_there is None:
            yield unknown(
                f"kernel: {name}",
                "the kernel does not say whether it has it",
                WHY[name],
                instead=MODULES,
                root=True,
            )
        else:
            yield lack(
                name in needed,
                f"kernel: {name}",
                "this kernel was built without it",
                f"{WHY[name]} Start a kernel that has it, such as that of a distribution.",
                instead=("ccmix run --lab ...",) if emulated and name in needed else (),
                root=False,
            )


WHY_BPF = "ccmix loads BBRv2 and BBRv3 as BPF programs into kernels that lack them."
BPF_REMEDIES = {
    "JIT": line("sysctl", "-w", "net.core.bpf_jit_enable=1")
}  # by the need's name; no command fixes a kernel

FOLDER = "/proc/sys/net/ipv4"
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


@dataclass(frozen=True)
class BpfNeed:
    """Describes something that loading BPF programs needs of a kernel, such as BTF or the JIT.

    It is a line of `ccmix-cca check`; `seen` says what that program found.
    """

    name: str
    ok: bool
    seen: str


def read_needs(host: Host, sudo: bool) -> list[BpfNeed]:
    """Runs `ccmix-cca check` on the host: can its kernel load BBRv2 and BBRv3 as BPF programs?

    `sudo` starts it as root. Raises CommandError and ValueError.
    """
    try:
        program = find_cca()
    except ToolError as error:
        raise ValueError(str(error)) from error
    as_root = ("sudo", "-n") if sudo else ()
    if not isinstance(host, AgentHost):
        return _parsed_needs(transcript(host, [*as_root, str(program), "check", "--json"])[1])
    with copied_to_host(host, program) as there:
        return _parsed_needs(transcript(host, [*as_root, there, "check", "--json"])[1])


def _parsed_needs(output: str) -> list[BpfNeed]:
    """Parses the JSON of `ccmix-cca check`. Raises ValueError for any other output."""
    try:
        return [
            BpfNeed(str(row["need"]), bool(row["ok"]), str(row["word"]))
            for row in foreign_json.loads(output)
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"ccmix-cca says {output.strip()[:200]!r}") from error


def judge_needs(needs: Sequence[BpfNeed], ccas: Sequence[str]) -> Findings:
    """Yields a finding for each thing that the kernel lacks to load CCAs as BPF programs.

    `ccas` are the CCAs that the entries load on this host. If there are any, each unmet need is a
    failure, otherwise a warning.
    """
    unmet = [need for need in needs if not need.ok]
    for need in unmet:
        remedy = (BPF_REMEDIES[need.name],) if need.name in BPF_REMEDIES else ()
        yield lack(bool(ccas), f"BPF: {need.name}", need.seen, WHY_BPF, *remedy)
    if not unmet:
        yield ok("BPF", f"{' and '.join(ccas) or 'bbr2 and bbr3'} can be loaded")


@dataclass(frozen=True)
class Ccas:
    """Lists the CCAs of a host's kernel.

    Root may use all `available` CCAs, other users only the `allowed` CCAs. The `loadable` CCAs are
    not available now, but their modules are on the host's disk.
    """

    available: tuple[str, ...]
    allowed: tuple[str, ...]
    default: str
    loadable: frozenset[str] = frozenset()


def read_ccas(host: Host, wanted: Iterable[str]) -> Ccas:
    """Reads the CCAs of a host; looks for modules of those `wanted` CCAs that are not available.

    Raises CommandError or ValueError.
    """
    ccas = ccas_of(files(host, f"{FOLDER}/tcp_*congestion_control"))
    missing = [cca for cca in wanted if cca not in ccas.available and cca in CCAS]
    loadable = {
        cca for cca in missing if transcript(host, ["modprobe", "-n", "-q", f"tcp_{cca}"])[0] == 0
    }
    return Ccas(ccas.available, ccas.allowed, ccas.default, frozenset(loadable))


def ccas_of(texts: Mapping[str, str]) -> Ccas:
    """Reads the CCAs from the texts of the files in /proc/sys, by path. Raises ValueError."""
    names = ("available_", "allowed_", "")
    available, allowed, default = (
        texts.get(f"{FOLDER}/tcp_{name}congestion_control", "").split() for name in names
    )
    if not available:
        raise ValueError("the host does not list its CCAs")
    if any(
        not name.replace("_", "").replace("-", "").isalnum()
        for name in (*available, *allowed, *default)
    ):
        raise ValueError("the names of the host's CCAs are not understood")
    return Ccas(tuple(available), tuple(allowed), default[0] if default else "")


def judge_ccas(ccas: Ccas, wanted: Iterable[str], privileged: bool, iperf3: str | None) -> Findings:
    """Judges whether this login may use the CCAs that the runs want.

    `privileged` means that it may use every available one. `iperf3` is the path of the iperf3 that
    ccmix has installed on this host, to which the remedy can give the right (None: there is none).
    """
    for_users = [cca for cca in ccas.available if cca in ccas.allowed]
    for_root_only = [cca for cca in ccas.available if cca not in ccas.allowed]
    root_text = f", only for root {' '.join(for_root_only)}" if for_root_only else ""
    yield ok("CCAs", f"for every user {' '.join(for_users)}{root_text}; default {ccas.default}")
    allow_command = line(
        "sysctl", "-w", f"{ALLOWED}={' '.join(dict.fromkeys([*ccas.allowed, *sorted(wanted)]))}"
    )
    for cca in sorted(wanted):
        if cca not in ccas.available:
            yield _judge_unavailable_cca(cca, cca in ccas.loadable, privileged)
        elif not privileged and cca not in ccas.allowed:
            yield fail(
                f"CCA {cca}",
                f"only root may use {cca}",
                "A test by an ordinary user fails with EPERM when it asks for this CCA.",
                allow_command,
                instead=(line("setcap", "cap_net_admin+ep", iperf3),) if iperf3 else (),
            )
        else:
            yield ok(f"CCA {cca}", "can be used" if cca in ccas.allowed else "can be used by root")


def judge_lab_ccas(
    built_in: frozenset[str] | None, wanted: Iterable[str], other_kernel: str = ""
) -> Findings:
    """Judges whether a kernel of the lab has the CCAs that the runs want.

    `built_in` are the CCAs of the kernel (None: its file does not list them). `other_kernel` is the
    kernel's name; empty for the stock kernel.
    """
    of_kernel = f" of {other_kernel}" if other_kernel else ""
    if built_in is None:
        yield unknown(f"lab: CCAs{of_kernel}", "the kernel's file does not hold its configuration")
        return
    yield ok(f"lab: CCAs{of_kernel}", " ".join(sorted(built_in)))
    for cca in sorted(set(wanted) - built_in):
        kernel = f"the lab's kernel {other_kernel}".strip()
        yield fail(
            f"lab: CCA {cca}{of_kernel}",
            f"{kernel} has no {cca}",
            "The entries ask for it, and the lab does not load modules: choose a CCA that the "
            "kernel has.",
        )


def _judge_unavailable_cca(cca: str, loadable: bool, privileged: bool) -> DoctorFinding:
    """Judges a CCA that is not available now; the remedy loads it as a module or a BPF program.

    `loadable` means that its module is on the host's disk. `privileged` means that a socket of the
    login that asks for the CCA makes the kernel load this module.
    """
    load = line("modprobe", f"tcp_{cca}")
    if not loadable and cca in BPF_CCAS:
        return fail(
            f"CCA {cca}",
            f"this kernel has no {cca}",
            "The entries ask for it: cca-load in an entry loads it as a BPF program for its "
            "runs, or load it yourself.",
            line("ccmix", "cca", "load", cca),
        )
    if not loadable:
        return fail(
            f"CCA {cca}",
            f"this kernel has no {cca}, and no module tcp_{cca} is installed for it",
            "The entries ask for it: install a kernel, or a module for this one, that has it.",
            load,
        )
    return DoctorFinding(
        f"CCA {cca}",
        Status.WARN if privileged else Status.FAIL,
        f"the module tcp_{cca} is installed but not loaded",
        "If it is loaded before the test, every user can use it, and its parameters can be set.",
        (load,),
    )
