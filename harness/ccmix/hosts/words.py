"""The last words of a command, for a message: of a bounded length, in printable characters."""

import os
from pathlib import Path

MOST_BYTES = 4096  # that are read
MOST_CHARACTERS = 300  # that are told


def last_line(file: Path) -> str:
    """The last line of a file that is not empty; nothing of a file that isn't there."""
    try:
        with file.open("rb") as said:
            said.seek(max(0, os.fstat(said.fileno()).st_size - MOST_BYTES))
            lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return shortened(lines[-1]) if lines else ""


def shortened(text: str) -> str:
    """One line of printable characters; of a long one, its end, where the reason stands."""
    line = "".join(filter(str.isprintable, " ".join(text.split())))
    return line if len(line) <= MOST_CHARACTERS else f"…{line[-MOST_CHARACTERS:]}"
