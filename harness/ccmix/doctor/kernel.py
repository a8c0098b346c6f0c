"""What a kernel can do that nobody uses yet: fq, netem and tbf, from its configuration, nothing being loaded."""

import re
from collections.abc import Iterable, Iterator

from ccmix.doctor.findings import Finding, Status, problem
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
    """Which of QDISCS the kernel has or can load; None where nothing tells. Raises CommandError."""
    return qdiscs_of(ask(host, ["sh", "-c", _SCRIPT]))


def qdiscs_of(said: str) -> dict[str, bool | None]:
    lines = set(said.splitlines())
    options = {match[1].lower(): match[2] for one in lines if (match := _OPTION.match(one))}
    told = any("CONFIG_NET_SCH_" in one for one in lines)
    found: dict[str, bool | None] = {}
    for name in QDISCS:
        here = options.get(name) == "y" or f"{name}_enqueue" in lines or f"module {name}" in lines
        module = options.get(name) == "m"
        found[name] = True if here else False if told and not module else None
    return found


def judge_kernel(has: dict[str, bool | None], needed: Iterable[str], emulated: bool) -> Iterator[Finding]:
    """`emulated`: the entries that need it could as well run in the lab."""
    needed = set(needed)
    for name, there in has.items():
        if there:
            yield Finding(f"kernel: {name}", Status.OK, "there")
        elif there is None:
            yield Finding(
                f"kernel: {name}", Status.UNKNOWN, "the kernel does not say whether it has it",
                WHY[name], instead=MODULES, root=True,
            )  # fmt: skip
        else:
            yield Finding(
                f"kernel: {name}", problem(name in needed), "this kernel was built without it",
                f"{WHY[name]} Start a kernel that has it, such as the one of a distribution.",
                instead=("ccmix run --lab ...",) if emulated and name in needed else (), root=False,
            )  # fmt: skip
