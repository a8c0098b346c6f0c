"""Finds the descendants of processes of this machine, and ends them together."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
PROC = Path("/proc")

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Makes descendants whose parent dies children of this process, and not of init."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    """Lets the kernel send the signal to this process when its parent dies, unless the parent has
    died already.
    """
    _prctl(PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def descendants(ancestor: int) -> list[int]:
    """Returns all descendants of a process, nearest first. A process that forks at the same time
    may be missed, so call it again.
    """
    pids: list[int] = []
    unread = [ancestor]
    parents = (
        None if Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists() else _parents()
    )
    while unread:
        parent = unread.pop(0)
        if parents is None:
            children = _children(parent)
        else:
            children = [child for child, its_parent in parents.items() if its_parent == parent]
        pids += children
        unread += children
    return pids


def command_line(pid: int) -> str:
    """Returns a process's arguments with spaces between them; "" if the process has ended."""
    try:
        return (
            (PROC / str(pid) / "cmdline")
            .read_bytes()
            .rstrip(b"\0")
            .replace(b"\0", b" ")
            .decode(errors="replace")
        )
    except OSError:
        return ""


def signal_descendants(ancestor: int, signal_number: int) -> list[int]:
    """Sends the signal; returns those that this user may not signal, which are then asked to end
    through sudo.
    """
    denied = []
    for pid in descendants(ancestor):
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            continue
        except PermissionError:
            denied.append(pid)
    if denied:
        name = signal.Signals(signal_number).name[3:]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["sudo", "-n", "kill", "-s", name, "--", *map(str, denied)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=5,
                check=False,
            )
    return denied


def _children(parent: int) -> list[int]:
    """Returns the children of all threads of a process, as the kernel lists them
    (CONFIG_PROC_CHILDREN); at once, unlike _parents().
    """
    children: list[int] = []
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
            with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    return children


def _parents() -> dict[int, int]:
    """Returns the parent of each process of the machine."""
    parents = {}
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            parents[int(process.name)] = int(
                (process / "stat").read_bytes().rpartition(b")")[2].split()[1]
            )
    return parents
