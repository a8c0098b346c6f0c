"""Python's packages for a release of Debian, which the builder of Debian packages fetches
and keeps.
"""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.commands import REPOSITORY, loaded
from support.plugin_machine import Machine

BUILDING = REPOSITORY / "packaging/building"


def builder() -> ModuleType:
    """Returns the module that builds Debian packages."""
    sys.path.insert(0, str(BUILDING))
    return loaded(BUILDING / "deb.py", "deb")


def wheels_for(machine: Machine, building: ModuleType) -> Path:
    """Returns the folder with the locked dependencies for the machine's Python.

    Skips if one of them has no wheel for that Python, for which ccmix has no Debian package either.
    """
    said = machine.run("python3", "-c", "import sys; print(*sys.version_info[:2], sep='.')")
    python = said.stdout.strip()
    release = building.Release("", 0, python)
    try:
        folder: Path = building.wheels_for(release, sys.modules["programs"].cache_folder())
    except subprocess.CalledProcessError:
        if python in {each.python for each in building.RELEASES}:
            raise
        pytest.skip(f"NOT TESTED: not every locked dependency has a wheel for Python {python}")
    return folder
