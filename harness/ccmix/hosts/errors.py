"""What goes wrong with a command on a host."""

from collections.abc import Sequence


class CommandError(Exception):
    """A command on a host failed, or did not end in time; the message names host, command and reason in one line."""

    def __init__(self, host: str, argv: Sequence[str], reason: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.reason = reason
        super().__init__(" ".join(f"{host}: {' '.join(argv)}: {reason}".split()))
