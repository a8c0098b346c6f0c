"""Runs one command in a guest: a User-Mode Linux kernel in virtual time, as an ordinary process of this user.

The guest's root is the lab's userland or, on request, the host's file system, both read-only; it writes to its job
folder alone. A command that is root can remount; what its process can reach then is confined on the host
(confinement.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from ccmix.lab import confinement, host
from ccmix.lab.errors import GuestError
from ccmix.lab.spec import VIRTUAL_TIME, GuestSpec, checked, environment, kernel_command, system

CONSOLE_BYTES = 1 << 20  # of a longer console, the end is kept
LAST_LINES = 12
_STATUS_BYTES = 64
IDLE_SHARE = 0.01  # of a processor: less than that is a guest that waits for nothing
_POWER_OFF = re.compile(r"(\[ *\d+\.\d+\] (sysrq: Power Off|reboot: Power down)\n)+\Z")
_ON_DISK = re.compile(r"\AWarning: tempdir .* is not on tmpfs\n")  # slower at most, and nothing of the command's
# What a confined guest's kernel misses: a check of pseudo-terminals that it does not use, and a socket for an operator
_CONFINED = re.compile(
    r"\A(\[ *0\.0+\] (check_one_sigio failed, errno = \d+|Failed to initialize management console)\n)+"
)
_OUT_OF_MEMORY = re.compile(r"Kernel panic.*(Out of memory|out of memory|deadlocked on memory)")
_PANIC = re.compile(r"Kernel panic - not syncing: *(.*)")


@dataclass(frozen=True)
class GuestResult:
    """Describes a command that came to its end."""

    exit_status: int
    """Is the command's status; 128 + the signal's number if a signal ended it, 127 if it was not found."""
    real_seconds: float
    """Counts from the start of the guest to its end."""
    console: str
    """Holds the last CONSOLE_BYTES bytes that the guest printed: the command's output and errors, kernel messages."""
    confinement: str
    """Says in which way the guest was confined on the host: `landlock ABI`, `namespaces`, or `none: REASONS`."""


async def run_guest(kernel: Path, spec: GuestSpec) -> GuestResult:
    """Runs `spec.argv` in a new guest on `kernel`, and waits for its end.

    Cancelled, or when this process dies in any way, the guest and all its processes are killed at once.
    Raises GuestError, never for the exit status of the command.
    """
    kernel, job_dir = checked(kernel, spec)
    with (
        host.processor(spec.cpu) as cpu,
        host.launch_dir(job_dir, spec.argv, spec.environment, spec.userland, spec.code) as launch,
        host.memory_folder(spec.memory_bytes) as memory,
        confinement.WayReport() as report,
        _Console(launch / "console") as console,
    ):
        begin = time.monotonic()
        argv = kernel_command(kernel, spec, (*system(spec), "con0=null,fd:1", "seccomp=on", *VIRTUAL_TIME))
        try:
            process = await asyncio.create_subprocess_exec(
                *confinement.command(confinement.reach(spec, job_dir, launch, memory), cpu, report, argv),
                cwd=launch,
                env=environment(memory),
                pass_fds=(report.theirs,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=console.fd,
                stderr=console.fd,
                start_new_session=True,  # the kernel kills its whole process group when it panics
            )
        except OSError as error:
            raise GuestError("start", f"the guest could not be started: {error}") from error
        await _wait(process, _Growth(job_dir, console), spec.stall_seconds)
        real_seconds = time.monotonic() - begin
        return GuestResult(_exit_status(launch, process, console), real_seconds, console.text(), report.text())


async def _wait(process: asyncio.subprocess.Process, growth: _Growth, stall_seconds: float) -> None:
    """Waits for the end of the process; kills it when nothing grows for `stall_seconds`, or when cancelled.

    A guest that would go on, and hardly gets a processor, has not hung: it may compute for as long as it might alone.
    """
    ended = asyncio.create_task(process.wait())
    last, last_time = growth.measure(), time.monotonic()
    worked_s = host.processor_seconds(process.pid)
    try:
        while not ended.done():
            await asyncio.wait({ended}, timeout=min(1.0, stall_seconds / 4))
            current, now = growth.measure(), time.monotonic()
            if current != last:
                last, last_time = current, now
                worked_s = host.processor_seconds(process.pid)
            elif not ended.done() and now - last_time >= stall_seconds:
                work_s = host.processor_seconds(process.pid) - worked_s
                if IDLE_SHARE * (now - last_time) < work_s < stall_seconds:
                    continue  # others keep the processor from it
                raise GuestError(
                    "hang",
                    f"the guest hung: for {stall_seconds:g} s neither its console nor a file in its job folder grew",
                    growth.console.last_lines(),
                )
    finally:
        await _end(process, ended)


async def _end(process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
    """Ends all processes of the guest, even if its kernel has ended: a hostile command may have left some."""
    host.end_group(process.pid)
    while not ended.done():
        with contextlib.suppress(asyncio.CancelledError):  # cancelled once more: still wait for the end
            await asyncio.shield(ended)


def status_of(launch: Path) -> str:
    """Returns what lab/init has written, or ''. A command in the guest may have put a link or a pipe there."""
    try:
        fd = os.open(launch / "status", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as opened:
        return (opened.read(_STATUS_BYTES) or b"").decode("ascii", "replace").strip()


def _exit_status(launch: Path, process: asyncio.subprocess.Process, console: _Console) -> int:
    status = status_of(launch)
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
        how = f"it ended with status {code} and did not say how its command ended"
    if status != "started":
        if not host.has_xsave():
            how = "this processor has no XSAVE, which User-Mode Linux needs; those made from 2011 on have it"
        raise GuestError("start", f"the guest did not start: {how}", console.last_lines())
    raise GuestError("panic", f"the guest died: {how}", console.last_lines())


class _Console:
    """Keeps the file that a guest prints to.

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
        """Returns the bytes printed so far, and drops what is far over the bound."""
        size = os.fstat(self.fd).st_size
        if size > 16 * CONSOLE_BYTES:
            self._before = os.pread(self.fd, CONSOLE_BYTES, size - CONSOLE_BYTES)
            os.ftruncate(self.fd, 0)
            self._dropped += size
            size = 0
        return self._dropped + size

    def text(self) -> str:
        """Returns the end of what was printed, without what the kernel prints in every run."""
        size = os.fstat(self.fd).st_size
        new = os.pread(self.fd, CONSOLE_BYTES, max(0, size - CONSOLE_BYTES))
        text = (self._before + new)[-CONSOLE_BYTES:].decode("utf-8", "replace").replace("\r\n", "\n")
        return _CONFINED.sub("", _ON_DISK.sub("", _POWER_OFF.sub("", text)))

    def last_lines(self) -> list[str]:
        return self.text().splitlines()[-LAST_LINES:]


class _Growth:
    """Measures whether a guest still does something that can be seen."""

    def __init__(self, job_dir: Path, console: _Console) -> None:
        self._job_dir = job_dir
        self.console = console

    def measure(self) -> tuple[int, int, int]:
        """Returns the bytes on the console, the files in the job folder, and the bytes in them."""
        files = total = 0
        for _, _, names, handle in os.fwalk(self._job_dir):  # by handles: a folder may become a link meanwhile
            for name in names:
                with contextlib.suppress(OSError):  # just gone
                    total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_size
                    files += 1
        return self.console.size(), files, total
