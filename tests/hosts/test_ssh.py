"""Tests hosts over OpenSSH, with a real sshd: their agents, lost connections, and hosts that can't
have an agent.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccmix.hosts import CommandError
from ccmix.hosts.address import AddressKind, HostAddress, parse_host
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.errors import ConnectError, HostLost, HostSilent, HostUnreachable
from ccmix.hosts.pool import Hosts, connect
from support.commands import commands_in, wait_for
from support.sshd import SshServer

SACK = "net.ipv4.tcp_sack"
SET_SACK = ["sysctl", "-q", "-w", f"{SACK}=0"]
UNSET_SACK = ["sysctl", "-q", "-w", f"{SACK}=1"]


def sack(server: SshServer) -> str:
    return server.namespace.run(["sysctl", "-n", SACK]).strip()


def sleeps(server: SshServer) -> bool:
    return any(command.endswith("sleep 60") for command in commands_in(server.namespace.name))


def is_as_before(server: SshServer) -> bool:
    return sack(server) == "1" and not sleeps(server) and not list(server.state.iterdir())


def set_link_down(server: SshServer) -> None:
    server.set_link("down")


def kill_sessions(server: SshServer) -> None:
    for pid in server.sessions():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def dtn(sshd: SshServer) -> Iterator[AgentHost]:
    host = connect(parse_host("dtn"), "a test", silence_s=2)
    yield host
    host.abandon(5)


def test_a_command_over_ssh(sshd: SshServer, dtn: AgentHost, tmp_path: Path) -> None:
    assert (dtn.name, dtn.uid, dtn.hello["state"]) == ("dtn", 0, str(sshd.state))
    assert dtn.run(["cat"], stdin="  a 'b\" $c\n") == "  a 'b\" $c\n"
    with pytest.raises(CommandError, match="dtn: sh -c exit 3: exit status 3"):
        dtn.run(["sh", "-c", "exit 3"])
    with dtn.start(
        ["ip", "-o", "addr"], stdout=tmp_path / "out", stderr=tmp_path / "err"
    ) as process:
        assert process.wait(30) == 0
    assert sshd.address in (tmp_path / "out").read_text()
    with dtn.changed("sack", SET_SACK, UNSET_SACK):
        assert sack(sshd) == "0"
    assert sack(sshd) == "1"
    dtn.close()
    wait_for(lambda: not sshd.sessions() and is_as_before(sshd), 15, "the session has ended")


def test_by_how_much_a_clock_is_ahead(dtn: AgentHost, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dtn.clock_ahead_s() == pytest.approx(0, abs=0.5)
    now_s = time.time
    monkeypatch.setattr(time, "time", lambda: now_s() - 100)  # here, and not in the agent's process
    assert dtn.clock_ahead_s() == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize("cut", [set_link_down, kill_sessions])
def test_a_connection_that_is_cut(
    cut: Callable[[SshServer], None], sshd: SshServer, dtn: AgentHost, tmp_path: Path
) -> None:
    began = []

    def change() -> None:
        with (
            dtn.changed("sack", SET_SACK, UNSET_SACK),
            dtn.start(["sleep", "60"], stdout=tmp_path / "o", stderr=tmp_path / "e") as process,
        ):
            wait_for(lambda: sleeps(sshd), 15, "it runs")
            assert sack(sshd) == "0"
            began.append(time.monotonic())
            cut(sshd)
            process.wait(60)

    with pytest.raises(HostLost, match=r"^connection to dtn lost: ."):
        change()
    assert time.monotonic() - began[0] < 50  # and not after the 60 s of its command
    with pytest.raises(HostLost):
        dtn.run(["true"])
    wait_for(lambda: is_as_before(sshd), 15, "the agent has ended and undone everything")


def lose_client(server: SshServer, host: AgentHost) -> None:
    """Kills the client in the middle of a change, as if its machine had lost power."""
    with contextlib.suppress(HostLost), host.changed("sack", SET_SACK, UNSET_SACK):
        server.set_link("down")
        host.connection._process.kill()
        wait_for(lambda: host.lost, 15, "the client is lost")


def test_the_pool_connects_again_to_a_host_that_was_lost(sshd: SshServer) -> None:
    """Connects at once: the agent that was cut off does not know it yet, but knows its controller's
    token.
    """
    with Hosts("a test", silence_s=30) as hosts:
        first = hosts.get(parse_host("dtn"))
        assert hosts.get(parse_host("dtn")) is first
        lose_client(sshd, first)
        sshd.set_link("up")
        assert sack(sshd) == "0"
        begin = time.monotonic()
        second = hosts.get(parse_host("dtn"))
        assert time.monotonic() - begin < 25  # and not after 30 s of silence
        assert second is not first
        assert sack(sshd) == "1"
        assert second.run(["echo", "again"]) == "again\n"


def test_an_unreachable_host_is_tried_three_times(
    sshd: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ccmix.hosts.pool.WAITS_S", (0.1, 0.2))
    with sshd.client_config.open("a") as config:
        config.write(
            f"Host closed\n    HostName {sshd.address}\n    Port 23\n    ProxyCommand none\n"
        )
    with pytest.raises(HostUnreachable, match=r"^closed: .*Connection refused$"):
        connect(parse_host("closed"), "a test")
    tries = sshd.folder / "tries"
    with sshd.client_config.open("a") as config:
        config.write(
            f"Host third\n    ProxyCommand sh -c 'echo >>{tries}; echo Connection refused >&2; "
            "exit 1'\n"
        )
    with Hosts("a test") as hosts, pytest.raises(HostUnreachable):
        hosts.get(parse_host("third"))
    assert tries.read_text() == "\n\n\n"


def test_a_user_who_may_use_sudo(sshd: SshServer, tmp_path: Path) -> None:
    host = connect(parse_host("dtn", user="dtn"), "a test")
    try:
        assert (host.name, host.uid) == ("dtn@dtn", 54321)
        assert host.run(["id", "-un"]) == "dtn\n"
        with pytest.raises(CommandError, match="permission denied"):
            host.run(SET_SACK)
        with host.changed("sack", SET_SACK, UNSET_SACK):
            assert sack(sshd) == "0"
            [journal] = sshd.state.iterdir()
            assert '["sudo", "-n", "sysctl"' in journal.read_text()
        assert sack(sshd) == "1"
        with pytest.raises(CommandError, match="sudo"):  # traffic that the rules don't have
            host.run(["cat", "/etc/shadow"], privileged=True)
        deaf = ["env", "--ignore-signal=TERM", "sleep", "60"]
        with host.start(deaf, stdout=tmp_path / "o", stderr=tmp_path / "e", privileged=True):
            wait_for(lambda: "sleep 60" in commands_in(sshd.namespace.name), 15, "it runs as root")
        assert not sleeps(sshd)
    finally:
        host.close()


def test_undos_through_sudo_after_a_lost_connection(sshd: SshServer) -> None:
    host = connect(parse_host("dtn@dtn"), "a test")
    with contextlib.suppress(HostLost), host.changed("sack", SET_SACK, UNSET_SACK):
        assert sack(sshd) == "0"
        kill_sessions(sshd)
        wait_for(lambda: host.lost, 15, "the session is lost")
    wait_for(lambda: is_as_before(sshd), 15, "the agent has undone everything")


def test_a_host_key_that_is_not_known(sshd: SshServer) -> None:
    (sshd.folder / "known_hosts").write_text("")
    with pytest.raises(
        ConnectError, match=r"^dtn: Host key verification failed\. .*accept it first: ssh dtn$"
    ):
        connect(parse_host("dtn"), "a test")


def test_a_user_who_is_not_let_in(sshd: SshServer) -> None:
    sshd.reconfigure("AllowUsers dtn")
    with pytest.raises(
        ConnectError,
        match=r"^nobody@dtn: .*Permission denied .*'ssh nobody@dtn' must work with a key",
    ):
        connect(parse_host("nobody@dtn"), "a test")


# As a user whose shell reads no file that may set a PATH again.
@pytest.mark.parametrize(
    ("server_line", "message"),
    [
        (
            "SetEnv PATH={folder}",
            r"^dtn@dtn: no python3 there \(.*not found\): ccmix needs Python 3\.9 or newer$",
        ),
        (
            "SetEnv PATH={folder}/old",
            r"^dtn@dtn: its python3 is 3\.6: ccmix needs Python 3\.9 or newer there$",
        ),
        (
            "ForceCommand echo only backups",
            r"^dtn@dtn: .*it answered 'only backups', but did not run python3$",
        ),
        (
            "ForceCommand echo go away >&2; exit 1",
            r"^dtn@dtn: ccmix's agent did not start: go away$",
        ),
    ],
    ids=["no python3", "old python3", "another command", "a refusal"],
)
def test_a_host_without_a_python3_that_can(server_line: str, message: str, sshd: SshServer) -> None:
    old = sshd.folder / "old" / "python3"
    old.parent.mkdir()
    old.write_text(
        "#!/usr/bin/python3\nimport sys\nsys.version_info = (3, 6, "
        "8)\nexec(sys.argv[sys.argv.index('-c') + 1])\n"
    )
    old.chmod(0o755)
    sshd.reconfigure(server_line.format(folder=sshd.folder))
    with pytest.raises(ConnectError, match=message):
        connect(parse_host("dtn@dtn"), "a test")


def test_a_host_that_takes_the_connection_and_hangs(sshd: SshServer) -> None:
    sshd.reconfigure("ForceCommand exec timeout 20 sleep 1000")  # it would outlive its connection
    with pytest.raises(
        HostSilent, match=r"^dtn: it accepted the connection, but no agent answered within 4 s"
    ):
        connect(parse_host("dtn"), "a test", within_s=4)


def test_what_a_login_shell_prints_is_no_message(sshd: SshServer) -> None:
    sshd.reconfigure('ForceCommand echo Welcome to dtn; echo; sh -c "$SSH_ORIGINAL_COMMAND"')
    host = connect(parse_host("dtn"), "a test")
    assert host.run(["echo", "a"]) == "a\n"
    host.close()


def test_names_of_hosts_are_never_options() -> None:
    """Checks both parse_host and OpenSSH, with an address that was made in another way: -V would
    print its version.
    """
    with pytest.raises(ValueError, match="is not a host"):
        parse_host("-V")
    with pytest.raises(ConnectError) as caught:
        connect(HostAddress(AddressKind.SSH, "-V"), "a test")
    assert "OpenSSH" not in str(caught.value)
