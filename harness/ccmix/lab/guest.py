"""Runs one command in a guest: a User-Mode Linux kernel in virtual time, as a process of this user.

The guest's root is the lab's userland or, on request, the host's file system, both read-only; it
writes only to its job folder. Its command runs as root and can remount file systems, so
confinement.py limits on the host what the guest's process can reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from ccmix.failures import signal_text
from ccmix.lab import confinement, host
from ccmix.lab.spec import (
    DEEPEST,
    VIRTUAL_TIME,
    GuestError,
    GuestSpec,
    check_guest,
    environment,
    kernel_command,
    root_arguments,
)

CONSOLE_BYTES = 1 << 20  # only the end of a longer console is kept
LAST_LINES = 12
_STATUS_BYTES = 64
IDLE_SHARE = 0.01  # of a processor: a guest that uses less has hung
_POWER_OFF = re.compile(r"(\[ *\d+\.\d+\] (sysrq: Power Off|reboot: Power down)\n)+\Z")
_ON_DISK_WARNING = re.compile(
    r"\AWarning: tempdir .* is not on tmpfs\n"
)  # at worst a slower guest; not a message of the command
# Messages of a confined guest's kernel about parts that it can't have: a check of pseudo-terminals
# that it does not use, and a socket for an operator
_CONFINED_MESSAGES = re.compile(
    r"\A(\[ *0\.0+\] (check_one_sigio failed, errno = \d+|Failed to initialize management "
    r"console)\n)+"
)
_OUT_OF_MEMORY = re.compile(r"Kernel panic.*(Out of memory|out of memory|deadlocked on memory)")
_PANIC = re.compile(r"Kernel panic - not syncing: *(.*)")

_FEW_MESSAGES = "loglevel=3"  # only messages that are more serious than those of _CONFINED_MESSAGES
_ON_TERMINAL = ("sh", "-c", 'exec setsid --ctty -- "$@" <>/dev/tty0 >&0 2>&1', "sh")


@dataclass(frozen=True)
class GuestResult:
    """Describes how the command of a guest ended, if it ended by itself."""

    exit_status: int
    """The command's status: 128 + the signal's number if a signal ended it, 127 if it was not
    found.
    """
    real_seconds: float
    """From the start of the guest to its end."""
    console: str
    """The last CONSOLE_BYTES bytes that the guest printed: the command's output and errors, and
    kernel messages.
    """
    confinement: str
    """How the guest was confined on the host: `landlock ABI`, `namespaces`, or `none: REASONS`."""


async def run_guest(kernel: Path, spec: GuestSpec) -> GuestResult:
    """Runs the command `spec.argv` in a new guest on this kernel, and waits for its end.

    If the task is cancelled, or this process dies in any way, the guest and all its processes are
    killed at once. Raises GuestError if the guest fails, never for the exit status of the command.
    """
    kernel, job_dir = check_guest(kernel, spec)
    with (
        host.processor(spec.cpu) as cpu,
        host.launch_dir(job_dir, spec.argv, spec.environment, spec.userland, spec.code) as launch,
        host.memory_folder(spec.memory_bytes) as memory,
        confinement.WayReport() as report,
        _Console(launch / "console") as console,
    ):
        begin = time.monotonic()
        argv = kernel_command(
            kernel, spec, (*root_arguments(spec), "con0=null,fd:1", "seccomp=on", *VIRTUAL_TIME)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *confinement.command(
                    confinement.reach_of_guest(spec, job_dir, launch, memory), cpu, report, argv
                ),
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
        await _wait_until_ended(process, _Growth(job_dir, console), spec.stall_seconds)
        real_seconds = time.monotonic() - begin
        return GuestResult(
            _exit_status(launch, process, console), real_seconds, console.text(), report.text()
        )


async def _wait_until_ended(
    process: asyncio.subprocess.Process, growth: _Growth, stall_seconds: float
) -> None:
    """Waits for the end of the guest's process. Raises GuestError("hang") if the guest makes no
    progress for `stall_seconds`. In any case, no process of the guest is left.

    A guest without progress that uses less than IDLE_SHARE of a processor has hung. If it uses
    more, other processes may slow it down. Then it has hung only when it has used `stall_seconds`
    of processor time without progress.
    """
    ended = asyncio.create_task(process.wait())
    last_sizes, last_time = growth.measure(), time.monotonic()
    last_work_s = host.processor_seconds(process.pid)
    try:
        while not ended.done():
            await asyncio.wait({ended}, timeout=min(1.0, stall_seconds / 4))
            sizes, now = growth.measure(), time.monotonic()
            if sizes != last_sizes:
                last_sizes, last_time = sizes, now
                last_work_s = host.processor_seconds(process.pid)
            elif not ended.done() and now - last_time >= stall_seconds:
                work_s = host.processor_seconds(process.pid) - last_work_s
                if IDLE_SHARE * (now - last_time) < work_s < stall_seconds:
                    continue  # other processes keep it from the processor
                raise GuestError(
                    "hang",
                    f"the guest hung: for {stall_seconds:g} s neither its console nor a file in "
                    "its job folder grew",
                    growth.console.last_lines(),
                )
    finally:
        await _end_guest(process, ended)


async def _end_guest(process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
    """Ends all processes of the guest, even if its kernel has ended: a hostile command may have
    left some.
    """
    host.end_group(process.pid)
    while not ended.done():
        with contextlib.suppress(asyncio.CancelledError):  # cancelled again: still wait for the end
            await asyncio.shield(ended)


def read_status(launch: Path) -> str:
    """Returns the content of the file in which lab/init writes the command's status. It is '' if a
    command in the guest has replaced the file, for example by a link or a pipe.
    """
    try:
        fd = os.open(launch / "status", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as opened:
        return (opened.read(_STATUS_BYTES) or b"").decode("ascii", "replace").strip()


def _exit_status(launch: Path, process: asyncio.subprocess.Process, console: _Console) -> int:
    """Returns the exit status of the guest's command. Raises GuestError, which says why, if the
    guest ended before its command did.
    """
    status = read_status(launch)
    if status.isdecimal():
        return int(status)
    text = console.text()
    if _OUT_OF_MEMORY.search(text):
        raise GuestError(
            "out of memory", "the guest ran out of memory: give it more", console.last_lines()
        )
    panic = _PANIC.search(text)
    code = process.returncode or 0
    if panic:
        cause = f"its kernel panicked: {panic[1]}"
    elif code < 0:
        cause = f"it was killed by {signal_text(-code)}"
    else:
        cause = f"it ended with status {code} and did not say how its command ended"
    if status != "started":
        if not host.has_xsave():
            cause = (
                "this processor has no XSAVE, which User-Mode Linux needs; those made from "
                "2011 on have it"
            )
        raise GuestError("start", f"the guest did not start: {cause}", console.last_lines())
    raise GuestError("panic", f"the guest died: {cause}", console.last_lines())


class _Console:
    """Represents the file that a guest prints to.

    A pipe would not do: if it were not read at once, the guest would wait, and its virtual clock
    jump ahead.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Console:
        self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def size(self) -> int:
        """Returns how many bytes the guest has printed so far. If they are much more than
        CONSOLE_BYTES, it frees the disk space of all but the last of them.
        """
        size = os.fstat(self.fd).st_size
        if size > 16 * CONSOLE_BYTES:
            host.free_beginning(self.fd, size - CONSOLE_BYTES)
        return size

    def text(self) -> str:
        """Returns the end of what the guest printed, without messages that its kernel prints in
        every run.
        """
        size = os.fstat(self.fd).st_size
        end = os.pread(self.fd, CONSOLE_BYTES, max(0, size - CONSOLE_BYTES))
        text = end.decode("utf-8", "replace").replace("\r\n", "\n")
        return _CONFINED_MESSAGES.sub("", _ON_DISK_WARNING.sub("", _POWER_OFF.sub("", text)))

    def last_lines(self) -> list[str]:
        return self.text().splitlines()[-LAST_LINES:]


