"""Tests iperf3-patch/build: its output, its cache, and the list of patches. The fixtures build from scratch."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "iperf3-patch"


def build() -> subprocess.CompletedProcess[str]:
    return subprocess.run([FOLDER / "build"], check=False, capture_output=True, text=True)


def test_prints_the_binary_and_builds_nothing_the_second_time() -> None:
    first = build()
    assert first.returncode == 0
    path = first.stdout.removesuffix("\n")
    built = Path(path).stat()
    again = build()
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    assert (Path(path).stat().st_ino, Path(path).stat().st_mtime_ns) == (built.st_ino, built.st_mtime_ns)
    version = subprocess.run([path, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert re.match(r"iperf \S+\+ccmix\d+ ", version)


def test_takes_the_newest_base_in_the_cache(tmp_path: Path) -> None:
    """The build does not ask the mirror: each cached binary names its base."""
    key, base = Path(build().stdout).parent.name.rsplit("-", 1)
    assert re.fullmatch(r"[0-9a-f]{16}", key)
    assert re.fullmatch(r"3\.\d+", base)
    cached = (("-3.9", "+ccmix1"), ("-3.20", "+ccmix1"), ("-3.22", ""), ("-3.21", "+ccmix1"))
    for version, patched in (*cached, ("--sanitize-3.23", "+ccmix1"), ("--fuzz-3.23", "+ccmix1")):
        binary = tmp_path / "iperf3" / f"{key}{version}" / "iperf3"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\necho 'iperf 3{patched} (cJSON)'\n")
        binary.chmod(0o755)
    environment = os.environ | {"CCMIX_CACHE": str(tmp_path)}
    got = subprocess.run([FOLDER / "build"], env=environment, check=True, capture_output=True, text=True)
    assert (got.stdout, got.stderr) == (f"{tmp_path}/iperf3/{key}-3.21/iperf3\n", "")


def test_takes_no_arguments() -> None:
    got = subprocess.run([FOLDER / "build", "--help"], capture_output=True, text=True, check=False)
    assert (got.returncode, got.stdout) == (2, "")
    assert "iperf3-patch/build" in got.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Returns a copy of what the build needs, where Debian's source is an almost empty package."""
    if shutil.which("dpkg-source") is None:
        pytest.skip("dpkg-source is missing: install the Debian package dpkg-dev")
    tree = tmp_path / "iperf3-3.22"
    (tree / "debian" / "source").mkdir(parents=True)
    (tree / "debian" / "source" / "format").write_text("3.0 (native)\n")
    (tree / "debian" / "control").write_text(
        "Source: iperf3\nMaintainer: A <a@localhost>\n\nPackage: iperf3\nArchitecture: any\n"
    )
    (tree / "debian" / "changelog").write_text(
        "iperf3 (3.22) sid; urgency=low\n\n  * Nothing.\n\n -- A <a@localhost>  Fri, 20 Nov 2026 20:00:00 +0000\n"
    )
    (tree / "src").mkdir()
    (tree / "src" / "Makefile.am").write_text("nothing that a patch fits\n")
    subprocess.run(["dpkg-source", "-b", tree], check=True, cwd=tmp_path, capture_output=True)
    clone = tmp_path / "clone"
    shutil.copytree(FOLDER, clone / "iperf3-patch")
    shutil.copytree(FOLDER.parent / "tools", clone / "tools")
    fetch = clone / "tools" / "debian-fetch"
    fetch.write_text(f'#!/bin/sh\nmkdir -p "$4" && cp {tmp_path}/*.dsc {tmp_path}/*.tar.* "$4" && echo 3.22\n')
    return clone


def test_a_patch_that_does_not_fit_fails_with_the_end_of_the_log(clone: Path, tmp_path: Path) -> None:
    """The build prints nothing on standard output and leaves nothing in the cache."""
    cache = tmp_path / "cache"
    environment = os.environ | {"CCMIX_CACHE": str(cache)}
    got = subprocess.run(
        [clone / "iperf3-patch" / "build"], env=environment, capture_output=True, text=True, check=False
    )
    assert (got.returncode, got.stdout) == (1, "")
    assert "apply 0001-no-busy-wait-at-end.patch: failed" in got.stderr
    assert "No file to patch" in got.stderr
    assert [p.name for p in (cache / "iperf3").iterdir()] == ["lock"]


def test_series_names_every_patch() -> None:
    assert (FOLDER / "series").read_text().split() == sorted(p.name for p in FOLDER.glob("*.patch"))


def test_no_patch_removes_a_line_that_an_earlier_one_added() -> None:
    """Each patch brings its part in its final form; blank lines and brackets are no part."""
    added: set[tuple[str, str]] = set()
    for patch in (FOLDER / "series").read_text().split():
        new: set[tuple[str, str]] = set()
        file = ""
        for line in (FOLDER / patch).read_text().partition("\ndiff --git ")[2].splitlines():
            if line.startswith("+++ "):
                file = line
            elif line.startswith("-") and not line.startswith("--- ") and any(map(str.isalnum, line)):
                assert (file, line[1:]) not in added, patch
            elif line.startswith("+"):
                new.add((file, line[1:]))
        added |= new
    assert len(added) > 1000
