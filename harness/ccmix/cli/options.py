"""Defines the arguments and options that several commands share, and a decorator that collects the
options of a command.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ccmix.config import Overrides

DEFAULT_SEED = 1

Colours = Literal["auto", "linear", "log"]  # scale of heat maps
Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


@dataclass(frozen=True)
class RunOptions:
    """Holds the options of `ccmix run`."""

    config: Path
    outdir: Path | None
    in_lab: bool
    jobs: int | None
    only: tuple[str, ...]
    named: tuple[str, ...]
    overrides: Overrides
    resume: bool
    seed: int
    executor: str | None = None
    shared: Path | None = None
    sentences: bool = False  # whether the answer in sentences follows the table

    @property
    def folder(self) -> Path:
        """Returns the folder for the results."""
        return self.outdir or Path("results") / self.config.stem

    @property
    def at_a_time(self) -> int:
        """Returns the number of simultaneous runs on this machine."""
        return (self.jobs or len(os.sched_getaffinity(0))) if self.in_lab else 1


class PathType(click.Path):
    """Reads a Path. Refuses an empty one, as from an unset shell variable, because it would mean
    the working directory.

    Also refuses a link that leads to itself, for which Path.resolve() would raise a RuntimeError.

    A shell completes it with the files that match `completes`, patterns of names below the folder
    that was typed. If nothing matches, the shell completes it with all files.
    """

    def __init__(self, *, completes: tuple[str, ...] = (), **what: Any) -> None:
        super().__init__(path_type=Path, **what)
        self._completes = completes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value == "":
            self.fail("it is empty", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if _is_circle(path):
            self.fail(f"the link '{path}' leads to itself", param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        folder, slash, begin = incomplete.rpartition("/")
        found = [
            match
            for pattern in self._completes
            for match in Path(folder + slash).glob(f"*{pattern}")
        ]
        names = sorted(
            {match.relative_to(folder + slash).parts[0] for match in found if match.name != begin}
        )
        items = [
            CompletionItem(f"{folder}{slash}{name}") for name in names if name.startswith(begin)
        ]
        return items or super().shell_complete(ctx, param, incomplete)


INI = (".ini",)
ARCHIVES = (".zip", "/campaign.json")  # packed campaigns, and folders


def _is_circle(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def outdirs(*, required: bool) -> Decorator:
    return click.argument("outdirs", type=PathType(completes=ARCHIVES), nargs=-1, required=required)


config = click.argument("config", type=PathType(completes=INI))
only = click.option(
    "--only",
    metavar="ENTRY",
    multiple=True,
    help="Use only this entry; may be given several times.",
)
jobs = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    help="Simultaneous runs in the lab  [default: number of cores]",
)
resume = click.option(
    "--resume", is_flag=True, help="Continue in OUTDIR: keep finished runs, and make all others."
)
executor = click.option(
    "--executor",
    metavar="PLACE",
    help="Make the runs on a Dask cluster: dask://HOST:PORT is a scheduler that runs; "
    "ssh:HOSTS.csv and slurm:JOBS start a cluster.",
)
shared = click.option(
    "--shared",
    type=PathType(file_okay=False),
    metavar="DIR",
    help="A folder that all workers can see, for runs of more than 64 MB.",
)
_hosts = click.option(
    "-H",
    "--hosts",
    type=PathType(),
    metavar="HOSTS.csv",
    help="The destinations of all entries between real hosts; each line has hostname, alias, "
    "profile.",
)
_nic = click.option(
    "-i", "--nic", metavar="NIC", help="The sending network device  [default: from the route]"
)
_netem_at = click.option(
    "--netem-at",
    metavar="HOST:DEV[,DEV]",
    help="The devices for netem: data leaves through the first, ACKs through the second.",
)


def overrides(function: Command) -> Command:
    """Adds -H, -i and --netem-at, which override keys of the file; the function gets them as
    `overrides`.
    """

    @functools.wraps(function)
    def command(*, hosts: Path | None, nic: str | None, netem_at: str | None, **others: Any) -> Any:
        from ccmix.config import Overrides  # noqa: PLC0415  # slow for --help

        return function(overrides=Overrides(hosts, nic, netem_at), **others)

    return _hosts(_nic(_netem_at(command)))


def collected(kind: Callable[..., Any]) -> Decorator:
    """Passes all parameters to the function as one `kind`, a dataclass with a field for each."""

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(**parameters: Any) -> Any:
            return function(kind(**parameters))

        return command

    return decorate


def in_lab(what: str) -> Decorator:
    return click.option("--lab", "in_lab", is_flag=True, help=what)


def seed(what: str | None = None, most: int | None = None) -> Decorator:
    return click.option(
        "--seed", type=click.IntRange(0, most), default=DEFAULT_SEED, show_default=True, help=what
    )


of_order = seed(
    "Seed for the order of runs and for each run in the lab: the same seed gives the same numbers."
)


def outdir(what: str, *, required: bool = False) -> Decorator:
    default = "" if required else "  [default: results/NAME-OF-THE-FILE]"
    return click.option(
        "-o", "--outdir", type=PathType(file_okay=False), required=required, help=f"{what}{default}"
    )


def output(where: str = "Write to this file instead of standard output.") -> Decorator:
    return click.option("-o", "--output", type=PathType(dir_okay=False), help=where)


def form(*forms: str) -> Decorator:
    """Adds --format, the form of the output; the first of `forms` is the default."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True
    )
