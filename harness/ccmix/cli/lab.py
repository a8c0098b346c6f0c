"""`ccmix lab`: a command in a guest."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from ccmix.lab.guest import GuestSpec, run_guest
from ccmix.run.machines import GUEST_ENVIRONMENT
from ccmix.tools import find_kernel


def run_in_guest(command: Sequence[str], memory_bytes: int, seed: int) -> int:
    """Prints what the command printed and returns its exit status. Raises GuestError."""
    with tempfile.TemporaryDirectory(prefix="ccmix-") as job_dir:
        spec = GuestSpec(
            argv=tuple(command),
            job_dir=Path(job_dir),
            memory_bytes=memory_bytes,
            seed=seed,
            environment=GUEST_ENVIRONMENT,
        )
        result = asyncio.run(run_guest(find_kernel(), spec))
    click.echo(result.console, nl=False)
    return result.exit_status
