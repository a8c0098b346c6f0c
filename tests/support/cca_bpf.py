"""Loads BBRv2 and BBRv3 into this machine's kernel as BPF programs, for one test at a time."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ccmix.hosts.local import entered
from support.commands import LOADED_BY_TESTS, REPOSITORY

LOCK = Path("/run/lock/ccmix-cca-tests")  # a congestion control is the whole machine's
CCAS = LOADED_BY_TESTS
PATIENCE_S = 20
LISTS_REFUSED = "the kernel refuses the programs that list sockets"
KERNEL_LOG = "/dev/kmsg"
WARNING = re.compile(r"WARNING: .*")
COMPLAINTS = re.compile(r"BUG|Oops|Call Trace")
# A kernel that does not call a hook takes what lies on the stack for its answer (cca/bpf/README.md)
HOOK_LEFT_OUT = re.compile(r"WARNING: .* tcp_undo_cwnd_reduction")
AF_INET = socket.AF_INET
SYS_BPF = {"x86_64": 321, "aarch64": 280}  # the number of bpf(2), by machine
MAP_GET_NEXT_ID, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 12, 14, 15
NAME_AT = 24  # in struct bpf_map_info

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Loader:
    """Runs ccmix-cca."""

    program: Path

    def run(self, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        argv = [*prefix, str(self.program), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    def must(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        return done.stdout

    def list(self) -> dict[str, Any]:
        """Returns the loaded congestion controls by their names."""
        return {entry["name"]: entry for entry in json.loads(self.must("list", "--json"))}

    def require_lists_of_sockets(self) -> None:
        """Skips if the kernel refuses the programs that list sockets, as a locked-down kernel
        does.
        """
        if LISTS_REFUSED in (done := self.run("status")).stderr:
            pytest.skip(done.stderr.strip())

    def status(self, *names: str) -> Sequence[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.must("status", *names, "--json"))
        return found

    def remove(self) -> None:
        for cca in CCAS:
            self.must("unload", cca, "--missing-ok")


@contextmanager
def turn() -> Iterator[None]:
    """Waits until no other test of this machine has loaded a congestion control."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def quiet_kernel() -> Iterator[None]:
    """Fails if the kernel writes a warning or worse into its log meanwhile; skips if it left
    out a hook.
    """
    log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(log, 0, os.SEEK_END)
        yield
        text = "".join(_records(log))
    finally:
        os.close(log)
    warnings = WARNING.findall(text)
    if warnings and all(map(HOOK_LEFT_OUT.match, warnings)):
        pytest.skip(f"this kernel left out a hook: {warnings[0]}")
    assert not warnings, text
    assert not COMPLAINTS.search(text), text


def _records(log: int) -> Iterator[str]:
    """Yields what the kernel has written into its log since the last call, a record at a time."""
    while True:
        try:
            yield os.read(log, 8192).decode(errors="replace")
        except BlockingIOError:
            return


@contextmanager
def loading(program: Path) -> Iterator[Loader]:
    """Gives a turn in which nothing is loaded at the beginning and at the end; skips if nothing can
    be loaded.

    It fails if the kernel writes a warning meanwhile.
    """
    if platform.machine() not in SYS_BPF:
        pytest.skip(f"bpf_maps() doesn't know the number of bpf(2) on {platform.machine()}")
    loader = Loader(program)
    if (checked := loader.run("check")).returncode != 0:
        pytest.skip(f"this kernel loads no congestion control: {checked.stdout}")
    with turn(), quiet_kernel():
        if loader.list():
            pytest.skip("the administrator of this machine has loaded bbr2 or bbr3")
        assert eventually(lambda: bpf_maps() == [])  # those of an earlier test
        try:
            yield loader
        finally:
            loader.remove()


