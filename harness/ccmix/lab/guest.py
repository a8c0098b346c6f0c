"""Run one command in a guest: a User-Mode Linux kernel in virtual time, as an ordinary process of this user.

The guest sees the host's file system read-only, and its job folder read-write. That keeps accidents in, not malice:
a command that wants to can remount, and reaches whatever the host's user reaches.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ccmix.lab import host
from ccmix.lab.errors import GuestError

__all__ = ["JOB_DIR", "GuestError", "GuestResult", "GuestSpec", "run_guest"]

JOB_DIR = "/run/ccmix/job"

CONSOLE_BYTES = 1 << 20  # of a longer console, the end is kept
LAST_LINES = 12
MIN_MEMORY_BYTES = 32 << 20
START_NS = 1_767_225_600 * 10**9  # when every guest begins: 2026-01-01 00:00 UTC

# The same words in the same order for every run: the kernel seeds its random numbers with them.
_KERNEL_ARGUMENTS = (
    "quiet",
    "rootfstype=hostfs",
    "rootflags=/",
    "ro",
    "init=/proc/self/cwd/init",
    "con=null",
    "con0=null,fd:1",
    "seccomp=on",
    "time-travel=inf-cpu",
    f"time-travel-start={START_NS}",
)
# Run after PR_SET_PDEATHSIG was set: a parent that died before that would never be noticed.
_GUARD = 'ulimit -c 0; [ "$PPID" = "$0" ] || exit 1; exec "$@"'
_POWER_OFF = re.compile(r"(\[ *\d+\.\d+\] (sysrq: Power Off|reboot: Power down)\n)+\Z")
_ON_DISK = re.compile(r"\AWarning: tempdir .* is not on tmpfs\n")  # slower at most, and nothing of the command's
_OUT_OF_MEMORY = re.compile(r"Kernel panic.*(Out of memory|out of memory|deadlocked on memory)")
_PANIC = re.compile(r"Kernel panic - not syncing: *(.*)")


@dataclass(frozen=True)
class GuestSpec:
    """A command and the guest that it runs in."""

    argv: tuple[str, ...]
    """Run as root inside, in JOB_DIR, standard input empty. The first word is looked up in the PATH of the guest."""
    job_dir: Path
    """On the host: the only folder that the guest can write to."""
    memory_bytes: int
    """Of the guest. What it does not touch costs the host nothing."""
    seed: int
    """0 .. 2**32-1. The same seed and memory: the same run, to the last byte."""
    cpu: int | None = None
    """The processor to pin the guest to; None: the least used by the guests of this process."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside PATH, HOME and TMPDIR, which the guest has anyway."""
    stall_seconds: float = 120.0
    """A hang: real seconds without any growth of the files in job_dir or of the console."""


@dataclass(frozen=True)
class GuestResult:
    """A command that came to its end."""

    exit_status: int
    """Of the command; 128 + the signal's number if a signal ended it, 127 if it was not found."""
    real_seconds: float
    """From the start of the guest to its end."""
    console: str
    """What the guest printed: the command's output and errors, kernel messages; the last CONSOLE_BYTES bytes."""


async def run_guest(kernel: Path, spec: GuestSpec) -> GuestResult:
    """Run `spec.argv` in a new guest on `kernel`, and wait for its end.

    Cancelled, or when this process dies in any way, the guest and all its processes are killed at once.
    Raises GuestError, never for the exit status of the command.
    """
    kernel, job_dir = _check(kernel, spec)
    with (
        host.processor(spec.cpu) as cpu,
        host.launch_dir(job_dir, spec.argv, spec.environment) as launch,
        _Console(launch / "console") as console,
    ):
        command = [
            *(host.program("setpriv"), "--pdeathsig", "KILL"),
            *(host.program("sh"), "-c", _GUARD, str(os.getpid())),
            *(host.program("taskset"), "-c", str(cpu)),
            *(str(kernel), f"mem={spec.memory_bytes // 1024}K", *_KERNEL_ARGUMENTS, f"seed={spec.seed}"),
        ]
        # HOME and TMPDIR are the kernel's own, for its sockets and its memory file; the guest does not see them. The
        # path of a socket must be short, so HOME is relative to the working directory, the launch folder.
        environment = {"HOME": ".", "TMPDIR": str(host.memory_dir(spec.memory_bytes)), "PATH": os.defpath}
        begin = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=launch,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=console.fd,
                stderr=console.fd,
                start_new_session=True,  # the kernel kills its whole process group when it panics
            )
        except OSError as error:
            raise GuestError("start", f"the guest could not be started: {error}") from error
        await _wait(process, _Growth(job_dir, console), spec.stall_seconds)
        real_seconds = time.monotonic() - begin
        return GuestResult(_exit_status(launch, process, console), real_seconds, console.text())


