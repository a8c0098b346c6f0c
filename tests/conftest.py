"""Defines fixtures that several folders use."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from ccmix.hosts import NamespaceHost
from ccmix.tools import find_cca
from support.cca_bpf import Loader, loading
from support.commands import SMALL, Ccmix, CcmixInProcess
from support.elasticsearch_node import Node, elasticsearch_node, fetch
from support.sshd import SSHD, SshServer, ssh_server

# The marks (pyproject.toml) of a test by its fixtures: name of the fixture, the folder that defines
# it, marks.
NEEDS = {
    ("namespace", "tests"): ("namespaces",),
    ("pair", "tests/run"): ("namespaces",),
    ("sshd", "tests"): ("root",),
    ("ends", "tests/plugin"): ("root",),
    ("docker", "tests/containers"): ("root", "docker", "deep"),
    ("elasticsearch", "tests"): ("elasticsearch",),
    ("kernel", "tests/lab"): ("lab",),
    ("guest", "tests/probes"): ("lab",),
    ("cgroup", "tests/probes/test_sockmon_sockets.py"): ("root",),
    ("tiny_disk", "tests/index/test_faults.py"): ("root",),
    # a guest of root in a user namespace sees other users' setuid programs as those of nobody
    ("noexec", "tests/run/test_lab_faults.py"): ("root", "lab"),
    ("secrets", "tests/elk/test_compose.py"): ("root",),
    # an ordinary user may not use every CCA
    ("ccas", "tests/iperf3_patch"): ("namespaces",),
    ("connection", "tests/probes"): ("namespaces",),
    # root of a user namespace may not load BPF programs
    ("loader", "tests/cca/bpf"): ("root",),
    ("loader", "tests"): ("root",),
    ("debian", "tests/iperf3_patch/test_interoperation.py"): ("deep",),
    ("iperf3_outputs", "tests/importing"): ("namespaces",),
    ("logs", "tests/importing"): ("namespaces",),
}
# If pytest-xdist has several processes, one process runs the tests of a file one after the other,
# because they share the fixtures of a module. Exceptions:
TOGETHER = {  # one process for the tests of each of these folders, which share slow fixtures
    "tests/containers/": "Docker",
    "tests/elk/": "Elasticsearch",
    "tests/index/": "Elasticsearch",
    "tests/importing/": "iperf3's outputs",
    # and for tests that wait for each other's turn in this machine's kernel (cca_bpf.turn)
    "tests/cca/bpf/": "the kernel's congestion controls",
    "tests/cli/test_cca.py": "the kernel's congestion controls",
    "tests/conditions/test_bpf_cca.py": "the kernel's congestion controls",
    "tests/run/test_cca_load.py": "the kernel's congestion controls",
    "tests/run/test_cca_load_over_ssh.py": "the kernel's congestion controls",
}
APART = (  # any process runs a test of these files, which share nothing and take long
    "tests/conditions/test_layout.py",
    "tests/hosts/test_agent_host.py",
    "tests/hosts/test_ssh.py",
    "tests/lab/",
    "tests/plugin/test_package.py",
    "tests/plugin/test_run.py",
    "tests/probes/test_sockmon_in_lab.py",
    "tests/run/test_between_hosts.py",
    "tests/run/test_calibration.py",
    "tests/run/test_lab_campaign.py",
    "tests/run/test_lab_faults.py",
    "tests/run/test_pscheduler.py",
    "tests/run/test_this_machine.py",
    "tests/run/test_same_numbers.py",
    "tests/run/test_validity_in_lab.py",
)

IN_PROCESS = ("compare", "docs", "report", "twin")
"""The folders of tests that check the output of commands, not the process."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives the tests of a group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(APART):
            return nodeid
        file = nodeid.partition("::")[0]
        return next((group for folder, group in TOGETHER.items() if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by their fixtures, before pytest chooses by marks."""
    for item in items:
        definitions = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public name for it
        for name, defined in definitions.items():
            for mark in NEEDS.get((name, defined[-1].baseid), ()):
                item.add_marker(mark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests for which a plain call of pytest lacks the rights; tools/test.py gives them."""
    for mark in ("root", "namespaces"):
        if item.get_closest_marker(mark) and os.geteuid() != 0:
            pytest.skip(f"needs rights that only tools/test.py gives it (mark {mark!r})")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A separate state folder for the test's journals."""
    return tmp_path / "state"


@pytest.fixture
def small_ini(tmp_path: Path) -> Path:
    file = tmp_path / "small.ini"
    file.write_text(SMALL)
    return file


@pytest.fixture
def ccmix(tmp_path: Path, request: pytest.FixtureRequest) -> Ccmix:
    folder = tmp_path / "launch"
    folder.mkdir()
    in_lab = request.node.get_closest_marker("lab")
    of_text = request.path.parent.name in IN_PROCESS and not in_lab
    return CcmixInProcess(folder) if of_text else Ccmix(folder)


@pytest.fixture
def namespace() -> Iterator[NamespaceHost]:
    """A separate network namespace for the test."""
    name = f"ccmix-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine makes no network namespace: {made.stderr}")
    yield NamespaceHost(name)
    subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def loader() -> Iterator[Loader]:
    """ccmix-cca, in a turn in which no other test loads CCAs into this machine's kernel."""
    with loading(find_cca()) as loader:
        yield loader


@pytest.fixture
def lists_of_sockets(loader: Loader) -> None:
    """Skips the test if the kernel refuses the programs that list sockets."""
    loader.require_lists_of_sockets()


@pytest.fixture
def sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """An sshd in a separate network namespace, which ccmix's ssh reaches as 'dtn'."""
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
    """Returns a real Elasticsearch for all tests of a session; each test leaves it empty
    (Node.clear).
    """
    try:
        fetch()
    except RuntimeError as error:
        pytest.skip(str(error))
    with elasticsearch_node() as node:
        yield node
