"""Arguments and options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click

DEFAULT_SEED = 1

Colours = Literal["auto", "linear", "log"]  # of heat maps
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class PathType(click.Path):
    """A Path; an empty one, as of a shell's variable without a value, would be the working directory."""

    def __init__(self, **what: Any) -> None:
        super().__init__(path_type=Path, **what)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


config = click.argument("config", type=PathType())
seed = click.option(
    "--seed", type=click.IntRange(0), default=DEFAULT_SEED, show_default=True,
    help="Of the order and of each run in the lab: the same seed gives the same numbers again.",
)  # fmt: skip
only = click.option("--only", metavar="ENTRY", multiple=True, help="Only this entry; may be given several times.")
hosts = click.option(
    "-H", "--hosts", type=PathType(), metavar="HOSTS.csv",
    help="Destinations of all entries between real hosts: hostname, alias and profile, a line each.",
)  # fmt: skip
nic = click.option("-i", "--nic", metavar="NIC", help="The sending device  [default: that of the route]")
netem_at = click.option(
    "--netem-at", metavar="HOST:DEV[,DEV]", help="Where netem acts: data leaves by the first, ACKs by the second."
)


def outdir(what: str) -> Decorator:
    return click.option(
        "-o", "--outdir", type=PathType(file_okay=False),
        help=f"{what}  [default: results/NAME-OF-THE-FILE]",
    )  # fmt: skip


def output(where: str = "Write to this file instead of standard output.") -> Decorator:
    return click.option("-o", "--output", type=PathType(dir_okay=False), help=where)


def form(*forms: str) -> Decorator:
    """Of what is printed; the first is the default."""
    return click.option("--format", "form", type=click.Choice(forms), default=forms[0], show_default=True)
