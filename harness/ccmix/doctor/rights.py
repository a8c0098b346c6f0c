"""Checks the rights of the login on a host, and what other runs hold or have left there.

The rights are user, capabilities, sudo, writable parts of /proc and /sys, and those that a
container lacks (docs/howto/run-in-containers.md). Other runs may hold the lock of campaigns, or may
have left undo journals.
"""

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


def judge_journals(left_changes: Sequence[str], hosts: Sequence[str] = ()) -> Findings:
    """Judges what killed runs have changed on a host and not undone, from their undo journals.

    `left_changes` describes these changes; `hosts` are the arguments of the `ccmix restore` that
    undoes them (empty for this machine).
    """
    if not left_changes:
        yield ok("left by dead runs", "nothing")
        return
    yield warn(
        "left by dead runs",
        f"{len(left_changes)} changes: {'; '.join(left_changes)}",
        "The host differs from its administrator's settings; the next run would restore them.",
        line("ccmix", "restore", *hosts),
        root=False,
    )


def read_sockets() -> str:
    """Returns the list of unix sockets of this machine or network namespace. Raises OSError."""
    return Path(SOCKETS).read_text(errors="replace")


def judge_lock(sockets: str, needed: bool) -> Findings:
    """Judges whether another campaign runs on the host: it holds a unix socket as its lock.

    `sockets` is the text of /proc/net/unix. If `needed` (runs need this host), another campaign is
    a failure, otherwise a warning. Raises ValueError.
    """
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
    """Describes the user as whom ccmix works on a host.

    `sudo` means that sudo works without a password. `may` are the capabilities that commands then
    have; without sudo, those of the user itself.
    """

    uid: int
    user: str
    sudo: bool
    may: frozenset[str]
    read_only: tuple[str, ...]  # parts of /proc/sys and /sys/module that not even root can write

    @property
    def is_privileged(self) -> bool:
        """Whether its own sockets may use every available CCA, which needs CAP_NET_ADMIN.

        sudo does not count, because the traffic programs run without it.
        """
        return self.uid == 0 and "NET_ADMIN" in self.may


def read_login(host: Host) -> Login:
    """Reads as which user ccmix works on a host, and what this user may do. Raises CommandError or
    ValueError.
    """
    uid = whole(ask(host, ["id", "-u"]), "the user's number", 0)
    user = ask(host, ["sh", "-c", "id -u -n 2>/dev/null || id -u"]).strip()
    sudo = uid != 0 and transcript(host, ["sudo", "-n", "true"])[0] == 0
    _, mounts = transcript(host, ["cat", "/proc/self/mounts"])
    status = ask(host, ["cat", "/proc/self/status"])
    return Login(
        uid, user, sudo, capabilities(status, "Eff" if not sudo else "Bnd"), read_only(mounts)
    )


def capabilities(status: str, set_name: str) -> frozenset[str]:
    """Returns the names in CAPABILITIES of the capabilities that a process has; `status` is the
    text of its /proc/PID/status.

    `set_name` is 'Eff' for what the process may do now, or 'Bnd' for what it could do as root.
    Raises ValueError.
    """
    sets = dict(_CAPS.findall(status))
    if set_name not in sets:
        raise ValueError("the process has no capability sets")
    mask = int(sets[set_name], 16)
    return frozenset(name for name, bit in CAPABILITIES.items() if mask >> bit & 1)


def read_only(mounts: str) -> tuple[str, ...]:
    """Returns the folders among /proc/sys and /sys/module that are mounted read-only, as in
    containers. `mounts` is the text of /proc/self/mounts.
    """
    read_only_by_folder: dict[str, bool] = {}
    for fields in (mount.split() for mount in mounts.splitlines()):
        if len(fields) >= 4:
            # The last mount is on top
            read_only_by_folder[fields[1]] = "ro" in fields[3].split(",")
    trees = {"/proc/sys": ("/proc/sys", "/proc"), "/sys/module": ("/sys/module", "/sys")}
    return tuple(
        tree
        for tree, folders in trees.items()
        if next(
            (read_only_by_folder[name] for name in folders if name in read_only_by_folder), False
        )
    )


