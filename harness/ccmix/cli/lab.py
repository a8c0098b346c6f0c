"""`ccmix lab`: runs a command or a shell in a guest (a User-Mode Linux kernel) on this machine.

The guest can have the emulated path of a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell
from ccmix.conditions.layout import NAMESPACE_PREFIX, layout
from ccmix.config import load
from ccmix.isolated import FOLDER, module_command
from ccmix.lab import CODE_DIR, JOB_DIR, GuestSpec, run_guest, run_shell
from ccmix.lab.confinement import confinement_way, why_not_confined
from ccmix.lab.guest_code import guest_code
from ccmix.lab.host import guest_memory_bytes
from ccmix.lab.spec import ccas_of_kernel, identify_kernel, recorded_build
from ccmix.model import STOCK_KERNEL, HostPath, Run
from ccmix.plan import make_plan
from ccmix.report.plan_text import path_drawing
from ccmix.run.machines import (
    GUEST_ENVIRONMENT,
    HARNESS_IN_GUEST,
    OWN_ROOT_ENVIRONMENT,
    PYTHON_IN_GUEST,
    EmulationPrograms,
    pickled,
)
from ccmix.temporary import temporary_folder
from ccmix.tools import find_kernel, find_userland, hold, named_kernels, program_folders

SHELL = ("sh", "-i")
JOB = "job.pickle"
GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as in lab/init


@dataclass(frozen=True)
class LabOptions:
    """Holds the options of `ccmix lab exec` and `ccmix lab shell`.

    With `path`, an INI file, the guest gets the emulated path of the first run in the file's plan
    whose name contains `run_name`. Without it, the guest has no emulated path. If `kernel` is None,
    the guest has the kernel of that path, or the stock one. `host_root` shows the guest this
    machine's files; the path can also ask for that.
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
class _CodeInGuest:
    """Says how ccmix's own Python code is started in a guest, which needs it to set up a path.

    `python` and `harness` are the paths of the interpreter and of ccmix's code as the guest sees
    them; `code` is the host's folder to mount there (None: the guest sees the host's files).
    """

    python: str
    harness: str
    environment: Mapping[str, str]
    code: Path | None = None


@click.group("lab")
def lab() -> None:
    """Use the lab: a Linux kernel in virtual time, which runs as an ordinary process."""


def _complete_kernel(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Returns the names of kernels that begin with the typed text, for completion in a shell."""
    return [name for name in (STOCK_KERNEL, *named_kernels()) if name.startswith(incomplete)]


_memory = click.option(
    "--memory",
    type=click.IntRange(64),
    default=1024,
    show_default=True,
    help="The memory of the guest, in MiB.",
)
_on_path = click.option(
    "--path",
    type=options.PathType(completes=options.INI, dir_okay=False),
    help="An INI file: set up the emulated path of its first run.",
)
_of_run = click.option(
    "--run",
    "run_name",
    default="",
    help="With --path: the first run with this text in its name in `ccmix plan`.",
)
_kernel = click.option(
    "--kernel",
    metavar="NAME",
    shell_complete=_complete_kernel,
    help="A kernel from `ccmix lab kernels`  [default: the path's own, or stock]",
)
_host_root = click.option(
    "--host-root",
    is_flag=True,
    help="Let the guest see this machine's files, read-only, instead of its own userland.",
)
_guest_seed = options.seed(most=2**32 - 1)


@lab.command(
    "exec",
    short_help="Run a command as root in a guest.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_on_path
@_of_run
@_kernel
@_host_root
@_memory
@_guest_seed
@options.collected(LabOptions)
def lab_exec(given: LabOptions) -> None:
    """Run COMMAND as root in a guest, and exit with its status.

    The guest has the lab's own userland, with Python, iproute2, curl and similar programs, and its
    own network namespaces, netem and tc. COMMAND begins in an empty folder, which is removed
    afterwards, and with empty standard input. When it has ended, the last MiB of its standard
    output and standard error is printed.

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
    "--virtual-time",
    is_flag=True,
    help="Use virtual time, as runs do: the clock jumps ahead while nobody types.",
)
@options.collected(LabOptions)
def lab_shell(given: LabOptions) -> None:
    """Start a guest on this terminal, with COMMAND or a shell in it. The guest ends when the
    command or the shell ends.

    The guest is that of `ccmix lab exec`, but in real time, so that you can watch what happens. Its
    speed is limited by this machine, and nothing is repeatable.

    \b
    ccmix lab shell
    ccmix lab shell --path configs/demo.ini --run 'mixed delay=44ms'
    """
    sys.exit(_run_on_terminal(given))


