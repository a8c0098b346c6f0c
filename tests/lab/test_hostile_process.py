"""Tests which attacks on the host remain for a guest's process after a hostile command has taken over
the guest's kernel.

The processes of a guest share memory with its kernel, so a hostile one can make the kernel's process
call anything. Here Python replaces the kernel. It makes all attempts confined, and also without
confinement to prove that each attempt can succeed.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ccmix.lab import confinement
from ccmix.lab.confinement import Reach, WayReport
from support.commands import run_program

ATTEMPTS = """
import ctypes, fcntl, json, os, signal, socket, struct, sys
outside, inside, readable, flags, tcp, udp, victim = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
ring, zeros = (ctypes.create_string_buffer(256) for _ in range(2))

def call(*arguments):
    if libc.syscall(*(ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments)) < 0:
        raise OSError(ctypes.get_errno(), "")

def asks(family, kind, address):
    with socket.socket(family, kind) as ours:
        ours.settimeout(10)
        ours.connect(address)
        ours.send(b"x")

def unconnected():
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"x", outside + "/datagrams")

def mode(path, mode):
    before = os.stat(path).st_mode
    os.chmod(path, mode)
    if os.stat(path).st_mode == before:
        raise OSError("it stayed")

def mode_of_open(path, mode):
    before = os.stat(path).st_mode
    with open(path) as file:
        os.fchmod(file.fileno(), mode)
    if os.stat(path).st_mode == before:
        raise OSError("it stayed")

def times(path):
    os.utime(path, (1, 1))
    if os.stat(path).st_mtime != 1:
        raise OSError("they stayed")

def empty(path, mode):
    os.close(os.open(path, mode | os.O_TRUNC))
    if os.path.getsize(path):
        raise OSError("it stayed")

def ask(path, mode, request, value):
    fd = os.open(path, mode)
    try:
        fcntl.ioctl(fd, request, value)
    finally:
        os.close(fd)

def link(target):
    os.symlink(target, inside + "/link")
    try:
        open(inside + "/link").read()
    finally:
        os.unlink(inside + "/link")

def set_user():
    os.close(os.open(inside + "/mine", os.O_CREAT | os.O_WRONLY, 0o4755))
    os.unlink(inside + "/mine")

def in_child(function):
    pid = os.fork()
    if not pid:
        try:
            function()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise OSError("refused")

NEITHER = 3  # a mode of open() only for requests, neither to read nor to write
# The kernel's include/uapi/linux/fs.h: requests, and the values that they set in addition to a file's flags
FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820
NODUMP, OTHER_NODUMP, BY_PATH = struct.pack("l", int(flags) | 0x40), bytes([0x80] + 27 * [0]), bytes([0x80] + 23 * [0])
FILE_SETATTR, AT_FDCWD = 469, -100

attempts = {
    "read a file": lambda: open(outside + "/secret").read(),
    "list a folder": lambda: os.listdir(outside),
    "read by a link": lambda: link(outside + "/secret"),
    "read another process": lambda: open(f"/proc/{victim}/environ", "rb").read(),
    "make a file": lambda: open(outside + "/new", "w").close(),
    "change a file": lambda: open(outside + "/other", "a").close(),
    "cut a file off": lambda: os.truncate(outside + "/other", 1),
    "empty a file": lambda: empty(outside + "/emptied", NEITHER),
    "empty what is read": lambda: empty(readable + "/emptied", os.O_RDONLY),
    "empty a file by opening it": lambda: empty(inside + "/emptied", os.O_RDWR | os.O_CREAT),
    "make a file by creat": lambda: call(85, (inside + "/created").encode(), 0o600),
    "open a file for requests": lambda: os.close(os.open(outside + "/other", NEITHER)),
    "change flags": lambda: ask(outside + "/other", NEITHER, FS_IOC_SETFLAGS, NODUMP),
    "change flags of what is read": lambda: ask(readable + "/program", os.O_RDONLY, FS_IOC_SETFLAGS, NODUMP),
    "change its other flags": lambda: ask(readable + "/other", os.O_RDONLY, FS_IOC_FSSETXATTR, OTHER_NODUMP),
    "remove a file": lambda: os.unlink(outside + "/removed"),
    "rename a file": lambda: os.rename(outside + "/renamed", outside + "/renamed2"),
    "move a file in": lambda: os.rename(outside + "/moved", inside + "/moved"),
    "link a file in": lambda: os.link(outside + "/other", inside + "/linked"),
    "change what is read": lambda: open(readable + "/program", "a").close(),
    "add to what is read": lambda: open(readable + "/added", "w").close(),
    "change its mode": lambda: mode(readable + "/program", 0o700),
    "change its mode when open": lambda: mode_of_open(readable + "/program", 0o711),
    "change its times": lambda: times(readable + "/program"),
    "lock what is read": lambda: fcntl.flock(os.open(readable + "/program", os.O_RDONLY), fcntl.LOCK_EX),
    "change a mode": lambda: mode(outside + "/other", 0o777),
    "change a time": lambda: times(outside + "/other"),
    "make a set-user-ID file": set_user,
    "TCP": lambda: asks(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(tcp))),
    "UDP": lambda: asks(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(udp))),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close(),
    "a socket's path": lambda: asks(socket.AF_UNIX, socket.SOCK_STREAM, outside + "/server"),
    "an abstract socket": lambda: asks(socket.AF_UNIX, socket.SOCK_STREAM, "\\0ccmix-hostile-" + victim),
    "a datagram without a connection": unconnected,
    "a signal": lambda: os.kill(int(victim), signal.SIGUSR1),
    "a session of its own": lambda: in_child(os.setsid),
    "a group of its own": lambda: in_child(lambda: os.setpgid(0, 0)),
    "shared memory": lambda: call(29, 0, 4096, 0o1600),
    "io_uring": lambda: call(425, 1, ctypes.addressof(ring)),
    "a limit of another process": lambda: call(302, int(victim), 4, ctypes.addressof(zeros), 0),
}
if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 17):
    attempts["change flags by a path"] = lambda: call(
        FILE_SETATTR, AT_FDCWD, (outside + "/other").encode(), BY_PATH, len(BY_PATH), 0
    )
