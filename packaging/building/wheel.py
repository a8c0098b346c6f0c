"""Builds the wheel: the harness of a commit, and the archives of the bundled parts."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from archives import Archive, write_all
from programs import KERNEL, REPOSITORY, USERLAND, BuildError, Built, copy_program

from ccmix import version
from ccmix.isolated import module_command

TAG = "manylinux_2_17_x86_64"
"""The oldest tag that every installer for Python 3.11 knows; static programs satisfy it."""
LICENSE = 'license = "Apache-2.0"'
WHOLE_LICENSE = (
    'license = "Apache-2.0 AND BSD-3-Clause AND GPL-2.0-only AND LicenseRef-Third-Party"'
)
MOST_BYTES = 60_000_000


def build_wheel(built: Built, source: Path, extra: dict[str, str], to: Path, epoch: int) -> Path:
    """Returns the wheel of the sources in the folder `source`, in the folder `to`.

    `extra` has texts, by their names, for the folder of the archives. Raises BuildError if the
    wheel is larger than MOST_BYTES.
    """
    programs = source / "harness/ccmix/programs"
    with tempfile.TemporaryDirectory() as work:
        write_all(collected(built, source / "harness", Path(work)), programs)
    for name, text in extra.items():
        (programs / name).write_text(text, encoding="utf-8")
    (source / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {TAG}\n", encoding="ascii")
    project = source / "pyproject.toml"
    project.write_text(
        project.read_text(encoding="utf-8").replace(LICENSE, WHOLE_LICENSE), encoding="utf-8"
    )
    pip = [
        sys.executable,
        "-I",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
    ]
    with tempfile.TemporaryDirectory() as folder:
        argv = [*pip, "--no-build-isolation", "--no-cache-dir", "--wheel-dir", folder, str(source)]
        variables = {"SOURCE_DATE_EPOCH": str(epoch), version.BUILD_VARIABLE: version.of_sources()}
        subprocess.run(argv, check=True, env=os.environ | variables)
        (made,) = Path(folder).iterdir()
        wheel = to / made.name
        wheel.write_bytes(made.read_bytes())
    if wheel.stat().st_size > MOST_BYTES:
        raise BuildError(
            f"{wheel} has {wheel.stat().st_size} bytes, more than the limit of {MOST_BYTES}"
        )
    return wheel


def collected(built: Built, harness: Path, work: Path) -> list[Archive]:
    """Returns the bundled files in two parts, because runs between hosts don't need the lab.

    `harness` is the folder of the wheel's package ccmix.
    """
    tools, lab = Archive("tools", work / "tools"), Archive("lab", work / "lab")
    for name, program in built.programs.items():
        if name != KERNEL:
            copy_program(program, tools.folder / "bin" / name)
            tools.programs[name] = f"bin/{name}"
    lab.programs[KERNEL] = "kernel/linux"
    (lab.folder / "kernel").mkdir(parents=True)
    for file in (built.kernel, built.kernel.parent / "build.json"):
        shutil.copy(file, lab.folder / "kernel" / file.name)
    root = copy_userland(built.userland, lab.folder / "userland")
    lab.programs[USERLAND] = f"userland/{root.name}"
    add_guest_code(root, tools.folder / "bin", harness)
    return [tools, lab]


def copy_userland(root: Path, to: Path) -> Path:
    """Copies a userland and its identity, without the terms and without files that runs have put
    next to it.

    Returns the root of the copy.
    """
    to.mkdir()
    subprocess.run(["cp", "-a", root, root.parent / "build.json", to], check=True)
    return to / root.name


def add_guest_code(userland: Path, programs: Path, harness: Path) -> None:
    """Makes, next to a userland, the folder that a first run would make: the harness, compiled for
    guests, and their programs.

    `programs` is a folder with the exact files that will be installed, because the name of the
    guest's folder is a hash of their content.
    """
    variables = {
        "CCMIX_USERLAND": str(userland),
        **{
            f"CCMIX_{name.upper()}": str(programs / f"ccmix-{name}")
            for name in ("iperf3", "sockmon", "rtt")
        },
    }
    argv = module_command("ccmix.lab.guest_code", folder=str(harness))
    argv[1:1] = ["-B"]
    made = subprocess.run(
        argv, env=os.environ | variables, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    if Path(made.strip()).parent.parent != userland.parent:
        raise BuildError(f"the guest's code is at {made.strip()}, not next to {userland}")


def export(tree: str, to: Path) -> None:
    """Writes the files of a git tree into a new folder, readable by everybody whatever the umask
    is.
    """
    to.mkdir()
    archive = subprocess.run(
        ["git", "-C", REPOSITORY, "archive", tree], stdout=subprocess.PIPE, check=True
    ).stdout
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            for member in tar:
                member.mode = 0o755 if member.mode & 0o100 else 0o644
                tar.extract(member, to)
