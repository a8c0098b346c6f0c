"""Provides ccmix-cca, and a turn in which no other test loads congestion controls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cca_bpf import Loader, build, linked_namespaces, loading


@pytest.fixture(scope="session")
def program() -> Path:
    return build()


@pytest.fixture
def loader(program: Path) -> Iterator[Loader]:
    """Nothing is loaded when the test begins, and nothing afterwards. It needs root
    (tests/conftest.py).
    """
    with loading(program) as loader:
        yield loader


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    with linked_namespaces() as names:
        yield names
