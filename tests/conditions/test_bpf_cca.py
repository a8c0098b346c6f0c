"""Tests changes by ccmix-cca on a host, which is a network namespace of this machine."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ccmix.conditions import bpf_cca
from ccmix.conditions.bpf_cca import CcaProgram, to_ask_about
from ccmix.hosts import CommandError, NamespaceHost
from ccmix.hosts.address import parse_host
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.errors import HostLost
from ccmix.hosts.pool import connect
from ccmix.model import BpfCca, Destination, HostPath, ModuleParameter
from support.cca_bpf import Loader

DTN2 = Destination("dtn2", "10.0.0.2", "dtn2")
PARAMETER = ModuleParameter("tcp_bbr2/parameters/loss_thresh", "9")


@pytest.fixture
def host(
    namespace: NamespaceHost, state: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AgentHost]:
    monkeypatch.setenv("CCMIX_STATE", str(state))
    connected = connect(parse_host(f"netns:{namespace.name}"), "a test")
    yield connected
    connected.abandon(15)


@pytest.fixture
def program(host: AgentHost, loader: Loader) -> CcaProgram:
    """Provides ccmix-cca in the agent's folder, as on a host that is reached over ssh."""
    return CcaProgram(host, host.put(loader.program, "ccmix-cca"))


def test_an_undo_does_not_need_the_folder_of_an_agent_that_was_killed(
    program: CcaProgram, host: AgentHost, loader: Loader, state: Path
) -> None:
    """It also works if somebody else has put another program in its place."""
    loader.must("load", "bbr2", "loss_thresh=7")
    folder = Path(host.temporary)
    with (
        suppress(HostLost),
        program.changed(PARAMETER, "bbr2"),
        program.loaded("bbr3", for_users=False),
    ):
        copies = list(state.glob("ccmix-cca-*"))
        assert [file.stat().st_mode & 0o777 for file in copies] == [0o700] * 2
        assert loader.list()["bbr2"]["parameters"]["loss_thresh"] == "9"
        os.kill(host.agent_pid, signal.SIGKILL)
        host.connection.wait_ended(10)
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "ccmix-cca").write_text(f"#!/bin/sh\ntouch {folder}/was-run\n")
        (folder / "ccmix-cca").chmod(0o755)
    assert set(loader.list()) == {"bbr2", "bbr3"}
    was_run = folder / "was-run"
    try:
        after = connect(parse_host(host.name), "a test")
        assert not was_run.exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert {what: reason for what, reason in after.hello["restored"] if "folder" not in what} == {
        f"CCA bbr3 as a BPF program on {host.name}": None,
        f"parameter loss_thresh of bbr2 on {host.name}": None,
    }
    after.close()
    assert loader.list()["bbr2"]["parameters"]["loss_thresh"] == "7"
    assert "bbr3" not in loader.list()
    assert not list(state.iterdir())


def test_a_load_that_fails_leaves_no_copy_and_names_ccmix_cca(
    host: AgentHost, loader: Loader, state: Path, tmp_path: Path
) -> None:
    stand_in = tmp_path / "ccmix-cca"
    stand_in.write_text("#!/bin/sh\necho 'ccmix-cca: BTF is missing' >&2; exit 1\n")
    stand_in.chmod(0o755)
    with (
        pytest.raises(
            CommandError, match=f"{stand_in} load bbr3: exit status 1: ccmix-cca: BTF is missing$"
        ),
        CcaProgram(host, str(stand_in)).loaded("bbr3", for_users=False),
    ):
        pass
    assert not list(state.glob("ccmix-cca-*"))


def test_a_load_that_a_signal_ends_is_undone(
    host: AgentHost, loader: Loader, state: Path, tmp_path: Path
) -> None:
    """The kernel may have taken it by then."""
    killed = tmp_path / "ccmix-cca"
    killed.write_text(
        f'#!/bin/sh\n{loader.program} "$@" || exit\ntest "$1" != load || kill -9 $$\n'
    )
    killed.chmod(0o755)
    with (
        pytest.raises(CommandError, match="load bbr3: exit status 137"),
        CcaProgram(host, str(killed)).loaded("bbr3", for_users=False),
    ):
        pass
    assert loader.list() == {}
    assert not list(state.glob("ccmix-cca-*"))


def test_where_users_cannot_be_allowed_nothing_is_loaded(
    program: CcaProgram, loader: Loader
) -> None:
    """The host is a network namespace of its own, as in a container."""
    with (
        pytest.raises(
            CommandError, match="users without root can't be allowed to choose it from here"
        ),
        program.loaded("bbr3", for_users=True),
    ):
        pass
    assert loader.list() == {}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"program": None, "parameters": {}}, "bbr2 was loaded by another build of ccmix-cca"),
        ({"program": "0123", "parameters": {"beta": "77"}}, "bbr2 has no parameter loss_thresh"),
    ],
)
def test_why_a_parameter_cannot_be_set(
    row: dict[str, Any], says: str, host: AgentHost, tmp_path: Path
) -> None:
    stand_in = tmp_path / "ccmix-cca"
    stand_in.write_text(f"#!/bin/sh\necho '{json.dumps([{'name': 'bbr2', **row}])}'\n")
    stand_in.chmod(0o755)
    program = CcaProgram(host, str(stand_in))
    assert program.listed()["bbr2"] == BpfCca(row["program"] or "", row["parameters"])
    with pytest.raises(CommandError, match=says), program.changed(PARAMETER, "bbr2"):
        pass


@pytest.mark.parametrize(
    ("root", "path", "asks"),
    [
        (True, HostPath("dtn1", DTN2, "iperf3"), True),
        (False, HostPath("dtn1", DTN2, "iperf3"), False),
        (False, HostPath("dtn1", DTN2, "iperf3", cca_load=("bbr3",)), True),
        (False, HostPath("dtn1", DTN2, "iperf3", module_parameter=PARAMETER), True),
    ],
    ids=["root", "user", "user with cca-load", "user with a parameter"],
)
def test_who_may_not_ask_as_root_is_asked_only_if_the_entry_needs_it(
    root: bool,
    path: HostPath,
    asks: bool,
    host: AgentHost,
    loader: Loader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel may have somebody else's bbr3, and sudo reports each refusal of a login to the
    administrator.
    """
    loader.must("load", "bbr3")
    monkeypatch.setattr(bpf_cca, "is_root", lambda _: root)
    assert to_ask_about(host, path) == (["bbr3"] if asks else [])
