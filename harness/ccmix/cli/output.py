"""Where a command's result goes."""

import os
from pathlib import Path

import click

from ccmix.failures import naming

STANDARD_OUTPUT = 1


def put(text: str, file: Path | None = None) -> None:
    """To the file or, without one, to standard output. Raises OSError, which names it."""
    with naming(file or "standard output"):
        if file:
            file.write_text(text, encoding="utf-8")
            return
        try:
            click.echo(text, nl=False)
        except BrokenPipeError:
            raise  # click's own
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)  # else Python tries again when it ends
            raise
