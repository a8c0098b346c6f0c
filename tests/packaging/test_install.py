"""Tests the installation of the wheel and of the Debian package in chroots with Debian 12 and 13,
without gcc and without a network.

An ordinary user installs the wheel, with its dependencies from a folder, and gets the same results
as this clone, byte for byte.
"""

import gzip
import hashlib
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from ccmix.version import version
from support import sensitive_runs
from support.commands import CCMIX, REPOSITORY, Ccmix, long, run_program
from support.plugin_machine import Machine, debian_machine
from support.python_wheels import builder, wheels_for
from support.repeated_runs import same_bytes

USER = "newcomer"
HOME = f"home/{USER}"
IN_CHROOT = Path(__file__).parent / "in_chroot.py"
INSTALL = (
    "python3 -m venv ~/v && "
    "~/v/bin/pip install --quiet --no-compile --no-index --find-links /dependencies --find-links "
    "/wheel ccmix"
)
EPOCH = 1_800_000_000
DEMO = "demo --quick -o results/quick"
STATEMENT = "fair-at-300-ms"  # of dai-fig1, whose runs take a second

DEVICES = "import socket; print([name for _, name in socket.if_nameindex()])"
PROGRAM = "lab exec --host-root -- ccmix-iperf3 --version"

pytestmark = [
    pytest.mark.root,
    pytest.mark.deep,
    pytest.mark.timeout(3000),
]  # the first ones make chroots


