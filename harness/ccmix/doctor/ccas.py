"""Checks congestion control algorithms: which the kernel has, and which users may use them.

A socket of root may use any that is available, and the kernel loads its module then; a socket of another user only
those in tcp_allowed_congestion_control (ip-sysctl.rst; tcp_set_congestion_control() in net/ipv4/tcp_cong.c).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import files, transcript
from ccmix.hosts import Host
from ccmix.terms import BPF_CCAS, CCAS

FOLDER = "/proc/sys/net/ipv4"
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


@dataclass(frozen=True)
class Ccas:
    """Lists CCAs. `loadable` ones are not available now, but their modules are on the host's disk."""

    available: tuple[str, ...]
    allowed: tuple[str, ...]
    default: str
    loadable: frozenset[str] = frozenset()


def read_ccas(host: Host, wanted: Iterable[str]) -> Ccas:
    """Reads the CCAs of a host. Raises CommandError or ValueError."""
    ccas = ccas_of(files(host, f"{FOLDER}/tcp_*congestion_control"))
    missing = [cca for cca in wanted if cca not in ccas.available and cca in CCAS]
    loadable = {cca for cca in missing if transcript(host, ["modprobe", "-n", "-q", f"tcp_{cca}"])[0] == 0}
    return Ccas(ccas.available, ccas.allowed, ccas.default, frozenset(loadable))


def ccas_of(texts: Mapping[str, str]) -> Ccas:
    """Reads the CCAs from the files in /proc/sys. Raises ValueError."""
    names = ("available_", "allowed_", "")
    available, allowed, default = (texts.get(f"{FOLDER}/tcp_{name}congestion_control", "").split() for name in names)
    if not available:
        raise ValueError("the host does not say which CCAs it has")
    if any(not name.replace("_", "").replace("-", "").isalnum() for name in (*available, *allowed, *default)):
        raise ValueError("the names of the host's CCAs are not understood")
    return Ccas(tuple(available), tuple(allowed), default[0] if default else "")


def judge_ccas(ccas: Ccas, wanted: Iterable[str], privileged: bool, iperf3: str | None) -> Iterator[DoctorFinding]:
    """Judges CCAs; `iperf3` is the path of the iperf3 that ccmix installed on this host, if there is one."""
    for_users = [cca for cca in ccas.available if cca in ccas.allowed]
    others = [cca for cca in ccas.available if cca not in ccas.allowed]
    for_root = f", for root alone {' '.join(others)}" if others else ""
    yield DoctorFinding("CCAs", Status.OK, f"for every user {' '.join(for_users)}{for_root}; default {ccas.default}")
    allow = line("sysctl", "-w", f"{ALLOWED}={' '.join(dict.fromkeys([*ccas.allowed, *sorted(wanted)]))}")
    for cca in sorted(wanted):
        if cca not in ccas.available:
            yield _missing(cca, cca in ccas.loadable, privileged)
        elif not privileged and cca not in ccas.allowed:
            yield DoctorFinding(
                f"CCA {cca}", Status.FAIL, f"{cca} is for root alone",
                "A test by an ordinary user fails with EPERM when it asks for this CCA.",
                (allow,), (line("setcap", "cap_net_admin+ep", iperf3),) if iperf3 else (),
            )  # fmt: skip
        else:
            yield DoctorFinding(
                f"CCA {cca}", Status.OK, "can be used" if cca in ccas.allowed else "can be used by root"
            )


def judge_lab_ccas(
    built_in: frozenset[str] | None, wanted: Iterable[str], other_kernel: str = ""
) -> Iterator[DoctorFinding]:
    """Judges the CCAs of a kernel of the lab; None: its file does not say which it has.

    `other_kernel` is the name of one that is not the stock one.
    """
    of_kernel = f" of {other_kernel}" if other_kernel else ""
    if built_in is None:
        yield DoctorFinding(
            f"lab: CCAs{of_kernel}", Status.UNKNOWN, "the kernel's file does not hold its configuration"
        )
        return
    yield DoctorFinding(f"lab: CCAs{of_kernel}", Status.OK, " ".join(sorted(built_in)))
    for cca in sorted(set(wanted) - built_in):
        kernel = f"the lab's kernel {other_kernel}".strip()
        yield DoctorFinding(
            f"lab: CCA {cca}{of_kernel}", Status.FAIL, f"{kernel} has no {cca}",
            "The entries ask for it, and the lab loads no modules: choose one of those that it has.",
        )  # fmt: skip


def _missing(cca: str, loadable: bool, privileged: bool) -> DoctorFinding:
    load = line("modprobe", f"tcp_{cca}")
    if not loadable and cca in BPF_CCAS:
        return DoctorFinding(
            f"CCA {cca}", Status.FAIL, f"this kernel has no {cca}",
            "The entries ask for it: cca-load in an entry loads it as a BPF program for its runs, or load it yourself.",
            (line("ccmix", "cca", "load", cca),),
        )  # fmt: skip
    if not loadable:
        return DoctorFinding(
            f"CCA {cca}", Status.FAIL, f"this kernel has no {cca}, and no module tcp_{cca} is installed for it",
            "The entries ask for it: install a kernel, or a module for this one, that has it.", (load,),
        )  # fmt: skip
    return DoctorFinding(
        f"CCA {cca}", Status.WARN if privileged else Status.FAIL, f"the module tcp_{cca} is there and not loaded",
        "Loaded before the test, it is there for every user, and its parameters can be set.", (load,),
    )  # fmt: skip