def judge_privileges(login: Login, root_for: Mapping[str, str], in_namespaces: bool) -> Findings:
    """Judges whether the login has the capabilities that the runs need on this host.

    `root_for` maps each action of the runs there to the capability that it needs, or to '' if only
    root may do it. `in_namespaces` means that topologies are built in network namespaces.
    """
    missing = [name for name in USED_FOR if name not in login.may]
    impossible_actions = sorted(
        action for action, capability in root_for.items() if not capability or capability in missing
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
    user_text = "root" if login.uid == 0 else f"{login.user}, with sudo -n"
    if not missing:
        yield ok("privileges", user_text)
    for name in missing:
        needed = name in root_for.values() or (in_namespaces and name in ("NET_ADMIN", "SYS_ADMIN"))
        uses = ", ".join(
            [action for action in impossible_actions if root_for[action] == name]
            or [USED_FOR[name]]
        )
        yield lack(
            needed,
            f"CAP_{name}",
            f"{user_text}, without CAP_{name}",
            f"{uses}: the kernel refuses this without the capability; start the container with it.",
            instead=(line("docker", "run", "--cap-add", name, "..."),),
            root=False,
        )


def judge_writable(login: Login, parameters: bool, sysctls: bool) -> Findings:
    """Judges read-only trees of a container, in which not even root can change settings.

    `parameters` and `sysctls` say whether the entries write to /sys/module and to /proc/sys.
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


# Options that make a tree writable which engines mount read-only
MOUNTS = {
    "/proc/sys": ("--security-opt systempaths=unconfined",),
    "/sys/module": ("--security-opt systempaths=unconfined", "-v /sys/module:/sys/module"),
}


@dataclass(frozen=True)
class Use:
    """Describes a feature of ccmix, and what it needs of a container beyond root.

    `capabilities` may be missing there; `writes` are trees that may be mounted read-only.
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
    """Describes what this process may do.

    `read_only` has the folders among /proc/sys and /sys/module that not even root can write.
    """

    uid: int
    capabilities: frozenset[str]
    read_only: tuple[str, ...]


def judge(rights: Rights, needed: Collection[Use]) -> Findings:
    """Judges for each feature of ccmix whether this container has the rights for it.

    `needed` are the features that the planned runs use. A missing right is a failure for these
    features, and a warning for the others.
    """
    for use in USES:
        missing = [name for name in use.capabilities if name not in rights.capabilities]
        read_only = [tree for tree in use.writes if tree in rights.read_only]
        lacks = [f"user {rights.uid} is not root"] * (rights.uid != 0)
        lacks += [f"no {name}" for name in missing] + [f"{tree} is read-only" for tree in read_only]
        if not lacks:
            yield ok(f"container: {use.feature}", "has all necessary rights")
            continue
        mount_options = dict.fromkeys(option for tree in read_only for option in MOUNTS[tree])
        options = (
            ["--user root"] * (rights.uid != 0)
            + [f"--cap-add {name}" for name in missing]
            + list(mount_options)
        )
        yield lack(
            use in needed,
            f"container: {use.feature}",
            ", ".join(lacks),
            "A container gets its rights only when it is started. The lab needs none of them.",
            instead=(f"docker run {' '.join(options)} ...",),
            root=False,
        )


def judge_state(folder: Path) -> Findings:
    """Judges whether the changes of a killed run can be undone after the container has ended.

    The undo journals, which record these changes, are in `folder`. If this folder is part of the
    container, it is lost with it.
    """
    check_name = "container: restore after a kill"
    existing_folder = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if existing_folder.stat().st_dev != Path("/").stat().st_dev:
        yield ok(check_name, f"{folder} outlives the container")
        return
    yield warn(
        check_name,
        f"{folder} is lost with the container",
        "The journals of changes on the host are there.",
        instead=(f"docker run -v state:{folder} ...",),
        root=False,
    )


def judge_network(devices: dict[str, bool]) -> Findings:
    """Judges whether the container has the host's network, or only a private one behind a bridge.

    `devices` says for each device except lo whether its other end is in another network namespace,
    as that of a private network's device (veth) is.
    """
    if any(not ends_elsewhere for ends_elsewhere in devices.values()):
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
    """Returns for each network device except lo whether its other end is in another namespace.

    Such devices (veth in containers) have an iflink that differs from their ifindex. Raises OSError
    or ValueError.
    """
    return {
        entry.name: int((entry / "iflink").read_text()) != int((entry / "ifindex").read_text())
        for entry in sorted(folder.iterdir())
        if entry.name != "lo" and (entry / "iflink").exists()
    }