def _check(kernel: Path, spec: GuestSpec) -> tuple[Path, Path]:
    """The absolute paths of the kernel and of the job folder."""
    try:
        kernel = kernel.resolve(strict=True)
        job_dir = spec.job_dir.resolve(strict=True)
    except OSError as error:
        raise GuestError("start", f"{error.filename}: {error.strerror}") from error
    if not kernel.is_file() or not os.access(kernel, os.R_OK | os.X_OK):
        raise GuestError("start", f"{kernel} is no program that this user can run: build it with `make setup`")
    if not job_dir.is_dir() or not os.access(job_dir, os.R_OK | os.W_OK | os.X_OK):
        raise GuestError("start", f"{job_dir} is no folder that this user can write to")
    if not 0 <= spec.seed < 2**32:
        raise GuestError("start", f"the seed {spec.seed} is not in 0..{2**32 - 1}")
    if spec.memory_bytes < MIN_MEMORY_BYTES:
        raise GuestError("start", f"a guest needs at least {MIN_MEMORY_BYTES} bytes of memory, not {spec.memory_bytes}")
    return kernel, job_dir


async def _wait(process: asyncio.subprocess.Process, growth: _Growth, stall_seconds: float) -> None:
    """Wait for the end of the process; kill it when nothing grows for `stall_seconds`, or when cancelled."""
    ended = asyncio.create_task(process.wait())
    last, last_time = growth.measure(), time.monotonic()
    try:
        while not ended.done():
            await asyncio.wait({ended}, timeout=min(1.0, stall_seconds / 4))
            current, now = growth.measure(), time.monotonic()
            if current != last:
                last, last_time = current, now
            elif not ended.done() and now - last_time >= stall_seconds:
                await _kill(process, ended)
                raise GuestError(
                    "hang",
                    f"the guest hung: for {stall_seconds:g} s neither its console nor a file in its job folder grew",
                    growth.console.last_lines(),
                )
    finally:
        await _kill(process, ended)


async def _kill(process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
    while not ended.done():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its stub processes too; they also die with it by themselves
        with contextlib.suppress(asyncio.CancelledError):  # cancelled once more: still wait for the end
            await asyncio.shield(ended)


def _exit_status(launch: Path, process: asyncio.subprocess.Process, console: _Console) -> int:
    try:
        status = (launch / "status").read_text(encoding="ascii").strip()
    except OSError:
        status = ""
    if status.isdecimal():
        return int(status)
    text = console.text()
    if _OUT_OF_MEMORY.search(text):
        raise GuestError("out of memory", "the guest ran out of memory: give it more", console.last_lines())
    panic = _PANIC.search(text)
    code = process.returncode or 0
    if panic:
        how = f"its kernel panicked: {panic[1]}"
    elif code < 0:
        how = f"it was killed by signal {-code}"
    else:
        how = f"it ended with status {code} and without a word on its command"
    if status != "started":
        raise GuestError("start", f"the guest did not start: {how}", console.last_lines())
    raise GuestError("panic", f"the guest died: {how}", console.last_lines())


class _Console:
    """The file that a guest prints to.

    A file, since a pipe that is not read at once would make the guest wait, and its clock jump ahead.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dropped = 0
        self._before = b""

    def __enter__(self) -> _Console:
        self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def size(self) -> int:
        """Bytes printed so far. What is far over the bound is forgotten here."""
        size = os.fstat(self.fd).st_size
        if size > 16 * CONSOLE_BYTES:
            self._before = os.pread(self.fd, CONSOLE_BYTES, size - CONSOLE_BYTES)
            os.ftruncate(self.fd, 0)
            self._dropped += size
            size = 0
        return self._dropped + size

    def text(self) -> str:
        """The end of what was printed, without what the kernel prints in every run."""
        size = os.fstat(self.fd).st_size
        new = os.pread(self.fd, CONSOLE_BYTES, max(0, size - CONSOLE_BYTES))
        text = (self._before + new)[-CONSOLE_BYTES:].decode("utf-8", "replace").replace("\r\n", "\n")
        return _ON_DISK.sub("", _POWER_OFF.sub("", text))

    def last_lines(self) -> list[str]:
        return self.text().splitlines()[-LAST_LINES:]


class _Growth:
    """Whether a guest still does something that can be seen."""

    def __init__(self, job_dir: Path, console: _Console) -> None:
        self._job_dir = job_dir
        self.console = console

    def measure(self) -> tuple[int, int, int]:
        """Bytes on the console, files in the job folder, bytes in them."""
        files = total = 0
        for folder, _, names in os.walk(self._job_dir):
            for name in names:
                with contextlib.suppress(OSError):  # just gone
                    total += Path(folder, name).lstat().st_size
                    files += 1
        return self.console.size(), files, total
