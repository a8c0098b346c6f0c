"""Where a command's result goes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click


def put(text: str, file: Path | None) -> None:
    """To the file or, without one, to standard output. Raises OSError, which names the file."""
    if file is None:
        click.echo(text, nl=False)
        return
    with naming(file):
        file.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def naming(place: Path) -> Iterator[None]:
    """Gives an OSError that names no file, such as that of a full disk, this place."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(place)) from error
