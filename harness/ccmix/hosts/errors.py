"""Defines what goes wrong with a command on a host, or with the host."""

from collections.abc import Sequence

from ccmix.hosts.output_text import shortened


class CommandError(Exception):
    """Reports that a command on a host failed, or did not end in time; the message names host, command and reason
    in one line.
    """

    def __init__(self, host: str, argv: Sequence[str], reason: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.reason = reason
        command = [" ".join(" ".join(argv).split())] if argv else []
        super().__init__(": ".join([host, *command, shortened(reason)]))


class ConnectError(CommandError):
    """Reports that there is no agent on a host, and that trying again is no use; the message says what to do."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, (), reason)


class HostUnreachable(ConnectError):
    """Reports that the network did not reach a host; it may next time."""


class HostLost(CommandError):
    """Reports that the connection to a host's agent has ended. The agent undoes what was changed there."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"connection to {host} lost", (), reason)
        self.host = host
