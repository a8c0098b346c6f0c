"""Writes the result of a command."""

import os
from pathlib import Path

import click

from ccmix.failures import naming

STANDARD_OUTPUT = 1


def put(text: str, file: Path | None = None) -> None:
    """Writes to the file or, without one, to standard output. Raises OSError."""
    if file:
        with naming(file):
            file.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


def drop_the_rest() -> None:
    """Drops what could not be written to standard output: Python would try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
