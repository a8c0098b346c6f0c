"""The files of a release, built once for all tests of this folder."""

import subprocess
from pathlib import Path

import pytest

from support.commands import REPOSITORY


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the wheel and its lists, built from this checkout."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run([REPOSITORY / "packaging/dist", "--wheel", folder], check=True)
    folder.chmod(0o755)  # other users install it
    return folder


@pytest.fixture(scope="session")
def wheel(released: Path) -> Path:
    (file,) = released.glob("*.whl")
    return file
