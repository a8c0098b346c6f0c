"""Tests that a guest works on every kind of machine, or says what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.lab import GuestError, GuestSpec, run_guest
from support.commands import CCMIX, NOT_EMULATED, REPOSITORY, run_program

pytestmark = pytest.mark.lab

MIB = 1 << 20

# Fills the registers, lets a handler overwrite them, and checks that they are restored.
REGISTERS_AND_SIGNALS = r"""
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile double sum;
static volatile sig_atomic_t handled;

static void handler(int number)
{
    unsigned char other[16];

    memset(other, 0xff, sizeof(other));
    asm volatile("movdqu (%0), %%xmm0\n\tmovdqa %%xmm0, %%xmm7\n\tmovdqa %%xmm0, %%xmm15" ::"r"(other)
             : "memory", "xmm0", "xmm7", "xmm15");
    sum += sqrt(number + handled++);
}

int main(void)
{
    unsigned char before[16], after[3][16];
    long result;

    signal(SIGUSR1, handler);
    for (int turn = 0; turn < 1000; turn++) {
        memset(before, turn % 251 + 1, sizeof(before));
        asm volatile("movdqu (%[before]), %%xmm0\n\tmovdqa %%xmm0, %%xmm7\n\tmovdqa %%xmm0, %%xmm15\n\t"
                 "syscall\n\t"
                 "movdqu %%xmm0, (%[after])\n\tmovdqu %%xmm7, 16(%[after])\n\tmovdqu %%xmm15, 32(%[after])"
                 : "=a"(result)
                 : "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1), [before] "r"(before), [after] "r"(after)
                 : "memory", "rcx", "r11", "xmm0", "xmm7", "xmm15");
        for (int number = 0; number < 3; number++)
            if (result || memcmp(before, after[number], sizeof(before)))
                return 1;
    }
    printf("%d signals\n", (int)handled);
    return 0;
}
"""


def run(kernel: Path, job: Path, *argv: str, stall_seconds: float = 120.0) -> str:
    spec = GuestSpec(argv, job, 128 * MIB, seed=1, stall_seconds=stall_seconds)
    result = asyncio.run(run_guest(kernel, spec))
    assert result.exit_status == 0, result.console
    return result.console


@pytest.mark.parametrize("flag", ["fpu", "avx512f", "amx_tile"])
def test_registers_survive_signals(kernel: Path, job: Path, flag: str) -> None:
    """Covers large registers, which have large signal frames; those of AMX were once too large for
    User-Mode Linux.
    """
    if flag not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(
            f"NOT TESTED: this machine's processor has no {flag}; run the tests on one that has"
        )
    (job / "program.c").write_text(REGISTERS_AND_SIGNALS)
    subprocess.run(["gcc", "-O1", "-o", job / "program", job / "program.c", "-lm"], check=True)
    assert run(kernel, job, "./program") == "1000 signals\n"


def test_a_loop_that_never_ends_stops_the_clock_for_all(kernel: Path, job: Path) -> None:
    """Shows that such a loop is a hang, not a wrong result: in virtual time no process wakes while
    another computes.
    """
    with pytest.raises(GuestError, match="hung") as error:
        run(
            kernel,
            job,
            "sh",
            "-c",
            "while :; do :; done & sleep 0.001; echo woke up",
            stall_seconds=3.0,
        )
    assert error.value.reason == "hang"
    assert error.value.last_lines == ()


def test_a_guest_that_hardly_gets_a_processor_has_not_hung(kernel: Path, job: Path) -> None:
    """Lets it compute for longer than the limit without growth, while other processes compute on
    the same processor.
    """
    cpu = min(os.sched_getaffinity(0))
    hog = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "taskset",
        "-c",
        str(cpu),
        "sh",
        "-c",
        "while :; do :; done",
    ]
    counting = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo $i"
    spec = GuestSpec(("sh", "-c", counting), job, 128 * MIB, seed=1, cpu=cpu)
    quiet = asyncio.run(run_guest(kernel, spec))
    with contextlib.ExitStack() as ends:
        for _ in range(8):
            process = ends.enter_context(
                subprocess.Popen(hog, start_new_session=True)
            )  # each gets as much as the guest
            ends.callback(process.kill)
        crowded = asyncio.run(
            run_guest(kernel, replace(spec, stall_seconds=3 * quiet.real_seconds))
        )
    assert (quiet.console, crowded.console) == ("200000\n", "200000\n")


@pytest.mark.long
def test_a_processor_without_xsave_is_reported(tmp_path: Path) -> None:
    argv = [REPOSITORY / "lab" / "emulate", "Nehalem", tmp_path, "env", "PYTHONDONTWRITEBYTECODE=1"]
    done = run_program([*argv, CCMIX, "lab", "exec", "--", "true"])
    if done.returncode == NOT_EMULATED:
        pytest.skip(f"NOT TESTED: no processor could be emulated here: {done.stderr}")
    assert done.returncode == 1, done.stdout
    assert (
        "the guest did not start: this processor has no XSAVE, which User-Mode Linux needs"
        in done.stdout
    )
