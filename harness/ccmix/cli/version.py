"""`ccmix version`: prints what results depend on: ccmix, the lab's kernel and userland, and the programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from ccmix.cli import options, status
from ccmix.cli.output import put, tell

BUILD = "build.json"  # beside the userland's root and the kernel, by their build scripts
PRINTS_WITHIN_S = 60.0


@dataclass(frozen=True)
class KnownProgram:
    """Names a program, and says whether it prints its version."""

    name: str
    variable: str
    what: str
    prints_version: bool = True


PROGRAMS = (
    KnownProgram("ccmix-lab-kernel", "CCMIX_LAB_KERNEL", "the lab's kernel"),
    KnownProgram("ccmix-userland", "CCMIX_USERLAND", "the lab's userland", prints_version=False),
    KnownProgram("ccmix-confine", "CCMIX_CONFINE", "ccmix-confine", prints_version=False),
    KnownProgram("ccmix-iperf3", "CCMIX_IPERF3", "the patched iperf3"),
    KnownProgram("ccmix-sockmon", "CCMIX_SOCKMON", "ccmix-sockmon", prints_version=False),
    KnownProgram("ccmix-capflow", "CCMIX_CAPFLOW", "ccmix-capflow"),
    KnownProgram("ccmix-rtt", "CCMIX_RTT", "ccmix-rtt", prints_version=False),
    KnownProgram("ccmix-cca", "CCMIX_CCA", "ccmix-cca"),
)


@dataclass(frozen=True)
class Found:
    """Describes a program that was looked for; `missing` says what to do where it is not there."""

    name: str
    version: str | None = None  # None: it prints none
    sha256: str | None = None
    path: str | None = None
    missing: str | None = None
    warning: str | None = None  # that it was not built from the pinned source


@click.command("version", short_help="Print the versions and hashes of ccmix, the kernel and the tools.")
@options.form("table", "json")
@click.option("--check", is_flag=True, help="Compare all files that the package has unpacked with its hashes instead.")
def version(form: str, check: bool) -> None:
    """Print what results depend on: the version and commit of ccmix, and the hashes of kernel, userland and tools.

    Two machines that print the same hashes give the same numbers in the lab. What is not installed is listed as
    missing, with what installs it; that is no error.

    With --check it reads all that an installed package has unpacked. It names files that are damaged, which are then
    unpacked again, and ends with status 1.

    \b
    ccmix version
    ccmix version --check
    ccmix version --format json
    """
    import platform

    from ccmix.version import version as version_here

    if check:
        sys.exit(_check())
    own = version_here()
    found = [_found(program) for program in PROGRAMS]
    if form == "json":
        about = {"ccmix": own.name, "commit": own.commit, "python": platform.python_version()}
        put(json.dumps(about | {"programs": [asdict(program) for program in found]}, indent=2) + "\n")
        return
    lines = [f"ccmix {own.name}", *([f"  commit   {own.commit}"] if own.commit else [])]
    put("\n".join([*lines, f"  Python   {platform.python_version()}", *map(_text, found)]) + "\n")


def _check() -> int:
    """Returns the exit status. Raises PayloadError if the package's programs can't be unpacked."""
    from ccmix import payload
    from ccmix.tools import cache_folder

    damaged = [file for part in payload.parts() for file in payload.mended(part, cache_folder())]
    for file in damaged:
        tell(f"{file}: was not as in the package, and was unpacked again")
    if not damaged:
        count = sum(len(part.files) for part in payload.parts())
        put(
            f"{count} files are as in the package\n" if count else "nothing is unpacked: this is no installed package\n"
        )
    return status.BAD if damaged else status.GOOD


def _found(program: KnownProgram) -> Found:
    from ccmix.tools import ToolError, find, unpinned

    try:
        file = find(program.name, program.variable, program.what)
    except ToolError as error:
        return Found(program.name, missing=str(error))
    try:
        printed = _printed_version(file) if program.prints_version else None
        return Found(program.name, printed, _sha256(file), str(file), warning=unpinned(file))
    except OSError as error:
        return Found(program.name, path=str(file), missing=f"{file} can't be read: {error.strerror}")


def _printed_version(file: Path) -> str | None:
    """Returns the first line that the program prints of itself; None if it prints none."""
    import subprocess

    try:
        done = subprocess.run(
            [file, "--version"], capture_output=True, text=True, errors="replace", check=True, timeout=PRINTS_WITHIN_S
        )
    except subprocess.SubprocessError:
        return None
    return next(iter(done.stdout.splitlines()), None)


def _sha256(path: Path) -> str | None:
    """Returns the hash of a file; of a folder, the one that its build noted of the whole tree, None without a note."""
    import hashlib

    if path.is_dir():
        return _noted(path.parent / BUILD)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _noted(build: Path) -> str | None:
    try:
        noted = json.loads(build.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(noted["sha256"]) if isinstance(noted, dict) and "sha256" in noted else None


def _text(found: Found) -> str:
    facts = {"version": found.version, "sha256": found.sha256, "path": found.path, "missing": found.missing,
             "warning": found.warning}  # fmt: skip
    return "\n".join([found.name, *(f"  {name:<8} {value}" for name, value in facts.items() if value)])