@dataclass(frozen=True)
class Newcomer:
    """Acts as an ordinary user of a Debian without a compiler and without a network."""

    machine: Machine
    folders: dict[Path, str]

    def __call__(self, script: str) -> str:
        """Returns the output of a script in the user's home; it must succeed."""
        pairs = ",".join(f"{outside}:{inside}" for outside, inside in self.folders.items())
        argv = [
            "unshare",
            "--net",
            "--mount",
            sys.executable,
            IN_CHROOT,
            self.machine.root,
            USER,
            pairs,
        ]
        done = run_program([*argv, "sh", "-ec", f"cd; {script}"], stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done
        return done.stdout

    @property
    def home(self) -> Path:
        return self.machine.root / HOME

    def files(self, *folders: str) -> set[Path]:
        return {file for folder in folders for file in (self.home / folder).rglob("*")}


@pytest.fixture(params=[long("bookworm"), "trixie"])
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def building() -> ModuleType:
    return builder()


@pytest.fixture
def package(suite: str, building: ModuleType, wheel: Path, tmp_path: Path) -> Path:
    """Returns the Debian package for the suite, with the wheel's harness."""
    [release] = (each for each in building.RELEASES if each.suite == suite)
    programs = sys.modules["programs"]
    dependencies = building.wheels_for(release, programs.cache_folder())
    (tmp_path / "debs").mkdir()
    deb: Path = building.build_deb(
        wheel,
        programs.build_all(),
        release,
        dependencies,
        tmp_path / "work",
        tmp_path / "debs",
        EPOCH,
    )
    return deb


@pytest.fixture
def newcomer(suite: str, building: ModuleType, wheel: Path, tmp_path: Path) -> Iterator[Newcomer]:
    with debian_machine(tmp_path / "root", suite) as machine:
        machine.run("useradd", "--create-home", USER).check_returncode()
        dependencies = wheels_for(machine, building)
        folders = {
            dependencies: "/dependencies",
            wheel.parent: "/wheel",
            REPOSITORY / "archive": "/archive",
        }
        yield Newcomer(machine, folders)


@pytest.fixture(scope="module")
def of_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the same campaign of this clone."""
    folder = tmp_path_factory.mktemp("clone")
    done = Ccmix(folder)(*DEMO.split()[:-1], folder / "quick")
    assert done.returncode == 0, done
    return folder / "quick"


@pytest.fixture(scope="module")
def sensitive_of_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the sensitive runs of this clone."""
    folder = tmp_path_factory.mktemp("sensitive")
    sensitive_runs.write_files(folder)
    subprocess.run(["sh", "-ec", sensitive_runs.commands(CCMIX)], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    "suite",
    [
        long("bookworm"),
        "trixie",
        long("sid"),
    ],
    indirect=True,
)
def test_the_wheel(
    newcomer: Newcomer,
    wheel: Path,
    of_clone: Path,
    sensitive_of_clone: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert newcomer("command -v gcc cc make git || echo none") == "none\n"
    assert newcomer(f"python3 -c '{DEVICES}'") == "['lo']\n"
    begin = time.monotonic()
    newcomer(INSTALL)
    installed = time.monotonic()
    assert not (newcomer.home / ".cache/ccmix").exists()
    newcomer(f"~/v/bin/ccmix {DEMO}")
    with capsys.disabled():
        print(
            f"\ninstalled in {installed - begin:.1f} s, first result after "
            f"{time.monotonic() - installed:.1f} s"
        )
    same_bytes(newcomer.home / "results/quick", of_clone)
    sensitive_runs.write_files(newcomer.home)
    newcomer(sensitive_runs.commands("~/v/bin/ccmix"))
    for name in sensitive_runs.NAMES:
        same_bytes(newcomer.home / name, sensitive_of_clone / name)
    with zipfile.ZipFile(wheel) as packed:
        manifest = hashlib.sha256(packed.read("ccmix/programs/manifest.json")).hexdigest()
    made = (
        json.loads(file.read_text()) for file in (newcomer.home / "results/quick").rglob("run.json")
    )
    assert {run["execution"]["package"] for run in made} == {manifest}
    code = [file for file in newcomer.files(".cache/ccmix") if file.parent.name == "guest-code"]
    assert len(code) == 1  # the wheel's own: the first run has made none
    assert "2 of 2 runs gave the same bytes" in newcomer(
        "~/v/bin/ccmix verify /archive/demo.zip --sample 2"
    )
    assert "+ccmix" in newcomer(f"~/v/bin/ccmix {PROGRAM}")
    assert "\ndai-fig1 " in newcomer("~/v/bin/ccmix reproduce")
    assert f"\n{STATEMENT}: holds" in newcomer(
        f"~/v/bin/ccmix reproduce dai-fig1 --statement {STATEMENT}"
    )
    kept = newcomer.files("results", ".cache/ccmix")
    newcomer("~/v/bin/pip uninstall --quiet --yes ccmix")
    assert newcomer("test -e ~/v/bin/ccmix || echo gone") == "gone\n"
    assert newcomer.files("results", ".cache/ccmix") == kept


def test_the_debian_package(suite: str, package: Path, of_clone: Path, tmp_path: Path) -> None:
    with debian_machine(tmp_path / "root", suite, "iproute2") as machine:
        machine.run("useradd", "--create-home", USER).check_returncode()
        newcomer = Newcomer(machine, {})
        before = files_of(machine)
        machine.dpkg("--install", package)
        name = json.loads(newcomer("ccmix version --format json"))["ccmix"]
        assert name == package.name.split("_")[1].partition("+deb")[0]
        assert newcomer("ccmix --version") == f"ccmix {version().text}\n"
        newcomer(f"ccmix {DEMO}")
        same_bytes(newcomer.home / "results/quick", of_clone)
        assert "+ccmix" in newcomer(f"ccmix {PROGRAM}")
        assert not newcomer.files(".cache/ccmix")  # all is in the package
        assert (
            r"\-\-quick"
            in gzip.decompress(
                (machine.root / "usr/share/man/man1/ccmix.1.gz").read_bytes()
            ).decode()
        )
        assert (
            "_CCMIX_COMPLETE"
            in (machine.root / "usr/share/bash-completion/completions/ccmix").read_text()
        )
        assert (
            "\njinja2 " in (machine.root / "usr/share/doc/ccmix/copyright").read_text()
        )  # with the packages' terms
        kept = newcomer.files("results")
        machine.dpkg("--remove", "ccmix")
        machine.dpkg("--purge", "ccmix")
        assert files_of(machine) <= before  # dpkg may remove an empty /opt, too
        assert newcomer.files("results") == kept


def files_of(machine: Machine) -> set[Path]:
    """Returns the files in the chroot, except homes, devices, dpkg's own records, and the packages
    copied for it.
    """
    return {
        path
        for path in machine.root.rglob("*")
        if path.suffix != ".deb"
        if not path.is_relative_to(machine.root / "home")
        if not path.is_relative_to(machine.root / "dev")
        if not path.is_relative_to(machine.root / "var")
    }
