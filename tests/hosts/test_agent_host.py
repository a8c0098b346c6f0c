"""Tests an agent in a network namespace: how it runs and ends commands and undoes changes, whatever
happens to it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.agent.left_journals import restore
from ccmix.conditions import qdisc
from ccmix.conditions.sysctl import changed_sysctls
from ccmix.hosts import CommandError, NamespaceHost
from ccmix.hosts.address import HostAddress, parse_host
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.agent_process import AgentProcess
from ccmix.hosts.caps import CAPTURE
from ccmix.hosts.errors import ConnectError, HostLost
from ccmix.hosts.pool import Hosts, connect
from support.commands import commands_in, wait_for

SACK = "net.ipv4.tcp_sack"
SET_SACK = ["sysctl", "-q", "-w", f"{SACK}=0"]
UNSET_SACK = ["sysctl", "-q", "-w", f"{SACK}=1"]

# Continues in a session of its own after its parent has ended, as daemons do, and ignores
# SIGTERM.
DEAF_DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"deaf ")
time.sleep(60)
"""
# Waits for datagrams, and has another socket that does not.
UDP_SERVER = """
import socket, time
waits, talks = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
talks.connect(("127.0.0.1", 9))
waits.bind(("127.0.0.1", 53))
time.sleep(60)
"""
# Becomes another process every few milliseconds: a process to be killed has forked and ended.
HOPPER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"hops ")
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    time.sleep(0.002)
"""
# Gets another child every 10 ms: some start while the others are killed.
BREEDER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"breeds ")
while os.fork(): time.sleep(0.01)
time.sleep(60)
"""


@pytest.fixture
def address(namespace: NamespaceHost, state: Path, monkeypatch: pytest.MonkeyPatch) -> HostAddress:
    """Returns the address of the test's namespace, whose agents keep their journals in `state`."""
    monkeypatch.setenv("CCMIX_STATE", str(state))
    return parse_host(f"netns:{namespace.name}")


@pytest.fixture
def host(address: HostAddress) -> Iterator[AgentHost]:
    connected = connect(address, "a test")
    yield connected
    connected.abandon(15)


@pytest.fixture
def impatient(address: HostAddress) -> Iterator[AgentHost]:
    """Connects a host whose agent and controller treat each other as lost after 2 s."""
    connected = connect(address, "a test", silence_s=2)
    yield connected
    connected.abandon(15)


def sack(namespace: NamespaceHost) -> str:
    return namespace.run(["sysctl", "-n", SACK]).strip()


def is_as_before(namespace: NamespaceHost, state: Path) -> bool:
    return sack(namespace) == "1" and not commands_in(namespace.name) and not list(state.iterdir())


def agent_pid(host: AgentHost) -> int:
    return int(host.hello["pid"])


def started(
    host: AgentHost, argv: list[str], folder: Path
) -> contextlib.AbstractContextManager[AgentProcess]:
    return host.start(argv, stdout=folder / "o", stderr=folder / "e")


def test_what_the_agent_says_of_its_host(
    host: AgentHost, state: Path, address: HostAddress
) -> None:
    assert host.name == str(address)
    assert host.uid == os.geteuid()
    assert host.hello["kernel"] == os.uname().release
    assert host.hello["state"] == str(state)
    folder = Path(host.hello["folder"])
    assert folder.stat().st_mode & 0o777 == 0o700
    host.close()
    assert not folder.exists()
    assert not list(state.iterdir())


