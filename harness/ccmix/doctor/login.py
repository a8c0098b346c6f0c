"""Checks the login on a host: user, capabilities, sudo, container, and what of /proc and /sys it can write."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import ask, transcript, whole
from ccmix.hosts import Host

# include/uapi/linux/capability.h
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
# What ccmix does with them
USED_FOR = {
    "CAP_NET_ADMIN": "netem, pacing, queues and devices",
    "CAP_NET_RAW": "captures by tcpdump",
    "CAP_SYS_ADMIN": "network namespaces",
}
_CAPS = re.compile(r"^Cap(Eff|Bnd):\s*([0-9a-f]{1,16})$", re.MULTILINE)


@dataclass(frozen=True)
class Login:
    """Describes a login; `may` are the capabilities that a command has, with sudo if the user isn't root and has it."""

    uid: int
    user: str
    sudo: bool
    may: frozenset[str]
    read_only: tuple[str, ...]  # of /proc/sys and /sys/module, what even root can't write

    @property
    def is_privileged(self) -> bool:
        """Returns whether its own sockets may use every CCA there is: the kernel asks for CAP_NET_ADMIN, sudo
        doesn't count.
        """
        return self.uid == 0 and "CAP_NET_ADMIN" in self.may


def read_login(host: Host) -> Login:
    """Reads the login of a host. Raises CommandError or ValueError."""
    uid = whole(ask(host, ["id", "-u"]), "the user's number", 0)
    user = ask(host, ["id", "-u", "-n"]).strip() if uid != 0 else "root"
    sudo = uid != 0 and transcript(host, ["sudo", "-n", "true"])[0] == 0
    _, mounts = transcript(host, ["cat", "/proc/self/mounts"])
    status = ask(host, ["cat", "/proc/self/status"])
    return Login(uid, user, sudo, capabilities(status, "Eff" if not sudo else "Bnd"), read_only(mounts))


def capabilities(status: str, which: str) -> frozenset[str]:
    """Returns those of CAPABILITIES that a set of /proc/PID/status has; 'Eff', or 'Bnd', which is root's. Raises
    ValueError.
    """
    sets = dict(_CAPS.findall(status))
    if which not in sets:
        raise ValueError("the process has no capability sets")
    mask = int(sets[which], 16)
    return frozenset(name for name, bit in CAPABILITIES.items() if mask >> bit & 1)


def read_only(mounts: str) -> tuple[str, ...]:
    """Returns which of the trees that ccmix may write are mounted read-only, as container engines do
    (proc_mounts(5)).
    """
    flags: dict[str, bool] = {}
    for fields in (mount.split() for mount in mounts.splitlines()):
        if len(fields) >= 4:
            flags[fields[1]] = "ro" in fields[3].split(",")  # the last one lies on top
    return tuple(
        tree
        for tree, above in {"/proc/sys": ("/proc/sys", "/proc"), "/sys/module": ("/sys/module", "/sys")}.items()
        if next((flags[folder] for folder in above if folder in flags), False)
    )


def judge_privileges(login: Login, root_for: Mapping[str, str], in_namespaces: bool) -> Iterator[DoctorFinding]:
    """Judges privileges; `root_for` maps what the entries do to the capability that it takes, or '' if only root
    may.
    """
    missing = [name for name in CAPABILITIES if name not in login.may]
    wanted = sorted(what for what, capability in root_for.items() if not capability or capability in missing)
    if login.uid != 0 and not login.sudo:
        if root_for:
            rule = f"{login.user} ALL=(root) NOPASSWD: ALL"
            yield DoctorFinding(
                "privileges", Status.FAIL, f"{login.user} is not root, and sudo -n asks for a password or is not there",
                f"{', '.join(sorted(root_for))}: only root may do that.",
                (line("sh", "-c", f"echo '{rule}' > /etc/sudoers.d/ccmix && chmod 440 /etc/sudoers.d/ccmix"),),
            )  # fmt: skip
        else:
            yield DoctorFinding("privileges", Status.OK, f"{login.user}, without sudo -n; the entries need neither")
        return
    by = "root" if login.uid == 0 else f"{login.user}, with sudo -n"
    if not missing:
        yield DoctorFinding("privileges", Status.OK, by)
    for name in missing:
        needed = name in root_for.values() or (in_namespaces and name in ("CAP_NET_ADMIN", "CAP_SYS_ADMIN"))
        uses = ", ".join([what for what in wanted if root_for[what] == name] or [USED_FOR[name]])
        yield DoctorFinding(
            name, Status.FAIL if needed else Status.WARN, f"{by}, without {name}",
            f"{uses}: the kernel refuses that without this capability; start the container with it.",
            instead=(line("docker", "run", "--cap-add", name.removeprefix("CAP_"), "..."),), root=False,
        )  # fmt: skip


def judge_writable(login: Login, parameters: bool, sysctls: bool) -> Iterator[DoctorFinding]:
    """Judges what containers mount read-only; `parameters` and `sysctls` say whether the entries write them."""
    for tree in login.read_only:
        needed = parameters if tree == "/sys/module" else sysctls
        share = " -v /sys/module:/sys/module" if tree == "/sys/module" else ""
        yield DoctorFinding(
            tree, Status.FAIL if needed else Status.WARN, f"{tree} is mounted read-only",
            "Settings of the kernel can't be changed from here, not even by root.",
            instead=(f"docker run --security-opt systempaths=unconfined{share} ...",), root=False,
        )  # fmt: skip
