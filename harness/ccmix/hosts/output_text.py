"""Reads and shortens the output of commands on hosts, for messages."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 4096  # that are read
MOST_CHARACTERS = 300  # of a line


def shell(line: str) -> list[str]:
    """Returns the command that runs a shell line of the user, such as a src-cmd of the INI file."""
    return ["sh", "-c", line]


def exit_reason(status: int, errors: Path) -> str:
    """Returns a command's exit status with the last line of its standard error, whose file is
    `errors`: "exit status 1: no such device".
    """
    reason = last_line(errors)
    return f"exit status {status}{': ' + reason if reason else ''}"


def last_line(file: Path) -> str:
    """Returns the last line of a command's output file that is not blank, shortened for a message;
    '' if there is no such line or file.
    """
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
    """Returns the last MOST_BYTES of a file, which may begin within a line. Raises OSError."""
    with file.open("rb") as output:
        output.seek(max(0, os.fstat(output.fileno()).st_size - MOST_BYTES))
        return output.read().decode(errors="replace")


def shortened(text: str) -> str:
    """Returns the text as a single line of printable characters. Of a long text it keeps only the
    end, which usually has the reason.
    """
    line = "".join(filter(str.isprintable, " ".join(text.split())))
    return line if len(line) <= MOST_CHARACTERS else f"…{line[-MOST_CHARACTERS:]}"


def output_lines(output: str) -> Iterator[str]:
    """Yields the lines of a command's output, with their line ends. A list of all lines could take
    more memory than the text.

    Only "\\n" ends a line: Python's splitlines() also splits at characters at which other programs
    do not.
    """
    return io.StringIO(output, newline="\n")
