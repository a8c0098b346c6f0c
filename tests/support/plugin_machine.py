"""A Debian on which tests install and remove the plugin's package, with STAND-INS for pScheduler's
packages.

dpkg is real. The stand-ins are pscheduler-server, whose trigger makes the warm boot of
tests/containers/testpoint-stand-in/pscheduler, pscheduler-test-throughput, which is empty, and a
stock tool iperf3.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.commands import REPOSITORY
from support.plugin_runner import TOOL

PACKAGE = "pscheduler-tool-iperf3mix"
STAND_IN = REPOSITORY / "tests/containers/testpoint-stand-in/pscheduler"
STOCK_TOOL = "usr/lib/pscheduler/classes/tool/iperf3"
# Nothing that keeps Python from writing byte code
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}
# As pScheduler's own: a warm boot that fails doesn't fail the trigger
POSTINST = (
    '#!/bin/sh\nset -e\n[ "$1" != triggered ] || "${DPKG_ROOT:-}/usr/bin/pscheduler" '
    "internal warmboot || true\n"
)
# What 1.0 had instead of today's scripts
POSTINST_OF_1_0 = (
    f'#!/bin/sh\nset -e\n[ "$1" != configure ] || "${{DPKG_ROOT:-}}/{TOOL}/allow-ccas" || true\n'
)


@dataclass(frozen=True)
class Machine:
    """Is the root folder of a Debian, in which commands run: by chroot, or with their DPKG_ROOT."""

    root: Path
    chroot: bool

    def dpkg(self, *arguments: str | Path) -> None:
        """Calls dpkg, whose files are copied to the machine before."""
        words = [
            self._copied(argument) if isinstance(argument, Path) else argument
            for argument in arguments
        ]
        # Without a chroot, the root has neither a libc nor a python3 that could be depended on
        chrootless = ["dpkg", f"--root={self.root}", "--force-script-chrootless", "--force-depends"]
        self._run([*(["dpkg"] if self.chroot else chrootless), *words]).check_returncode()

    def warmboot(self) -> subprocess.CompletedProcess[str]:
        return self._run([self._inside("usr/bin/pscheduler"), "internal", "warmboot"])

    def registered(self) -> set[str]:
        """Returns the names of the tools that pScheduler has."""
        return {file.stem for file in (self.root / "var/lib/pscheduler-stand-in").iterdir()}

    def call(self, script: str) -> subprocess.CompletedProcess[str]:
        """Calls a script of the tool as root, without input."""
        # A wrong file, since a test must not allow CCAs on the machine that it runs on
        conf = self.root / "wrong.conf"
        conf.write_text("[wrong]\n")
        return self._run(
            [self._inside(f"{TOOL}/{script}")], {"IPERF3MIX_CONF": self._inside("wrong.conf")}
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return self._run(list(argv))

    def files(self) -> set[str]:
        """Returns the files of the package, and other files in its folders, on the machine."""
        return {
            str(file.relative_to(self.root))
            for file in self.root.rglob("*")
            if "iperf3mix" in str(file.relative_to(self.root)) and file.suffix != ".deb"
            if not file.is_relative_to(self.root / "var/lib/dpkg")
        }

    def byte_code(self) -> set[Path]:
        return set((self.root / TOOL).rglob("__pycache__"))

    def _copied(self, file: Path) -> str:
        shutil.copy(file, self.root / file.name)
        return self._inside(file.name)

    def _inside(self, path: str) -> str:
        return f"/{path}" if self.chroot else str(self.root / path)

    def _run(
        self, argv: list[str], more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = ENVIRONMENT | (more or {})
        if self.chroot:
            argv = ["chroot", str(self.root), *argv]
        else:
            environment |= {"DPKG_ROOT": str(self.root)}
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.args, done.stdout, done.stderr)
        return done


def empty_machine(root: Path) -> Machine:
    """Returns a machine with only dpkg's own files."""
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "usr/bin"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    return Machine(root, chroot=False)


