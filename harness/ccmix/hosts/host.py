"""The small interface that everything which changes or measures a host is written against."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class CommandError(Exception):
    """A command on a host failed, or did not end in time; the message names host, command and reason in one line."""

    def __init__(self, host: str, argv: Sequence[str], reason: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.reason = reason
        super().__init__(" ".join(f"{host}: {' '.join(argv)}: {reason}".split()))


class Process(Protocol):
    """A running command."""

    def wait(self, timeout_s: float) -> int:
        """The exit status. Raises CommandError when the command has not ended after `timeout_s`."""

    def ended(self) -> bool:
        """Whether the command has ended."""


class Host(Protocol):
    """A place to run commands, which are argument lists; no shell reads them."""

    name: str

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        """Standard output of a command that ends soon. Raises CommandError unless it exits with 0."""

    def start(self, argv: Sequence[str], *, stdout: Path, stderr: Path) -> AbstractContextManager[Process]:
        """A command in the background, its outputs into local files; ended with the context."""

    def read(self, path: str) -> str:
        """A text file as the host sees it, such as one below /proc. Raises CommandError."""
