"""Tests the files of a release: their content, the lists about them, and that the same commit gives
the same files.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from support.commands import REPOSITORY, loaded, run_program

MOST_BYTES = 60_000_000
DIST = REPOSITORY / "packaging/dist"
SOURCES = {"elfutils"}  # in two versions: of the compiler's Debian and of the userland

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1200)]


def unpacked(wheel: Path, part: str, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as packed, packed.open(f"ccmix/programs/{part}.tar.gz") as file:  # noqa: SIM117
        with tarfile.open(fileobj=file) as archive:
            archive.extractall(folder)
    return folder


def manifest(wheel: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(wheel) as packed:
        found: list[dict[str, Any]] = json.loads(packed.read("ccmix/programs/manifest.json"))
    return found


def bill(released: Path) -> dict[str, Any]:
    (file,) = released.glob("*.cdx.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_one_small_file_for_every_distribution(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES
    assert re.fullmatch(r"ccmix-[^-]+-py3-none-manylinux_2_17_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as packed:
        (tags,) = (name for name in packed.namelist() if name.endswith("/WHEEL"))
        assert "Tag: py3-none-manylinux_2_17_x86_64" in packed.read(tags).decode()


def test_it_brings_every_program_and_each_is_static(wheel: Path, tmp_path: Path) -> None:
    programs = loaded(REPOSITORY / "packaging/building/programs.py", "programs")
    found = {
        name: (part["archive"], path)
        for part in manifest(wheel)
        for name, path in part["programs"].items()
    }
    assert set(found) == set(programs.BUILDS)
    for name, (archive, path) in found.items():
        if name != programs.USERLAND:
            folder = unpacked(wheel, archive.partition(".")[0], tmp_path / name)
            programs.refuse_dynamic(name, folder / path)
    with pytest.raises(programs.BuildError, match=r"dash .* is not static: it needs .*libc"):
        programs.refuse_dynamic("dash", Path("/bin/sh"))


def test_the_same_commit_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Another user's umask, time zone and temporary folder, a minute later."""
    (tmp_path / "elsewhere").mkdir()
    environment = os.environ | {
        "TMPDIR": str(tmp_path / "elsewhere"),
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
    }
    script = 'umask 077; exec "$0" --wheel "$1"'
    subprocess.run(["sh", "-c", script, DIST, tmp_path / "again"], check=True, env=environment)
    assert {file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()} == {
        file.name: file.read_bytes() for file in wheel.parent.iterdir()
    }


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_commit_gives_the_same_release(tmp_path: Path) -> None:
    """Builds all files twice, as `make dist` does: the wheel, the packages for Debian 12 and 13
    and the plugin's.
    """
    folders = (tmp_path / "once", tmp_path / "again")
    for folder in folders:
        subprocess.run([DIST, folder], check=True, stdout=subprocess.PIPE)
    once, again = ((folder / "SHA256SUMS").read_text() for folder in folders)
    kinds = [Path(line.split()[1]).suffix for line in once.splitlines()]
    assert (kinds.count(".whl"), kinds.count(".deb"), kinds.count(".rpm")) == (1, 3, 1)
    assert once == again
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folders[1], check=True)


def test_checksums(released: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=released, check=True)
    listed = {line.split()[1] for line in (released / "SHA256SUMS").read_text().splitlines()}
    assert listed == {file.name for file in released.iterdir()} - {"SHA256SUMS"}


def test_the_bill_of_materials_is_valid_and_names_what_is_in_the_files(
    released: Path, wheel: Path, tmp_path: Path
) -> None:
    (file,) = released.glob("*.cdx.json")
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(file.read_text()) is None
    assert validator.validate_str(file.read_text().replace('"library"', '"book"'))
    found = {each["name"]: each for each in bill(released)["components"]}
    locked = set(
        re.findall(
            r"^([a-z0-9.-]+)==", (REPOSITORY / "requirements" / "run.txt").read_text(), re.MULTILINE
        )
    )
    assert locked - {"setuptools"} <= set(found)
    assert all(found[name]["licenses"] for name in locked - {"setuptools"})
    lab = unpacked(wheel, "lab", tmp_path)
    kernel = json.loads((lab / "kernel/build.json").read_text())
    assert found["linux (with lab/patches and cca)"]["hashes"][0]["content"] == kernel["sha256"]
    assert hashlib.sha256((lab / "kernel/linux").read_bytes()).hexdigest() == kernel["sha256"]
    for package in json.loads((lab / "userland/build.json").read_text())["packages"]:
        assert found[package["name"]]["version"] == package["version"]
        assert found[package["name"]]["hashes"][0]["content"] == package["sha256"]
    static = {"libc.a", "libz.a", "libelf.a", "libgcc", "libbpf", "libpcap.a"}
    assert static <= {name.split()[0] for name in found}


def test_terms_of_all_that_is_of_others(released: Path, wheel: Path) -> None:
    terms = (released / "THIRD-PARTY.txt").read_text()
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read("ccmix/programs/THIRD-PARTY.txt").decode() == terms
    for each in bill(released)["components"]:
        if {"name": "ccmix:in", "value": "deb"} not in each["properties"]:
            assert f"{each['name']} {each['version']}: " in terms
    for text in (
        "GNU GENERAL PUBLIC LICENSE",
        "GNU LESSER GENERAL PUBLIC LICENSE",
        "Regents of the University of California",
    ):
        assert text in terms


def test_sources_of_what_is_under_the_gpl(released: Path, tmp_path: Path) -> None:
    """Fetches two of the list, because all would be hundreds of MB."""
    folder = tmp_path / "release"
    shutil.copytree(released, folder)
    listed = [
        (each["source"], each["version"])
        for each in json.loads((folder / "SOURCES.json").read_text())["debian"]
    ]
    assert {"linux", "glibc", *SOURCES} <= {name for name, _ in listed}
    subprocess.run([DIST, "--sources", folder, *SOURCES], check=True)
    for name, version in listed:
        if name in SOURCES:
            (dsc,) = (folder / "sources" / name / version.replace(":", "_")).glob("*.dsc")
            assert f"Version: {version}\n" in dsc.read_text()
            assert list(dsc.parent.glob("*.orig.tar.*"))
    assert {each.name for each in (folder / "sources").iterdir()} == SOURCES


def test_a_source_that_is_gone_is_named(released: Path, tmp_path: Path) -> None:
    (tmp_path / "SOURCES.json").write_text(
        json.dumps({"debian": [{"source": "zlib", "version": "0.0-1", "of": []}], "repository": []})
    )
    done = run_program([DIST, "--sources", tmp_path, "zlib"])
    assert done.returncode == 1
    assert "zlib 0.0-1 can't be fetched from any suite" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--unknown"], ["a", "b"]])
def test_wrong_usage(arguments: list[str]) -> None:
    done = run_program([sys.executable, DIST, *arguments])
    assert done.returncode == 2
    assert "packaging/dist [FOLDER]" in done.stderr
