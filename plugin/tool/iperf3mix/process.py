"""Runs a process that ends before this one does, whatever happens to this one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

GRACE_S = 0.2

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Cancelled(BaseException):
    """Reports that a signal ends this run; it is not an Exception, so that no handler takes it for a failure."""


@dataclass(frozen=True)
class ProcessEnd:
    """Holds how a process ended and what it wrote. `in_time`: it ended by itself, before its time was over."""

    status: int
    stdout: str
    stderr: str
    in_time: bool


def cancel_on_signals() -> None:
    """Makes signals that end a process raise Cancelled."""

    def cancel(number: int, _frame: FrameType | None) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # the first signal is enough
        raise Cancelled(signal.Signals(number).name)

    for number in _SIGNALS:
        signal.signal(number, cancel)


def usable_cpus() -> set[int]:
    return os.sched_getaffinity(0)


def run(argv: list[str], until: float, cpu: int | None) -> ProcessEnd:
    """Runs a program until it ends, at most until a time (seconds since 1970): then SIGTERM, GRACE_S later SIGKILL.

    It has a process group of its own, and gets SIGKILL from the kernel when this process dies. A program with a file
    capability doesn't get that (prctl(2)), so callers also give iperf3 limits of its own.
    """
    parent = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
        encoding="utf-8",
        errors="replace",
    )
    in_time = True
    try:
        try:
            stdout, stderr = process.communicate(timeout=max(0.0, until - time.time()))
        except subprocess.TimeoutExpired:
            in_time = False
            _signal(process, signal.SIGTERM)  # iperf3 then writes what it has
            try:
                stdout, stderr = process.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                stdout, stderr = process.communicate()
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()
    return ProcessEnd(process.returncode, stdout, stderr, in_time)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signals the process group; its number can't belong to another group before the process is waited for."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
