"""Tests that programs built twice, elsewhere and by another user, are the same bytes: here and on Debian 13."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugin_machine import Machine, debian_machine
from support import REPOSITORY

ANOTHER_USER = 65534
# Of its own, since root's may be forbidden to other users
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
# What the builds need; Debian 13's Python has files where the userland's has links to
COMPILING = (
    "gcc", "make", "libc6-dev", "dpkg-dev", "flex", "bison", "bc", "patch", "xz-utils", "debian-archive-keyring",
    "ca-certificates", "libpcap-dev", "clang", "libelf-dev", "zlib1g-dev",
)  # fmt: skip
IN_CHROOT = REPOSITORY / "tests/packaging/in_chroot.py"
# Users of Debian 13, and the folder below each one's home with the sources
FOLDER_OF = {"one": "ours", "another": "somewhere/else"}
LONG = (pytest.mark.long, pytest.mark.timeout(7200))

pytestmark = pytest.mark.root


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Yields a copy of the sources in another folder, which is another user's, and whose cache is empty."""
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
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "TZ": "Asia/Tokyo", "LANG": "C.UTF-8"}
    argv = ["sh", "-c", ANOTHER_NULL, "sh", place / "null", *user, "sh", "-c", 'umask 077 && exec "$0"', place / build]
    done = subprocess.run(
        ["unshare", "--mount", *argv], env=environment, cwd=place, capture_output=True, text=True, check=False
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
    if build == "cca/bpf/build":  # libbpf is compiled there, of the tree of a kernel that is not built again
        tree = here("lab/build").parent
        take_kernel(tree, elsewhere)
    other, own = by_another_user(elsewhere, build), here(build)
    assert other.is_relative_to(elsewhere)
    assert sha256(other) == sha256(own)
    assert not traces(own, REPOSITORY, own.parents[2], elsewhere)


def take_kernel(kernel: Path, place: Path) -> None:
    """Copies a kernel and its tree into the other user's cache."""
    cache = place / ".cache" / "ccmix" / "lab-kernel"
    cache.mkdir(parents=True)
    for folder in (kernel, Path(f"{kernel}.tree")):
        subprocess.run(["cp", "-a", folder, cache], check=True)
    subprocess.run(["chown", "-R", str(ANOTHER_USER), place / ".cache"], check=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_kernel_is_the_same_bytes(elsewhere: Path) -> None:
    other, own = by_another_user(elsewhere, "lab/build"), here("lab/build")
    assert other.is_relative_to(elsewhere)
    assert sha256(other) == sha256(own)


@pytest.fixture(scope="module")
def debian_13(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yields a chroot with two users, each of whom has a copy of the sources and a cache of his own."""
    with debian_machine(tmp_path_factory.mktemp("debian") / "root", "trixie", *COMPILING) as machine:
        shutil.copy("/etc/resolv.conf", machine.root / "etc")
        for user, folder in FOLDER_OF.items():
            machine.run("useradd", "--create-home", user).check_returncode()
            for name in FOLDERS:
                shutil.copytree(REPOSITORY / name, machine.root / "home" / user / folder / name, symlinks=True)
            machine.run("chown", "--recursive", f"{user}:", f"/home/{user}").check_returncode()
        yield machine


def on_debian_13(machine: Machine, user: str, build: str, umask: str = "022") -> Path:
    """Returns what a user of the chroot has built."""
    script = f'umask {umask}; exec "$HOME/{FOLDER_OF[user]}/{build}"'
    in_chroot = ["unshare", "--mount", sys.executable, IN_CHROOT, machine.root, user, ""]
    done = subprocess.run([*in_chroot, "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return machine.root / done.stdout.strip().removeprefix("/")


@pytest.mark.deep
@pytest.mark.timeout(3000)  # the first one makes the chroot
@pytest.mark.parametrize(
    "build",
    [
        "probes/sockmon/build",
        "probes/capflow/build",
        "probes/rtt/build",
        "lab/confine/build",
        pytest.param("iperf3-patch/build", marks=LONG),
        pytest.param("lab/build", marks=LONG),
        pytest.param("cca/bpf/build", marks=LONG),  # builds the kernel's tree first, where that is not there
    ],
)
def test_a_program_is_the_same_bytes_on_debian_13(debian_13: Machine, build: str) -> None:
    one = on_debian_13(debian_13, "one", build)
    another = on_debian_13(debian_13, "another", build, umask="077")
    assert one != another
    assert sha256(one) == sha256(another)


@pytest.mark.deep
@pytest.mark.timeout(3000)
def test_the_userland_is_the_same_bytes_on_debian_13_as_here(debian_13: Machine) -> None:
    """Compares the lists of what is in it: they have the hash of the whole tree."""
    built = on_debian_13(debian_13, "one", "lab/userland/build").with_name("build.json")
    assert built.read_bytes() == here("lab/userland/build").with_name("build.json").read_bytes()
