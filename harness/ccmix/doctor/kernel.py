"""Checks the abilities of a kernel without loading anything: queue disciplines and a policer, from
its configuration; congestion control algorithms, with the users who may use them, and those that
ccmix brings as BPF programs.

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
from ccmix.hosts.agent_host import AgentHost, sent
from ccmix.terms import BPF_CCAS, CCAS
from ccmix.tools import ToolError, find_cca


@dataclass(frozen=True)
class KernelPart:
    """Describes a part of the kernel: its option without CONFIG_, one of its functions, and its
    module.
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
WHY = {
    "fq": "This queue discipline paces each flow on a device.",
    "netem": "This queue discipline makes delay and loss.",
    "tbf": "This queue discipline makes the bottleneck of a topology.",
    **dict.fromkeys(OF_A_POLICER, "The policer of a topology needs it."),
}
# Packages with the modules that not everybody needs
MODULES = ("apt-get install linux-modules-extra-$(uname -r)", "dnf install kernel-modules-extra")


def read_kernel(host: Host) -> dict[str, bool | None]:
    """Returns the PARTS that the kernel has or can load; None if nothing shows this. Raises
    CommandError.
    """
    return parts_of(ask(host, ["sh", "-c", _SCRIPT]))


def parts_of(output: str) -> dict[str, bool | None]:
    lines = set(output.splitlines())
    options = {match[1]: match[2] for text in lines if (match := _OPTION.match(text))}
    configured = any("CONFIG_NET_SCH_" in text for text in lines)
    has: dict[str, bool | None] = {}
    for name, part in PARTS.items():
        here = (
            options.get(part.option) == "y"
            or part.function in lines
            or f"module {part.module}" in lines
        )
        module = options.get(part.option) == "m"
        has[name] = True if here else False if configured and not module else None
    return has


def judge_kernel(has: dict[str, bool | None], needed: Iterable[str], emulated: bool) -> Findings:
    """Judges parts of the kernel; `emulated` means that the entries that need a part could also run
    in the lab.
    """
    needed = set(needed)
    for name, there in has.items():
        if there:
            yield ok(f"kernel: {name}", "the kernel has it")
        elif there is None:
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
    """Describes a need of the program, as its command `check` prints it."""

    name: str
    ok: bool
    seen: str


def read_needs(host: Host, sudo: bool) -> list[BpfNeed]:
    """Runs ccmix-cca on the host, with sudo if the login has it. Raises CommandError and
    ValueError.
    """
    try:
        program = find_cca()
    except ToolError as error:
        raise ValueError(str(error)) from error
    as_root = ("sudo", "-n") if sudo else ()
    if not isinstance(host, AgentHost):
        return _read(transcript(host, [*as_root, str(program), "check", "--json"])[1])
    with sent(host, program) as there:
        return _read(transcript(host, [*as_root, there, "check", "--json"])[1])


def _read(output: str) -> list[BpfNeed]:
    try:
        return [
            BpfNeed(str(row["need"]), bool(row["ok"]), str(row["word"]))
            for row in foreign_json.loads(output)
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"ccmix-cca says {output.strip()[:200]!r}") from error


def judge_needs(needs: Sequence[BpfNeed], ccas: Sequence[str]) -> Findings:
    """Yields a finding for each thing that the kernel lacks to load a CCA as BPF programs: a
    failure if entries load `ccas` on the host, otherwise a warning.
    """
    lacks = [need for need in needs if not need.ok]
    for need in lacks:
        remedy = (BPF_REMEDIES[need.name],) if need.name in BPF_REMEDIES else ()
        yield lack(bool(ccas), f"BPF: {need.name}", need.seen, WHY_BPF, *remedy)
    if not lacks:
        yield ok("BPF", f"{' and '.join(ccas) or 'bbr2 and bbr3'} can be loaded")


@dataclass(frozen=True)
class Ccas:
    """Lists CCAs. `loadable` are CCAs that are not available now, but whose modules are on the
    host's disk.
    """

    available: tuple[str, ...]
    allowed: tuple[str, ...]
    default: str
    loadable: frozenset[str] = frozenset()


def read_ccas(host: Host, wanted: Iterable[str]) -> Ccas:
    """Reads the CCAs of a host. Raises CommandError or ValueError."""
    ccas = ccas_of(files(host, f"{FOLDER}/tcp_*congestion_control"))
    missing = [cca for cca in wanted if cca not in ccas.available and cca in CCAS]
    loadable = {
        cca for cca in missing if transcript(host, ["modprobe", "-n", "-q", f"tcp_{cca}"])[0] == 0
    }
    return Ccas(ccas.available, ccas.allowed, ccas.default, frozenset(loadable))


def ccas_of(texts: Mapping[str, str]) -> Ccas:
    """Reads the CCAs from the files in /proc/sys. Raises ValueError."""
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
    """Judges CCAs; `iperf3` is the path of the iperf3 that ccmix installed on this host, if
    there is one.
    """
    for_users = [cca for cca in ccas.available if cca in ccas.allowed]
    others = [cca for cca in ccas.available if cca not in ccas.allowed]
    for_root = f", only for root {' '.join(others)}" if others else ""
    yield ok("CCAs", f"for every user {' '.join(for_users)}{for_root}; default {ccas.default}")
    allow = line(
        "sysctl", "-w", f"{ALLOWED}={' '.join(dict.fromkeys([*ccas.allowed, *sorted(wanted)]))}"
    )
    for cca in sorted(wanted):
        if cca not in ccas.available:
            yield _missing(cca, cca in ccas.loadable, privileged)
        elif not privileged and cca not in ccas.allowed:
            yield fail(
                f"CCA {cca}",
                f"only root may use {cca}",
                "A test by an ordinary user fails with EPERM when it asks for this CCA.",
                allow,
                instead=(line("setcap", "cap_net_admin+ep", iperf3),) if iperf3 else (),
            )
        else:
            yield ok(f"CCA {cca}", "can be used" if cca in ccas.allowed else "can be used by root")


def judge_lab_ccas(
    built_in: frozenset[str] | None, wanted: Iterable[str], other_kernel: str = ""
) -> Findings:
    """Judges the CCAs of a kernel of the lab; None if the kernel's file does not list them.

    `other_kernel` is the name of a kernel other than the stock kernel.
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


def _missing(cca: str, loadable: bool, privileged: bool) -> DoctorFinding:
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
