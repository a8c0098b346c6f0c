"""`ccmix init`: writes a commented INI file to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.config import ConfigError

NEXT = {  # the two commands after it, for each kind of file
    "lab": ("ccmix plan {}", "ccmix run {} --lab"),
    "hosts": ("ccmix doctor {}", "ccmix run {}"),
    "perfsonar": ("ccmix plan {}", "ccmix doctor {}"),
}


@click.command("init", short_help="Write a commented INI file to start from.")
@click.argument("kind", type=click.Choice(tuple(NEXT)))
@click.argument("name", type=options.PathType())
def init(kind: str, name: Path) -> None:
    """Write NAME.ini, a test to start from, whose comments explain each of its settings; print its name.

    lab: between emulated hosts on this machine, ready to run. hosts: between this machine and another one. perfsonar:
    between perfSONAR hosts. Of the last two, write your own hosts into the file. No file is overwritten.

    \b
    ccmix init lab my-test             then: ccmix plan my-test.ini
    ccmix init hosts to-geneva
    ccmix init perfsonar tests/mesh
    """
    file = _file(name)
    _create(file, _text(kind, file))
    put(f"{file}\n")
    tell("read it and change what you like; then:")
    for command in NEXT[kind]:
        tell(f"    {command.format(shlex.quote(str(file)))}")


def _file(name: Path) -> Path:
    """Returns the file for a name with or without the suffix. Raises BadParameter for what can't be in a comment."""
    if name.name in ("", "..") or not str(name).isprintable():
        raise click.BadParameter(f"{str(name)!r} is no name of a file that can be printed", param_hint="NAME")
    return name if name.suffix == ".ini" else name.with_name(f"{name.name}.ini")


def _text(kind: str, file: Path) -> str:
    from ccmix.cli.samples import sample

    text = sample(kind).read_text(encoding="utf-8")
    return text.replace("NAME.ini", shlex.quote(file.name)).replace("NAME", file.stem)


def _create(file: Path, text: str) -> None:
    """Writes a new file, whole or not at all. Raises ConfigError if it can't be made there, and OSError."""
    from ccmix.archive.replacing import open_new
    from ccmix.failures import naming

    try:
        new = open_new(file)
    except FileExistsError as error:
        raise _problem(file, "is there already, and stays as it is: choose another name") from error
    except FileNotFoundError as error:
        raise _problem(file, f"the folder {file.parent} is not there: make it first, or choose another name") from error
    try:
        with naming(file), new:
            new.write(text.encode())
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _problem(file: Path, message: str) -> ConfigError:
    from ccmix.config import ConfigError
    from ccmix.config.problems import Problem

    return ConfigError([Problem(file, None, None, None, message)])
