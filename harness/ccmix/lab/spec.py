"""Describes a guest of the lab (a User-Mode Linux process): kernel, root, command, identity."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ccmix.failures import Failure
from ccmix.model import GuestRoot, LabKernel

Reason = Literal["panic", "hang", "out of memory", "start", "files"]

JOB_DIR = "/run/ccmix/job"
CODE_DIR = "/run/ccmix/code"
MIN_MEMORY_BYTES = 32 << 20
DEEPEST = 16  # folders one in the other, below the job folder
START_NS = 1_767_225_600 * 10**9  # when every guest begins: 2026-01-01 00:00 UTC
# The same arguments in the same order for every run: the kernel seeds its random numbers with them.
_ROOT = ("rootflags=/proc/self/cwd/root", "ro", "init=/usr/lib/ccmix/init")
_HOST_ROOT = ("rootflags=/", "ro", "init=/proc/self/cwd/init")
VIRTUAL_TIME = ("time-travel=inf-cpu", f"time-travel-start={START_NS}")


class GuestError(Failure):
    """Reports that a guest did not run its command to the end.

    `reason` says why: "start" (it never reached the command), "panic" (its kernel died, or was
    killed), "hang" (nothing grew for `stall_seconds`), "out of memory" (in the guest), "files" (the
    job folder has something other than files and folders, or too much of them). `last_lines` are
    the last lines that the guest printed.
    """

    def __init__(self, reason: Reason, message: str, last_lines: Iterable[str] = ()) -> None:
        """Takes the reason, a message for the user, and the last lines of the guest's console,
        which are shown below it.
        """
        self.reason: Reason = reason
        self.last_lines = tuple(last_lines)
        super().__init__("\n".join([message, *(f"  {line}" for line in self.last_lines)]))


@dataclass(frozen=True)
class GuestSpec:
    """Describes a guest: the command that it runs, its memory, seed and files."""

    argv: tuple[str, ...]
    """The command, which runs as root in JOB_DIR, with empty standard input. Its program is looked
    up in the guest's PATH.
    """
    job_dir: Path
    """The only folder of the host that the guest can write to."""
    memory_bytes: int
    """The guest's memory. Unused parts cost the host nothing."""
    seed: int
    """From 0 to 2**32-1. The same seed and memory give the same run, to the last byte."""
    cpu: int | None = None
    """The processor to pin the guest to; None means the one with the fewest guests of this
    process.
    """
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to PATH, HOME and TMPDIR, which the guest always has."""
    stall_seconds: float = 120.0
    """The guest counts as hung after this many real seconds in which neither the files in job_dir
    nor the console grow, although it could use a processor.
    """
    userland: Path | None = None
    """The guest's root, read-only, made by lab/userland/build; None means the host's file
    system.
    """
    code: Path | None = None
    """Mounted at CODE_DIR, read-only."""


def root_arguments(spec: GuestSpec) -> tuple[str, ...]:
    """Returns the kernel's arguments that mount the guest's root (its userland, or the host's file
    system) and start lab/init.
    """
    return (
        "quiet",
        "rootfstype=hostfs",
        *(_HOST_ROOT if spec.userland is None else _ROOT),
        "con=null",
    )


def kernel_command(kernel: Path, spec: GuestSpec, kernel_arguments: Sequence[str]) -> list[str]:
    """Returns the command that starts the guest's kernel, an ordinary program. The same arguments
    in the same order give the same random numbers in the guest.
    """
    return [
        str(kernel),
        f"mem={spec.memory_bytes // 1024}K",
        *kernel_arguments,
        f"seed={spec.seed}",
    ]


def environment(memory: Path) -> dict[str, str]:
    """Returns the environment of the kernel's process, which the guest does not see: HOME and
    TMPDIR are the folders of its pid file and its memory file. HOME is its working directory, the
    launch folder.
    """
    return {"HOME": ".", "TMPDIR": str(memory), "PATH": os.defpath}


def check_guest(kernel: Path, spec: GuestSpec) -> tuple[Path, Path]:
    """Returns the absolute paths of the kernel and of the job folder. Raises GuestError("start") if
    they or the spec can't be used.
    """
    try:
        kernel = kernel.resolve(strict=True)
        job_dir = spec.job_dir.resolve(strict=True)
    except OSError as error:
        raise GuestError("start", f"{error.filename}: {error.strerror}") from error
    if not kernel.is_file() or not os.access(kernel, os.R_OK | os.X_OK):
        raise GuestError(
            "start", f"{kernel} is not a program that this user can run: build it with `make setup`"
        )
    if not job_dir.is_dir() or not os.access(job_dir, os.R_OK | os.W_OK | os.X_OK):
        raise GuestError("start", f"{job_dir} is not a folder that this user can write to")
    if not 0 <= spec.seed < 2**32:
        raise GuestError("start", f"the seed {spec.seed} is not in 0..{2**32 - 1}")
    if spec.memory_bytes < MIN_MEMORY_BYTES:
        raise GuestError(
            "start",
            f"a guest needs at least {MIN_MEMORY_BYTES} bytes of memory, not {spec.memory_bytes}",
        )
    return kernel, job_dir


_BEGIN = b"IKCFG_ST"  # kernel/configs.c; a gzip stream follows
_GZIP = 16 + zlib.MAX_WBITS
_CCA = re.compile(r"^CONFIG_TCP_CONG_(\w+)=y$", re.MULTILINE)
_NO_CCA = {"ADVANCED"}
_OTHER_NAMES = {
    "hstcp": "highspeed"
}  # net/ipv4/tcp_highspeed.c; other options are named like their CCA
_ALWAYS = "reno"  # net/ipv4/tcp_cong.c

_BUILD = "build.json"  # next to the kernel; lab/build writes it
PRINTS_WITHIN_S = 60.0
BUILD = "build.json"
HOST_ROOT = GuestRoot(None, repeatable_elsewhere=False)
_MOST: Final = 2**32 - 1
# cca/core/bbr_constants.h
_SETTINGS: Final = {
    "startup_pacing_gain": (256, 2_048),
    "drain_gain": (16, 256),
    "startup_cwnd_gain": (256, 2_048),
    "cwnd_gain": (256, 2_048),
    "up_cwnd_gain": (256, 2_048),
    "probe_rtt_cwnd_gain": (16, 256),
    "cwnd_min_target": (2, 64),
    "full_bw_thresh": (257, 1_024),
    "full_bw_cnt": (1, 100),
    "full_loss_cnt": (1, 1_000),
    "drain_max_rounds": (0, 1_000),
    "bw_probe_base_us": (1000, 600_000_000),
    "bw_probe_rand_us": (1, 600_000_000),
    "bw_probe_max_rounds": (1, 10_000),
    "bw_probe_rand_rounds": (1, 1_000),
    "precautionary_probe": (0, 1),
    "inflight_headroom": (0, 256),
    "cruise_quanta": (0, 64),
    "cruise_prior_inflight": (0, 1),
    "pacing_in_flight": (0, 1),
    "loss_thresh": (1, 255),
    "beta": (1, 255),
    "packet_conservation": (0, 1),
    "min_rtt_win_sec": (1, 3_600),
    "probe_rtt_win_ms": (1, 3_600_000),
    "refresh_equal_rtt": (0, 1),
    "probe_rtt_mode_ms": (0, 60_000),
    "extra_acked_gain": (0, 1_024),
    "extra_acked_win_rtts": (2, 255),
    "pacing_margin_percent": (0, 50),
    "min_tso_rate": (0, 2_000_000_000),
    "ecn_enable": (0, 1),
    "ecn_alpha_gain": (1, 256),
    "ecn_factor": (0, 256),
    "ecn_thresh": (1, 256),
}


def ccas_of_kernel(kernel: Path) -> frozenset[str] | None:
    """Returns the CCAs that are built into a kernel, from the configuration that is embedded in its
    file; None if there is none.

    Raises OSError if the file can't be read.
    """
    _, begin, stream = kernel.read_bytes().partition(_BEGIN)
    if not begin:
        return None
    try:
        config = zlib.decompressobj(_GZIP).decompress(stream).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
    names = {name.lower() for name in _CCA.findall(config) if name not in _NO_CCA}
    return frozenset({_OTHER_NAMES.get(name, name) for name in names} | {_ALWAYS})


@functools.cache
def identify_kernel(name: str, file: Path) -> LabKernel:
    """Returns the properties that identify a kernel in results: its name, hash and version. Raises
    GuestError("start") if the file is not a kernel that runs here.
    """
    try:
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        printed = subprocess.run(
            [file, "--version"], capture_output=True, text=True, check=True, timeout=PRINTS_WITHIN_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise GuestError("start", f"{file} is not a kernel that runs here: {error}") from error
    return LabKernel(name, sha256, printed.stdout.strip())


def recorded_build(file: Path) -> dict[str, str]:
    """Returns the record that lab/build has made of a kernel's build, such as its source; empty for
    a kernel that it did not build.
    """
    try:
        recorded = json.loads((file.parent / _BUILD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        {str(name): str(value) for name, value in recorded.items()}
        if isinstance(recorded, dict)
        else {}
    )


@functools.cache
def identify_userland(userland: Path) -> GuestRoot:
    """Returns the properties that identify a userland (a guest's root file system) in results. A
    userland that was built without the pinned packages is not repeatable elsewhere, because it is
    different on each machine.

    Raises GuestError("start") if lab/userland/build did not make it.
    """
    file = userland.parent / BUILD
    try:
        recorded = json.loads(file.read_text(encoding="utf-8"))
        return GuestRoot(recorded["sha256"], repeatable_elsewhere=recorded["pinned"] is True)
    except (OSError, ValueError, LookupError, TypeError) as error:
        message = (
            f"{file}: does not say what the userland is: run 'make setup', which builds "
            f"it again: {error}"
        )
        raise GuestError("start", message) from error


@dataclass(frozen=True)
class Parameter:
    """Describes which values a parameter of a kernel module accepts: whole numbers from `least` to
    `most`, one for each of its `elements`.
    """

    least: int
    most: int
    elements: int = 1
    read_only: bool = False


# cca/module/tcp_bbr_parameters.h
_BOTH: Final = {name: Parameter(least, most) for name, (least, most) in _SETTINGS.items()} | {
    "pacing_gain": Parameter(16, 2048, elements=4),
    "max_sockets": Parameter(0, _MOST),
    "sockets": Parameter(0, _MOST, read_only=True),
    "fallbacks": Parameter(0, _MOST, read_only=True),
}
PARAMETERS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "tcp_bbr2": _BOTH | {"draft": Parameter(0, 1)},
    "tcp_bbr3": _BOTH,
}
"""The parameters by the name of the module below /sys/module."""
