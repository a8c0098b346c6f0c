"""Builds the Debian packages of ccmix, which install a Python environment in /opt/ccmix for the
Python of a Debian release.

The installation compiles and fetches nothing. Debian 12 and 13 have different Pythons, and packages
compiled for one (NumPy, SciPy, Polars) don't run on the other, so each has its own package of
ccmix.
"""

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import python_packages
from notices import PYTHON_HEAD, third_party
from programs import KERNEL, REPOSITORY, USERLAND, Built, copy_program
from wheel import add_guest_code, copy_userland

from ccmix.isolated import module_command, python_command

PREFIX = "opt/ccmix"
CONTROL = REPOSITORY / "packaging/debian"
COMPLETIONS = {
    "bash": "bash-completion/completions/ccmix",
    "zsh": "zsh/vendor-completions/_ccmix",
    "fish": "fish/vendor_completions.d/ccmix.fish",
}
RUN = "from ccmix.cli import main; main()"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


@dataclass(frozen=True)
class Release:
    """Names a release of Debian and its Python."""

    suite: str
    number: int
    python: str  # 3.x

    @property
    def tag(self) -> str:
        """Returns pip's name of this Python."""
        return self.python.replace(".", "")


RELEASES = (Release("bookworm", 12, "3.11"), Release("trixie", 13, "3.13"))


def wheels_for(release: Release, cache: Path) -> Path:
    """Returns the folder with the locked dependencies for a release's Python, which are fetched
    once and checked by hashes.
    """
    folder = cache / "wheels" / f"cp{release.tag}"
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            sys.executable,
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--implementation",
            "cp",
            "--python-version",
            release.python,
            *platforms,
            "--find-links",
            folder,
            "--requirement",
            REPOSITORY / "requirements" / "run.txt",
            "--dest",
            folder,
        ],
        check=True,
    )
    return folder


def build_deb(
    wheel: Path, built: Built, release: Release, wheels: Path, work: Path, to: Path, epoch: int
) -> Path:
    """Returns the package for a release in the folder `to`; `wheels` has the dependencies.

    zstd gives 135 MB in 10 s of processor time, whereas xz gives 109 MB in six minutes. zstd also
    unpacks in a seventh of the time, and dpkg knows it from Debian 12 on.
    """
    root = work / f"deb-{release.number}"
    environment = root / PREFIX
    packages = environment / f"lib/python{release.python}/site-packages"
    _environment(environment, release)
    for file in _needed(wheels):
        _unpack(file, packages)
    subprocess.run([REPOSITORY / "tools/slim-packages", packages], check=True)
    _unpack(wheel, packages)
    _bring(built, packages, environment)
    version = f"{wheel.name.split('-')[1]}+deb{release.number}"
    _place(root, release)
    _control(root, version, release)
    _settle(root, epoch)
    name = f"ccmix_{version}_amd64.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--build", root, to / name],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
    )
    return to / name


def _needed(wheels: Path) -> list[Path]:
    """Returns the wheels that a run needs, without those that only build packages."""
    return sorted(file for file in wheels.glob("*.whl") if not file.name.startswith("setuptools-"))


def _environment(folder: Path, release: Release) -> None:
    """Makes the same files as `python3 -m venv`, for a Python that this machine need not have."""
    (folder / "bin").mkdir(parents=True)
    python = f"/usr/bin/python{release.python}"
    (folder / "pyvenv.cfg").write_text(
        "home = /usr/bin\ninclude-system-site-packages = false\nversion = "
        f"{release.python}\nexecutable = {python}\n",
        encoding="ascii",
    )
    (folder / "bin/python").symlink_to(python)
    command = folder / "bin/ccmix"
    command.write_text(f"#!/{PREFIX}/bin/python -I\n{RUN}\n", encoding="ascii")
    command.chmod(0o755)


def _unpack(wheel: Path, packages: Path) -> None:
    """Unpacks a wheel as pip does, without its scripts and data, which nothing uses."""
    with zipfile.ZipFile(wheel) as content:
        for member in content.infolist():
            if ".data/" in member.filename.partition("/")[0] + "/":
                continue
            target = Path(content.extract(member, packages))
            if target.is_file():
                target.chmod(0o755 if member.external_attr >> 16 & 0o111 else 0o644)


