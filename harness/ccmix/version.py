"""Says which version of ccmix this is, by git's tags: of a clone as it is now, of a package as it was built.

    0.2.0                          the commit with the tag v0.2.0
    0.2.0.post7+gCOMMIT            seven commits later
    0.2.0.post7+gCOMMIT.changed    the same with changed files
    0+untagged.gCOMMIT             no commit before it has a tag, as in a shallow clone
    0+unknown                      sources without git, such as a copied folder

All are versions by PEP 440. setuptools calls `of_sources` when it builds a package. A clone's version is not kept when
it is installed, as that of a package is: a pull changes it, and results have to name the commit that made them.
"""

import functools
import importlib.metadata
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the sources
BUILD_VARIABLE = "CCMIX_BUILD_VERSION"  # names the version where git is not, as in the build of an image
UNKNOWN = "0+unknown"
DIGITS = 12  # of a commit within a version
TAGS = "v[0-9]*"
GIT_WITHIN_S = 60.0
# `git archive` writes the commit and its tag here (.gitattributes)
ARCHIVED = ("$Format:%H$", "$Format:%(describe:tags=true,match=v[0-9]*)$")

_DESCRIBED = re.compile(r"v(?P<tag>[^-\s]+)(?:-(?P<later>\d+)-g[0-9a-f]+)?")
_OF_COMMIT = re.compile(r"[+.]g(?P<commit>[0-9a-f]+)")


@dataclass(frozen=True)
class Version:
    """Names a version of ccmix; `commit` is None where only its tag is known, or nothing."""

    name: str
    commit: str | None


@functools.cache
def version() -> Version:
    """Returns the version that runs: of a clone by git, else as it was when the package was built."""
    if (described := _of_clone(ROOT)) is not None:
        return described
    try:
        name = importlib.metadata.version("ccmix")
    except importlib.metadata.PackageNotFoundError:
        name = of_sources()
    commit = _OF_COMMIT.search(name)
    return Version(name, commit["commit"] if commit else None)


def of_sources() -> str:
    """Returns the version of the sources around this module."""
    if given := os.environ.get(BUILD_VARIABLE):
        return given
    described = _of_clone(ROOT) or _of_archive(*ARCHIVED)
    return described.name if described else UNKNOWN


def _of_clone(root: Path) -> Version | None:
    """Returns the version of a clone's commit; None without a clone, or without git."""
    if not (root / ".git").exists():
        return None
    argv = [
        "git", "-C", str(root), "-c", f"safe.directory={root}",  # root may run the clone of another user
        "describe", "--tags", "--match", TAGS, "--long", "--abbrev=40", "--always", "--dirty",
    ]  # fmt: skip
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=GIT_WITHIN_S, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    printed = done.stdout.strip()
    described = printed.removesuffix("-dirty")
    return _named(described, described[-40:], changed=described != printed)


def _of_archive(commit: str, described: str) -> Version | None:
    """Returns the version by what `git archive` has written; None where it has not."""
    return None if commit.startswith("$") else _named(described, commit, changed=False)


def _named(described: str, commit: str, *, changed: bool) -> Version:
    """Returns the version of a commit by the words of `git describe`, which are others where no commit has a tag."""
    tag = _DESCRIBED.fullmatch(described)
    later = int(tag["later"] or 0) if tag else 0
    name = (tag["tag"] + f".post{later}" * bool(later)) if tag else "0"
    local = [*([] if tag else ["untagged"]), *([f"g{commit[:DIGITS]}"] if later or changed or not tag else [])]
    local += ["changed"] * changed
    return Version(f"{name}+{'.'.join(local)}" if local else name, commit)
