"""`ccmix lab`: a command, or a shell, in a guest, on the emulated path of a run if one is asked for."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ccmix.cli.output import put
from ccmix.conditions.layout import NAMESPACE_PREFIX, layout
from ccmix.config import load
from ccmix.lab import JOB_DIR, GuestSpec, run_guest, run_shell
from ccmix.model import HostPath, Run
from ccmix.plan import make_plan
from ccmix.report.drawing import drawing
from ccmix.run.machines import GUEST_ENVIRONMENT, PACKAGE_FOLDER, guest_memory_bytes
from ccmix.tools import find_kernel

SHELL = ("sh", "-i")
JOB = "job.json"
GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as in lab/init


@dataclass(frozen=True)
class Options:
    """The options of `ccmix lab exec` and `ccmix lab shell`.

    `run`: part of a run's name in the plan of the file `path`, the first such run counts; None: no path is set up.
    """

    command: tuple[str, ...]
    memory_bytes: int
    seed: int
    path: Path | None
    run: str


def run_in_guest(options: Options) -> int:
    """Prints what the command printed and returns its exit status. Raises GuestError, ConfigError, ToolError."""
    with _spec(options.command, options) as spec:
        result = asyncio.run(run_guest(find_kernel(), spec))
    put(result.console)
    return result.exit_status


def shell(options: Options, virtual_time: bool) -> int:
    """A guest on this terminal until the command, by default a shell, ends; its exit status.

    Raises GuestError, ConfigError, ToolError.
    """
    with _spec(options.command or SHELL, options) as spec:
        terminal = {"TERM": os.environ.get("TERM", "dumb"), "PS1": "lab# "}
        with_terminal = replace(spec, environment={**spec.environment, **terminal})
        return run_shell(find_kernel(), with_terminal, virtual_time=virtual_time)


@contextlib.contextmanager
def _spec(command: Sequence[str], options: Options) -> Iterator[GuestSpec]:
    with tempfile.TemporaryDirectory(prefix="ccmix-") as folder:
        argv, memory_bytes = tuple(command), options.memory_bytes
        environment: Mapping[str, str] = GUEST_ENVIRONMENT
        if options.path:
            run = _chosen(options.path, options.run)
            Path(folder, JOB).write_text(json.dumps(run.to_json()))
            argv = (sys.executable, "-S", "-m", "ccmix.run.stage", f"{JOB_DIR}/{JOB}", *command)
            memory_bytes = max(memory_bytes, guest_memory_bytes(run.topology))
            environment = _environment_on_path()
            click.echo(_where(run), err=True)
        yield GuestSpec(argv, Path(folder), memory_bytes, options.seed, environment=environment)


def _chosen(config: Path, wanted: str) -> Run:
    runs = [run for run in make_plan(load(config).entries, seed=0) if not isinstance(run.path, HostPath)]
    chosen = next((run for run in runs if wanted in run.name), None)
    if not chosen:
        what = f"a run on a topology with '{wanted}' in its name" if wanted else "a run on a topology"
        raise click.UsageError(f"'ccmix plan {config}' does not show {what}")
    return chosen


def _environment_on_path() -> Mapping[str, str]:
    """ccmix's own programs are found too, such as ccmix-iperf3."""
    programs = Path(sys.prefix) / "bin"
    return GUEST_ENVIRONMENT | {"PYTHONPATH": str(PACKAGE_FOLDER), "PATH": f"{GUEST_PATH}:{programs}"}


def _where(run: Run) -> str:
    plan = layout(run.topology)
    pair = plan.pairs[0]
    return (
        f"{run.name}: {drawing(plan)}\n"
        f"network namespaces are called {NAMESPACE_PREFIX}NAME: "
        f"ip netns exec {NAMESPACE_PREFIX}{pair.sender.name} ping -c 3 {pair.receiver_address}"
    )
