"""Provides the core of cca/, compiled for the host with sanitizers and driven by synthetic ACKs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cca_core import Core, compile_driver

SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("cca"), *SANITIZED)


@pytest.fixture
def core(driver: Path) -> Iterator[Core]:
    with subprocess.Popen(
        [driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Core(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
