"""`ccmix version` prints the versions that results depend on; `ccmix cache` lists built programs.

These are the versions of ccmix, of the lab's kernel and userland, and of the programs. `ccmix cache
prune` removes builds from the cache, unless a process has locked them or a link leads to them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from ccmix import payload
from ccmix.cli import options, output
from ccmix.cli.output import put, tell
from ccmix.failures import located
from ccmix.payload import COMPLETE
from ccmix.tools import ToolError, cache_folder, find, named_kernels, unpinned
from ccmix.units import format_bytes
from ccmix.version import version as version_here

BUILD = "build.json"  # written by build scripts, next to the userland's root and the kernel
PRINTS_WITHIN_S = 60.0


# The programs with their descriptions, and the programs that print a version
PROGRAMS = {
    "ccmix-lab-kernel": "the lab's kernel",
    "ccmix-userland": "the lab's userland",
    "ccmix-confine": "ccmix-confine",
    "ccmix-iperf3": "the patched iperf3",
    "ccmix-sockmon": "ccmix-sockmon",
    "ccmix-capflow": "ccmix-capflow",
    "ccmix-rtt": "ccmix-rtt",
    "ccmix-cca": "ccmix-cca",
}
PRINT_VERSION = ("ccmix-lab-kernel", "ccmix-iperf3", "ccmix-capflow", "ccmix-cca")


@dataclass(frozen=True)
class ProgramVersion:
    """Describes one of ccmix's programs on this machine for `ccmix version`.

    If the program is missing, `missing` says what to do, and the other fields are None.
    """

    name: str
    version: str | None = None  # None: it prints no version
    sha256: str | None = None
    path: str | None = None
    missing: str | None = None
    warning: str | None = None  # says that it was not built from the pinned source


@click.command("version")
@options.form("table", "json")
@click.option(
    "--check",
    is_flag=True,
    help="Instead, compare all files that the package has unpacked with its hashes.",
)
def version(form: str, check: bool) -> None:
    """Print the version and commit of ccmix, and the hashes of kernel, userland and tools. Results
    depend on these.

    Two machines that print the same hashes give the same numbers in the lab. Missing programs are
    listed with the command that installs them; a missing program is not an error.

    With --check, ccmix reads all files that an installed package has unpacked. It names damaged
    files, unpacks them again, and ends with status 1.

    \b
    ccmix version
    ccmix version --check
    ccmix version --format json
    """
    if check:
        sys.exit(_repair_package())
    ccmix_version = version_here()
    programs = [_program_version(name, description) for name, description in PROGRAMS.items()]
    if form == "json":
        about = {
            "ccmix": ccmix_version.name,
            "commit": ccmix_version.commit,
            "python": platform.python_version(),
        }
        put(
            json.dumps(about | {"programs": [asdict(program) for program in programs]}, indent=2)
            + "\n"
        )
        return
    lines = [
        f"ccmix {ccmix_version.text}",
        *([f"  commit   {ccmix_version.commit}"] if ccmix_version.commit else []),
    ]
    put(
        "\n".join(
            [*lines, f"  Python   {platform.python_version()}", *map(_program_text, programs)]
        )
        + "\n"
    )


def _repair_package() -> int:
    """Compares all unpacked files of the package with its hashes; unpacks damaged parts again.

    Returns the exit status: 1 if a file was damaged. Raises PayloadError if unpacking fails.
    """
    damaged = [file for part in payload.parts() for file in payload.repaired(part, cache_folder())]
    for file in damaged:
        tell(f"{file}: differed from the package, and was unpacked again")
    if not damaged:
        count = sum(len(part.files) for part in payload.parts())
        put(
            f"{count} files are the same as in the package\n"
            if count
            else "nothing is unpacked: ccmix was not installed from a package\n"
        )
    return output.BAD if damaged else output.GOOD


def _program_version(name: str, description: str) -> ProgramVersion:
    """Looks for a program, and returns its version, hash and path, or how to install it.

    `description` names the program in the message, such as 'the patched iperf3'.
    """
    try:
        file = find(name, name.upper().replace("-", "_"), description)
    except ToolError as error:
        return ProgramVersion(name, missing=str(error))
    try:
        printed = _printed_version(file) if name in PRINT_VERSION else None
        return ProgramVersion(
            name, printed, _file_or_tree_sha256(file), str(file), warning=unpinned(file)
        )
    except OSError as error:
        return ProgramVersion(
            name, path=str(file), missing=f"{file} can't be read: {error.strerror}"
        )


def _printed_version(file: Path) -> str | None:
    """Returns the first line that the program prints for --version. Returns None if the program
    prints nothing, fails, or takes longer than PRINTS_WITHIN_S.
    """
    try:
        done = subprocess.run(
            [file, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=PRINTS_WITHIN_S,
        )
    except subprocess.SubprocessError:
        return None
    return next(iter(done.stdout.splitlines()), None)


def _file_or_tree_sha256(path: Path) -> str | None:
    """Returns the hash of a program's file. For a folder (the userland), returns the hash that its
    build noted in build.json, because hashing all of its files would be slow; None if there is
    none.
    """
    if path.is_dir():
        return _noted_sha256(path.parent / BUILD)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _noted_sha256(build: Path) -> str | None:
    """Returns the hash that a build script wrote into build.json; None if there is none."""
    try:
        build_notes = json.loads(build.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return (
        str(build_notes["sha256"])
        if isinstance(build_notes, dict) and "sha256" in build_notes
        else None
    )


def _program_text(program: ProgramVersion) -> str:
    """Returns the lines for a program: its name, and below it each known field, indented."""
    facts = {name: value for name, value in asdict(program).items() if value and name != "name"}
    return "\n".join([program.name, *(f"  {name:<8} {value}" for name, value in facts.items())])


# Folders of the cache with programs and files that runs need
FOR_RUNS = (
    "lab-kernel",
    "userland",
    "guest-code",
    "package",
    "iperf3",
    "sockmon",
    "capflow",
    "rtt",
    "confine",
    "cca",
)
# Folders of the cache that only builds and ccmix's own tests need
FOR_BUILDS = (
    "toolchain",
    "slurm",
    "docker",
    "wheels",
    "chroot",
    "elasticsearch",
    "emulator",
    "older-kernel",
    "plugin",
    "by-hash",  # files that an older ccmix sent to workers of a cluster
)
# Names in the cache: of a build (its key is the hash of its sources), of what only builds need, and
# of links and locks, which are not entries
KEY = re.compile(r"([a-z]+-)?[0-9a-f]{16}")
ONLY_BUILDS_NEED = re.compile(r"libbpf-.*|.*\.tree")
LINKS_AND_LOCKS = re.compile(r"named|keys|locks|lock|.*\.lock")
# An entry that changed within this time may be a build in progress, or may get a link soon
RECENT_S = 3600.0


@dataclass(frozen=True)
class CacheEntry:
    """Describes a file or folder in the cache; `used_by` says why it must stay, or is None."""

    path: Path
    kind: str  # `run`, or `build` if no run needs it
    size_bytes: int  # on the disk
    modified_s: float
    used_by: str | None


@click.group(
    "cache",
    invoke_without_command=True,
)
@click.pass_context
def cache(ctx: click.Context) -> None:
    """List the builds in the cache ($CCMIX_CACHE or ~/.cache/ccmix), and remove builds that are not
    in use.

    \b
    ccmix cache list               the same as `ccmix cache`
    ccmix cache prune --dry-run    list what would be removed
    ccmix cache prune
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(cache_list, form="table")