def own_suite() -> str:
    """Returns the name of this machine's suite of Debian."""
    return dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines())[
        "VERSION_CODENAME"
    ]


@contextmanager
def debian_machine(root: Path, suite: str, *more: str) -> Iterator[Machine]:
    """Yields a chroot with a suite of Debian and more packages, which debootstrap makes once for
    the cache.
    """
    cache = Path(os.environ.get("CCMIX_CACHE") or Path.home() / ".cache/ccmix") / "chroot"
    packages = ("python3-venv", *more)
    kept = cache / f"{'-'.join((suite, *packages))}.tar"
    root.mkdir()
    if kept.exists():
        subprocess.run(["tar", "-C", root, "-xf", kept], check=True)
    else:
        mirror = subprocess.run(
            [REPOSITORY / "tools/debian-mirror"], check=True, stdout=subprocess.PIPE, text=True
        )
        options = ["--variant=minbase", f"--include=python3,{','.join(packages)}"]
        subprocess.run(["debootstrap", *options, suite, root, mirror.stdout.strip()], check=True)
        cache.mkdir(exist_ok=True)
        left_out = ["--exclude=./dev/*", "--exclude=./var/cache/apt/*"]
        subprocess.run(["tar", "-C", root, *left_out, "-cf", f"{kept}.new", "."], check=True)
        Path(f"{kept}.new").replace(kept)
    try:
        yield Machine(root, chroot=True)
    finally:
        shutil.rmtree(root)


def with_pscheduler(machine: Machine, work: Path) -> Machine:
    """Installs the stand-ins for pScheduler."""
    server, test = work / "server", work / "throughput"
    (server / STOCK_TOOL).mkdir(parents=True)
    (server / STOCK_TOOL / "enumerate").write_text("#!/bin/sh\necho '{}'\n")
    (server / "usr/bin").mkdir(parents=True)
    shutil.copy(STAND_IN, server / "usr/bin/pscheduler")
    for program in (server / STOCK_TOOL / "enumerate", server / "usr/bin/pscheduler"):
        program.chmod(0o755)
    triggers = {"triggers": "interest-noawait pscheduler-warmboot\n", "postinst": POSTINST}
    for folder, name, files in ((server, "server", triggers), (test, "test-throughput", {})):
        control = (
            f"Package: pscheduler-{name}\nVersion: 5.2.5\nArchitecture: all\nMaintainer: tests "
            "<tests@localhost>\n"
            "Description: stand-in\n"
        )
        machine.dpkg("--install", _built(folder, {"control": control} | files))
    return machine


def package_1_0(deb: Path, work: Path) -> Path:
    """Returns a STAND-IN for the package of version 1.0, made of today's: what let Python leave
    byte code.
    """
    folder = work / "former"
    subprocess.run(["dpkg-deb", "-R", deb, folder], check=True)
    for script in (folder / TOOL).iterdir():
        if script.is_file():
            script.write_text(
                script.read_text().replace("#!/usr/bin/python3 -B", "#!/usr/bin/python3")
            )
    control = (folder / "DEBIAN/control").read_text()
    lines = [
        "Version: 1.0" if line.startswith("Version:") else line for line in control.splitlines()
    ]
    for name in ("prerm", "postrm"):
        (folder / "DEBIAN" / name).unlink()
    return _built(folder, {"control": "\n".join(lines) + "\n", "postinst": POSTINST_OF_1_0})


def _built(folder: Path, files: dict[str, str]) -> Path:
    """Returns the package of a folder, with these files of its control folder."""
    (folder / "DEBIAN").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / "DEBIAN" / name).write_text(text)
        (folder / "DEBIAN" / name).chmod(0o755 if text.startswith("#!") else 0o644)
    deb = folder.with_suffix(".deb")
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", folder, deb],
        check=True,
        capture_output=True,
    )
    return deb
