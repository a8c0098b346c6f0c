"""A network namespace of the test's own, and a journal in a folder of its own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.hosts import NamespaceHost


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def namespace() -> Iterator[NamespaceHost]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run the tests as root")
    name = f"ccmix-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine makes no network namespace: {made.stderr}")
    yield NamespaceHost(name)
    subprocess.run(["ip", "netns", "del", name], check=True)