if os.geteuid() == 0:
    attempts["a device"] = lambda: os.mknod(inside + "/device", 0o20600, os.makedev(1, 3))
    attempts["the host's name"] = lambda: call(170, os.uname().nodename.encode(), len(os.uname().nodename))
    attempts["a mount"] = lambda: call(165, b"none", inside.encode(), b"tmpfs", 0, 0)
attempts["a namespace"] = lambda: call(272, 0x10000000)  # the last: it takes root's rights away
succeeded = []
for name, attempt in attempts.items():
    try:
        attempt()
    except (OSError, ValueError):
        continue
    succeeded.append(name)
works = [open(inside + "/result", "a").write("x"), open(readable + "/program").read(), socket.socketpair()]
print(json.dumps([list(attempts), succeeded]))
"""
FS_IOC_GETFLAGS = 0x80086601
NEWEST = 1000  # of Landlock's ABIs: all that this machine has
WAYS = [
    *(("landlock", abi, ()) for abi in (1, 2, 3, 5, NEWEST)),
    ("namespaces", NEWEST, ()),
    # root that can't drop its capabilities
    pytest.param(
        "landlock", NEWEST, ("setpriv", "--bounding-set=-setpcap"), marks=pytest.mark.root
    ),
]
SIGNALS_ABI = 6  # of Landlock, in Linux 6.12: an older one lets signals through


@dataclass(frozen=True)
class Host:
    """Holds what there is to attack."""

    outside: Path
    inside: Path
    readable: Path
    tcp: int
    udp: int
    victim: subprocess.Popen[bytes]

    def arguments(self) -> list[str]:
        places = (self.outside, self.inside, self.readable)
        numbers = (flags(self.readable / "program"), self.tcp, self.udp, self.victim.pid)
        return [*map(str, places), *map(str, numbers)]


def flags(path: Path) -> int:
    """Returns the flags of a file's inode, as lsattr shows them."""
    with path.open() as file:
        return int(struct.unpack("l", fcntl.ioctl(file, FS_IOC_GETFLAGS, bytes(8)))[0])


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    folders = [tmp_path / name for name in ("outside", "inside", "readable")]
    for folder in folders:
        folder.mkdir()
    for name in ("secret", "other", "emptied", "removed", "renamed", "moved"):
        (folders[0] / name).write_text("host's\n")
    for name in ("program", "other", "emptied"):
        (folders[2] / name).write_text("host's\n")
    victim = subprocess.Popen(["sh", "-c", "trap '' USR1; exec sleep 1000"])
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            socket.socket(socket.AF_UNIX) as server,
            socket.socket(socket.AF_UNIX) as abstract,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        ):
            udp.bind(("127.0.0.1", 0))
            server.bind(str(folders[0] / "server"))
            server.listen()
            abstract.bind(f"\0ccmix-hostile-{victim.pid}")
            abstract.listen()
            datagrams.bind(str(folders[0] / "datagrams"))
            yield Host(*folders, tcp.getsockname()[1], udp.getsockname()[1], victim)
    finally:
        victim.kill()
        victim.wait()


def attempts(argv: list[str], cwd: Path, fds: tuple[int, ...] = ()) -> tuple[set[str], set[str]]:
    """Returns the attempts, and those that succeeded."""
    done = run_program(argv, cwd=cwd, pass_fds=fds)
    assert done.returncode == 0, done.stderr
    tried, succeeded = json.loads(done.stdout)
    return set(tried), set(succeeded)


def interpreter() -> list[Path]:
    """Returns the files that Python itself reads."""
    candidates = [
        sys.prefix,
        sys.base_prefix,
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/etc/ld.so.cache",
        "/etc/localtime",
    ]
    return [Path(path) for path in dict.fromkeys(candidates) if Path(path).exists()]


def let_through(told: str) -> set[str]:
    """Returns the attempts that the reported way of confinement can't refuse."""
    return {"a signal"} if abi_of(told) < SIGNALS_ABI else set()


def abi_of(told: str) -> int:
    """Returns the ABI of Landlock that ccmix-confine reports; NEWEST for another way, which has
    all that it needs.
    """
    way, _, abi = told.partition(" ")
    return int(abi) if way == "landlock" else NEWEST


@pytest.mark.parametrize(("way", "abi", "prefix"), WAYS)
def test_nothing_succeeds(
    host: Host, way: str, abi: int, prefix: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(confinement.WAY, way)
    newest = confinement.confinement_way()
    program = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", ATTEMPTS, *host.arguments()]
    reach = Reach((*interpreter(), host.readable), (host.inside,))
    with WayReport() as report:
        argv = confinement.command(reach, min(os.sched_getaffinity(0)), report, program)
        argv.insert(1, f"--abi={abi}")
        tried, succeeded = attempts([*prefix, *argv], host.inside, (report.theirs,))
        told, _, kept = report.text().partition("; root keeps ")
    assert bool(kept) == bool(prefix)
    assert told == (newest if abi >= abi_of(newest) else f"landlock {abi}")
    assert succeeded == let_through(told)
    assert (host.inside / "result").exists()
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else []  # so that a mount does not last
    unconfined, succeeded = attempts([*apart, *program], host.inside)
    assert unconfined == tried
    assert succeeded == tried
