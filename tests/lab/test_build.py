"""Tests the build script, as far as it can be tested without three minutes of compiling."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import long, run_program

BUILD = Path(__file__).resolve().parents[2] / "lab" / "build"


def build(script: Path, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CCMIX_CACHE": str(cache)} if cache else None
    return run_program([script], env=environment)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Copies what the build needs, except that it cannot fetch: a build that should not have
    started fails at once.
    """
    shutil.copytree(BUILD.parent, tmp_path / "clone" / "lab")
    for needed in ("tools", "cca"):
        shutil.copytree(BUILD.parents[1] / needed, tmp_path / "clone" / needed)
    (tmp_path / "clone" / "tools" / "source-fetch").write_text("#!/bin/sh\nexit 1\n")
    return tmp_path / "clone"


@pytest.fixture
def copy_of_cache(kernel: Path, tmp_path: Path) -> Path:
    shutil.copytree(kernel.parent, tmp_path / "cache" / "lab-kernel" / kernel.parent.name)
    return tmp_path / "cache"


def test_a_cached_kernel_is_not_built_again(kernel: Path) -> None:
    built = kernel.stat()
    result = build(BUILD)
    assert (kernel.stat().st_ino, kernel.stat().st_mtime_ns) == (built.st_ino, built.st_mtime_ns)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{kernel}\n", "")
    assert json.loads((kernel.parent / "build.json").read_text())["key"] == kernel.parent.name


@pytest.mark.parametrize(
    "damage",
    [
        "altered",
        *(long(each) for each in ("missing", "truncated", "does not run")),
        "no build.json",
    ],
)
def test_a_damaged_kernel_is_not_used(clone: Path, copy_of_cache: Path, damage: str) -> None:
    assert build(clone / "lab" / "build", copy_of_cache).returncode == 0
    (folder,) = (path for path in (copy_of_cache / "lab-kernel").iterdir() if path.is_dir())
    linux = folder / "linux"
    if damage == "missing":
        linux.unlink()
    elif damage == "truncated":
        os.truncate(linux, linux.stat().st_size - 100)
    elif damage == "altered":
        content = bytearray(linux.read_bytes())
        content[len(content) // 2] ^= 1
        linux.write_bytes(content)
    elif damage == "does not run":
        linux.chmod(0o644)
    else:
        (folder / "build.json").unlink()
    result = build(clone / "lab" / "build", copy_of_cache)
    assert result.returncode == 1
    assert result.stdout == ""
    assert f"{folder} is damaged" in result.stderr
    assert "fetching and patching the kernel's source: failed" in result.stderr
    assert not list(folder.parent.glob("*.build-*"))


def test_the_key_follows_what_the_kernel_is_made_of(
    kernel: Path, clone: Path, copy_of_cache: Path
) -> None:
    script = clone / "lab" / "build"
    (clone / "lab" / "init").write_text("not part of it")
    result = build(script, copy_of_cache)
    assert Path(result.stdout.strip()).parent.name == kernel.parent.name, (
        "two clones share a kernel"
    )
    patch = next((clone / "lab" / "patches").iterdir())
    for part in (
        "kernel.config",
        "../tools/sources.lock",
        "build",
        "unpack",
        patch,
        "../cca/core/bbr.c",
        "../cca/module/Kbuild",
    ):
        path = clone / "lab" / part
        before = path.read_text()
        path.write_text(before + "\n")
        assert build(script, copy_of_cache).returncode == 1, part
        path.write_text(before)
    assert build(script, copy_of_cache).returncode == 0


def test_a_folder_that_make_cannot_use_is_refused_at_once(clone: Path, tmp_path: Path) -> None:
    result = build(clone / "lab" / "build", tmp_path / "a cache")
    assert (result.returncode, result.stdout) == (1, "")
    assert "set CCMIX_CACHE to another" in result.stderr
