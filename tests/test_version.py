"""The version by git's tags, in a repository of the test's own that holds the module."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ccmix.version
from support import CCMIX, REPOSITORY

MODULE = Path(ccmix.version.__file__)
IDENTITY = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENVIRONMENT = os.environ | IDENTITY | {"GIT_CONFIG_GLOBAL": "/dev/null"}


class Sources:
    """A clone, or a copy of one, that has the module in its place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "harness" / "ccmix").mkdir(parents=True)
        self.module = Path(shutil.copy(MODULE, root / "harness" / "ccmix"))
        shutil.copy(REPOSITORY / ".gitattributes", root)

    def git(self, *arguments: str) -> str:
        argv = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout.strip()

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
    first = clone.git("rev-parse", "HEAD")
    assert clone.version() == f"0+untagged.g{first[:12]}"
    clone.git("tag", "other-1.0")
    clone.git("tag", "-a", "v0.2.0rc1", "-m", "first")
    assert clone.version() == "0.2.0rc1"
    clone.commit()
    second = clone.commit()
    assert clone.version() == f"0.2.0rc1.post2+g{second[:12]}"
    with clone.module.open("a") as module:
        module.write("# changed\n")
    assert clone.version() == f"0.2.0rc1.post2+g{second[:12]}.changed"
    clone.git("tag", "v0.2.0")
    assert clone.version() == f"0.2.0+g{second[:12]}.changed"
    clone.git("checkout", "--quiet", ".")
    assert clone.version() == "0.2.0"


def test_without_git_it_says_so(sources: Sources) -> None:
    assert sources.version() == "0+unknown"
    assert sources.version(CCMIX_BUILD_VERSION="0.3.0.post1+gabc") == "0.3.0.post1+gabc"


@pytest.mark.parametrize("tag", [None, "v0.2.0"])
def test_of_an_archive_by_git(tag: str | None, clone: Sources, tmp_path: Path) -> None:
    commit = clone.git("rev-parse", "HEAD")
    if tag:
        clone.git("tag", tag)
    archive, unpacked = tmp_path / "archive.tar", tmp_path / "unpacked"
    clone.git("archive", "--output", str(archive), "HEAD")
    unpacked.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", unpacked], check=True)
    clone.root, clone.module = unpacked, unpacked / "harness" / "ccmix" / "version.py"
    assert clone.version() == ("0.2.0" if tag else f"0+untagged.g{commit[:12]}")


def test_of_this_clone() -> None:
    """`ccmix --version` says what the clone is now, not what it was when it was installed."""
    argv = ["git", "-C", REPOSITORY, "-c", f"safe.directory={REPOSITORY}", "rev-parse", "HEAD"]
    head = subprocess.run(argv, check=False, capture_output=True, text=True).stdout.strip()
    if not head:
        pytest.skip("THE VERSION OF THIS CLONE IS NOT TESTED: it has no git")
    printed = subprocess.run([CCMIX, "--version"], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"ccmix, version [0-9a-z.+]+\n", printed)
    assert ccmix.version.version().commit == head
    assert printed.split()[-1] == ccmix.version.version().name
