"""`ccmix init`: writes a commented INI file to start from."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell
from ccmix.config import ConfigError
from ccmix.config.problems import Problem
from ccmix.failures import naming
from ccmix.files import open_new

FOLDER = Path(__file__).parent / "examples"

NEXT = {  # the two commands to try next, for each kind of file
    "lab": ("ccmix plan {}", "ccmix run {} --lab"),
    "hosts": ("ccmix doctor {}", "ccmix run {}"),
    "perfsonar": ("ccmix plan {}", "ccmix doctor {}"),
}


def sample(name: str) -> Path:
    """Returns the path of one of the INI files that come with ccmix; `name` is without '.ini'."""
    return FOLDER / f"{name}.ini"


@click.command("init")
@click.argument("kind", type=click.Choice(tuple(NEXT)))
@click.argument("name", type=options.PathType())
def init(kind: str, name: Path) -> None:
    """Write NAME.ini, a test to start from. Its comments explain each of its settings. Print the
    name of the file.

    The kind lab is a test between emulated hosts on this machine, ready to run. The kind hosts is a
    test between this machine and another one; perfsonar is a test between perfSONAR hosts. For
    these two, write your own hosts into the file. No file is overwritten.

    \b
    ccmix init lab my-test             then: ccmix plan my-test.ini
    ccmix init hosts to-geneva
    ccmix init perfsonar tests/mesh
    """
    file = _ini_file(name)
    _create(file, _sample_text(kind, file))
    put(f"{file}\n")
    tell("read it and change it as you like; then:")
    for command in NEXT[kind]:
        tell(f"    {command.format(shlex.quote(str(file)))}")


def _ini_file(name: Path) -> Path:
    """Returns the file to write for a NAME that the user gave with or without '.ini'.

    The name is written into a comment of the file, so it must be printable. Raises BadParameter.
    """
    if name.name in ("", "..") or not str(name).isprintable():
        raise click.BadParameter(f"{str(name)!r} is not a printable file name", param_hint="NAME")
    return name if name.suffix == ".ini" else name.with_name(f"{name.name}.ini")


def _sample_text(kind: str, file: Path) -> str:
    """Returns the text of the sample for this kind, with the new file's name in its comments."""
    text = sample(kind).read_text(encoding="utf-8")
    return text.replace("NAME.ini", shlex.quote(file.name)).replace("NAME", file.stem)


def _create(file: Path, text: str) -> None:
    """Creates the file with this text; removes it again if the disk becomes full.

    Raises ConfigError if the file exists or its folder does not, and OSError.
    """
    try:
        new = open_new(file)
    except FileExistsError as error:
        raise _config_error(
            file, "already exists, and was not changed: choose another name"
        ) from error
    except FileNotFoundError as error:
        raise _config_error(
            file, f"the folder {file.parent} does not exist: make it, or choose another name"
        ) from error
    try:
        with naming(file), new:
            new.write(text.encode())
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _config_error(file: Path, message: str) -> ConfigError:
    return ConfigError([Problem(file, message)])
