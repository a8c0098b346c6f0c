"""Checks what a kernel can do that nobody uses yet: queue disciplines and a policer, from its configuration. It loads
nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ccmix.doctor.findings import DoctorFinding, Status, problem
from ccmix.doctor.reading import ask
from ccmix.hosts import Host


@dataclass(frozen=True)
class KernelPart:
    """Names a part of the kernel: its option without CONFIG_, a function of its own, and its module."""

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
# Its own configuration, its functions' names, and the modules that could be loaded; each part may be missing
_SCRIPT = (
    '{ zcat /proc/config.gz || cat "/boot/config-$(uname -r)" || cat "/lib/modules/$(uname -r)/config"; } 2>/dev/null'
    " | grep -E '^(# )?CONFIG_NET_(SCH|CLS|ACT)_'; "
    f"grep -owE '{'|'.join(part.function for part in PARTS.values())}' /proc/kallsyms 2>/dev/null | sort -u; "
    f"for name in {' '.join(part.module for part in PARTS.values())}; do "
    'modprobe -n -q "$name" 2>/dev/null && echo "module $name"; done; true'
)
_OPTION = re.compile(r"^CONFIG_(\w+)=([ym])$")
WHY = {
    "fq": "Pacing of each flow on a device is done by this queue discipline.",
    "netem": "Delay and loss are made by this queue discipline.",
    "tbf": "The bottleneck of a topology is made by this queue discipline.",
    **dict.fromkeys(OF_A_POLICER, "The policer of a topology is made with it."),
}
# Where distributions keep the modules that not everybody needs
MODULES = ("apt-get install linux-modules-extra-$(uname -r)", "dnf install kernel-modules-extra")


def read_kernel(host: Host) -> dict[str, bool | None]:
    """Returns which of PARTS the kernel has or can load; None if nothing shows it. Raises CommandError."""
    return parts_of(ask(host, ["sh", "-c", _SCRIPT]))


def parts_of(output: str) -> dict[str, bool | None]:
    lines = set(output.splitlines())
    options = {match[1]: match[2] for text in lines if (match := _OPTION.match(text))}
    configured = any("CONFIG_NET_SCH_" in text for text in lines)
    has: dict[str, bool | None] = {}
    for name, part in PARTS.items():
        here = options.get(part.option) == "y" or part.function in lines or f"module {part.module}" in lines
        module = options.get(part.option) == "m"
        has[name] = True if here else False if configured and not module else None
    return has


def judge_kernel(has: dict[str, bool | None], needed: Iterable[str], emulated: bool) -> Iterator[DoctorFinding]:
    """Judges parts of the kernel; `emulated` means that the entries that need one could as well run in the lab."""
    needed = set(needed)
    for name, there in has.items():
        if there:
            yield DoctorFinding(f"kernel: {name}", Status.OK, "the kernel has it")
        elif there is None:
            yield DoctorFinding(
                f"kernel: {name}", Status.UNKNOWN, "the kernel does not say whether it has it",
                WHY[name], instead=MODULES, root=True,
            )  # fmt: skip
        else:
            yield DoctorFinding(
                f"kernel: {name}", problem(name in needed), "this kernel was built without it",
                f"{WHY[name]} Start a kernel that has it, such as the one of a distribution.",
                instead=("ccmix run --lab ...",) if emulated and name in needed else (), root=False,
            )  # fmt: skip
