"""Tests that a program's bytes do not depend on who builds it, where, and on which release of
Debian.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import sensitive_runs
from support.commands import CCMIX, REPOSITORY
from support.plugin_machine import Machine, debian_machine
from support.python_wheels import builder, wheels_for
from support.repeated_runs import same_bytes

ANOTHER_USER = 65534
# Another /dev/null, because other users may not be allowed to use root's
ANOTHER_NULL = 'mount --make-rprivate / && mount --bind "$1" /dev/null && shift && exec "$@"'
SMALL = (
    "iperf3-patch/build",
    "probes/sockmon/build",
    "probes/capflow/build",
    "probes/rtt/build",
    "cca/bpf/build",
    "lab/confine/build",
)
FOLDERS = ("iperf3-patch", "probes", "cca", "lab", "tools")
# The packages that the builds need in addition to the pinned compiler; no gcc, and no C library to
# link with
COMPILING = (
    "make",
    "dpkg-dev",
    "flex",
    "bison",
    "bc",
    "patch",
    "xz-utils",
    "debian-archive-keyring",
    "ca-certificates",
)
SETUP = REPOSITORY / "tools/setup"
IN_CHROOT = REPOSITORY / "tests/packaging/in_chroot.py"
USER = "newcomer"
CLONE = f"""
cd clone
PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels tools/setup
.venv/bin/ccmix verify archive/demo.zip --sample 2
.venv/bin/ccmix version
cd
{sensitive_runs.commands("clone/.venv/bin/ccmix")}
"""
LONG = (pytest.mark.long, pytest.mark.timeout(7200))

pytestmark = pytest.mark.root


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Yields a copy of the sources in a folder of another user, whose cache is empty."""
    place = Path("/var/tmp", f"ccmix-same-builds-{os.getpid()}", "of-another-user")
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, place / folder, symlinks=True)
    os.mknod(place / "null", 0o20666, os.makedev(1, 3))
    (place / "null").chmod(0o666)
    for path in (place, *place.rglob("*")):
        os.chown(path, ANOTHER_USER, ANOTHER_USER, follow_symlinks=False)
    yield place
    shutil.rmtree(place.parent)


