"""`ccmix lab`: its options and help."""

import sys
from pathlib import Path

import click

from ccmix.cli import options


@click.group("lab", short_help="Run a command or a shell in a guest of the lab.")
def lab() -> None:
    """The lab: a Linux kernel in virtual time, as an ordinary process."""


_memory = click.option(
    "--memory", type=click.IntRange(64), default=1024, show_default=True, help="Of the guest, in MiB."
)
_on_path = click.option(
    "--path", type=options.PathType(dir_okay=False),
    help="An INI file: with the emulated path of its first run set up.",
)  # fmt: skip
_of_run = click.option("--run", "run_name", default="", help="Of the first run with this in its name in `ccmix plan`.")
_guest_seed = click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=options.DEFAULT_SEED, show_default=True)


@lab.command("exec", short_help="Run a command as root in a guest.", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_on_path
@_of_run
@_memory
@_guest_seed
def lab_exec(command: tuple[str, ...], path: Path | None, run_name: str, memory: int, seed: int) -> None:
    """Run COMMAND as root in a guest; its exit status is that of this command.

    The guest sees this machine's files read-only, and has network namespaces, netem and tc of its own. Its working
    folder is empty and removed afterwards; standard input is empty; both outputs come together when it has ended, of
    more than 1 MiB the end.

    \b
    ccmix lab exec -- sh -c 'ip link; uname -r; date'
    ccmix lab exec --path configs/demo.ini --run 'mixed delay=44ms' -- \\
        ip netns exec ccmix-h1 ping -c 3 10.0.3.2
    """
    from ccmix.cli import lab as work  # noqa: PLC0415

    sys.exit(work.run_in_guest(work.Options(command, memory * 2**20, seed, path, run_name)))


@lab.command(
    "shell",
    short_help="A guest on this terminal, with a shell or a command.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@_on_path
@_of_run
@_memory
@_guest_seed
@click.option("--virtual-time", is_flag=True, help="As in runs. The clock jumps ahead while nobody types.")
def lab_shell(
    command: tuple[str, ...], path: Path | None, run_name: str, memory: int, seed: int, virtual_time: bool
) -> None:
    """A guest on this terminal: COMMAND in it, or a shell; the guest ends with it.

    As with `ccmix lab exec`, but in real time, so that things can be looked at while they go on: speeds are
    what this machine can do, and nothing is repeatable.

    \b
    ccmix lab shell
    ccmix lab shell --path configs/demo.ini --run 'mixed delay=44ms'
    """
    from ccmix.cli import lab as work  # noqa: PLC0415

    sys.exit(work.shell(work.Options(command, memory * 2**20, seed, path, run_name), virtual_time))
