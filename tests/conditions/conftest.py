"""A network namespace of the test's own, and a journal in a folder of its own."""

from pathlib import Path

import pytest


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"