def _bring(built: Built, packages: Path, environment: Path) -> None:
    """Puts the programs into Python's folder, where ccmix looks first. So users don't have to
    unpack archives.
    """
    (environment / "kernel").mkdir()
    for file in (packages / "ccmix/programs").iterdir():
        if file.suffix in (".gz", ".json"):
            file.unlink()
    for name, program in built.programs.items():
        if name != KERNEL:
            copy_program(program, environment / "bin" / name)
    for file in (built.kernel, built.kernel.parent / "build.json"):
        shutil.copy(file, environment / "kernel" / file.name)
    (environment / "bin" / KERNEL).symlink_to("../kernel/linux")
    userland = copy_userland(built.userland, environment / "userland")
    (environment / "bin" / USERLAND).symlink_to(f"../userland/{userland.name}")
    add_guest_code(userland, environment / "bin", packages)


def _place(root: Path, release: Release) -> None:
    """Installs the files outside of /opt/ccmix."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/ccmix").symlink_to(f"/{PREFIX}/bin/ccmix")
    systemd = REPOSITORY / "packaging/systemd"
    for unit in ("ccmix@.service", "ccmix@.timer"):
        _copy(systemd / unit, root / "usr/lib/systemd/system" / unit)
    # Not in systemd's own folder, where the plugin's package has a unit of this name
    cca = _copy(
        systemd / "ccmix-cca@.service", root / PREFIX / "lib/systemd/system/ccmix-cca@.service"
    )
    cca.write_text(
        cca.read_text().replace("/usr/sbin/ccmix-cca", f"/{PREFIX}/bin/ccmix-cca"), encoding="utf-8"
    )
    docs = root / "usr/share/doc/ccmix"
    for page in ("run-in-containers.md", "try-bbr3-on-a-dtn.md"):
        _copy(REPOSITORY / "docs/howto" / page, docs / page)
    packages = root / PREFIX / f"lib/python{release.python}/site-packages"
    _add_manual(root / "usr/share", packages)
    texts = [
        (REPOSITORY / "LICENSE").read_text(encoding="utf-8"),
        (packages / "ccmix/programs/THIRD-PARTY.txt").read_text(encoding="utf-8"),
        third_party(python_packages.within(packages), PYTHON_HEAD),
    ]
    (docs / "copyright").write_text("\n\n".join(texts), encoding="utf-8")


def _add_manual(share: Path, packages: Path) -> None:
    """Writes the man page with this clone's ccmix, and the completions with the package's.

    The man page needs libraries for this Python; the package has those for the release's Python.
    """
    page = share / "man/man1/ccmix.1.gz"
    page.parent.mkdir(parents=True)
    page.write_bytes(
        gzip.compress(_printed(module_command("ccmix.cli.man_page", site=True)), 9, mtime=0)
    )
    for shell, place in COMPLETIONS.items():
        file = share / place
        file.parent.mkdir(parents=True)
        completion = python_command(
            RUN, "completion", shell, python=sys.executable, folder=str(packages)
        )
        file.write_bytes(_printed(completion))


def _printed(argv: list[str]) -> bytes:
    argv[1:1] = ["-B"]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout


def _control(root: Path, version: str, release: Release) -> None:
    """Writes the package's control files."""
    size = (
        sum(
            file.lstat().st_size
            for file in root.rglob("*")
            if file.is_file() and not file.is_symlink()
        )
        >> 10
    )
    values = {
        "VERSION": version,
        "SIZE": str(size),
        "PYTHON": release.python,
        "RELEASE": str(release.number),
    }
    control = (CONTROL / "control.in").read_text(encoding="utf-8")
    for name, value in values.items():
        control = control.replace(f"@{name}@", value)
    folder = root / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(control, encoding="utf-8")
    for script in ("postinst", "prerm"):
        _copy(CONTROL / script, folder / script).chmod(0o755)


def _settle(root: Path, epoch: int) -> None:
    """Sets the time of files, except older ones, to a fixed value, so that the same content gives
    the same package.
    """
    for path in root.rglob("*"):
        if path.lstat().st_mtime > epoch:
            os.utime(path, (epoch, epoch), follow_symlinks=False)


def _copy(file: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    return to
