"""Tests that programs built twice, in different folders by different users, are the same bytes."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
