"""Provides ccmix-cca, and a turn in which the test alone loads congestion controls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cca_bpf import Loader, build, linked_namespaces, turn


@pytest.fixture(scope="session")
def program() -> Path:
    return build()


@pytest.fixture
def loader(program: Path) -> Iterator[Loader]:
    """Nothing is loaded when the test begins, and nothing afterwards. It needs root (tests/conftest.py)."""
    loader = Loader(program)
    checked = loader.run("check")
    if checked.returncode != 0:
        pytest.skip(f"this kernel loads no congestion control: {checked.stdout}")
    with turn():
        if loader.list():
            pytest.skip("the administrator of this machine has loaded bbr2 or bbr3")
        try:
            yield loader
        finally:
            loader.remove()


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    with linked_namespaces() as names:
        yield names
