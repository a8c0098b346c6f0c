"""Specifies a guest, and builds the command of its kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ccmix.lab.errors import GuestError

JOB_DIR = "/run/ccmix/job"
CODE_DIR = "/run/ccmix/code"
MIN_MEMORY_BYTES = 32 << 20
START_NS = 1_767_225_600 * 10**9  # when every guest begins: 2026-01-01 00:00 UTC

# The same arguments in the same order for every run: the kernel seeds its random numbers with them.
_ROOT = ("rootflags=/proc/self/cwd/root", "ro", "init=/usr/lib/ccmix/init")
_HOST_ROOT = ("rootflags=/", "ro", "init=/proc/self/cwd/init")
VIRTUAL_TIME = ("time-travel=inf-cpu", f"time-travel-start={START_NS}")


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
    userland: Path | None = None
    """Is the guest's root, read-only, as lab/userland/build makes it; None stands for the host's file system."""
    code: Path | None = None
    """Is seen in CODE_DIR, read-only."""


def system(spec: GuestSpec) -> tuple[str, ...]:
    """Returns the kernel's arguments for the guest's root."""
    return ("quiet", "rootfstype=hostfs", *(_HOST_ROOT if spec.userland is None else _ROOT), "con=null")


def kernel_command(kernel: Path, spec: GuestSpec, kernel_arguments: Sequence[str]) -> list[str]:
    return [str(kernel), f"mem={spec.memory_bytes // 1024}K", *kernel_arguments, f"seed={spec.seed}"]


def environment(memory: Path) -> dict[str, str]:
    """Returns the kernel's own HOME and TMPDIR, for its pid file and its memory file; the guest does not see them.

    HOME is the working directory, the launch folder.
    """
    return {"HOME": ".", "TMPDIR": str(memory), "PATH": os.defpath}


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
