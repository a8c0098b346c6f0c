"""Finds out the version of ccmix that runs: the release number below, with git's commit.

    0.3.0+gCOMMIT            a clone at this commit, or a package that was built from it
    0.3.0+gCOMMIT.changed    the same with changed files
    0.3.0+unknown            sources without git, such as a copied folder

Archives record these names, so they tell two commits apart. All are versions by PEP 440. Tags play
no part, because not every clone has them. setuptools calls `of_sources` when it builds a package. A
clone asks git in each process instead of keeping the version of its installation: a pull changes
it, and results have to name the commit that made them.
"""

import functools
import importlib.metadata
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

RELEASE = "0.3.0"  # the only place with this number, except for its section in CHANGELOG.md

ROOT = Path(__file__).resolve().parents[2]  # of the sources
BUILD_VARIABLE = (
    "CCMIX_BUILD_VERSION"  # names the version if git is missing, as in the build of an image
)
UNKNOWN = f"{RELEASE}+unknown"
DIGITS = 12  # of a commit within a version
GIT_WITHIN_S = 60.0
ARCHIVED = "$Format:%H$"  # `git archive` writes the commit here (.gitattributes)

_OF_COMMIT = re.compile(r"[+.]g(?P<commit>[0-9a-f]+)")


@dataclass(frozen=True)
class Version:
    """A version of ccmix; `name` is for data, such as '0.3.0+g0123456789ab'.

    `commit` has all 40 digits; None if it is not known.
    """

    name: str
    commit: str | None

    @property
    def text(self) -> str:
        """The version for people, such as '0.3.0 (0123456789ab, changed)'."""
        release, _, local = self.name.partition("+")
        commit = self.commit[:DIGITS] if self.commit else "unknown commit"
        changed = ", changed" if "changed" in local.split(".") else ""
        return f"{release} ({commit}{changed})"


@functools.cache
def version() -> Version:
    """Returns the version that runs: in a clone from git, otherwise the installed package's."""
    if (ROOT / "pyproject.toml").exists():  # metadata names the commit when they were installed
        return _version_of_sources()
    try:
        name = importlib.metadata.version("ccmix")
    except importlib.metadata.PackageNotFoundError:
        return _version_of_sources()
    commit = _OF_COMMIT.search(name)
    return Version(name, commit["commit"] if commit else None)


def of_sources() -> str:
    """Returns the name of the version for a package that is built from these sources.

    setuptools calls it. A variable overrides git, which may be missing in the build of an image.
    """
    return os.environ.get(BUILD_VARIABLE) or _version_of_sources().name


def _version_of_sources() -> Version:
    """Returns the version of the sources around this module.

    git knows it in a clone; in an archive of `git archive`, git has written the commit into
    ARCHIVED.
    """
    if (described := _version_of_clone(ROOT)) is not None:
        return described
    return (
        Version(UNKNOWN, None)
        if ARCHIVED.startswith("$")
        else _version_at_commit(ARCHIVED, changed=False)
    )


def _version_of_clone(root: Path) -> Version | None:
    """Asks git for the commit of a clone; returns None if `root` is not a clone or git fails."""
    if not (root / ".git").exists():
        return None
    describe = [
        "git",
        "-C",
        str(root),
        "-c",
        f"safe.directory={root}",  # root may run the clone of another user
        "describe",
        "--exclude=*",  # tags: only the commit is left
        "--abbrev=40",
        "--always",
        "--dirty",
    ]
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            describe,
            capture_output=True,
            text=True,
            check=True,
            timeout=GIT_WITHIN_S,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    printed = done.stdout.strip()
    commit = printed.removesuffix("-dirty")
    return _version_at_commit(commit, changed=commit != printed)


def _version_at_commit(commit: str, *, changed: bool) -> Version:
    return Version(f"{RELEASE}+g{commit[:DIGITS]}{'.changed' * changed}", commit)