def test_output_and_input_of_a_command(host: AgentHost) -> None:
    assert host.run(["sh", "-c", 'cat; echo "$0"', "a  b; c"], stdin="in ") == "in a  b; c\n"
    assert host.run(["cat"], stdin="é\n" * 200_000) == "é\n" * 200_000
    assert host.run(["true"], stdin="not wanted" * 100_000) == ""


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["no-such-program", "-x"], "No such file or directory"),
        (["/etc/passwd"], "Permission denied"),
        (["sh", "-c", "exit 3"], "exit status 3"),
        (["sh", "-c", "kill -9 $$"], "exit status 137"),
        (["sh", "-c", "echo a >&2; echo b >&2; exit 4"], "exit status 4: a / b"),
        (["sh", "-c", "echo out; exit 5"], "exit status 5: out"),
        (["sleep\0", "1"], "embedded null byte"),
    ],
    ids=[
        "missing",
        "no program",
        "status",
        "signal",
        "standard error",
        "standard output",
        "no argument",
    ],
)
def test_a_failed_command_is_reported_in_one_line(
    argv: list[str], reason: str, host: AgentHost
) -> None:
    with pytest.raises(CommandError) as caught:
        host.run(argv)
    assert str(caught.value) == f"{host.name}: {' '.join(argv)}: {reason}"


def test_a_command_that_does_not_end_is_ended(host: AgentHost, namespace: NamespaceHost) -> None:
    with pytest.raises(CommandError, match=r"sleep 60: has not ended after 0\.3 s"):
        host.run(["sleep", "60"], timeout_s=0.3)
    assert "sleep 60" not in commands_in(namespace.name)
    assert host.run(["echo", "next"]) == "next\n"


def test_files_and_large_outputs_of_any_bytes(host: AgentHost, tmp_path: Path) -> None:
    data = os.urandom(10_000_000)
    (tmp_path / "here").write_bytes(data)
    there = host.put(tmp_path / "here", "there")
    assert Path(there).read_bytes() == data
    assert Path(there).stat().st_mode & 0o777 == 0o600
    host.fetch(there, tmp_path / "back", CAPTURE, 10_000_000)
    assert (tmp_path / "back").read_bytes() == data
    with pytest.raises(
        CommandError, match="cat -- /no/such: exit status 1: cat: /no/such: No such file"
    ):
        host.fetch("/no/such", tmp_path / "none", CAPTURE, 10)


