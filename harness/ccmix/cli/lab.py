"""`ccmix lab`: runs a command or a shell in a guest, on the emulated path of a run if one is named."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.lab import GuestSpec
    from ccmix.model import Run

SHELL = ("sh", "-i")
JOB = "job.pickle"
GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as in lab/init


@dataclass(frozen=True)
class LabOptions:
    """Holds the options of `ccmix lab exec` and `ccmix lab shell`.

    `run_name`: part of a run's name in the plan of the file `path`; the first such run counts. Without `path`, the
    guest has no emulated path. `kernel`: None stands for that of the path, or the stock one. `host_root` holds where
    the path asks for it, too.
    """

    command: tuple[str, ...]
    memory: int  # MiB
    seed: int
    path: Path | None
    run_name: str
    kernel: str | None = None
    virtual_time: bool = True
    host_root: bool = False


@dataclass(frozen=True)
class _Brought:
    """Holds what a guest has of ccmix: the Python for its code, and where code and programs are."""

    python: str
    harness: str
    environment: Mapping[str, str]
    code: Path | None = None


@click.group("lab", short_help="Run a command or a shell in a guest of the lab.")
def lab() -> None:
    """Use the lab: a Linux kernel in virtual time, as an ordinary process."""


def _complete_kernel(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from ccmix.model import STOCK_KERNEL
    from ccmix.tools import named_kernels

    return [name for name in (STOCK_KERNEL, *named_kernels()) if name.startswith(incomplete)]


_memory = click.option(
    "--memory", type=click.IntRange(64), default=1024, show_default=True, help="The memory of the guest, in MiB."
)
_on_path = click.option(
    "--path", type=options.PathType(completes=options.INI, dir_okay=False),
    help="An INI file: set up the emulated path of its first run.",
)  # fmt: skip
_of_run = click.option(
    "--run", "run_name", default="", help="With --path: the first run that has this in its name in `ccmix plan`."
)
_kernel = click.option(
    "--kernel",
    metavar="NAME",
    shell_complete=_complete_kernel,
    help="The kernel, of `ccmix lab kernels`  [default: the path's own, or stock]",
)
_host_root = click.option(
    "--host-root", is_flag=True, help="Let the guest see this machine's files, read-only, instead of its own userland."
)
_guest_seed = options.seed(most=2**32 - 1)


@lab.command("exec", short_help="Run a command as root in a guest.", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_on_path
@_of_run
@_kernel
@_host_root
@_memory
@_guest_seed
@options.collected(LabOptions)
def lab_exec(given: LabOptions) -> None:
    """Run COMMAND as root in a guest; its exit status is that of this command.

    The guest has the lab's own userland, with Python, iproute2, curl and the like, and network namespaces, netem and tc
    of its own. Its working folder is empty and removed afterwards; standard input is empty; both outputs come together
    when it has ended: the last MiB of them.

    \b
    ccmix lab exec -- sh -c 'ip link; uname -r; date'
    ccmix lab exec --path configs/demo.ini --run 'mixed delay=44ms' -- \\
        ip netns exec ccmix-h1 ping -c 3 10.0.3.2
    """
    sys.exit(_run_in_guest(given))


@lab.command(
    "shell",
    short_help="Start a guest on this terminal, with a shell or a command.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@_on_path
@_of_run
@_kernel
@_host_root
@_memory
@_guest_seed
@click.option(
    "--virtual-time", is_flag=True, help="Use virtual time, as runs do: the clock jumps ahead while nobody types."
)
@options.collected(LabOptions)
def lab_shell(given: LabOptions) -> None:
    """Start a guest on this terminal, with COMMAND or a shell in it; the guest ends with it.

    As with `ccmix lab exec`, but in real time, so that things can be looked at while they go on: speeds are
    what this machine can do, and nothing is repeatable.

    \b
    ccmix lab shell
    ccmix lab shell --path configs/demo.ini --run 'mixed delay=44ms'
    """
    sys.exit(_shell(given))


@lab.command("kernels", short_help="List the kernels of the lab, with their CCAs and hashes.")
@options.form("table", "json")
def lab_kernels(form: str) -> None:
    """List the kernels that topologies can ask for by `kernel = NAME`.

    Stock is the one of the set-up. `lab/build --name NAME` builds others, with a CCA of yours, a patch or other options
    of the kernel.

    \b
    ccmix lab kernels
    ccmix lab kernels --format json
    """
    from ccmix.cli.lab_kernels import described_kernels, kernels_text

    kernels = described_kernels()
    put(json.dumps([asdict(kernel) for kernel in kernels]) + "\n" if form == "json" else kernels_text(kernels))


def _run_in_guest(given: LabOptions) -> int:
    """Prints what the command printed and returns its exit status. Raises GuestError, ConfigError, ToolError."""
    import asyncio

    from ccmix.lab import run_guest

    with _guest(given.command, given) as (kernel, spec):
        result = asyncio.run(run_guest(kernel, spec))
    put(result.console)
    return result.exit_status


def _shell(given: LabOptions) -> int:
    """Runs a guest on this terminal until the command, by default a shell, ends; returns its exit status.

    Raises GuestError, ConfigError, ToolError.
    """
    from ccmix.lab import run_shell

    with _guest(given.command or SHELL, given) as (kernel, spec):
        terminal = {"TERM": os.environ.get("TERM", "dumb"), "PS1": "lab# "}
        with_terminal = replace(spec, environment={**spec.environment, **terminal})
        return run_shell(kernel, with_terminal, virtual_time=given.virtual_time)


@contextlib.contextmanager
def _guest(command: Sequence[str], given: LabOptions) -> Iterator[tuple[Path, GuestSpec]]:
    """Yields the kernel of a guest, and its specification. Raises UsageError for a kernel that the lab has not."""

    from ccmix.cli.lab_kernels import kernel_named
    from ccmix.cli.running import warn_if_not_confined
    from ccmix.isolated import module_command
    from ccmix.lab import JOB_DIR, GuestSpec
    from ccmix.lab.memory import guest_memory_bytes
    from ccmix.model import STOCK_KERNEL
    from ccmix.run.machines import GUEST_ENVIRONMENT, pickled
    from ccmix.temporary import temporary_folder
    from ccmix.tools import find_userland

    _end_as_by_ctrl_c()
    warn_if_not_confined()
    with temporary_folder() as folder:
        argv, memory_bytes, kernel, host_root = tuple(command), given.memory * 2**20, STOCK_KERNEL, given.host_root
        brought = _of_the_host() if host_root else _Brought("", "", GUEST_ENVIRONMENT)
        if given.path:
            run = _chosen(given.path, given.run_name)
            (folder / JOB).write_bytes(pickled(run))
            host_root = host_root or run.topology.host_root
            brought = _of_the_host() if host_root else _of_ccmix()
            stage = ("ccmix.run.stage", f"{JOB_DIR}/{JOB}", *command)
            argv = tuple(module_command(*stage, python=brought.python, folder=brought.harness))
            memory_bytes, kernel = max(memory_bytes, guest_memory_bytes(run.topology)), run.topology.kernel
            tell(_described(run))
        spec = GuestSpec(
            argv, folder, memory_bytes, given.seed, userland=None if host_root else find_userland(), code=brought.code,
            environment=brought.environment,
        )  # fmt: skip
        yield kernel_named(given.kernel or kernel), spec


def _end_as_by_ctrl_c() -> None:
    """Lets SIGTERM and SIGHUP clean up, too: the guest dies with this process, its folders don't."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _chosen(config: Path, wanted: str) -> Run:
    from ccmix.config import load
    from ccmix.model import HostPath
    from ccmix.plan import make_plan

    runs = [run for run in make_plan(load(config).entries, seed=0) if not isinstance(run.path, HostPath)]
    chosen = next((run for run in runs if wanted in run.name), None)
    if not chosen:
        what = f"a run on a topology with '{wanted}' in its name" if wanted else "a run on a topology"
        raise click.UsageError(f"'ccmix plan {config}' does not show {what}")
    return chosen


