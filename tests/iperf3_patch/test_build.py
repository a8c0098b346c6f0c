"""Tests iperf3-patch/build: its output, its cache, and the list of patches. The fixtures build
from scratch.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import run_program

FOLDER = Path(__file__).resolve().parents[2] / "iperf3-patch"


def build() -> subprocess.CompletedProcess[str]:
    return run_program([FOLDER / "build"])


def test_prints_the_binary_and_builds_nothing_the_second_time() -> None:
    first = build()
    assert first.returncode == 0
    path = first.stdout.removesuffix("\n")
    built = Path(path).stat()
    again = build()
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    assert (Path(path).stat().st_ino, Path(path).stat().st_mtime_ns) == (
        built.st_ino,
        built.st_mtime_ns,
    )
    version = subprocess.run(
        [path, "--version"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert re.match(r"iperf \S+\+ccmix\d+ ", version)


def test_notes_what_it_was_built_from() -> None:
    binary = Path(build().stdout.strip())
    noted = json.loads((binary.parent / "build.json").read_text())
    assert noted["key"] == binary.parent.name
    assert noted["sha256"] == hashlib.sha256(binary.read_bytes()).hexdigest()
    assert noted["pinned"] == (noted["source_place"] in ("mirror", "upstream"))


def test_takes_no_arguments() -> None:
    got = run_program([FOLDER / "build", "--help"])
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
        "iperf3 (3.22) sid; urgency=low\n\n  * Nothing.\n\n -- A <a@localhost>  Fri, 20 Nov 2026 "
        "20:00:00 +0000\n"
    )
    (tree / "src").mkdir()
    (tree / "src" / "Makefile.am").write_text("nothing that a patch fits\n")
    subprocess.run(["dpkg-source", "-b", tree], check=True, cwd=tmp_path, capture_output=True)
    clone = tmp_path / "clone"
    shutil.copytree(FOLDER, clone / "iperf3-patch")
    shutil.copytree(FOLDER.parent / "tools", clone / "tools")
    (clone / "tools" / "sources.lock").write_text("iperf3 newest source iperf3 3.* sid\n")
    fetch = clone / "tools" / "debian-fetch"
    fetch.write_text(
        f'#!/bin/sh\nmkdir -p "$4" && cp {tmp_path}/*.dsc {tmp_path}/*.tar.* "$4" && echo 3.22\n'
    )
    return clone


def test_a_patch_that_does_not_fit_fails_with_the_end_of_the_log(
    clone: Path, tmp_path: Path
) -> None:
    """The build prints nothing on standard output and leaves nothing in the cache."""
    cache = tmp_path / "cache"
    environment = os.environ | {"CCMIX_CACHE": str(cache)}
    got = run_program([clone / "iperf3-patch" / "build"], env=environment)
    assert (got.returncode, got.stdout) == (1, "")
    assert "does not fit: 0001-no-busy-wait-at-end.patch does not apply without fuzz" in got.stderr
    assert "No file to patch" in got.stderr
    assert [p.name for p in (cache / "iperf3").iterdir()] == ["lock"]


@pytest.mark.deep  # it compiles
def test_another_version_than_the_pinned_one_is_noted(tmp_path: Path) -> None:
    """STAND-IN: upstream's 3.20 as if it were Debian's newest, since the real one can't
    be fetched.
    """
    clone, source = tmp_path / "clone", tmp_path / "source"
    shutil.copytree(FOLDER, clone / "iperf3-patch")
    shutil.copytree(FOLDER.parent / "tools", clone / "tools")
    subprocess.run(
        [clone / "tools" / "source-fetch", "iperf3", source], check=True, capture_output=True
    )
    (clone / "tools" / "sources.lock").write_text(
        f"iperf3 mirror 3.19 {'0' * 64} nowhere.tar.gz\niperf3 newest source iperf3 3.* sid\n"
    )
    (clone / "tools" / "debian-fetch").write_text(f'#!/bin/sh\ncp {source}/* "$4" && echo 3.20-1\n')
    environment = os.environ | {"CCMIX_CACHE": str(tmp_path / "cache")}
    got = run_program([clone / "iperf3-patch" / "build"], env=environment)
    assert got.returncode == 0, got.stderr
    assert "WARNING: the source is 3.20-1, since the pinned one was not available" in got.stderr
    noted = json.loads((Path(got.stdout.strip()).parent / "build.json").read_text())
    assert (noted["source_version"], noted["source_place"], noted["pinned"]) == (
        "3.20-1",
        "newest",
        False,
    )


def test_series_names_every_patch() -> None:
    assert (FOLDER / "series").read_text().split() == sorted(p.name for p in FOLDER.glob("*.patch"))


def test_no_patch_removes_a_line_that_an_earlier_one_added() -> None:
    """Each patch adds its code in the final form; blank lines and brackets don't count."""
    added: set[tuple[str, str]] = set()
    for patch in (FOLDER / "series").read_text().split():
        new: set[tuple[str, str]] = set()
        file = ""
        for line in (FOLDER / patch).read_text().partition("\ndiff --git ")[2].splitlines():
            if line.startswith("+++ "):
                file = line
            elif (
                line.startswith("-") and not line.startswith("--- ") and any(map(str.isalnum, line))
            ):
                assert (file, line[1:]) not in added, patch
            elif line.startswith("+"):
                new.add((file, line[1:]))
        added |= new
    assert len(added) > 1000
