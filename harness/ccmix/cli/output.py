"""Writes the result of a command, and what it says beside it."""

import os
from pathlib import Path
from typing import TextIO

import click

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


class Messages:
    """Writes to standard error, and drops the rest where that fails: what a run says must not stop it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            _drop(STANDARD_ERROR)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            _drop(STANDARD_ERROR)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def put(text: str, file: Path | None = None) -> None:
    """Writes to the file or, without one, to standard output. Raises ArchiveError and OSError."""
    if file:
        from ccmix.archive.replacing import write_whole

        write_whole(file, text)
    else:
        click.echo(text, nl=False)


def tell(sentence: object) -> None:
    """Writes a line to standard error."""
    click.echo(sentence, err=True)


def drop_the_rest() -> None:
    """Drops what could not be written to standard output: Python would try again when it ends."""
    _drop(STANDARD_OUTPUT)


def _drop(descriptor: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
