"""Tests `ccmix cca` with the real ccmix-cca, on this machine's kernel."""

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ccmix.conditions.bpf_cca import ALLOWED, AVAILABLE
from ccmix.hosts import NamespaceHost
from ccmix.tools import find_iperf3
from support.cca_bpf import Loader, Sink, connect, linked_namespaces, send
from support.commands import CCMIX, REPOSITORY, Ccmix, wait_for
from support.sshd import SshServer

GUIDE = REPOSITORY / "docs/howto/try-bbr3-on-a-dtn.md"

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all")


def acknowledged(namespace: str) -> list[int]:
    """Returns the number of acknowledged bytes of each TCP connection of the namespace."""
    shown = subprocess.run(
        ["ss", "-N", namespace, "-tinH"], capture_output=True, text=True, check=True
    ).stdout
    return [int(count) for count in re.findall(r"bytes_acked:(\d+)", shown)]


def must(ccmix: Ccmix, *words: str) -> str:
    done = ccmix("cca", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("lists_of_sockets")
def test_what_the_guide_says_works(loader: Loader, ccmix: Ccmix) -> None:
    """Runs `ccmix cca load bbr3 && ccmix-iperf3 -C cubic,bbr3`, looks at its state, and undoes all
    changes.
    """
    with linked_namespaces() as (near, far), ExitStack() as started:
        must(ccmix, "load", "bbr3")
        enter, iperf3 = ("ip", "netns", "exec"), str(find_iperf3())
        server = started.enter_context(
            subprocess.Popen([*enter, far, iperf3, "-s", "-1"], stdout=subprocess.DEVNULL)
        )
        started.callback(server.terminate)
        wait_for(
            lambda: b":5201" in subprocess.check_output(["ss", "-N", far, "-ltn"]),
            30,
            "the server listens",
        )
        argv = [
            *enter,
            near,
            iperf3,
            "-c",
            "10.88.0.2",
            "-P",
            "2",
            "-C",
            "cubic,bbr3",
            "-b",
            "50M",
            "-t",
            "120",
            "-J",
        ]
        client = started.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        started.callback(client.terminate)
        wait_for(lambda: loader.status() != [], 30, "a connection uses it")
        shown = must(ccmix, "status")
        wait_for(
            lambda: len([count for count in acknowledged(near) if count > 1e6]) == 2,
            30,
            "both streams send",
        )
        client.send_signal(signal.SIGUSR1)  # which ends the test as if its time were over
        output, _ = client.communicate(timeout=60)
        server.wait(60)
    assert "bbr3" in shown
    assert "10.88.0.2:5201" in shown
    streams = json.loads(output)["end"]["streams"]
    assert [stream["sender"]["congestion"] for stream in streams] == ["cubic", "bbr3"]
    assert all(stream["sender"]["bytes"] > 1e6 for stream in streams)
    must(ccmix, "unload", "bbr3")
    assert "bbr3" not in Path(AVAILABLE).read_text()


@pytest.mark.usefixtures("lists_of_sockets")
def test_the_commands_of_the_guide_work_in_their_order(loader: Loader, ccmix: Ccmix) -> None:
    commands = re.findall(
        r"^    sudo \.venv/bin/ccmix cca ([^#\n]+)", GUIDE.read_text(), re.MULTILINE
    )
    assert [command.split()[0] for command in commands] == [
        "check",
        "load",
        "list",
        "status",
        "load",
        "unload",
        "list",
    ]
    for command in commands:
        must(ccmix, *command.split())
    assert loader.list() == {}


def test_it_is_unloaded_by_itself_after_a_while(loader: Loader) -> None:
    """As in the guide for a machine without systemd, but after a second instead of an hour."""
    [command] = re.findall(r"^    sudo (setsid .*)$", GUIDE.read_text(), re.MULTILINE)
    assert "sleep 3600" in command
    loader.must("load", "bbr3")
    subprocess.run(shlex.split(command.replace("3600", "1")), cwd=REPOSITORY, check=True)
    wait_for(lambda: loader.list() == {}, 20, "it is unloaded")


@pytest.mark.usefixtures("lists_of_sockets")
def test_each_command_does_what_it_says(loader: Loader, ccmix: Ccmix) -> None:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text()
    assert ccmix("cca", "list").stdout == ""
    must(ccmix, "load", "bbr2", "loss_thresh=9")
    assert Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text() == default
    [row] = json.loads(must(ccmix, "list", "--format", "json"))
    assert (row["name"], row["sockets"], row["parameters"]["loss_thresh"]) == ("bbr2", 0, "9")
    assert row["program"] in must(ccmix, "list")
    must(ccmix, "set", "bbr2", "loss_thresh=4", "pacing_gain=320,192,256,256")
    parameters = loader.list()["bbr2"]["parameters"]
    assert (parameters["loss_thresh"], parameters["pacing_gain"]) == ("4", "320,192,256,256")
    with (
        linked_namespaces() as (near, far),
        Sink(far) as sink,
        connect(near, "10.88.0.2", sink.port, "bbr2") as connection,
    ):
        send(connection, 1_000_000)
        [state] = json.loads(must(ccmix, "status", "bbr2", "--format", "json"))
    assert (state["name"], state["remote_port"]) == ("bbr2", sink.port)
    must(ccmix, "unload", "bbr2")
    assert loader.list() == {}


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("load", "bbr3"), 1, "bbr3"),  # it is loaded
        (("load", "bbr2", "no_such=1"), 2, "no_such"),
        (("load", "bbr2", "loss_thresh=300000"), 2, "loss_thresh"),
        (("unload", "bbr2"), 1, "not loaded"),
        (("unload", "bbr2", "--missing-ok"), 0, ""),
        (("set", "bbr2", "loss_thresh=5"), 1, "not loaded"),
        (("set", "bbr3"), 2, "PARAM"),
        (("load", "bbr1"), 2, "bbr1"),
        (("list", "--host", "no such host"), 2, "no such host"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_exit_statuses_and_messages(
    words: tuple[str, ...], status: int, says: str, loader: Loader, ccmix: Ccmix
) -> None:
    loader.must("load", "bbr3")
    done = ccmix("cca", *words)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert set(loader.list()) == {"bbr3"}


def test_a_user_without_rights_is_told_so(loader: Loader, ccmix: Ccmix) -> None:
    done = subprocess.run(
        [*NOBODY, str(loader.program), "check", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [need["need"] for need in json.loads(done.stdout) if not need["ok"]] == ["rights"]
    for words in (["load", "bbr3"], ["list"], ["status"]):
        argv = [*NOBODY, "env", "HOME=/nonexistent", CCMIX, "cca", *words]
        refused = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert "rights: the capability CAP_SYS_ADMIN is missing: run this as root" in refused.stderr
    assert loader.list() == {}


def test_users_may_choose_it_only_if_the_administrator_says_so(
    loader: Loader, ccmix: Ccmix
) -> None:
    choose = "import socket; socket.socket().setsockopt(socket.IPPROTO_TCP, 13, b'bbr3')"
    allowed = Path(ALLOWED).read_text()
    loads: list[tuple[list[tuple[str, ...]], bool]] = [
        ([()], False),
        ([("--allow-users",)], True),
        ([(), ("--allow-users",)], True),  # the guide's steps 2 and 4
    ]
    for options, may in loads:
        for option in options:
            must(ccmix, "load", "bbr3", *option)
        done = subprocess.run(
            [*NOBODY, "/usr/bin/python3", "-c", choose], capture_output=True, text=True, check=False
        )
        assert ("" if may else "PermissionError") in done.stderr
        assert (done.returncode == 0) is may, done.stderr
        must(ccmix, "unload", "bbr3")
    assert Path(ALLOWED).read_text() == allowed


def test_users_cannot_be_allowed_in_a_namespace(
    loader: Loader, ccmix: Ccmix, namespace: NamespaceHost
) -> None:
    done = ccmix("cca", "load", "bbr3", "--allow-users", "--host", f"netns:{namespace.name}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"netns:{namespace.name}: users without root can't be allowed")
    assert loader.list() == {}


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces ccmix-cca by a shell script. A test must request this fixture before `ccmix`."""
    file = tmp_path / "ccmix-cca"
    monkeypatch.setenv("CCMIX_CCA", str(file))

    def put(script: str) -> None:
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    return put


@pytest.mark.parametrize("of_a_host", [False, pytest.param(True, marks=pytest.mark.namespaces)])
def test_warnings_are_shown(
    of_a_host: bool, stand_in: Callable[[str], None], ccmix: Ccmix, request: pytest.FixtureRequest
) -> None:
    host = f"netns:{request.getfixturevalue('namespace').name}" if of_a_host else None
    stand_in(
        "echo 'ccmix-cca: bbr3 was loaded by another build: its sockets are not shown' >&2; echo "
        "'[]'"
    )
    for words in ("status",), ("unload", "bbr3"):
        done = ccmix("cca", *words, *(["--host", host] if host else []))
        assert done.returncode == 0, done.stderr
        prefix = f"{host}: " if host else ""
        assert (
            done.stderr
            == f"{prefix}ccmix-cca: bbr3 was loaded by another build: its sockets are not shown\n"
        )


@pytest.mark.parametrize("command", ["list", "status", "check"])
@pytest.mark.parametrize(
    "rows",
    [
        "[1]",
        "{}",
        "5",
        "[{}]",
        '[{"name": 5, "sockets": 1, "fallbacks": 1, "program": "x"}]',
        '[{"need": 5}]',
    ],
)
def test_rows_that_are_not_of_ccmix_cca(
    rows: str, command: str, stand_in: Callable[[str], None], ccmix: Ccmix
) -> None:
    stand_in(f"echo '{rows}'")
    done = ccmix("cca", command)
    assert done.returncode == 1
    assert "the output of ccmix-cca is not understood" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_host_says_reaches_no_terminal_as_control_characters(
    stand_in: Callable[[str], None], ccmix: Ccmix
) -> None:
    stand_in(
        """echo '[{"name": "bbr3\\u001b[2J", "sockets": 1, "fallbacks": 0, "program": "x"}]'
        printf '\\033[2Jwarning\\n' >&2"""
    )
    listed = ccmix("cca", "list")
    assert listed.stdout.split() == [
        "CCA",
        "sockets",
        "fallbacks",
        "program",
        "bbr3\ufffd[2J",
        "1",
        "0",
        "x",
    ]
    stand_in("printf '\\033[2Jno rights\\nat all' >&2; exit 1")
    refused = ccmix("cca", "list")
    assert refused.returncode == 1
    assert refused.stderr == "\ufffd[2Jno rights / at all\n"
    assert "\x1b" not in listed.stdout + listed.stderr + refused.stderr


@pytest.mark.parametrize("login", ["root", "dtn"])
def test_on_a_host_over_ssh_that_has_nothing_installed(
    login: str, loader: Loader, sshd: SshServer, ccmix: Ccmix
) -> None:
    """As root, and by sudo of an ordinary user; only the CCA stays."""
    host = ("--host", f"{login}@dtn")
    before = set(Path("/tmp").iterdir())
    if login != "root":
        sudoers = Path("/etc/netns", sshd.namespace.name, "sudoers")
        sudoers.write_text(sudoers.read_text() + f"\n{login} ALL=(root) NOPASSWD: ALL\n")
    assert "lacks" not in must(ccmix, "check", *host)
    must(ccmix, "load", "bbr3", "loss_thresh=6", *host)
    assert loader.list()["bbr3"]["parameters"]["loss_thresh"] == "6"
    assert "bbr3" in must(ccmix, "list", *host)
    again = ccmix("cca", "load", "bbr3", *host)
    assert again.returncode == 1
    assert again.stderr.startswith(f"{login}@dtn: ")
    must(ccmix, "unload", "bbr3", *host)
    assert loader.list() == {}
    assert [
        path for path in set(Path("/tmp").iterdir()) - before if (path / "ccmix-cca").exists()
    ] == []