def test_a_program_that_was_put_there_runs(host: AgentHost, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho $1\n")
    program.chmod(0o755)
    assert host.run([host.put(program, "p"), "it runs"]) == "it runs\n"


def test_a_file_that_cannot_be_read(host: AgentHost, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("text")
    assert host.read(f"{tmp_path}/there") == "text"
    with pytest.raises(
        CommandError, match=f"^{host.name}: read {tmp_path}/missing: No such file or directory$"
    ):
        host.read(f"{tmp_path}/missing")


def test_a_started_command_writes_its_outputs_and_ends_by_itself(
    host: AgentHost, tmp_path: Path
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("old")
    err.write_text("old\n")
    with host.start(
        ["sh", "-c", "echo out; echo err >&2; exit 7"], stdout=out, stderr=err
    ) as process:
        assert process.wait(30) == 7
        assert process.ended()
    assert (out.read_text(), err.read_text()) == ("out\n", "old\nerr\n")


def test_what_a_command_has_written_is_there_when_it_has_ended(
    host: AgentHost, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for _ in range(5):
        with host.start(
            ["sh", "-c", "sleep 60 & head -c 65536 /dev/zero"], stdout=out, stderr=tmp_path / "e"
        ) as process:
            process.wait(30)
            assert out.stat().st_size == 65536


def test_outputs_come_while_the_command_runs(host: AgentHost, tmp_path: Path) -> None:
    with started(host, ["sh", "-c", "echo a; sleep 60"], tmp_path) as process:
        wait_for(lambda: (tmp_path / "o").read_text() == "a\n", 15, "output")
        assert not process.ended()
        with pytest.raises(CommandError, match=r"has not ended after 0\.05 s"):
            process.wait(0.05)


def test_two_commands_at_once(host: AgentHost, tmp_path: Path) -> None:
    """Shows that the host can be used while a command's output never ends."""
    with host.start(["cat", "/dev/zero"], stdout=Path("/dev/null"), stderr=tmp_path / "e"):
        for word in ("a", "b", "c"):
            assert host.run(["echo", word], timeout_s=120) == f"{word}\n"


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_an_output_that_nobody_takes_is_not_kept_in_the_agents_memory(
    host: AgentHost, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    before = resident_bytes(agent_pid(host))
    with (
        contextlib.suppress(HostLost),
        host.start(["cat", "/dev/zero"], stdout=fifo, stderr=tmp_path / "e"),
    ):
        time.sleep(0.7)
        assert resident_bytes(agent_pid(host)) - before < 20e6
        os.close(reader)
    assert host.run(["echo", "next"]) == "next\n"


def test_an_input_ends_while_another_command_runs(host: AgentHost, tmp_path: Path) -> None:
    """Shows that no command holds another command's pipes."""
    counted: list[str] = []
    slow = ["sh", "-c", "sleep 0.3; wc -c"]
    thread = threading.Thread(target=lambda: counted.append(host.run(slow, stdin="x" * 200_000)))
    thread.start()
    time.sleep(0.1)
    with started(host, ["sleep", "60"], tmp_path):
        thread.join(30)
        assert counted == ["200000\n"]


def test_an_output_that_cannot_be_written_here(host: AgentHost) -> None:
    full = Path("/dev/full")
    with (
        pytest.raises(CommandError, match=r"its stdout can't be written here: .*No space left"),
        host.start(["sh", "-c", "echo a; sleep 60"], stdout=full, stderr=full) as process,
    ):
        process.wait(30)
    assert host.run(["echo", "next"]) == "next\n"


def test_daemons_end_with_the_command_that_left_them(
    host: AgentHost, namespace: NamespaceHost, tmp_path: Path
) -> None:
    """Includes daemons that ignore SIGTERM, that fork while they are killed, and that closed
    everything.
    """
    script = f"""
    {sys.executable} -c '{DEAF_DAEMON}'
    {sys.executable} -c '{HOPPER}' &
    {sys.executable} -c '{BREEDER}' &
    setsid sh -c 'sleep 61 >/dev/null 2>&1 </dev/null &'
    """
    out = tmp_path / "o"
    with host.start(["sh", "-c", script], stdout=out, stderr=tmp_path / "e") as process:
        assert process.wait(30) == 0
        wait_for(
            lambda: sorted(out.read_text().split()) == ["breeds", "deaf", "hops"], 15, "all run"
        )
        assert "sleep 61" in commands_in(namespace.name)
        begin = time.monotonic()
    assert 2.9 < time.monotonic() - begin < 50, "SIGKILL comes 3 s after SIGTERM"
    assert len(commands_in(namespace.name)) == 1, "the agent"
    assert host.run(["echo", "next"]) == "next\n"


def test_what_run_leaves_in_the_background_is_ended(
    host: AgentHost, namespace: NamespaceHost
) -> None:
    begin = time.monotonic()
    assert host.run(["sh", "-c", "sleep 60 & echo out"]) == "out\n"
    assert time.monotonic() - begin < 50
    assert "sleep 60" not in commands_in(namespace.name)


def test_where_a_daemon_listens(host: AgentHost, namespace: NamespaceHost, tmp_path: Path) -> None:
    namespace.run(["ip", "link", "set", "lo", "up"])
    o, e = tmp_path / "o", tmp_path / "e"
    with host.start(
        ["iperf3", "--server", "--daemon", "--port", "5202"], stdout=o, stderr=e
    ) as server:
        assert server.wait(30) == 0
        wait_for(lambda: server.listening() == [5202], 15, "it listens")
        with host.start([sys.executable, "-c", UDP_SERVER], stdout=o, stderr=e) as other:
            wait_for(lambda: other.listening("udp") == [53], 15, "it listens")
            assert other.listening() == []
            assert server.listening() == [5202]
        result = host.run(["iperf3", "--client", "127.0.0.1", "--port", "5202", "--bytes", "1M"])
        assert "iperf Done" in result, "the server of before: nothing has connected to it"
    assert not any("iperf3" in command for command in commands_in(namespace.name))


def test_changes_are_undone_in_reverse(
    host: AgentHost, namespace: NamespaceHost, state: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words"

    def log(word: str) -> list[str]:
        return ["sh", "-c", f"echo {word} | tee -a {words}"]

    with (
        host.changed("a", log("a"), log("undo-a")) as output,
        host.changed("b", log("b"), log("undo-b")),
    ):
        assert output == "a\n"
        [journal] = state.iterdir()
        assert f'"what": "a on {host.name}"' in journal.read_text()
    assert words.read_text().split() == ["a", "b", "undo-b", "undo-a"]
    host.close()
    assert is_as_before(namespace, state)


def test_conditions_on_an_agents_host(host: AgentHost, namespace: NamespaceHost) -> None:
    before = qdisc.qdiscs(namespace, "lo")
    tbf = ["tbf", "rate", "1gbit", "burst", "3000", "limit", "100000"]
    with changed_sysctls(host, {SACK: "0"}), qdisc.replaced_qdisc(host, "lo", tbf):
        assert sack(namespace) == "0"
        assert [tbf["kind"] for tbf in qdisc.qdiscs(namespace, "lo")] == ["tbf"]
    assert sack(namespace) == "1"
    assert qdisc.qdiscs(namespace, "lo") == before


def test_a_change_that_fails_is_undone_as_far_as_it_went(
    host: AgentHost, namespace: NamespaceHost
) -> None:
    def change() -> None:
        with host.changed("both", [*SET_SACK, "net.ipv4.no_such=1"], UNSET_SACK):
            pass

    with pytest.raises(CommandError, match="no_such"):
        change()
    assert sack(namespace) == "1"
    host.close()


def test_an_undo_that_fails_is_tried_again_and_reported(
    host: AgentHost, state: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    with (
        pytest.raises(CommandError, match=f"test -e {key}: exit status 1"),
        host.changed("a", ["true"], ["test", "-e", str(key)]),
    ):
        pass
    with pytest.raises(
        CommandError,
        match=rf"undo: a on {host.name}: exit status 1 \(it stays in the journal there\)",
    ):
        host.close()
    [journal] = state.iterdir()
    assert str(key) in journal.read_text()


def test_a_change_is_not_made_where_its_undo_cannot_be_written(
    address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", state], check=True)
    try:
        host = connect(address, "a test")
        with contextlib.suppress(OSError):
            (state / "full").write_bytes(b"x" * 100_000)

        def change() -> None:
            with host.changed("sack" * 2000, SET_SACK, UNSET_SACK):
                pass

        with pytest.raises(CommandError, match=r"about_to: .*No space left on device"):
            change()
        assert sack(namespace) == "1"
        (state / "full").unlink()
        with contextlib.suppress(HostLost), host.changed("sack", SET_SACK, UNSET_SACK):
            os.kill(agent_pid(host), signal.SIGKILL)
        assert sack(namespace) == "0"
        connect(address, "a test").close()
        assert is_as_before(namespace, state), "what was written then can be read"
    finally:
        subprocess.run(["umount", state], check=True)


@contextlib.contextmanager
def busy(host: AgentHost, namespace: NamespaceHost, tmp_path: Path) -> Iterator[None]:
    """Makes a change, and starts a command with a daemon, on a host whose connection is
    lost inside.
    """
    argv = ["sh", "-c", "sleep 60 & sleep 60"]
    with (
        contextlib.suppress(HostLost),
        host.changed("sack", SET_SACK, UNSET_SACK),
        started(host, argv, tmp_path),
    ):
        wait_for(lambda: commands_in(namespace.name).count("sleep 60") == 2, 15, "both run")
        assert sack(namespace) == "0"
        yield


def test_an_agent_that_is_killed(
    host: AgentHost, address: HostAddress, namespace: NamespaceHost, state: Path, tmp_path: Path
) -> None:
    """Lets the kernel and the keepers end its commands; the next agent undoes its changes after
    they have ended.
    """
    folder, deaf = host.hello["folder"], tmp_path / "deaf"
    with (
        busy(host, namespace, tmp_path),
        host.start([sys.executable, "-c", DEAF_DAEMON], stdout=deaf, stderr=tmp_path / "e"),
    ):
        wait_for(lambda: deaf.read_text() == "deaf ", 15, "it runs")
        killed = time.monotonic()
        os.kill(agent_pid(host), signal.SIGKILL)
        with pytest.raises(
            HostLost, match=f"^connection to {address} lost: it has ended with status -9$"
        ):
            host.run(["true"])
        assert sack(namespace) == "0"
        after = connect(address, "another test")
        assert 2.9 < time.monotonic() - killed < 50
        assert sack(namespace) == "1"
        assert len(commands_in(namespace.name)) == 1, "the agent"
    assert after.waits == "2 changes of a run that died are being undone"
    assert [list(each) for each in after.hello["restored"]] == [
        [f"sack on {address}", None],
        [f"temporary folder {folder}", None],
    ]
    after.close()
    assert is_as_before(namespace, state)


def test_an_undo_whose_keeper_is_killed_is_carried_out_again(
    host: AgentHost, state: Path, tmp_path: Path
) -> None:
    """Kills the keeper of an undo before it takes effect, after a change that failed half-way."""
    half, tried = tmp_path / "half", tmp_path / "tried"
    undo = [
        "sh",
        "-c",
        f"test -e {tried} || {{ touch {tried}; kill -9 $PPID; sleep 60; }}; rm {half}",
    ]
    with (
        pytest.raises(CommandError, match="exit status 1"),
        host.changed("a file", ["sh", "-c", f"touch {half}; false"], undo),
    ):
        pass
    assert half.exists()
    host.close()
    assert not half.exists()
    assert not list(state.iterdir())


def test_an_undo_whose_keeper_is_killed_may_have_taken_effect(
    host: AgentHost, state: Path, tmp_path: Path
) -> None:
    """Kills the keeper of an undo after the undo has taken effect, which it can't do twice: nothing
    is left to undo.
    """
    there = tmp_path / "there"
    undo = ["sh", "-c", f"rm {there} || exit 1; kill -9 $PPID"]
    with (
        pytest.raises(CommandError, match="its keeper was killed"),
        host.changed("a file", ["touch", str(there)], undo),
    ):
        assert there.exists()
    host.close()
    assert not list(state.iterdir())


def test_ccmix_restore_there_undoes_what_a_killed_agent_left(
    host: AgentHost, namespace: NamespaceHost, state: Path, tmp_path: Path
) -> None:
    with busy(host, namespace, tmp_path):
        os.kill(agent_pid(host), signal.SIGKILL)
        wait_for(lambda: not commands_in(namespace.name), 15, "all have ended")
    assert list(restore(state)) == [], (
        "in another namespace it would undo what was never done there"
    )
    program = (
        "from ccmix.agent.left_journals import restore; print([(undo.what, reason) for undo, "
        "reason in restore()])"
    )
    restored = namespace.run([sys.executable, "-c", program])
    assert f"('sack on {host.name}', None)" in restored
    assert is_as_before(namespace, state)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_agent_that_is_asked_to_end(
    number: int, host: AgentHost, namespace: NamespaceHost, state: Path, tmp_path: Path
) -> None:
    with busy(host, namespace, tmp_path):
        os.kill(agent_pid(host), number)
        with pytest.raises(HostLost, match=f"ccmix-agent: got {signal.Signals(number).name}"):
            host.run(["sleep", "60"])
        assert is_as_before(namespace, state)


def test_changes_are_undone_after_commands_have_ended(
    host: AgentHost, state: Path, tmp_path: Path
) -> None:
    pid, order = tmp_path / "pid", tmp_path / "told"
    undo = ["sh", "-c", f"kill -0 $(cat {pid}) && echo alive >{order} || echo ended >{order}"]
    argv = ["sh", "-c", f"echo $$ >{pid}; exec sleep 60"]
    with (
        contextlib.suppress(HostLost),
        host.changed("a", ["true"], undo),
        started(host, argv, tmp_path) as process,
    ):
        wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), 15, "it runs")
        os.kill(agent_pid(host), signal.SIGTERM)
        process.wait(60)
    wait_for(lambda: not list(state.iterdir()), 15, "it is undone")
    assert order.read_text() == "ended\n"


def test_an_agent_that_has_stopped(
    impatient: AgentHost, namespace: NamespaceHost, state: Path, tmp_path: Path
) -> None:
    with busy(impatient, namespace, tmp_path):
        os.kill(agent_pid(impatient), signal.SIGSTOP)
        try:
            with pytest.raises(HostLost, match="nothing heard for 2 s"):
                impatient.run(["true"])
        finally:
            os.kill(agent_pid(impatient), signal.SIGCONT)
        wait_for(lambda: is_as_before(namespace, state), 15, "it is as before")


CONTROLLER = """
import sys, time
from pathlib import Path
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import connect
host = connect(parse_host(sys.argv[1]), "a controller", silence_s=2)
argv = ["sh", "-c", "sleep 60 & sleep 60"]
with host.changed("sack", {set}, {unset}), host.start(argv, stdout=Path("/dev/null"), stderr=Path("/dev/null")):
    print("busy", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_controller_that_dies_or_falls_silent(
    number: int, address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    program = CONTROLLER.format(set=SET_SACK, unset=UNSET_SACK)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(address)], stdout=subprocess.PIPE, text=True
    ) as controller:
        try:
            assert controller.stdout
            assert controller.stdout.readline() == "busy\n"
            wait_for(lambda: commands_in(namespace.name).count("sleep 60") == 2, 15, "both run")
            assert sack(namespace) == "0"
            controller.send_signal(number)
            wait_for(
                lambda: is_as_before(namespace, state),
                15,
                "the agent has ended and undone everything",
            )
        finally:
            controller.kill()


def test_a_controller_that_has_nothing_to_say_is_not_taken_for_silent(impatient: AgentHost) -> None:
    time.sleep(2.5)
    assert impatient.run(["echo", "here"]) == "here\n"


def test_a_second_campaign_learns_who_has_the_host(host: AgentHost, address: HostAddress) -> None:
    with pytest.raises(ConnectError) as caught:
        connect(address, "another campaign")
    refusal = str(caught.value)
    assert refusal.startswith(
        f"{address}: the host is in use by a test, of root on {os.uname().nodename} (pid "
        f"{os.getpid()})"
    )
    assert host.run(["echo", "undisturbed"]) == "undisturbed\n"
    host.close()
    connect(address, "another campaign").close()


def test_an_onlooker_beside_a_campaign(
    host: AgentHost, address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    """Shows that it takes neither the campaign's lock nor its changes, and leaves nothing
    behind.
    """
    with host.changed("sack", SET_SACK, UNSET_SACK):
        before = sorted(state.iterdir())
        onlooker = connect(address, "somebody", onlooker=True)
        assert onlooker.run(["sysctl", "-n", SACK]) == "0\n"
        assert (onlooker.hello["left"], sorted(state.iterdir())) == ([], before)
        with pytest.raises(ConnectError, match="in use by a test"):
            connect(address, "another campaign")
        onlooker.close()
        assert sack(namespace) == "0"
    host.close()
    assert is_as_before(namespace, state)


def test_an_onlooker_reports_what_a_dead_run_left_and_lets_it_be(
    host: AgentHost, address: HostAddress, namespace: NamespaceHost
) -> None:
    with contextlib.suppress(HostLost), host.changed("sack", SET_SACK, UNSET_SACK):
        os.kill(host.agent_pid, signal.SIGKILL)
    onlooker = connect(address, "somebody", onlooker=True)
    assert onlooker.hello["left"] == [f"sack on {address}", f"temporary folder {host.temporary}"]
    onlooker.close()
    assert sack(namespace) == "0"
    connect(address, "the next campaign").close()
    assert sack(namespace) == "1"


def test_the_same_controller_replaces_its_agent(
    address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    """Connects again while the former agent does not know yet that its connection is lost."""
    former = connect(address, "a test", token="secret")
    with contextlib.suppress(HostLost), former.changed("sack", SET_SACK, UNSET_SACK):
        assert sack(namespace) == "0"
        with pytest.raises(ConnectError, match="in use by a test"):
            connect(address, "a test", token="secre")
        host = connect(address, "a test", token="secret")
        assert sack(namespace) == "1"
        with pytest.raises(HostLost, match="its controller has connected again"):
            former.run(["true"])
    host.close()
    assert is_as_before(namespace, state)


def test_who_holds_the_lock_may_be_anybody(namespace: NamespaceHost, address: HostAddress) -> None:
    """Prints a stranger's answer without control characters, and does not wait for its end."""
    rogue = (
        "import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.bind('\\0ccmix-host'); "
        "s.listen(); print('ready')\n"
        "sys.stdout.flush()\n"
        'connection=s.accept()[0]; connection.send(b\'{"campaign": "\\\\u001b[2J evil"}\\n\'); '
        "time.sleep(60)"
    )
    argv = namespace.command([sys.executable, "-c", rogue])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(ConnectError) as caught:
                connect(address, "a test")
        finally:
            process.kill()
    assert "in use by [2J evil" in str(caught.value)


def test_abandoning_wakes_all_who_wait(
    host: AgentHost, namespace: NamespaceHost, state: Path
) -> None:
    woken: list[str] = []

    def wait() -> None:
        try:
            with host.changed("sack", SET_SACK, UNSET_SACK):
                host.run(["sleep", "60"])
        except HostLost as error:
            woken.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: "sleep 60" in commands_in(namespace.name), 15, "it runs")
    assert host.abandon(10)
    assert is_as_before(namespace, state)
    thread.join(30)
    assert woken == [f"connection to {host.name} lost: it was abandoned"]


def test_threads_at_once(host: AgentHost) -> None:
    results: list[str] = []

    def work(number: int) -> None:
        for turn in range(5):
            with host.changed(f"{number}", ["true"], ["true"]):
                results.append(
                    host.run(["sh", "-c", f"cat; echo {number}-{turn}"], stdin=f"{number}:")
                )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results) == sorted(
        f"{number}:{number}-{turn}\n" for number in range(6) for turn in range(5)
    )


def test_a_signal_wakes_the_main_thread(
    address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    """Works whichever thread gets the signal from the kernel: the connection has its own threads in
    this process.
    """
    program = CONTROLLER.format(set=SET_SACK, unset=UNSET_SACK).replace(
        "time.sleep(60)", "host.run(['sleep', '60'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(address)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as controller:
        try:
            assert controller.stdout
            assert controller.stdout.readline() == "busy\n"
            controller.send_signal(signal.SIGINT)
            controller.wait(50)  # less than the 60 s of its command
            wait_for(lambda: is_as_before(namespace, state), 15, "all is ended and undone")
        finally:
            controller.kill()


def test_a_pool_has_one_agent_for_a_host(
    address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    with Hosts("a test") as hosts:
        host = hosts.get(address)
        assert hosts.get(address) is host
        os.kill(agent_pid(host), signal.SIGTERM)
        wait_for(lambda: host.lost, 15, "it is lost")
        assert hosts.get(address).run(["echo", "again"]) == "again\n"
    assert is_as_before(namespace, state)
    with pytest.raises(HostLost, match="it was closed"):
        hosts.get(address)


def test_a_pool_is_abandoned_at_once(
    address: HostAddress, namespace: NamespaceHost, state: Path
) -> None:
    hosts = Hosts("a test")
    with (
        contextlib.suppress(HostLost),
        hosts.get(address).changed("sack", SET_SACK, UNSET_SACK),
    ):
        assert hosts.abandon()
    assert is_as_before(namespace, state)


def test_this_machine_is_a_host_too(namespace: NamespaceHost, state: Path) -> None:
    """Runs inside the namespace, so that campaigns of this machine keep their lock."""
    program = f"""
import os
os.environ["CCMIX_STATE"] = {str(state)!r}
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import Hosts
with Hosts("a test") as hosts:
    print(hosts.get(parse_host("localhost")).run(["readlink", "/proc/self/ns/net"]), end="")
"""
    assert namespace.run([sys.executable, "-c", program]) == namespace.run(
        ["readlink", "/proc/self/ns/net"]
    )


def test_a_namespace_that_does_not_exist() -> None:
    with pytest.raises(
        ConnectError, match=r"^netns:no-such: ccmix's agent did not start: .*no-such"
    ):
        connect(parse_host("netns:no-such"), "a test")
