"""Tests the version, which is the release with git's commit, in a repository that has only the
module.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ccmix.version
from ccmix.version import RELEASE, Version
from support.commands import CCMIX, REPOSITORY

MODULE = Path(ccmix.version.__file__)
IDENTITY = {
    f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
ENVIRONMENT = os.environ | IDENTITY | {"GIT_CONFIG_GLOBAL": "/dev/null"}


class Sources:
    """A clone, or a copy of it, with the module in its place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "harness" / "ccmix").mkdir(parents=True)
        self.module = Path(shutil.copy(MODULE, root / "harness" / "ccmix"))
        shutil.copy(REPOSITORY / ".gitattributes", root)

    def git(self, *arguments: str) -> str:
        argv = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(
            argv, check=True, capture_output=True, text=True, env=ENVIRONMENT
        ).stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "one")
        return self.git("rev-parse", "HEAD")

    def version(self, **environment: str) -> str:
        lines = "import runpy, sys; print(runpy.run_path(sys.argv[1])['of_sources']())"
        argv = [sys.executable, "-c", lines, str(self.module)]
        return subprocess.run(
            argv, check=True, capture_output=True, text=True, env=ENVIRONMENT | environment
        ).stdout.strip()


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path / "sources")


@pytest.fixture
def clone(sources: Sources) -> Sources:
    sources.git("init", "--quiet")
    sources.commit()
    return sources


def test_of_a_clone(clone: Sources) -> None:
    """Two commits and changed files have different versions; tags change nothing."""
    first = clone.git("rev-parse", "HEAD")
    assert clone.version() == f"{RELEASE}+g{first[:12]}"
    clone.git("tag", "-a", "v9.9.9", "-m", "first")
    clone.git("tag", "v9.9.10")
    assert clone.version() == f"{RELEASE}+g{first[:12]}"
    second = clone.commit()
    assert second != first
    assert clone.version() == f"{RELEASE}+g{second[:12]}"
    with clone.module.open("a") as module:
        module.write("# changed\n")
    assert clone.version() == f"{RELEASE}+g{second[:12]}.changed"
    clone.git("checkout", "--quiet", ".")
    assert clone.version() == f"{RELEASE}+g{second[:12]}"


def test_without_git_it_says_so(sources: Sources) -> None:
    assert sources.version() == f"{RELEASE}+unknown"
    assert sources.version(CCMIX_BUILD_VERSION="") == f"{RELEASE}+unknown"
    assert sources.version(CCMIX_BUILD_VERSION="0.3.0+gabc") == "0.3.0+gabc"


def test_of_an_archive_by_git(clone: Sources, tmp_path: Path) -> None:
    commit = clone.git("rev-parse", "HEAD")
    archive, unpacked = tmp_path / "archive.tar", tmp_path / "unpacked"
    clone.git("archive", "--output", str(archive), "HEAD")
    unpacked.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", unpacked], check=True)
    clone.root, clone.module = unpacked, unpacked / "harness" / "ccmix" / "version.py"
    assert clone.version() == f"{RELEASE}+g{commit[:12]}"


@pytest.mark.parametrize(
    ("name", "commit", "text"),
    [
        ("0.3.0+g0123456789ab", "0123456789abcdef", "0.3.0 (0123456789ab)"),
        ("0.3.0+g0123456789ab.changed", "0123456789ab", "0.3.0 (0123456789ab, changed)"),
        ("0.3.0+unknown", None, "0.3.0 (unknown commit)"),
    ],
)
def test_for_people(name: str, commit: str | None, text: str) -> None:
    assert Version(name, commit).text == text


def test_of_this_clone() -> None:
    """`ccmix --version` describes the clone as it is now, not as it was when it was installed."""
    argv: list[str | Path] = [
        "git",
        "-C",
        REPOSITORY,
        "-c",
        f"safe.directory={REPOSITORY}",
        "rev-parse",
        "HEAD",
    ]
    head = subprocess.run(argv, check=False, capture_output=True, text=True).stdout.strip()
    if not head:
        pytest.skip("THE VERSION OF THIS CLONE IS NOT TESTED: it has no git")
    printed = subprocess.run(
        [CCMIX, "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert re.fullmatch(rf"ccmix {re.escape(RELEASE)} \({head[:12]}(, changed)?\)\n", printed)
    assert ccmix.version.version().commit == head
    assert printed == f"ccmix {ccmix.version.version().text}\n"
