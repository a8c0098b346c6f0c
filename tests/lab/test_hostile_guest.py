"""Tests what a hostile command, which is root in its guest, can do to the host: by mounting the
host's folders, and by asking servers on the host's loopback.
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ccmix.lab import GuestSpec, confinement, run_guest
from ccmix.tools import find_userland

pytestmark = pytest.mark.lab

# All paths of the host are below $H, a mount of the whole of it. `try NAME COMMAND` says whether
# the command succeeded.
SCRIPT = r"""
exec 2>/dev/null
try() { if sh -c "$2" >/dev/null; then echo "$1: done"; else echo "$1: refused"; fi; }
export LIBMOUNT_FORCE_MOUNT2=always H=/run/host
mkdir -p $H /run/link /run/up
mount -t hostfs none $H -o / || echo "the mount was refused"
mount -o remount,rw /
try "read a file" 'cat $H$outside/secret'
try "list a folder" 'ls $H$outside'
try "make a file" 'echo x >$H$outside/new'
try "change a file" 'echo x >>$H$outside/changed'
try "remove a file" 'rm $H$outside/removed'
try "rename a file" 'mv -n $H$outside/renamed $H$outside/renamed2'
try "make a folder" 'mkdir $H$outside/folder'
try "write to another run" 'echo x >>$H$other/run.json'
try "write to the home" 'echo x >$H$home/$name'
try "write to /tmp" 'echo x >$H/tmp/$name'
try "write to memory" 'echo x >$H/dev/shm/$name'
try "change the userland" 'echo x >>$H$program'
try "add to the userland" 'echo x >$H$userland/usr/bin/$name'
try "change the userland in place" 'echo x >>${program#$userland}'
ln -s $outside /run/ccmix/job/link
ln -s $outside/secret /run/ccmix/job/file
try "a planted link to a folder" 'mount -t hostfs none /run/link -o /proc/self/cwd/job/link/ && cat /run/link/secret'
try "a planted link to a file" 'cat /run/ccmix/job/file'
try "the way up" 'mount -t hostfs none /run/up -o /proc/self/cwd/job/../ && cat /run/up/outside/secret'
try "another process" 'cat $H/proc/$victim/environ'
try "a device" 'mknod /run/ccmix/job/device c 1 8'
try "TCP by curl" 'curl --silent --max-time 10 http://127.0.0.1:$tcp/'
try "TCP" 'python3 -c "$asks" STREAM $tcp'
try "UDP" 'python3 -c "$asks" DGRAM $udp'
try "a socket's path" 'curl --silent --max-time 10 --unix-socket $H$outside/server http://host/'
try "a way out" 'ip route get 192.0.2.1'
rm -f /run/ccmix/job/link /run/ccmix/job/file /run/ccmix/job/device
echo x >/run/ccmix/job/mine && echo "its own folder: done"
cat /usr/bin/env >/dev/null && echo "its own root: done"
"""
# Exits with 0 if a server on the loopback has answered
ASKS = """
import socket, sys
with socket.socket(socket.AF_INET, getattr(socket, "SOCK_" + sys.argv[1])) as ours:
    ours.settimeout(10)
    ours.connect(("127.0.0.1", int(sys.argv[2])))
    ours.send(b"x")
    ours.recv(1)
"""
NETWORK = {"TCP by curl", "TCP", "UDP", "a socket's path", "a way out"}
# A link is followed in the guest, which has different files. A guest's kernel has no device that
# leads to the host's network, confined or not. None of root's rights are left, such as those for
# devices and for processes of root. An ordinary user's guest may read the same as his processes.
NEVER = (
    {"a planted link to a file", "a device"}
    | NETWORK
    | (set() if os.geteuid() else {"another process"})
)


@dataclass(frozen=True)
class Host:
    """Holds the targets of the attacks, by the names of the script's variables."""

    outside: Path
    other: Path
    home: Path
    userland: Path
    name: str
    servers: tuple[socket.socket, socket.socket, socket.socket]
    """Listen for TCP and UDP on the loopback, and at a path."""

    @property
    def tcp(self) -> int:
        return port(self.servers[0])

    @property
    def udp(self) -> int:
        return port(self.servers[1])

    @property
    def program(self) -> Path:
        return self.userland / "usr/bin/env"


def port(server: socket.socket) -> int:
    """Returns the number of the port that it listens at."""
    return int(server.getsockname()[1])


@pytest.fixture
def host(tmp_path: Path, job: Path) -> Iterator[Host]:
    """Makes a host's folders; the userland is a copy, which a guest may spoil."""
    folders = [tmp_path / name for name in ("outside", "other", "home", "userland")]
    shutil.copytree(find_userland(), folders[3], symlinks=True)
    for folder in folders[:3]:
        folder.mkdir()
    for name in ("secret", "changed", "removed", "renamed"):
        (folders[0] / name).write_text("host's\n")
    (folders[1] / "run.json").write_text("{}\n")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as path,
    ):
        udp.bind(("127.0.0.1", 0))
        path.bind(str(folders[0] / "server"))
        path.listen()
        host = Host(*folders, f"ccmix-hostile-{os.getpid()}", (tcp, udp, path))
        yield host
    for place in ("/tmp", "/dev/shm"):
        Path(place, host.name).unlink(missing_ok=True)


def outcomes(kernel: Path, job: Path, host: Host) -> dict[str, str]:
    """Runs the script in a guest, and returns the outcome of each attempt."""
    names = ("outside", "other", "home", "userland", "program", "name", "tcp", "udp")
    variables = {name: str(getattr(host, name)) for name in names}
    variables |= {"job": str(job), "victim": str(os.getpid()), "asks": ASKS}
    spec = GuestSpec(
        ("sh", "-c", SCRIPT),
        job,
        128 << 20,
        1,
        userland=host.userland,
        environment=variables,
        cpu=None,
    )
    result = asyncio.run(run_guest(kernel, spec))
    return dict(line.split(": ") for line in result.console.splitlines())


def arrived(host: Host) -> list[bool]:
    """Returns whether each server got a request."""
    return [bool(select.select([server], [], [], 0)[0]) for server in host.servers]


def ask(host: Host) -> None:
    """Sends a request to each server, from the host."""
    for server in host.servers:
        with socket.socket(server.family, server.type) as ours:
            ours.connect(server.getsockname())
            ours.send(b"x")


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Returns the mode and the content of each file."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): (path.stat().st_mode, path.read_bytes()) for path in files}


@pytest.mark.parametrize("way", ["landlock", "namespaces"])
def test_a_confined_command_reaches_nothing(
    kernel: Path, job: Path, host: Host, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confinement.WAY, way)
    folders = (host.outside, host.other, host.home, host.userland)
    before = [content(folder) for folder in folders]
    found = outcomes(kernel, job, host)
    assert {name for name, outcome in found.items() if outcome == "done"} == {
        "its own folder",
        "its own root",
    }
    assert len(found) == SCRIPT.count("\ntry ") + 2
    assert [content(folder) for folder in folders] == before
    assert not any(Path(place, host.name).exists() for place in ("/tmp", "/dev/shm"))
    assert arrived(host) == [False] * 3
    ask(host)
    assert arrived(host) == [True] * 3


def test_without_confinement_it_reaches_all(
    kernel: Path, job: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves that the test above can fail."""
    monkeypatch.setenv(confinement.WAY, "none")
    found = outcomes(kernel, job, host)
    assert {name for name, outcome in found.items() if outcome == "refused"} == NEVER
    assert (host.outside / "changed").read_text() == "host's\nx\n"
    assert (host.other / "run.json").read_text() == "{}\nx\n"
    assert arrived(host) == [False] * 3