class _Growth:
    """Measures whether a guest makes visible progress: its console or its files grow."""

    def __init__(self, job_dir: Path, console: _Console) -> None:
        self._job_dir = job_dir
        self.console = console

    def measure(self) -> tuple[int, int, int]:
        """Returns the number of bytes on the console, of files in the job folder, and of bytes in
        these files.
        """
        files = total = 0
        for place, folders, names, handle in os.fwalk(
            self._job_dir
        ):  # by file descriptors, because the guest may replace a folder by a link meanwhile
            if len(Path(place).parts) - len(self._job_dir.parts) >= DEEPEST:
                folders.clear()
            for name in names:
                with contextlib.suppress(OSError):  # just gone
                    total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_size
                    files += 1
        return self.console.size(), files, total


def run_shell(kernel: Path, spec: GuestSpec, *, virtual_time: bool = False) -> int:
    """Runs the command `spec.argv` in a new guest on this process's terminal, waits for its end,
    and returns its exit status.

    It uses real time by default, because in virtual time the clock jumps ahead while nobody types.
    Raises GuestError, also if standard input or output is not a terminal.
    """
    if not all(
        stream and stream.isatty() for stream in (sys.stdin, sys.stdout)
    ):  # None if it was closed
        raise GuestError(
            "start", "a shell needs a terminal: use `ccmix lab exec` for a command without one"
        )
    kernel, job_dir = check_guest(kernel, spec)
    terminal_settings = termios.tcgetattr(sys.stdin)
    time_arguments = VIRTUAL_TIME if virtual_time else ()
    with (
        host.processor(spec.cpu) as cpu,
        host.launch_dir(
            job_dir, (*_ON_TERMINAL, *spec.argv), spec.environment, spec.userland, spec.code
        ) as launch,
        host.memory_folder(spec.memory_bytes) as memory,
        confinement.WayReport() as report,
    ):
        arguments = (
            *root_arguments(spec),
            _FEW_MESSAGES,
            "con0=fd:0,fd:1",
            "seccomp=on",
            *time_arguments,
        )
        argv = confinement.command(
            confinement.reach_of_guest(spec, job_dir, launch, memory),
            cpu,
            report,
            kernel_command(kernel, spec, arguments),
        )
        process = subprocess.Popen(
            argv,
            cwd=launch,
            env=environment(memory),
            pass_fds=(report.theirs,),
            start_new_session=True,
        )
        try:
            process.wait()
        finally:
            host.end_group(process.pid)
            process.wait()
            termios.tcsetattr(
                sys.stdin, termios.TCSADRAIN, terminal_settings
            )  # the guest's console has set it to raw mode
        try:
            return int(read_status(launch))
        except ValueError:
            raise GuestError(
                "panic", f"the guest ended, with status {process.returncode}, before its shell did"
            ) from None
