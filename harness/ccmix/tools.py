"""Finds ccmix's own programs, and says which of them are older than their sources.

`python -m ccmix.tools` prints hashes of the current sources, which tools/setup keeps when it has
built the programs.
"""

import compileall
import contextlib
import hashlib
import json
import os
import pwd
import shutil
import sys
from pathlib import Path

from ccmix import files, payload
from ccmix.failures import WrongInput

HARNESS = Path(__file__).resolve().parent
REPOSITORY = HARNESS.parents[1]  # if ccmix was installed from one
SETUP = REPOSITORY / "tools" / "setup"
# The pinned compiler of all programs
COMPILER = ("tools/toolchain/build", "tools/toolchain/packages.lock", "tools/packages.sh")
# The files from which the build scripts compute their keys in the cache, relative to the repository
SOURCES = {
    "the patched iperf3": (
        *COMPILER,
        "iperf3-patch/build",
        "iperf3-patch/unpack",
        "tools/sources.lock",
        "iperf3-patch/series",
        "iperf3-patch/*.patch",
    ),
    "the lab's kernel": (
        *COMPILER,
        "lab/build",
        "lab/unpack",
        "tools/sources.lock",
        "lab/kernel.config",
        "lab/patches/*.patch",
        "cca/*/*.[ch]",
        "cca/module/K*",
    ),
    "the lab's userland": (
        "lab/userland/build",
        "lab/userland/packages.lock",
        "tools/packages.sh",
        "lab/init",
        "lab/fstab",
    ),
    **{
        f"ccmix-{name}": (
            *COMPILER,
            f"probes/{name}/build",
            f"probes/{name}/*.[ch]",
            "probes/common/*.[ch]",
        )
        for name in ("sockmon", "capflow", "rtt")
    },
    "ccmix-confine": (*COMPILER, "lab/confine/build", "lab/confine/*.[ch]", "probes/common/*.[ch]"),
    "ccmix-cca": (
        *COMPILER,
        "cca/bpf/build",
        "cca/bpf/*/*.[ch]",
        "cca/core/*.[ch]",
        "probes/common/*.[ch]",
    ),
}


class ToolError(WrongInput):
    """Says that a program is missing, and what installs it."""


def find_iperf3() -> Path:
    """Returns the patched iperf3. Raises ToolError, as all find functions do."""
    return find("ccmix-iperf3", "CCMIX_IPERF3", "the patched iperf3")


def find_kernel() -> Path:
    """Returns the lab's kernel."""
    return find("ccmix-lab-kernel", "CCMIX_LAB_KERNEL", "the lab's kernel")


def find_userland() -> Path:
    """Returns the folder that is the root of the lab's guests."""
    return find("ccmix-userland", "CCMIX_USERLAND", "the lab's userland")


def named_kernels() -> dict[str, Path]:
    """Returns the other kernels of the lab that lab/build has built, by their names."""
    folder = Path(os.environ.get("CCMIX_LAB_KERNELS") or cache_folder() / "lab-kernel" / "named")
    links = sorted(folder.iterdir()) if folder.is_dir() else []
    return {link.name: link.resolve() for link in links if os.access(link, os.X_OK)}


def cache_folder() -> Path:
    """Returns the folder for built programs, the same as tools/cache.sh uses."""
    if cache := os.environ.get("CCMIX_CACHE"):
        return Path(cache)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else _home() / ".cache") / "ccmix"


