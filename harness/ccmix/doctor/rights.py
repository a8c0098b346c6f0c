"""Checks the rights of the login on a host (user, capabilities, sudo, writable parts of /proc and
/sys), the rights that a container lacks (docs/howto/run-in-containers.md), and the lock and undo
journals of other runs.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.lock import ADDRESS
from ccmix.doctor.report import (
    DoctorFinding,
    Findings,
    Status,
    ask,
    fail,
    lack,
    line,
    ok,
    transcript,
    warn,
    whole,
)
from ccmix.hosts import Host

LOCK = ADDRESS.replace("\0", "@")  # the form of an abstract name in /proc/net/unix
SOCKETS = "/proc/net/unix"

# include/uapi/linux/capability.h
CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "NET_ADMIN": 12, "NET_RAW": 13, "SYS_ADMIN": 21}
# Their use by ccmix on hosts
USED_FOR = {
    "NET_ADMIN": "netem, pacing, queues and devices",
    "NET_RAW": "captures by tcpdump",
    "SYS_ADMIN": "network namespaces",
}
_CAPS = re.compile(r"^Cap(Eff|Bnd):\s*([0-9a-f]{1,16})$", re.MULTILINE)


def judge_journals(left: Sequence[str], hosts: Sequence[str] = ()) -> Findings:
    """Judges journals; `left` are changes that killed runs have left on this machine or on the
    machine of `hosts`.
    """
    if not left:
        yield ok("left by dead runs", "nothing")
        return
    yield warn(
        "left by dead runs",
        f"{len(left)} changes: {'; '.join(left)}",
        "The host differs from its administrator's settings; the next run would restore them.",
        line("ccmix", "restore", *hosts),
        root=False,
    )


def read_sockets() -> str:
    """Returns the unix sockets of this machine, or of its namespace. Raises OSError."""
    return Path(SOCKETS).read_text(errors="replace")


def judge_lock(sockets: str, needed: bool) -> Findings:
    """Judges the lock of campaigns; `sockets` is /proc/net/unix. Raises ValueError."""
    lines = sockets.splitlines()
    if not lines or "Path" not in lines[0]:
        raise ValueError("the kernel does not list its sockets")
    if any(row.split()[-1:] == [LOCK] for row in lines[1:]):
        yield lack(
            needed,
            "other campaigns",
            "another campaign runs here now",
            "Simultaneous campaigns would disturb each other, so ccmix refuses the second: wait "
            "for the first.",
        )
    else:
        yield ok("other campaigns", "none")


@dataclass(frozen=True)
class Login:
    """Describes a login; `may` are the capabilities of a command. If the user is not root but has
    sudo, they include those of sudo.
    """

    uid: int
    user: str
    sudo: bool
    may: frozenset[str]
    read_only: tuple[str, ...]  # parts of /proc/sys and /sys/module that not even root can write

    @property
    def is_privileged(self) -> bool:
        """Returns whether its own sockets may use every CCA: the kernel requires CAP_NET_ADMIN, and
        sudo doesn't count.
        """
        return self.uid == 0 and "NET_ADMIN" in self.may


def read_login(host: Host) -> Login:
    """Reads the login of a host. Raises CommandError or ValueError."""
    uid = whole(ask(host, ["id", "-u"]), "the user's number", 0)
    user = ask(host, ["id", "-u", "-n"]).strip() if uid != 0 else "root"
    sudo = uid != 0 and transcript(host, ["sudo", "-n", "true"])[0] == 0
    _, mounts = transcript(host, ["cat", "/proc/self/mounts"])
    status = ask(host, ["cat", "/proc/self/status"])
    return Login(
        uid, user, sudo, capabilities(status, "Eff" if not sudo else "Bnd"), read_only(mounts)
    )


def capabilities(status: str, which: str) -> frozenset[str]:
    """Returns the CAPABILITIES in a set of /proc/PID/status: 'Eff', or 'Bnd' for root. Raises
    ValueError.
    """
    sets = dict(_CAPS.findall(status))
    if which not in sets:
        raise ValueError("the process has no capability sets")
    mask = int(sets[which], 16)
    return frozenset(name for name, bit in CAPABILITIES.items() if mask >> bit & 1)


def read_only(mounts: str) -> tuple[str, ...]:
    """Returns the read-only mounts among the trees that ccmix may write (proc_mounts(5)); container
    engines make them.
    """
    flags: dict[str, bool] = {}
    for fields in (mount.split() for mount in mounts.splitlines()):
        if len(fields) >= 4:
            flags[fields[1]] = "ro" in fields[3].split(",")  # the last mount is on top
    return tuple(
        tree
        for tree, above in {
            "/proc/sys": ("/proc/sys", "/proc"),
            "/sys/module": ("/sys/module", "/sys"),
        }.items()
        if next((flags[folder] for folder in above if folder in flags), False)
    )


def judge_privileges(login: Login, root_for: Mapping[str, str], in_namespaces: bool) -> Findings:
    """Judges privileges; `root_for` maps actions of the entries to the necessary capability, or to
    '' if only root may do them.
    """
    missing = [name for name in USED_FOR if name not in login.may]
    wanted = sorted(
        what for what, capability in root_for.items() if not capability or capability in missing
    )
    if login.uid != 0 and not login.sudo:
        if root_for:
            rule = f"{login.user} ALL=(root) NOPASSWD: ALL"
            yield fail(
                "privileges",
                f"{login.user} is not root, and sudo -n asks for a password or is missing",
                f"{', '.join(sorted(root_for))}: only root may do that.",
                line(
                    "sh",
                    "-c",
                    f"echo '{rule}' > /etc/sudoers.d/ccmix && chmod 440 /etc/sudoers.d/ccmix",
                ),
            )
        else:
            yield ok("privileges", f"{login.user}, without sudo -n; the entries need neither")
        return
    by = "root" if login.uid == 0 else f"{login.user}, with sudo -n"
    if not missing:
        yield ok("privileges", by)
    for name in missing:
        needed = name in root_for.values() or (in_namespaces and name in ("NET_ADMIN", "SYS_ADMIN"))
        uses = ", ".join([what for what in wanted if root_for[what] == name] or [USED_FOR[name]])
        yield lack(
            needed,
            f"CAP_{name}",
            f"{by}, without CAP_{name}",
            f"{uses}: the kernel refuses this without the capability; start the container with it.",
            instead=(line("docker", "run", "--cap-add", name, "..."),),
            root=False,
        )


def judge_writable(login: Login, parameters: bool, sysctls: bool) -> Findings:
    """Judges read-only mounts of containers; `parameters` and `sysctls` say whether the entries
    write them.
    """
    for tree in login.read_only:
        needed = parameters if tree == "/sys/module" else sysctls
        share = " -v /sys/module:/sys/module" if tree == "/sys/module" else ""
        yield DoctorFinding(
            tree,
            Status.FAIL if needed else Status.WARN,
            f"{tree} is mounted read-only",
            "Settings of the kernel can't be changed from here, not even by root.",
            instead=(f"docker run --security-opt systempaths=unconfined{share} ...",),
            root=False,
        )


MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # of Docker; of podman
# Options that make a tree writable which engines mount read-only
MOUNTS = {
    "/proc/sys": ("--security-opt systempaths=unconfined",),
    "/sys/module": ("--security-opt systempaths=unconfined", "-v /sys/module:/sys/module"),
}
LAB_MEMORY = "docker run --tmpfs /tmp:exec ..."


@dataclass(frozen=True)
class Use:
    """Describes what root in a container needs beyond an engine's defaults, all of which may
    be dropped.
    """

    feature: str
    capabilities: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


CAPTURES = Use("captures", ("NET_RAW",))
QUEUES = Use("pacing, netem, any CCA", ("NET_ADMIN",))
NAMESPACES = Use("topologies without --lab", ("NET_ADMIN", "SYS_ADMIN"), ("/proc/sys",))
SYSCTLS = Use("sysctls", ("NET_ADMIN",), ("/proc/sys",))
PARAMETERS = Use("module parameters", (), ("/sys/module",))
RESULTS = Use("root's results in a user's folder", ("CHOWN", "DAC_OVERRIDE"))
USES = (CAPTURES, QUEUES, SYSCTLS, PARAMETERS, NAMESPACES, RESULTS)


@dataclass(frozen=True)
class Rights:
    """Describes the rights of this process. `read_only` lists the read-only ones of /proc/sys and
    /sys/module.
    """

    uid: int
    capabilities: frozenset[str]
    read_only: tuple[str, ...]


def inside() -> bool:
    """Returns whether this is a container; systemd-nspawn and other engines set a variable."""
    return any(mark.exists() for mark in MARKS) or "container" in os.environ


def judge(rights: Rights, needed: Collection[Use]) -> Findings:
    """Judges the missing rights for each use; `needed` are the uses of the entries."""
    for use in USES:
        missing = [name for name in use.capabilities if name not in rights.capabilities]
        read_only = [tree for tree in use.writes if tree in rights.read_only]
        seen = [f"user {rights.uid} is not root"] * (rights.uid != 0)
        seen += [f"no {name}" for name in missing] + [f"{tree} is read-only" for tree in read_only]
        if not seen:
            yield ok(f"container: {use.feature}", "has all necessary rights")
            continue
        mounts = dict.fromkeys(option for tree in read_only for option in MOUNTS[tree])
        options = (
            ["--user root"] * (rights.uid != 0)
            + [f"--cap-add {name}" for name in missing]
            + list(mounts)
        )
        yield lack(
            use in needed,
            f"container: {use.feature}",
            ", ".join(seen),
            "A container gets its rights only when it is started. The lab needs none of them.",
            instead=(f"docker run {' '.join(options)} ...",),
            root=False,
        )


def judge_state(folder: Path) -> Findings:
    """Judges whether root's changes can be undone after the container is gone, from the journals in
    this folder.
    """
    what = "container: restore after a kill"
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if existing.stat().st_dev != Path("/").stat().st_dev:
        yield ok(what, f"{folder} outlives the container")
        return
    yield warn(
        what,
        f"{folder} is lost with the container",
        "The journals of changes on the host are there.",
        instead=(f"docker run -v state:{folder} ...",),
        root=False,
    )


def judge_network(devices: dict[str, bool]) -> Findings:
    """Judges the network; for each name except lo, `devices` says whether the device's other end is
    in another namespace.
    """
    if any(not elsewhere for elsewhere in devices.values()):
        yield ok("container: network", "the host's, or a device of the host's")
        return
    yield warn(
        "container: network",
        f"a private one, with {', '.join(devices) or 'no device'}",
        "Runs then measure the engine's bridge and address translation, too.",
        instead=("docker run --network host ...",),
        root=False,
    )


def read_devices(folder: Path = Path("/sys/class/net")) -> dict[str, bool]:
    """Reads the devices for `judge_network`. Raises OSError or ValueError."""
    return {
        entry.name: int((entry / "iflink").read_text()) != int((entry / "ifindex").read_text())
        for entry in sorted(folder.iterdir())
        if entry.name != "lo" and (entry / "iflink").exists()
    }
