"""Writes the result of a command and its messages, and defines the exit statuses of `ccmix`."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from ccmix.text.printable import printable_lines

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


class Messages:
    """Replaces sys.stderr. If writing fails, as on a closed terminal, drops all later text.

    Otherwise a message that nobody can read would stop a run of hours.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes text, and returns its length also if it is dropped."""
        try:
            return self._stream.write(text)
        except OSError:
            _redirect_to_null(STANDARD_ERROR)
            return len(text)

    def flush(self) -> None:
        """Flushes the stream; drops its text if that fails."""
        try:
            self._stream.flush()
        except OSError:
            _redirect_to_null(STANDARD_ERROR)

    def __getattr__(self, name: str) -> object:
        """Returns any other attribute of the replaced stream, such as isatty."""
        return getattr(self._stream, name)


def put(text: str, file: Path | None = None) -> None:
    """Writes the result of a command to the file, or to standard output if `file` is None.

    Parts of the text may come from other people, so only printable characters are written.
    Raises ArchiveError and OSError.
    """
    if file:
        from ccmix.files import write_whole  # noqa: PLC0415  # Pydantic is slow

        write_whole(file, printable_lines(text))
    else:
        click.echo(printable_lines(text), nl=False)


def tell(sentence: object) -> None:
    """Writes a line to standard error, in printable characters."""
    click.echo(printable_lines(str(sentence)), err=True)


def drop_the_rest() -> None:
    """Drops the text that could not be written to standard output.

    Otherwise Python would try again at exit, and print a second error.
    """
    _redirect_to_null(STANDARD_OUTPUT)


def _redirect_to_null(descriptor: int) -> None:
    """Makes a descriptor, such as that of standard output, drop all text that is written to it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


GOOD = 0  # all runs are valid
BAD = 1  # a run failed or was not valid, or an error occurred
WRONG_INPUT = 2  # wrong usage or input; nothing was started
INTERRUPTED = 130


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Switches off Python's garbage collection (the search for cycles of objects) in this context.

    A command that makes millions of objects, and needs all of them, would spend a fifth of its time
    on the search.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
