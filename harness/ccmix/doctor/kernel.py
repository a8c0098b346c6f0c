"""Checks what a kernel can do that nobody uses yet: fq, netem and tbf, from its configuration. It loads nothing."""

import re
from collections.abc import Iterable, Iterator

from ccmix.doctor.findings import DoctorFinding, Status, problem
from ccmix.doctor.reading import ask
from ccmix.hosts import Host

QDISCS = ("fq", "netem", "tbf")
# Its own configuration, its functions' names, and the modules that could be loaded; each part may be missing
_SCRIPT = (
    '{ zcat /proc/config.gz || cat "/boot/config-$(uname -r)" || cat "/lib/modules/$(uname -r)/config"; } 2>/dev/null'
    " | grep -E '^(# )?CONFIG_NET_SCH_'; grep -owE '(fq|netem|tbf)_enqueue' /proc/kallsyms 2>/dev/null | sort -u; "
    'for name in fq netem tbf; do modprobe -n -q "sch_$name" 2>/dev/null && echo "module $name"; done; true'
)
_OPTION = re.compile(r"^CONFIG_NET_SCH_(FQ|NETEM|TBF)=([ym])$")
WHY = {
    "fq": "Pacing of each flow on a device is done by this queue discipline.",
    "netem": "Delay and loss are made by this queue discipline.",
    "tbf": "The bottleneck of a topology is made by this queue discipline.",
}
# Where distributions keep the modules that not everybody needs
MODULES = ("apt-get install linux-modules-extra-$(uname -r)", "dnf install kernel-modules-extra")


def read_kernel(host: Host) -> dict[str, bool | None]:
    """Returns which of QDISCS the kernel has or can load; None if nothing shows it. Raises CommandError."""
    return qdiscs_of(ask(host, ["sh", "-c", _SCRIPT]))


def qdiscs_of(output: str) -> dict[str, bool | None]:
    lines = set(output.splitlines())
    options = {match[1].lower(): match[2] for text in lines if (match := _OPTION.match(text))}
    configured = any("CONFIG_NET_SCH_" in text for text in lines)
    has: dict[str, bool | None] = {}
    for name in QDISCS:
        here = options.get(name) == "y" or f"{name}_enqueue" in lines or f"module {name}" in lines
        module = options.get(name) == "m"
        has[name] = True if here else False if configured and not module else None
    return has


def judge_kernel(has: dict[str, bool | None], needed: Iterable[str], emulated: bool) -> Iterator[DoctorFinding]:
    """Judges queue disciplines; `emulated` means that the entries that need one could as well run in the lab."""
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