@cache.command("list", short_help="List kernels, userlands and programs: size, age and use.")
@options.form("table", "json")
def cache_list(form: str) -> None:
    """List the entries of the cache, each with its kind, size, age and use.

    The kind is "run", or "build" if only builds and ccmix's own tests need the entry. An entry is
    in use if a link or a variable of this installation or the name of a kernel leads to it, or if a
    process has locked it. "recent" means that it changed within the last hour.

    \b
    ccmix cache list
    ccmix cache list --format json
    """
    entries = _cache_entries(_resolved_cache_folder())
    if form == "json":
        put(
            json.dumps([{**vars(entry), "path": str(entry.path)} for entry in entries], indent=2)
            + "\n"
        )
    else:
        _print_entries(entries, f"in {_resolved_cache_folder()}")


@cache.command("prune", short_help="Remove entries that are not in use.")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option("--all", "everything", is_flag=True, help='Also remove the kind "build".')
def cache_prune(dry_run: bool, everything: bool) -> None:
    """Remove entries that are not in use and remains of killed builds, and list them.

    An entry is kept if a link or a variable of this installation or the name of a kernel leads to
    it, if a process has locked it, if it changed within the last hour, or if ccmix does not know
    it. Programs of another clone may be removed while that clone does not run: its next `make
    setup` builds them again.

    The exit status is 1 if something could not be removed.

    \b
    ccmix cache prune --dry-run
    ccmix cache prune
    ccmix cache prune --all
    rm ~/.cache/ccmix/lab-kernel/named/NAME    release a named kernel first
    """
    unused = [
        entry
        for entry in _cache_entries(_resolved_cache_folder())
        if not entry.used_by and (everything or entry.kind == "run")
    ]
    removed = unused if dry_run else [entry for entry in unused if _remove(entry.path)]
    _print_entries(removed, "would be removed" if dry_run else "removed")
    sys.exit(output.GOOD if len(removed) == len(unused) else output.BAD)