@lab.command("kernels", short_help="List the kernels of the lab, with their CCAs and hashes.")
@options.form("table", "json")
def lab_kernels(form: str) -> None:
    """List the kernels that a topology can choose with `kernel = NAME`.

    The kernel "stock" comes with ccmix. `lab/build --name NAME` builds another kernel, with your
    own CCA, with a patch or with other kernel options.

    \b
    ccmix lab kernels
    ccmix lab kernels --format json
    """
    kernels = described_kernels()
    put(
        json.dumps([asdict(kernel) for kernel in kernels]) + "\n"
        if form == "json"
        else kernels_text(kernels)
    )


def _run_in_guest(given: LabOptions) -> int:
    """Runs the command of `ccmix lab exec` in a guest, and prints its output.

    Returns the exit status of the command. Raises GuestError, ConfigError, ToolError.
    """
    with _guest_spec(given.command, given) as (kernel, spec):
        result = asyncio.run(run_guest(kernel, spec))
    click.echo(result.console, nl=False)  # of the command that the user gave
    return result.exit_status


def _run_on_terminal(given: LabOptions) -> int:
    """Starts a guest on this terminal for `ccmix lab shell`, until its command or shell ends.

    Returns the exit status of the command. Raises GuestError, ConfigError, ToolError.
    """
    with _guest_spec(given.command or SHELL, given) as (kernel, spec):
        terminal = {"TERM": os.environ.get("TERM", "dumb"), "PS1": "lab# "}
        with_terminal = replace(spec, environment={**spec.environment, **terminal})
        return run_shell(kernel, with_terminal, virtual_time=given.virtual_time)


@contextlib.contextmanager
def _guest_spec(command: Sequence[str], given: LabOptions) -> Iterator[tuple[Path, GuestSpec]]:
    """Yields the file of the kernel, and the specification of the guest that runs the command.

    With --path, the guest starts ccmix.run.stage, which sets up the path of the chosen run and then
    runs the command. The guest's files are removed when the context ends. Raises UsageError if the
    lab has no such kernel.
    """
    _treat_signals_as_ctrl_c()
    warn_if_not_confined()
    with temporary_folder() as folder:
        argv, kernel_name = tuple(command), STOCK_KERNEL
        memory_bytes, host_root = given.memory * 2**20, given.host_root
        guest_code_location = (
            _code_of_host() if host_root else _CodeInGuest("", "", GUEST_ENVIRONMENT)
        )
        if given.path:
            run = _chosen_run(given.path, given.run_name)
            (folder / JOB).write_bytes(pickled(run))
            host_root = host_root or run.topology.host_root
            guest_code_location = _code_of_host() if host_root else _code_in_userland()
            stage = ("ccmix.run.stage", f"{JOB_DIR}/{JOB}", *command)
            argv = tuple(
                module_command(
                    *stage, python=guest_code_location.python, folder=guest_code_location.harness
                )
            )
            memory_bytes = max(memory_bytes, guest_memory_bytes(run.topology))
            kernel_name = run.topology.kernel
            tell(_path_description(run))
        spec = GuestSpec(
            argv,
            folder,
            memory_bytes,
            given.seed,
            userland=None if host_root else find_userland(),
            code=guest_code_location.code,
            environment=guest_code_location.environment,
        )
        yield kernel_named(given.kernel or kernel_name), spec


def _treat_signals_as_ctrl_c() -> None:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt, so that the guest's folders are removed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _chosen_run(config: Path, wanted: str) -> Run:
    """Returns the first run on an emulated path in the INI file's plan with `wanted` in its name.

    Raises UsageError if there is none.
    """
    runs = [
        run for run in make_plan(load(config).entries, seed=0) if not isinstance(run.path, HostPath)
    ]
    chosen = next((run for run in runs if wanted in run.name), None)
    if not chosen:
        description = (
            f"a run on a topology with '{wanted}' in its name" if wanted else "a run on a topology"
        )
        raise click.UsageError(f"{config}: 'ccmix plan' does not show {description}")
    return chosen


