"""Fixtures that several folders use."""

from pathlib import Path

import pytest

from support import SMALL, Ccmix


@pytest.fixture
def small_ini(tmp_path: Path) -> Path:
    file = tmp_path / "small.ini"
    file.write_text(SMALL)
    return file


@pytest.fixture
def ccmix(tmp_path: Path) -> Ccmix:
    folder = tmp_path / "launch"
    folder.mkdir()
    return Ccmix(folder)
