"""Runs shell lines that users write into INI files, and explains why one failed."""

from pathlib import Path

from ccmix.hosts.output_text import last_line


def shell(line: str) -> list[str]:
    """Returns the argument list for a line that the user wrote for a shell."""
    return ["sh", "-c", line]


def why(status: int, errors: Path) -> str:
    """Returns the exit status of a command with the last line of its standard error."""
    reason = last_line(errors)
    return f"exit status {status}{': ' + reason if reason else ''}"