def _code_of_host() -> _CodeInGuest:
    """Returns how to start ccmix in a guest that sees this machine's files: with the Python that
    runs this process. Programs such as ccmix-iperf3 are on the guest's PATH.
    """
    folders = ":".join(map(str, program_folders()))
    return _CodeInGuest(
        sys.executable, FOLDER, GUEST_ENVIRONMENT | {"PATH": f"{GUEST_PATH}:{folders}"}
    )


def _code_in_userland() -> _CodeInGuest:
    """Returns how to start ccmix in a guest with the lab's own userland, whose Python it uses.

    Raises GuestError, ToolError.
    """
    code = guest_code(find_userland(), asdict(EmulationPrograms.find()))
    environment = OWN_ROOT_ENVIRONMENT | {"PATH": f"{GUEST_PATH}:{CODE_DIR}"}
    return _CodeInGuest(str(PYTHON_IN_GUEST), HARNESS_IN_GUEST, environment, code)


def _path_description(run: Run) -> str:
    """Returns a drawing of the run's emulated path, and an example of a command to try on it."""
    plan = layout(run.topology)
    pair = plan.pairs[0]
    return (
        f"{run.name}: {path_drawing(plan)}\n"
        f"network namespaces are named {NAMESPACE_PREFIX}NAME; try: ip "
        f"netns exec {NAMESPACE_PREFIX}{pair.sender.name} ping -c 3 {pair.receiver_address}"
    )


def warn_if_not_confined() -> None:
    """Warns if a guest on this machine can reach all files of the user. Raises GuestError."""
    if reasons := why_not_confined(confinement_way()):
        tell(
            f"WARNING: THE LAB'S GUESTS ARE NOT CONFINED ON THIS MACHINE ({reasons}): a program "
            "in a guest can read and change every file that you can. Run only trusted commands"
        )


@dataclass(frozen=True)
class DescribedKernel:
    """Describes a kernel of the lab for `ccmix lab kernels`."""

    name: str
    release: str
    sha256: str
    ccas: tuple[str, ...]
    additions: str  # to the stock kernel; '' for the stock kernel
    current: bool  # whether it was built from this stock kernel
    file: str


def kernel_named(name: str) -> Path:
    """Returns the file of the lab's kernel with this name, and keeps it from being removed.

    Raises UsageError for an unknown name, and ToolError if there is no stock kernel.
    """
    if name == STOCK_KERNEL:
        return find_kernel()
    named = named_kernels()
    if name not in named:
        raise click.UsageError(no_kernel(name, (STOCK_KERNEL, *named)))
    hold(named[name])
    return named[name]


def described_kernels() -> list[DescribedKernel]:
    """Describes all kernels of the lab for `ccmix lab kernels`, the stock kernel first.

    Raises ToolError if the stock kernel is missing.
    """
    stock = find_kernel()
    stock_key = recorded_build(stock).get("key")
    described = []
    for name, file in {STOCK_KERNEL: stock, **named_kernels()}.items():
        kernel, build = identify_kernel(name, file), recorded_build(file)
        current = name == STOCK_KERNEL or build.get("stock_key") == stock_key
        ccas = tuple(sorted(ccas_of_kernel(file) or ()))
        additions = build.get("additions", "")
        described.append(
            DescribedKernel(
                name, kernel.release, kernel.sha256, ccas, additions, current, str(file)
            )
        )
    return described


def kernels_text(kernels: Iterable[DescribedKernel]) -> str:
    """Returns a paragraph for each kernel: release, hash, CCAs, and what was added to stock."""
    lines = []
    for kernel in kernels:
        lines += [kernel.name, f"  release  {kernel.release}", f"  sha256   {kernel.sha256}"]
        lines.append(f"  CCAs     {' '.join(kernel.ccas) or 'unknown'}")
        if kernel.additions:
            lines.append(f"  added    {kernel.additions}")
        if not kernel.current:
            lines.append(
                "  older    built from another stock kernel than the one above: build it again"
            )
    return "\n".join(lines) + "\n"


def no_kernel(name: str, known: Iterable[str]) -> str:
    """Returns the message for an unknown kernel, with the `known` names and how to build it."""
    return (
        f"the lab has no kernel named {name} (available: {', '.join(known)}); build it with: "
        f"lab/build --name {name}"
    )
