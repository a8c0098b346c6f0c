"""Tests that the wheel has the files of the repository that the package needs, as real files."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ccmix.version import RELEASE
from support.commands import REPOSITORY

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "harness", "lab", "configs")
FILES = {  # in the wheel: in the repository
    "ccmix/cli/examples/demo.ini": "configs/demo.ini",
    "ccmix/cli/examples/demo-quick.ini": "configs/demo-quick.ini",
    "ccmix/cli/examples/lab.ini": "harness/ccmix/cli/examples/lab.ini",
    "ccmix/cli/examples/hosts.ini": "harness/ccmix/cli/examples/hosts.ini",
    "ccmix/cli/examples/perfsonar.ini": "harness/ccmix/cli/examples/perfsonar.ini",
    "ccmix/lab/init": "lab/init",
    "ccmix/papers/terminal.txt.j2": "harness/ccmix/papers/terminal.txt.j2",
    "ccmix/papers/experiments/papers.toml": "configs/papers/papers.toml",
    "ccmix/papers/experiments/dai-fig1.toml": "configs/papers/dai-fig1.toml",
    "ccmix/papers/experiments/dai-fig1.ini": "configs/papers/dai-fig1.ini",
    "ccmix/papers/experiments/published/datta-fig2.csv": "configs/papers/published/datta-fig2.csv",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel from a copy without git, because a build leaves files next to its
    sources.
    """
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(
                source,
                sources / name,
                symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
            )
        else:
            shutil.copy(source, sources)
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder,
        sources,
    ]
    subprocess.run(argv, check=True, timeout=240, cwd=folder)
    return next(folder.glob("*.whl"))


def test_it_has_real_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        for name, source in FILES.items():
            assert packed.read(name) == (REPOSITORY / source).read_bytes()


def test_it_is_built_without_git(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        metadata = packed.read(f"ccmix-{RELEASE}+unknown.dist-info/METADATA").decode()
    assert f"\nVersion: {RELEASE}+unknown\n" in metadata
