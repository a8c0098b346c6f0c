"""Defines the command-line arguments and options that several commands of `ccmix` share."""

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
    """Holds the options of `ccmix run`; `ccmix demo` and `ccmix reproduce` also fill them in.

    `only` are names of entries (sections of the INI file), `named` are names of runs; empty means
    all. `jobs` is the number of simultaneous runs in the lab (None: one for each core). `executor`
    and `shared` are for a Dask cluster.
    """

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
        """The folder for the results: OUTDIR, or results/NAME for the file NAME.ini."""
        return self.outdir or Path("results") / self.config.stem

    @property
    def at_a_time(self) -> int:
        """The number of simultaneous runs on this machine; outside the lab, one after the other."""
        from ccmix.lab.limits import guests_at_a_time  # noqa: PLC0415  # the lab is slow to import

        return (self.jobs or guests_at_a_time()) if self.in_lab else 1


class PathType(click.Path):
    """Makes click read a Path, and completes it in a shell.

    Refuses an empty path, as from an unset shell variable, because Path('') is the working
    directory. Also refuses a link that leads to itself, for which Path.resolve() would raise
    RuntimeError.

    For completion, the shell offers the files whose names end with one of `completes`, such as
    '.ini'. If there are no such files, or `completes` is empty, it offers all files.
    """

    def __init__(self, *, completes: tuple[str, ...] = (), **path_options: Any) -> None:
        super().__init__(path_type=Path, **path_options)
        self._completes = completes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Returns the Path that the user wrote, or fails with a message of click."""
        if value == "":
            self.fail("it is empty", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if _is_link_to_itself(path):
            self.fail(f"the link '{path}' leads to itself", param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Returns the files with one of the endings, and the folders that contain such files, if
        their names begin with the typed text; if there are none, click's own completions.
        """
        folder, slash, typed_name = incomplete.rpartition("/")
        matching_files = [
            match
            for pattern in self._completes
            for match in Path(folder + slash).glob(f"*{pattern}")
        ]
        names = sorted(
            {
                match.relative_to(folder + slash).parts[0]
                for match in matching_files
                if match.name != typed_name
            }
        )
        items = [
            CompletionItem(f"{folder}{slash}{name}")
            for name in names
            if name.startswith(typed_name)
        ]
        return items or super().shell_complete(ctx, param, incomplete)


INI = (".ini",)
ARCHIVES = (".zip", "/campaign.json")  # packed campaigns, and folders of campaigns


def _is_link_to_itself(path: Path) -> bool:
    """Returns whether opening the path fails with ELOOP, as for links that form a circle."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def outdirs(*, required: bool) -> Decorator:
    """Adds the argument OUTDIRS: folders of campaigns, or packed campaigns."""
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
    """Adds the options -H, -i and --netem-at, which override keys of the INI file, to a command.

    Its function gets them as one argument, `overrides`.
    """

    @functools.wraps(function)
    def command(
        *, hosts: Path | None, nic: str | None, netem_at: str | None, **other_options: Any
    ) -> Any:
        """Collects the three options, and calls the command's own function."""
        from ccmix.config import Overrides  # noqa: PLC0415  # slow for --help

        return function(overrides=Overrides(hosts, nic, netem_at), **other_options)

    return _hosts(_nic(_netem_at(command)))


def collected(options_class: Callable[..., Any]) -> Decorator:
    """Makes a decorator for commands with many options: their function gets them as one object.

    `options_class` is a dataclass with a field for each option of the command.
    """

    def decorate(function: Command) -> Command:
        """Wraps the command's function, so that click can call it with an argument per option."""

        @functools.wraps(function)
        def command(**parameters: Any) -> Any:
            return function(options_class(**parameters))

        return command

    return decorate


def in_lab(help_text: str) -> Decorator:
    """Adds the option --lab, which the command's function gets as `in_lab`."""
    return click.option("--lab", "in_lab", is_flag=True, help=help_text)


def seed(help_text: str | None = None, most: int | None = None) -> Decorator:
    """Adds the option --seed; `most` is the largest seed that the command accepts (None: any)."""
    return click.option(
        "--seed",
        type=click.IntRange(0, most),
        default=DEFAULT_SEED,
        show_default=True,
        help=help_text,
    )


of_order = seed(
    "Seed for the order of runs and for each run in the lab: the same seed gives the same numbers."
)


def outdir(help_text: str, *, required: bool = False) -> Decorator:
    """Adds the option -o/--outdir, the folder for results. If it is not `required`, its default is
    results/NAME for the file NAME.ini; the command sets this default, and the help text states it.
    """
    default = "" if required else "  [default: results/NAME-OF-THE-FILE]"
    return click.option(
        "-o",
        "--outdir",
        type=PathType(file_okay=False),
        required=required,
        help=f"{help_text}{default}",
    )


def output(help_text: str = "Write to this file instead of standard output.") -> Decorator:
    """Adds the option -o/--output, a file for what the command otherwise prints."""
    return click.option("-o", "--output", type=PathType(dir_okay=False), help=help_text)


def form(*forms: str) -> Decorator:
    """Adds the option --format; `forms` are its values, the first of which is the default."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True
    )
