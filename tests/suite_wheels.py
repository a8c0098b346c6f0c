"""Python's packages for a suite of Debian, which the builder of Debian packages fetches and keeps."""

import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support import REPOSITORY, loaded

BUILDING = REPOSITORY / "packaging/building"


def builder() -> ModuleType:
    """Returns the module that builds Debian packages."""
    sys.path.insert(0, str(BUILDING))
    return loaded(BUILDING / "deb.py", "deb")


def release_of(suite: str, building: ModuleType) -> Any:
    known = (each for each in building.RELEASES if each.suite == suite)
    return next(known, None) or building.Release(suite, 0, newest_python(suite))


def newest_python(suite: str) -> str:
    """Returns the version, such as 3.14, that the suite has now."""
    with tempfile.TemporaryDirectory() as folder:
        fetch = [REPOSITORY / "tools/debian-fetch", "binary", "python3", "*", folder, suite]
        version = subprocess.run(fetch, check=True, stdout=subprocess.PIPE, text=True).stdout
    return ".".join(version.split(".")[:2])


def wheels_of(suite: str, building: ModuleType) -> Path:
    """Returns the folder with the locked dependencies; skips where a suite that ccmix has no package for lacks one."""
    release = release_of(suite, building)
    try:
        folder: Path = building.wheels_for(release, sys.modules["programs"].cache_folder())
    except subprocess.CalledProcessError:
        if release in building.RELEASES:
            raise
        pytest.skip(f"NOT TESTED: not every locked dependency has a wheel for Python {release.python} of {suite}")
    return folder