def _of_the_host() -> _Brought:
    """Returns this Python, and an environment in which ccmix's own programs, such as ccmix-iperf3, are on PATH."""
    from ccmix.isolated import FOLDER
    from ccmix.run.machines import GUEST_ENVIRONMENT
    from ccmix.tools import program_folders

    folders = ":".join(map(str, program_folders()))
    return _Brought(sys.executable, FOLDER, GUEST_ENVIRONMENT | {"PATH": f"{GUEST_PATH}:{folders}"})


def _of_ccmix() -> _Brought:
    """Returns the same of a guest with the lab's userland. Raises GuestError, ToolError."""
    from ccmix.cli.running import emulation_programs
    from ccmix.lab import CODE_DIR
    from ccmix.lab.guest_code import guest_code
    from ccmix.run.machines import HARNESS_IN_GUEST, OWN_ROOT_ENVIRONMENT, PYTHON_IN_GUEST
    from ccmix.tools import find_userland

    code = guest_code(find_userland(), asdict(emulation_programs()))
    environment = OWN_ROOT_ENVIRONMENT | {"PATH": f"{GUEST_PATH}:{CODE_DIR}"}
    return _Brought(str(PYTHON_IN_GUEST), HARNESS_IN_GUEST, environment, code)


def _described(run: Run) -> str:
    from ccmix.conditions.layout import NAMESPACE_PREFIX, layout
    from ccmix.report.drawing import drawing

    plan = layout(run.topology)
    pair = plan.pairs[0]
    return (
        f"{run.name}: {drawing(plan)}\n"
        f"network namespaces are called {NAMESPACE_PREFIX}NAME: "
        f"ip netns exec {NAMESPACE_PREFIX}{pair.sender.name} ping -c 3 {pair.receiver_address}"
    )
