"""Tests the pinned compiler: that it is fetched by hashes and runs with its own libraries, and what
happens without it.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.commands import REPOSITORY

BUILD = REPOSITORY / "tools/toolchain/build"
LOCK = REPOSITORY / "tools/toolchain/packages.lock"
PROBE = REPOSITORY / "probes/rtt/build"
PROGRAM = "#include <stdio.h>\nint main(void) { puts(__VERSION__); return 0; }\n"


def built(script: Path, **environment: str | Path) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {name: str(value) for name, value in environment.items()}
    return subprocess.run([script], env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def mirror_with_another_package(tmp_path: Path) -> str:
    """Returns a mirror that has one of the packages with different content."""
    path = LOCK.read_text().splitlines()[0].split()[3]
    (tmp_path / "mirror" / path).parent.mkdir(parents=True)
    (tmp_path / "mirror" / path).write_bytes(b"another content")
    return f"file:{tmp_path}/mirror"


def test_it_runs_by_its_own_libraries_and_compiles_static_programs(tmp_path: Path) -> None:
    """A folder with broken libraries represents a host with different libraries."""
    for name in ("libisl.so.23", "libbfd-2.40-system.so"):
        (tmp_path / name).write_bytes(b"no library")
    (tmp_path / "program.c").write_text(PROGRAM)
    programs = Path(built(BUILD).stdout.strip())
    root, gcc = programs.parents[1], programs / "gcc"
    for name in ("gcc", "as", "ld", "strip"):
        told = os.environ | {
            "LD_DEBUG": "libs"
        }  # of the shell of the script, too, which comes before
        said = subprocess.run(
            [programs / name, "--version"], env=told, capture_output=True, text=True, check=True
        )
        loaded = re.findall(r"calling init: (\S+)", said.stderr.partition("(--library-path)")[2])
        assert f"{root}/lib/x86_64-linux-gnu/libc.so.6" in loaded
        assert [path for path in loaded if not Path(path).resolve().is_relative_to(root)] == []
    # Dynamically, too: the kernel's configuration tries that, and without it the kernel would be
    # different
    for link, result in (("-static-pie", tmp_path / "program"), ("-pie", Path("/dev/null"))):
        argv: list[str | Path] = [gcc, link, "-o", result, tmp_path / "program.c"]
        subprocess.run(argv, env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}, check=True)
    ran = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True)
    assert ran.stdout.startswith("12.2.0")
    assert b"/ld-linux" not in (tmp_path / "program").read_bytes()


def test_it_is_locked_until_the_build_ends() -> None:
    folder = Path(built(BUILD).stdout.strip()).parents[2]
    script = (
        f'set -eu; . "$1/tools/cache.sh"; use_pinned_compiler; ! flock --nonblock {folder} true'
    )
    subprocess.run(["bash", "-c", script, "bash", REPOSITORY], check=True)
    subprocess.run(["flock", "--nonblock", folder, "true"], check=True)


def test_a_mirror_with_another_content_gives_none(
    tmp_path: Path, mirror_with_another_package: str
) -> None:
    got = built(
        BUILD, CCMIX_CACHE=tmp_path / "cache", CCMIX_DEBIAN_MIRROR=mirror_with_another_package
    )
    assert (got.returncode, got.stdout) == (1, "")
    assert f"the Debian mirror lacks packages of {LOCK}" in got.stderr
    assert "Hash Sum mismatch" in got.stderr
    assert not list((tmp_path / "cache/toolchain").glob("*/"))


def test_without_it_the_machines_is_taken_with_a_warning(
    tmp_path: Path, mirror_with_another_package: str
) -> None:
    got = built(
        PROBE, CCMIX_CACHE=tmp_path / "cache", CCMIX_DEBIAN_MIRROR=mirror_with_another_package
    )
    assert got.returncode == 0, got.stderr
    assert "WARNING: the pinned compiler is not available, so the machine's is used" in got.stderr
    host = built(PROBE, CCMIX_CACHE=tmp_path / "cache", CCMIX_COMPILER="host")
    assert (host.stdout, host.stderr) == (got.stdout, "")
    assert Path(built(PROBE).stdout).parent.name != Path(got.stdout).parent.name
