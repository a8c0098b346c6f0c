"""Tests entries with cca-load whose hosts are reached over OpenSSH, by an ordinary user who
may use sudo.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccmix.conditions.bpf_cca import ALLOWED, AVAILABLE
from support.cca_bpf import Loader, eventually
from support.commands import Ccmix, RunIni, rows, summaries, wait_for
from support.sshd import HERE, USER, OwnServer, SshServer, login_to_this_machine

pytestmark = pytest.mark.deep

SRC = f"{USER}@{HERE}"
ROOTS_FOLDER = Path("/var/lib/ccmix")
ENTRY = (
    "[mix]\ntype = iperf3\ncca = reno@20M,bbr3@20M\nstreams = 2\ncca-load = bbr3\nduration = {}s\n"
)


@pytest.fixture
def here(sshd: SshServer) -> Iterator[OwnServer]:
    """This machine itself as a second host of the client's configuration."""
    with login_to_this_machine() as server:
        with sshd.client_config.open("a") as config:
            config.write(server.client_config.read_text())
        yield server


@pytest.fixture
def ini(here: OwnServer, sshd: SshServer, tmp_path: Path) -> Callable[[int], Path]:
    """Writes a configuration whose entry runs for these seconds, from this machine to the
    other host.
    """

    def write(seconds: int) -> Path:
        return sshd.ini(tmp_path / "test.ini", f"src = {SRC}\n{ENTRY.format(seconds)}")

    return write


@pytest.fixture
def nothing_left(here: OwnServer, loader: Loader) -> Iterator[Callable[[], bool]]:
    """Gives a function that returns whether the machine is as before the test."""
    before = (Path(AVAILABLE).read_text(), Path(ALLOWED).read_text(), _kept())

    def is_as_before() -> bool:
        now = (Path(AVAILABLE).read_text(), Path(ALLOWED).read_text(), _kept())
        return (now, loader.list(), here.agents(), list(here.state.iterdir())) == (
            before,
            {},
            [],
            [],
        )

    yield is_as_before
    assert eventually(is_as_before)


def _kept() -> list[Path]:
    """Returns the copies of ccmix-cca that root keeps for undos."""
    return sorted(ROOTS_FOLDER.glob("ccmix-cca-*"))


def test_a_login_without_root_loads_a_cca_for_its_runs(
    run_ini: RunIni,
    nothing_left: Callable[[], bool],
    ini: Callable[[int], Path],
    tmp_path: Path,
) -> None:
    run_ini(ini(2))
    assert [(row["cca"], row["runs"], row["invalid"]) for row in rows(tmp_path / "out")] == [
        ("reno", 1, 0),
        ("bbr3", 1, 0),
    ]
    [summary] = summaries(tmp_path / "out")
    assert summary["facts"]["bpf_ccas"]["bbr3"]["parameters"]["loss_thresh"] == "5"
    assert nothing_left()


@pytest.mark.usefixtures("lists_of_sockets")
def test_an_agent_that_loses_its_controller_unloads_it(
    nothing_left: Callable[[], bool],
    loader: Loader,
    ini: Callable[[int], Path],
    ccmix: Ccmix,
    tmp_path: Path,
) -> None:
    running = ccmix.start("run", ini(60), "-o", tmp_path / "out")
    wait_for(lambda: loader.list() != {} and loader.status() != [], 30, "a connection uses it")
    assert "bbr3" in Path(ALLOWED).read_text()
    running.kill()
    running.communicate(timeout=60)
    assert eventually(nothing_left)


@pytest.mark.usefixtures("lists_of_sockets")
def test_restore_unloads_what_a_killed_agent_has_left(
    nothing_left: Callable[[], bool],
    here: OwnServer,
    loader: Loader,
    ini: Callable[[int], Path],
    ccmix: Ccmix,
    tmp_path: Path,
) -> None:
    """The undo runs the copy that root keeps: the agent's own folder may be gone."""
    before = _kept()
    running = ccmix.start("run", ini(60), "-o", tmp_path / "out")
    wait_for(lambda: loader.list() != {} and loader.status() != [], 30, "a connection uses it")
    [kept] = set(_kept()) - set(before)
    assert kept.stat().st_uid == 0
    running.kill()
    for pid in here.agents():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=60)
    wait_for(lambda: here.agents() == [], 20, "the end of the agents")
    assert "bbr3" in Path(AVAILABLE).read_text()
    assert kept.exists()
    restored = ccmix("restore", SRC, status=0)
    assert f"CCA bbr3 as a BPF program on {SRC}: restored" in restored.stderr
    assert eventually(nothing_left)
