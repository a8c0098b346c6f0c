"""Converts text for a host's shell and from it."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 4096  # that are read
MOST_CHARACTERS = 300  # of a line


def shell(line: str) -> list[str]:
    """Returns the argument list for a shell line of the user."""
    return ["sh", "-c", line]


def why(status: int, errors: Path) -> str:
    """Returns the exit status of a command with the last line of its standard error."""
    reason = last_line(errors)
    return f"exit status {status}{': ' + reason if reason else ''}"


def last_line(file: Path) -> str:
    """Returns the last line of a file that is not empty; '' if there is no such file."""
    try:
        lines = [line for line in ending(file).splitlines() if line.strip()]
    except OSError:
        return ""
    return shortened(lines[-1]) if lines else ""


def beginning(file: Path) -> str:
    """Returns the first MOST_BYTES of a file. Raises OSError."""
    with file.open("rb") as output:
        return output.read(MOST_BYTES).decode(errors="replace")


def ending(file: Path) -> str:
    """Returns the last MOST_BYTES of a file. Raises OSError."""
    with file.open("rb") as output:
        output.seek(max(0, os.fstat(output.fileno()).st_size - MOST_BYTES))
        return output.read().decode(errors="replace")


def shortened(text: str) -> str:
    """Returns one line of printable characters; of a long line only the end, which has the
    reason.
    """
    line = "".join(filter(str.isprintable, " ".join(text.split())))
    return line if len(line) <= MOST_CHARACTERS else f"…{line[-MOST_CHARACTERS:]}"


def printable(text: str) -> str:
    """Returns the printable characters of a line."""
    return "".join(filter(str.isprintable, text)).strip()


def output_lines(output: str) -> Iterator[str]:
    """Yields the lines of a command's output, with their ends; a list of all can take more memory
    than the text.

    "\\n" alone ends a line: others would be lines for some readers only, and not be counted by all.
    """
    return io.StringIO(output, newline="\n")
