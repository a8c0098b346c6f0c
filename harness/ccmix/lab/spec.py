"""Specifies a guest, and builds the command that starts its kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ccmix.lab import host
from ccmix.lab.errors import GuestError

JOB_DIR = "/run/ccmix/job"
MIN_MEMORY_BYTES = 32 << 20
START_NS = 1_767_225_600 * 10**9  # when every guest begins: 2026-01-01 00:00 UTC

# The same arguments in the same order for every run: the kernel seeds its random numbers with them.
SYSTEM = ("quiet", "rootfstype=hostfs", "rootflags=/", "ro", "init=/proc/self/cwd/init", "con=null")
VIRTUAL_TIME = ("time-travel=inf-cpu", f"time-travel-start={START_NS}")
# Run after PR_SET_PDEATHSIG was set: the kernel does not report a parent that died before that.
GUARD = 'ulimit -c 0; [ "$PPID" = "$0" ] || exit 1; exec "$@"'


@dataclass(frozen=True)
class GuestSpec:
    """Describes a command and the guest that it runs in."""

    argv: tuple[str, ...]
    """Is run as root inside, in JOB_DIR, with empty standard input. The guest's PATH is searched for the program."""
    job_dir: Path
    """Is the only folder of the host that the guest can write to."""
    memory_bytes: int
    """Is the guest's memory. What it does not touch costs the host nothing."""
    seed: int
    """Is in 0 .. 2**32-1. The same seed and memory give the same run, to the last byte."""
    cpu: int | None = None
    """Is the processor to pin the guest to; None stands for the least used by the guests of this process."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Adds to PATH, HOME and TMPDIR, which the guest has anyway."""
    stall_seconds: float = 120.0
    """Makes a hang: real seconds without growth of the files in job_dir or the console, with a processor to itself."""


def command(kernel: Path, spec: GuestSpec, cpu: int, kernel_arguments: Sequence[str]) -> list[str]:
    return [
        *(host.program("setpriv"), "--pdeathsig", "KILL"),
        *(host.program("sh"), "-c", GUARD, str(os.getpid())),
        *(host.program("taskset"), "-c", str(cpu)),
        *(str(kernel), f"mem={spec.memory_bytes // 1024}K", *kernel_arguments, f"seed={spec.seed}"),
    ]


def environment(spec: GuestSpec) -> dict[str, str]:
    """Returns the kernel's own HOME and TMPDIR, for its sockets and its memory file; the guest does not see them.

    The path of a socket must be short, so HOME is relative to the working directory, the launch folder.
    """
    return {"HOME": ".", "TMPDIR": str(host.memory_dir(spec.memory_bytes)), "PATH": os.defpath}


def checked(kernel: Path, spec: GuestSpec) -> tuple[Path, Path]:
    """Returns the absolute paths of the kernel and of the job folder. Raises GuestError("start") if they or the
    spec can't be used.
    """
    try:
        kernel = kernel.resolve(strict=True)
        job_dir = spec.job_dir.resolve(strict=True)
    except OSError as error:
        raise GuestError("start", f"{error.filename}: {error.strerror}") from error
    if not kernel.is_file() or not os.access(kernel, os.R_OK | os.X_OK):
        raise GuestError("start", f"{kernel} is not a program that this user can run: build it with `make setup`")
    if not job_dir.is_dir() or not os.access(job_dir, os.R_OK | os.W_OK | os.X_OK):
        raise GuestError("start", f"{job_dir} is not a folder that this user can write to")
    if not 0 <= spec.seed < 2**32:
        raise GuestError("start", f"the seed {spec.seed} is not in 0..{2**32 - 1}")
    if spec.memory_bytes < MIN_MEMORY_BYTES:
        raise GuestError("start", f"a guest needs at least {MIN_MEMORY_BYTES} bytes of memory, not {spec.memory_bytes}")
    return kernel, job_dir