def by_another_user(place: Path, build: str) -> Path:
    """Builds with another umask, time zone and language, and returns the program."""
    user = ("setpriv", f"--reuid={ANOTHER_USER}", f"--regid={ANOTHER_USER}", "--clear-groups")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "TZ": "Asia/Tokyo",
        "LANG": "C.UTF-8",
    }
    argv: list[str | Path] = [
        "sh",
        "-c",
        ANOTHER_NULL,
        "sh",
        place / "null",
        *user,
        "sh",
        "-c",
        'umask 077 && exec "$0"',
        place / build,
    ]
    done = subprocess.run(
        ["unshare", "--mount", *argv],
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def here(build: str) -> Path:
    done = subprocess.run([REPOSITORY / build], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def traces(program: Path, *places: Path) -> list[bytes]:
    """Returns the folders whose names are in the program."""
    content = program.read_bytes()
    return [bytes(place) for place in places if bytes(place) in content]


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("build", SMALL)
def test_a_small_program_is_the_same_bytes(elsewhere: Path, build: str) -> None:
    if not (REPOSITORY / build).exists():
        pytest.skip(f"there is no {build}")
    take(elsewhere, "toolchain", Path(here("tools/toolchain/build")).parents[2])
    if (
        build == "cca/bpf/build"
    ):  # libbpf is compiled there, of the tree of a kernel that is not built again
        kernel = here("lab/build").parent
        take(elsewhere, "lab-kernel", kernel, Path(f"{kernel}.tree"))
    other, own = by_another_user(elsewhere, build), here(build)
    assert other.is_relative_to(elsewhere)
    assert sha256(other) == sha256(own)
    assert not traces(own, REPOSITORY, own.parents[2], elsewhere)


def take(place: Path, kind: str, *folders: Path) -> None:
    """Copies folders of this machine's cache into the other user's."""
    cache = place / ".cache/ccmix" / kind
    cache.mkdir(parents=True)
    subprocess.run(["cp", "-a", *folders, cache], check=True)
    subprocess.run(["chown", "-R", str(ANOTHER_USER), place / ".cache"], check=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_kernel_is_the_same_bytes(elsewhere: Path) -> None:
    other, own = by_another_user(elsewhere, "lab/build"), here("lab/build")
    assert other.is_relative_to(elsewhere)
    assert sha256(other) == sha256(own)


@pytest.fixture(scope="module")
def debian_13(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yields a chroot without gcc, whose ordinary user has a copy of the sources and an empty
    cache.
    """
    with debian_machine(
        tmp_path_factory.mktemp("debian") / "root", "trixie", *COMPILING
    ) as machine:
        shutil.copy("/etc/resolv.conf", machine.root / "etc")
        machine.run("useradd", "--create-home", USER).check_returncode()
        for name in FOLDERS:
            shutil.copytree(REPOSITORY / name, machine.root / "home" / USER / name, symlinks=True)
        machine.run("chown", "--recursive", f"{USER}:", f"/home/{USER}").check_returncode()
        assert machine.run("sh", "-c", "command -v gcc cc").stdout == ""
        yield machine


def in_debian(machine: Machine, script: str, folders: str = "") -> str:
    """Returns the output of a script that the user runs; it must succeed."""
    in_chroot: list[str | Path] = [
        "unshare",
        "--mount",
        sys.executable,
        IN_CHROOT,
        machine.root,
        USER,
        folders,
    ]
    done = subprocess.run(
        [*in_chroot, "sh", "-ec", f"cd; {script}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built_on_debian_13(machine: Machine, build: str) -> Path:
    return machine.root / in_debian(machine, f"./{build}").strip().removeprefix("/")


@pytest.mark.long
@pytest.mark.timeout(3000)  # the first one makes the chroot
@pytest.mark.parametrize(
    "build",
    [
        "iperf3-patch/build",
        "probes/sockmon/build",
        "probes/capflow/build",
        "probes/rtt/build",
        "lab/confine/build",
        pytest.param("lab/build", marks=pytest.mark.timeout(7200)),
    ],
)
def test_a_program_is_the_same_bytes_on_debian_13_as_here(debian_13: Machine, build: str) -> None:
    assert sha256(built_on_debian_13(debian_13, build)) == sha256(here(build))


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_userland_is_the_same_bytes_on_debian_13_as_here(debian_13: Machine) -> None:
    """Compares the build.json of both, which have the hash of the whole tree."""
    built = built_on_debian_13(debian_13, "lab/userland/build").with_name("build.json")
    assert built.read_bytes() == here("lab/userland/build").with_name("build.json").read_bytes()


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("suite", ["trixie", "sid"])
def test_a_clone_on_another_debian_repeats_the_published_demo(tmp_path: Path, suite: str) -> None:
    """Sets up the clone as an ordinary user, with Python's packages from a folder, and makes two
    more runs.
    """
    sensitive_runs.write_files(tmp_path)
    subprocess.run(["sh", "-ec", sensitive_runs.commands(CCMIX)], cwd=tmp_path, check=True)
    with debian_machine(tmp_path / "root", suite, *packages_of_setup()) as machine:
        wheels = wheels_for(machine, builder())
        shutil.copy("/etc/resolv.conf", machine.root / "etc")
        machine.run("useradd", "--create-home", USER).check_returncode()
        home = machine.root / "home" / USER
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, home / "clone"], check=True)
        machine.run("chown", "--recursive", f"{USER}:", f"/home/{USER}/clone").check_returncode()
        sensitive_runs.write_files(home)
        said = in_debian(machine, CLONE, f"{wheels}:/wheels")
        for name in sensitive_runs.NAMES:
            same_bytes(home / name, tmp_path / name)
    assert "2 of 2 runs gave the same bytes" in said
    for build in (*SMALL, "lab/build"):
        if build != "cca/bpf/build":  # has what the other Debian's clang compiles
            assert sha256(here(build)) in said


def packages_of_setup() -> tuple[str, ...]:
    """Returns the Debian packages that tools/setup would install by sudo."""
    [listed] = re.findall(
        r"^readonly packages=\((.*?)^\)$", SETUP.read_text(), re.MULTILINE | re.DOTALL
    )
    return tuple(word for line in listed.splitlines() for word in line.partition("#")[0].split())
