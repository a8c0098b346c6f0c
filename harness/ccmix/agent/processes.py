"""Finds all descendants of a process on this machine, and signals them."""

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
    """Makes this process the new parent of descendants whose parent dies, in place of init, so that
    it can find daemons.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    """Has the kernel send this process a signal when its parent dies. Does nothing if the parent
    has already died, so the caller checks that afterwards.
    """
    _prctl(PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: int) -> None:
    """Calls prctl(2), for which Python has no function. Raises OSError."""
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def descendants(ancestor: int) -> list[int]:
    """Returns the pids of all descendants of a process, nearest first. A process that is forked at
    the same time may be missed, so call it again.
    """
    pids: list[int] = []
    unread = [ancestor]
    kernel_lists_children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()
    parents = None if kernel_lists_children else _parent_of_each()
    while unread:
        parent = unread.pop(0)
        if parents is None:
            children = _kernel_children(parent)
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
    """Sends a signal to all descendants of a process. Those that this user may not signal, such as
    commands of sudo, get it through sudo; returns their pids.
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


def _kernel_children(parent: int) -> list[int]:
    """Returns the children of a process (of all its threads), as the kernel lists them with
    CONFIG_PROC_CHILDREN. This is much faster than _parent_of_each().
    """
    children: list[int] = []
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
            with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    return children


def _parent_of_each() -> dict[int, int]:
    """Returns the parent's pid for each process of the machine, by pid. It is for kernels that do
    not list children.
    """
    parents = {}
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            parents[int(process.name)] = int(
                (process / "stat").read_bytes().rpartition(b")")[2].split()[1]
            )
    return parents
