"""Defines the arguments and options that several commands share, and how a command takes its own."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

DEFAULT_SEED = 1

Colours = Literal["auto", "linear", "log"]  # of heat maps
Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class PathType(click.Path):
    """Reads a Path, and refuses an empty one: that of an unset shell variable would be the working directory.

    Refuses a link that leads to itself, too: Path.resolve() raises a RuntimeError of it.

    A shell completes it by what matches `completes`, patterns of names below the folder that was typed, as long as
    there is such a thing, else by all files.
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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        folder, slash, begin = incomplete.rpartition("/")
        found = [match for pattern in self._completes for match in Path(folder + slash).glob(f"*{pattern}")]
        names = sorted({match.relative_to(folder + slash).parts[0] for match in found if match.name != begin})
        items = [CompletionItem(f"{folder}{slash}{name}") for name in names if name.startswith(begin)]
        return items or super().shell_complete(ctx, param, incomplete)


INI = (".ini",)
ARCHIVES = (".zip", "/campaign.json")  # packed ones, and folders


def _is_circle(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def outdirs(*, required: bool) -> Decorator:
    return click.argument("outdirs", type=PathType(completes=ARCHIVES), nargs=-1, required=required)


config = click.argument("config", type=PathType(completes=INI))
only = click.option("--only", metavar="ENTRY", multiple=True, help="Only this entry; may be given several times.")
jobs = click.option("-j", "--jobs", type=click.IntRange(1), help="Runs at the same time, in the lab  [default: cores]")
executor = click.option(
    "--executor", metavar="PLACE",
    help="Make the runs on a Dask cluster: dask://HOST:PORT, its scheduler, or one that is started, by "
    "ssh:HOSTS.csv or slurm:JOBS.",
)  # fmt: skip
shared = click.option(
    "--shared", type=PathType(file_okay=False), metavar="DIR",
    help="A folder that all workers see, for runs of more than 64 MB.",
)  # fmt: skip
_hosts = click.option(
    "-H", "--hosts", type=PathType(), metavar="HOSTS.csv",
    help="Destinations of all entries between real hosts: hostname, alias and profile, a line each.",
)  # fmt: skip
_nic = click.option("-i", "--nic", metavar="NIC", help="The sending device  [default: that of the route]")
_netem_at = click.option(
    "--netem-at",
    metavar="HOST:DEV[,DEV]",
    help="Where netem acts: data leaves through the first, ACKs through the second.",
)


def overrides(function: Command) -> Command:
    """Adds -H, -i and --netem-at, which override keys of the file; the function gets them as `overrides`."""

    @functools.wraps(function)
    def command(*, hosts: Path | None, nic: str | None, netem_at: str | None, **others: Any) -> Any:
        from ccmix.config import Overrides

        return function(overrides=Overrides(hosts, nic, netem_at), **others)

    return _hosts(_nic(_netem_at(command)))


def collected(kind: Callable[..., Any]) -> Decorator:
    """Gives the function all parameters as one `kind`, a dataclass with a field for each."""

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(**parameters: Any) -> Any:
            return function(kind(**parameters))

        return command

    return decorate


def in_lab(what: str) -> Decorator:
    return click.option("--lab", "in_lab", is_flag=True, help=what)


def seed(what: str | None = None, most: int | None = None) -> Decorator:
    return click.option("--seed", type=click.IntRange(0, most), default=DEFAULT_SEED, show_default=True, help=what)


of_order = seed("Determines the order of runs and each run in the lab: the same seed gives the same numbers.")


def outdir(what: str, *, required: bool = False) -> Decorator:
    default = "" if required else "  [default: results/NAME-OF-THE-FILE]"
    return click.option("-o", "--outdir", type=PathType(file_okay=False), required=required, help=f"{what}{default}")


def output(where: str = "Write to this file instead of standard output.") -> Decorator:
    return click.option("-o", "--output", type=PathType(dir_okay=False), help=where)


def form(*forms: str) -> Decorator:
    """Adds --format, which says how results are printed; the first of `forms` is the default."""
    return click.option("--format", "form", type=click.Choice(forms), default=forms[0], show_default=True)
