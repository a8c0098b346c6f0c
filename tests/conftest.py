"""Fixtures that several folders use."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ccmix.hosts import NamespaceHost
from elasticsearch_node import Node, elasticsearch_node, fetch
from sshd import SSHD, SshServer, ssh_server
from support import SMALL, Ccmix


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder of the test's own, for journals."""
    return tmp_path / "state"


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


@pytest.fixture
def namespace() -> Iterator[NamespaceHost]:
    """A network namespace of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run the tests as root")
    name = f"ccmix-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine makes no network namespace: {made.stderr}")
    yield NamespaceHost(name)
    subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """An sshd in a network namespace of its own, which ccmix's ssh reaches as 'dtn'."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run the tests as root")
    if not Path(SSHD).exists():
        pytest.skip("there is no sshd: run 'tools/setup --dev'")
    with ExitStack() as stack:
        try:
            server = stack.enter_context(ssh_server(f"ccmix-sshd-{os.getpid()}"))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine has no place for an sshd: {error}")
        monkeypatch.setenv("CCMIX_SSH_CONFIG", str(server.client_config))
        yield server


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[Node]:
    """A real Elasticsearch for all tests of a session; each leaves it as empty as it found it (Node.clear)."""
    try:
        fetch()
    except RuntimeError as error:
        pytest.skip(str(error))
    with elasticsearch_node() as node:
        yield node
