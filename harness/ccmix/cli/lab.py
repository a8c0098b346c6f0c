"""`ccmix lab`: a command, or a shell, in a guest."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ccmix.lab import GuestSpec, run_guest, run_shell
from ccmix.run.machines import GUEST_ENVIRONMENT
from ccmix.tools import find_kernel

SHELL = ("sh", "-i")


def run_in_guest(command: Sequence[str], memory_bytes: int, seed: int) -> int:
    """Prints what the command printed and returns its exit status. Raises GuestError."""
    with _spec(command, memory_bytes, seed) as spec:
        result = asyncio.run(run_guest(find_kernel(), spec))
    click.echo(result.console, nl=False)
    return result.exit_status


def shell(command: Sequence[str], memory_bytes: int, seed: int, virtual_time: bool) -> int:
    """A guest on this terminal until the command, by default a shell, ends; its exit status. Raises GuestError."""
    with _spec(command or SHELL, memory_bytes, seed) as spec:
        terminal = {"TERM": os.environ.get("TERM", "dumb"), "PS1": "lab# "}
        with_terminal = replace(spec, environment={**spec.environment, **terminal})
        return run_shell(find_kernel(), with_terminal, virtual_time=virtual_time)


@contextlib.contextmanager
def _spec(command: Sequence[str], memory_bytes: int, seed: int) -> Iterator[GuestSpec]:
    with tempfile.TemporaryDirectory(prefix="ccmix-") as job_dir:
        yield GuestSpec(
            argv=tuple(command),
            job_dir=Path(job_dir),
            memory_bytes=memory_bytes,
            seed=seed,
            environment=GUEST_ENVIRONMENT,
        )
