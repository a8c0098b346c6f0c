"""Runs a guest on the terminal of this process, for work by hand."""

from __future__ import annotations

import subprocess
import sys
import termios
from pathlib import Path

from ccmix.lab import confinement, host
from ccmix.lab.errors import GuestError
from ccmix.lab.guest import status_of
from ccmix.lab.spec import VIRTUAL_TIME, GuestSpec, checked, environment, kernel_command, system

_ONLY_WORSE = "loglevel=3"  # than what a confined guest's kernel says that it misses
_ON_TERMINAL = ("sh", "-c", 'exec setsid --ctty -- "$@" <>/dev/tty0 >&0 2>&1', "sh")


def run_shell(kernel: Path, spec: GuestSpec, *, virtual_time: bool = False) -> int:
    """Runs `spec.argv` in a new guest on this process's terminal, and waits for its end; returns its exit status.

    Uses real time by default: in virtual time the clock jumps ahead while nobody types. Raises GuestError; also if
    standard input or output is no terminal.
    """
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout)):  # None if it was closed
        raise GuestError("start", "a shell needs a terminal: use `ccmix lab exec` for a command without one")
    kernel, job_dir = checked(kernel, spec)
    before = termios.tcgetattr(sys.stdin)
    time_arguments = VIRTUAL_TIME if virtual_time else ()
    with (
        host.processor(spec.cpu) as cpu,
        host.launch_dir(job_dir, (*_ON_TERMINAL, *spec.argv), spec.environment, spec.userland, spec.code) as launch,
        host.memory_folder(spec.memory_bytes) as memory,
        confinement.WayReport() as report,
    ):
        arguments = (*system(spec), _ONLY_WORSE, "con0=fd:0,fd:1", "seccomp=on", *time_arguments)
        argv = confinement.command(
            confinement.reach(spec, job_dir, launch, memory), cpu, report, kernel_command(kernel, spec, arguments)
        )
        process = subprocess.Popen(
            argv, cwd=launch, env=environment(memory), pass_fds=(report.theirs,), start_new_session=True
        )
        try:
            process.wait()
        finally:
            host.end_group(process.pid)
            process.wait()
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)  # the guest's console has made it raw
        try:
            return int(status_of(launch))
        except ValueError:
            raise GuestError(
                "panic", f"the guest ended, with status {process.returncode}, before its shell did"
            ) from None