def _home() -> Path:
    """Returns this user's home. A service or a cron job may have no HOME, or an empty one."""
    try:
        return Path(os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return Path("/nonexistent")


def find_sockmon() -> Path:
    """Returns the probe that samples sockets, queues and processors."""
    return find("ccmix-sockmon", "CCMIX_SOCKMON", "ccmix-sockmon")


def find_capflow() -> Path:
    """Returns the program that turns a capture into series."""
    return find("ccmix-capflow", "CCMIX_CAPFLOW", "ccmix-capflow")


def find_rtt() -> Path:
    """Returns the probe that measures RTTs during the traffic."""
    return find("ccmix-rtt", "CCMIX_RTT", "ccmix-rtt")


def find_cca() -> Path:
    """Returns the program that loads BBRv2 and BBRv3 into a running kernel."""
    return find("ccmix-cca", "CCMIX_CCA", "ccmix-cca")


def find_confine() -> Path:
    """Returns the program that starts and confines the lab's guests."""
    return find("ccmix-confine", "CCMIX_CONFINE", "ccmix-confine")


def find(name: str, variable: str, what: str) -> Path:
    """Returns a program: the one that the variable names; otherwise the one in the folder of this
    Python, where `make setup` puts it; otherwise the one of the installed package; otherwise the
    one on PATH.

    `what` names the program in the message of ToolError.
    """
    installed = Path(sys.prefix) / "bin" / name
    program = os.environ.get(variable) or (
        installed if os.access(installed, os.X_OK) else _in_package(name) or shutil.which(name)
    )
    if not program:
        raise ToolError(
            f"{what} is not at {installed}: run 'make setup' in ccmix's folder, or set {variable}"
        )
    found = Path(program).resolve()
    hold(found)
    if not os.access(found, os.X_OK):
        raise ToolError(f"{what} at {program} can't be run by this user")
    return found


def hold(program: Path) -> None:
    """Keeps `ccmix cache prune` from removing the folder of a program until this process ends."""
    with contextlib.suppress(OSError):  # a folder that this user can't read
        files.hold(program.parent)


def program_folders() -> list[Path]:
    """Returns the folders that have ccmix's programs under their own names: that of this Python,
    and that of the installed package.
    """
    brought = _in_package("ccmix-iperf3")
    return [Path(sys.prefix) / "bin", *([brought.parent] if brought else [])]


def _in_package(name: str) -> Path | None:
    try:
        return payload.find(name, cache_folder())
    except payload.PayloadError as error:
        raise ToolError(str(error)) from error


def unpinned(program: Path) -> str | None:
    """Returns a sentence about a program that was not built from the pinned source by the pinned
    compiler. Returns None if it was, or if the build.json next to it does not say so.
    """
    try:
        noted = json.loads((program.parent / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(noted, dict):
        return None
    if noted.get("pinned") is False and "packages" in noted:
        differs = "built from newer packages instead of what lab/userland/packages.lock pins"
    elif noted.get("pinned") is False:
        source = noted.get("source_version", "another source")
        differs = f"built from {source} instead of what tools/sources.lock pins"
    elif noted.get("pinned_compiler") is False:
        compiler = noted.get("compiler", "another compiler")
        differs = (
            f"built by {compiler} instead of the compiler that tools/toolchain/packages.lock pins"
        )
    else:
        return None
    return f"{differs}, so numbers may differ from those of other installations"


def fingerprints() -> dict[str, str]:
    """Returns a hash of the sources of each program that is built here."""
    return {what: _fingerprint(patterns) for what, patterns in SOURCES.items()}


def _fingerprint(patterns: tuple[str, ...]) -> str:
    content = hashlib.sha256()
    for file in sorted(file for pattern in patterns for file in REPOSITORY.glob(pattern)):
        content.update(f"{file.relative_to(REPOSITORY)}\n".encode() + file.read_bytes())
    return content.hexdigest()


def outdated() -> str | None:
    """Returns a sentence about programs that are older than their sources, as after a pull without
    set-up; None if there are none.

    Also compiles Python's byte code again if it is old, because a guest can't keep byte code, and
    would compile during each run.
    """
    if not SETUP.exists():
        return None  # ccmix is installed without sources
    kept = Path(sys.prefix) / "built-from"
    built = (
        dict(line.split("\t") for line in kept.read_text().splitlines()) if kept.exists() else {}
    )
    old = [what for what, now in fingerprints().items() if built.get(what) != now]
    if not compileall.compile_dir(HARNESS, quiet=2):
        old.append("Python's byte code")
    if not old:
        return None
    are = "is" if len(old) == 1 else "are"
    return f"{', '.join(old)} {are} older than the sources, so results may differ: run {SETUP}"


def main() -> None:
    for what, now in fingerprints().items():
        print(f"{what}\t{now}")


if __name__ == "__main__":
    main()
