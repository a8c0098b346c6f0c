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
    """Returns the patched iperf3, which mixes CCAs. Raises ToolError, as all find functions do."""
    return find("ccmix-iperf3", "CCMIX_IPERF3", "the patched iperf3")


def find_kernel() -> Path:
    """Returns the lab's kernel."""
    return find("ccmix-lab-kernel", "CCMIX_LAB_KERNEL", "the lab's kernel")


def find_userland() -> Path:
    """Returns the folder that is the root of the lab's guests."""
    return find("ccmix-userland", "CCMIX_USERLAND", "the lab's userland")


def named_kernels() -> dict[str, Path]:
    """Returns the kernels that the user has built for the lab with lab/build --name, by name."""
    folder = Path(os.environ.get("CCMIX_LAB_KERNELS") or cache_folder() / "lab-kernel" / "named")
    links = sorted(folder.iterdir()) if folder.is_dir() else []
    return {link.name: link.resolve() for link in links if os.access(link, os.X_OK)}


def cache_folder() -> Path:
    """Returns the folder for built programs: $CCMIX_CACHE, or ccmix in the user's cache folder.

    tools/cache.sh uses the same.
    """
    if cache := os.environ.get("CCMIX_CACHE"):
        return Path(cache)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else _home() / ".cache") / "ccmix"


def _home() -> Path:
    """Returns this user's home, even for a service or a cron job, which may have no HOME."""
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


def find(name: str, variable: str, description: str) -> Path:
    """Returns the path of a program of ccmix; keeps it from being removed until this process ends.

    Looks, in this order, at the environment variable `variable`, in the bin folder of this Python
    (where `make setup` puts programs), in the installed package, and on PATH. Raises ToolError if
    the program is missing; `description` names it in the message.
    """
    installed = Path(sys.prefix) / "bin" / name
    candidate = os.environ.get(variable) or (
        installed if os.access(installed, os.X_OK) else _find_in_package(name) or shutil.which(name)
    )
    if not candidate:
        if installed.is_symlink() and (locked := _first_not_entered(installed.readlink())):
            raise ToolError(
                f"{description} is in {locked}, which this user may not enter: change its "
                f"permissions, or set {variable} or CCMIX_CACHE"
            )
        raise ToolError(
            f"{description} is not at {installed}: run 'make setup' in ccmix's folder, or set "
            f"{variable}"
        )
    found = Path(candidate).resolve()
    hold(found)
    if not os.access(found, os.X_OK):
        raise ToolError(f"{description} at {candidate} can't be run by this user")
    return found


def _first_not_entered(file: Path) -> Path | None:
    """Returns the first folder on the way to a file that this user may not enter; None if there is
    none.
    """
    for folder in reversed(file.parents):
        if not os.access(folder, os.X_OK):
            return folder if folder.exists() else None
    return None


def hold(program: Path) -> None:
    """Keeps `ccmix cache prune` from removing the folder of a program until this process ends."""
    with contextlib.suppress(OSError):  # a folder that this user can't read
        files.hold(program.parent)


def program_folders() -> list[Path]:
    """Returns the folders to put on PATH so that shells find ccmix's programs by name.

    They are the bin folder of this Python, and the folder of the installed package.
    """
    packaged_iperf3 = _find_in_package("ccmix-iperf3")
    return [Path(sys.prefix) / "bin", *([packaged_iperf3.parent] if packaged_iperf3 else [])]


def _find_in_package(name: str) -> Path | None:
    """Returns the path of a program in the installed package, after unpacking it; None if the
    package has no such program, or ccmix was not installed from a package.

    Raises ToolError if it can't be unpacked.
    """
    try:
        return payload.find(name, cache_folder())
    except payload.PayloadError as error:
        raise ToolError(str(error)) from error


def unpinned(program: Path) -> str | None:
    """Returns a warning about a program that was not built from the pinned source and compiler.

    The build.json next to the program records this. None if it records no difference or is missing.
    """
    try:
        build_notes = json.loads((program.parent / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(build_notes, dict):
        return None
    if build_notes.get("pinned") is False and "packages" in build_notes:
        difference = "built from newer packages instead of what lab/userland/packages.lock pins"
    elif build_notes.get("pinned") is False:
        source = build_notes.get("source_version", "another source")
        difference = f"built from {source} instead of what tools/sources.lock pins"
    elif build_notes.get("pinned_compiler") is False:
        compiler = build_notes.get("compiler", "another compiler")
        difference = (
            f"built by {compiler} instead of the compiler that tools/toolchain/packages.lock pins"
        )
    else:
        return None
    return f"{difference}, so numbers may differ from those of other installations"


def fingerprints() -> dict[str, str]:
    """Returns a hash of the current sources of each program, by the program's name for people."""
    return {name: _fingerprint(patterns) for name, patterns in SOURCES.items()}


def _fingerprint(patterns: tuple[str, ...]) -> str:
    """Returns a hash of all files that match the patterns, which are relative to the repository."""
    content = hashlib.sha256()
    for file in sorted(file for pattern in patterns for file in REPOSITORY.glob(pattern)):
        content.update(f"{file.relative_to(REPOSITORY)}\n".encode() + file.read_bytes())
    return content.hexdigest()


def outdated() -> str | None:
    """Returns a warning about programs that are older than their sources, as after a `git pull`.

    None if there is no such program. Also compiles Python's byte code again if it is old, because
    guests of the lab can't write files, and would compile it during each run.
    """
    if not SETUP.exists():
        return None  # ccmix is installed without sources
    fingerprints_file = Path(sys.prefix) / "built-from"
    built_from = (
        dict(line.split("\t") for line in fingerprints_file.read_text().splitlines())
        if fingerprints_file.exists()
        else {}
    )
    outdated_programs = [
        name for name, current in fingerprints().items() if built_from.get(name) != current
    ]
    if not compileall.compile_dir(HARNESS, quiet=2):
        outdated_programs.append("Python's byte code")
    if not outdated_programs:
        return None
    verb = "is" if len(outdated_programs) == 1 else "are"
    listed = ", ".join(outdated_programs)
    return f"{listed} {verb} older than the sources, so results may differ: run {SETUP}"


def main() -> None:
    """Prints a line for each program: its name, and the hash of its sources."""
    for name, fingerprint in fingerprints().items():
        print(f"{name}\t{fingerprint}")


if __name__ == "__main__":
    main()