def build(*options: str) -> Path:
    made = subprocess.run(
        [REPOSITORY / "cca/bpf/build", *options], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(made.stdout.strip())


def require_programs_of_sockets(program: Path) -> None:
    """Skips where ccmix-cca has no programs for this kernel's sockets."""
    shown = subprocess.run(
        [program, "watch", "--", "env"], capture_output=True, text=True, check=False
    )
    if "CCMIX_SOCKETS=" not in shown.stdout:
        pytest.skip(
            "the BPF programs don't know this kernel's sockets: "
            f"{shown.stderr or 'they were not loaded'}"
        )


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def linked_namespaces(*queue: str) -> Iterator[tuple[str, str]]:
    """Makes two network namespaces with a link between them, 10.88.0.1 and 10.88.0.2, which have
    this queue each.
    """
    left, right = names = (f"ccmix-bpf-a{os.getpid()}", f"ccmix-bpf-b{os.getpid()}")
    with ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ip(
            "link",
            "add",
            "veth",
            "netns",
            left,
            "type",
            "veth",
            "peer",
            "name",
            "veth",
            "netns",
            right,
        )
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.88.0.{number}/24", "dev", "veth")
            ip("-n", name, "addr", "add", f"fd88::{number}/64", "dev", "veth", "nodad")
            ip("-n", name, "link", "set", "veth", "up")
            ip("-n", name, "link", "set", "lo", "up")
            if queue:
                subprocess.run(
                    ["tc", "-n", name, "qdisc", "add", "dev", "veth", "root", *queue], check=True
                )
        yield names


@dataclass
class Sink:
    """Accepts connections in a namespace and reads all that they bring.

    With `keep` False they are closed when they end, and not counted.
    """

    namespace: str
    family: socket.AddressFamily = AF_INET
    keep: bool = True
    _open: list[socket.socket] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)

    def __enter__(self) -> Sink:
        with entered(self.namespace):
            self._listener = socket.create_server(("", 0), family=self.family, backlog=4096)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()

    @property
    def received(self) -> int:
        return sum(self._counts)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self.keep:
                self._drain(connection)
                continue
            self._open.append(connection)
            self._counts.append(0)
            threading.Thread(
                target=self._read, args=(connection, len(self._counts) - 1), daemon=True
            ).start()

    @staticmethod
    def _drain(connection: socket.socket) -> None:
        with connection:
            try:
                while connection.recv(1 << 16):
                    pass
            except OSError:
                return

    def _read(self, connection: socket.socket, number: int) -> None:
        try:
            while data := connection.recv(1 << 18):
                self._counts[number] += len(data)
        except OSError:
            return


def connect(namespace: str, address: str, port: int, cca: str) -> socket.socket:
    """Connects from the namespace by this congestion control."""
    family = socket.AF_INET6 if ":" in address else AF_INET
    with entered(namespace):
        connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
    connection.connect((address, port))
    return connection


def cca_of(connection: socket.socket) -> str:
    return (
        connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    )


def send(connection: socket.socket, count: int) -> None:
    block = bytes(1 << 16)
    while count > 0:
        count -= connection.send(block[:count])


def eventually(what: Callable[[], bool]) -> bool:
    """Returns whether it becomes true in a while: the kernel frees much of a socket a
    little later.
    """
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return what()


def bpf_maps() -> list[str]:
    """Returns the names of all BPF maps of the machine that are ours."""
    names: list[str] = []
    attributes, info = ctypes.create_string_buffer(128), ctypes.create_string_buffer(256)
    call = SYS_BPF[platform.machine()]
    number = 0
    while True:
        _words(attributes, number)
        if _libc.syscall(call, MAP_GET_NEXT_ID, attributes, 12) != 0:
            assert ctypes.get_errno() == errno.ENOENT  # there is no further map
            return sorted(
                name
                for name in names
                if name in ("bbr_ops", "bbr_sockets", ".data.control", ".data.counts")
            )
        number = int.from_bytes(attributes.raw[4:8], "little")
        _words(attributes, number)
        file = _libc.syscall(call, MAP_GET_FD_BY_ID, attributes, 12)
        if file < 0:
            continue
        _words(
            attributes,
            file,
            len(info),
            ctypes.addressof(info) & 0xFFFFFFFF,
            ctypes.addressof(info) >> 32,
        )
        if _libc.syscall(call, OBJ_GET_INFO_BY_FD, attributes, 16) == 0:
            names.append(info.raw[NAME_AT : NAME_AT + 16].split(b"\0")[0].decode())
        os.close(file)


def _words(buffer: ctypes.Array[ctypes.c_char], *words: int) -> None:
    buffer.raw = b"".join(word.to_bytes(4, "little") for word in words).ljust(len(buffer), b"\0")