def _print_entries(entries: list[CacheEntry], summary: str) -> None:
    """Prints a line for each entry, and tells the user their number and size.

    `summary` ends that sentence, such as 'removed'.
    """
    for entry in entries:
        days = (time.time() - entry.modified_s) / 86400
        name = ascii(str(entry.path.relative_to(_resolved_cache_folder())))[1:-1]
        put(
            f"{entry.kind:5}  {format_bytes(entry.size_bytes):>9}  {days:5.1f} d  "
            f"{entry.used_by or '':18}  {name}\n"
        )
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    tell(f"{count}, {format_bytes(sum(entry.size_bytes for entry in entries))} {summary}")


def _resolved_cache_folder() -> Path:
    return Path(os.path.realpath(cache_folder()))


def _cache_entries(folder: Path) -> list[CacheEntry]:
    """Returns the entries of the cache that ccmix knows, without following links.

    Code for guests is inside a userland but is an entry of its own; it comes before that userland,
    so that it is removed first.
    """
    links = _linked_entries(folder)
    paths = [*sorted(folder.glob("userland/*/guest-code/*")), *sorted(folder.glob("*/*"))]
    return [
        _entry(path, kind, links)
        for path in paths
        if path.resolve() == path and (kind := _kind(path))
    ]


def _kind(path: Path) -> str | None:
    """Returns 'run' for a cache entry that runs may need, 'build' if only builds need it.

    Returns None for locks, links and entries that ccmix does not know, which are never removed.
    """
    folder_name, name = path.parent.name, path.name
    if folder_name not in FOR_RUNS + FOR_BUILDS or LINKS_AND_LOCKS.fullmatch(name):
        return None
    if folder_name in FOR_BUILDS or ONLY_BUILDS_NEED.fullmatch(name):
        return "build"
    return "run" if KEY.match(name) or name.startswith("build.") else None


def _entry(path: Path, kind: str, links: dict[Path, str]) -> CacheEntry:
    """Measures a cache entry with du, and finds out whether it is in use.

    `links` is the result of _linked_entries(): the entries that this installation uses, with the
    reasons. An entry is also in use if it changed lately or a process has locked it.
    """
    du = ["du", "--summarize", "--block-size=1", "--exclude=guest-code", "--", str(path)]
    size_bytes = int(
        subprocess.run(du, capture_output=True, text=True, check=False).stdout.partition("\t")[0]
        or 0
    )
    modified_s = path.stat().st_mtime
    used_by = links.get(path) or ("recent" if time.time() - modified_s < RECENT_S else None)
    try:
        with _locked(path):
            pass
    except OSError:
        used_by = used_by or "locked"
    return CacheEntry(path, kind, size_bytes, modified_s, used_by)


def _linked_entries(folder: Path) -> dict[Path, str]:
    """Returns the cache entries that this installation uses, each with the reason for people.

    A link in bin/ or a variable CCMIX_... leads to the entry (the reason is its name), or the entry
    is a named kernel ('kernel NAME') or belongs to the installed package. `folder` is the cache.
    """
    targets = [(part.folder(folder), "this package") for part in payload.parts()]
    targets += [(kernel, f"kernel {name}") for name, kernel in named_kernels().items()]
    targets += [(link.resolve(), link.name) for link in Path(sys.prefix, "bin").iterdir()]
    targets += [
        (Path(value).resolve(), name)
        for name, value in os.environ.items()
        if name.startswith("CCMIX_")
    ]
    inside_cache = [
        (target.relative_to(folder), reason)
        for target, reason in targets
        if target.is_relative_to(folder)
    ]
    return {folder.joinpath(*target.parts[:2]): reason for target, reason in inside_cache}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Locks a cache entry in this context against builders and users, so that it can be removed.

    Takes all locks that build scripts and running processes use. Raises OSError if one is taken.
    """
    key = KEY.match(path.name)
    locks = [
        path.parent,
        path.parent / "lock",
        path.with_name(f"{key[0] if key else ''}.lock"),
        path,
        path / COMPLETE,
    ]
    with contextlib.ExitStack() as open_locks:
        for lock in locks:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                open_locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _remove(path: Path) -> bool:
    """Removes a cache entry; returns whether that worked, and otherwise tells the user why not.

    Renames the entry first, so that nobody takes a half-removed entry for a complete one.
    """
    renamed = path.with_name(f"{path.name}.removed-{os.getpid()}")
    try:
        with _locked(path):
            path.rename(renamed)
        if renamed.is_dir():
            shutil.rmtree(renamed)
        else:
            renamed.unlink()
    except OSError as error:
        tell(located(error, path))
        return False
    return True
