"""What goes wrong with a command on a host, or with the host."""

from collections.abc import Sequence

from ccmix.hosts.words import shortened


class CommandError(Exception):
    """A command on a host failed, or did not end in time; the message names host, command and reason in one line."""

    def __init__(self, host: str, argv: Sequence[str], reason: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.reason = reason
        command = [" ".join(" ".join(argv).split())] if argv else []
        super().__init__(": ".join([host, *command, shortened(reason)]))


class ConnectError(CommandError):
    """There is no agent on a host, and trying again is no use; the message says what to do."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, (), reason)


class HostUnreachable(ConnectError):
    """The network did not bring us to a host; it may next time."""


class HostLost(CommandError):
    """The connection to a host's agent has ended. What was changed there is undone by the agent."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"connection to {host} lost", (), reason)
        self.host = host
