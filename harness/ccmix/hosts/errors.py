"""Defines the errors of a command on a host, or of the host. Code decides by these types and their
data.
"""

from collections.abc import Sequence

from ccmix.agent.journal import GREATEST_STATUS
from ccmix.failures import Failure
from ccmix.hosts.output_text import shortened


class CommandError(Failure):
    """Reports that a command on a host failed, or did not end in time; the message names host,
    command and reason in one line.
    """

    def __init__(self, host: str, argv: Sequence[str], reason: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.reason = reason
        command = [" ".join(" ".join(argv).split())] if argv else []
        super().__init__(": ".join([host, *command, shortened(reason)]))


class CommandFailed(CommandError):
    """Reports that a command has ended with an exit status other than 0; it is over 128 or negative
    if a signal ended the command.
    """

    def __init__(self, host: str, argv: Sequence[str], status: int, output: str) -> None:
        self.status = status
        last_lines = " / ".join(output.strip().splitlines()[-3:])
        super().__init__(
            host, argv, f"exit status {status}{': ' + last_lines if last_lines else ''}"
        )


class ExitStatusError(CommandFailed):
    """Reports that a command ran to its end, and did not succeed."""


def exit_status_error(host: str, argv: Sequence[str], status: int, output: str) -> CommandFailed:
    """Returns the error of an exit status."""
    kind = ExitStatusError if 0 < status <= GREATEST_STATUS else CommandFailed
    return kind(host, argv, status, output)


class CommandTimeout(CommandError):
    """Reports that a command has not ended in time."""

    def __init__(self, host: str, argv: Sequence[str], timeout_s: float) -> None:
        super().__init__(host, argv, f"has not ended after {timeout_s:g} s")


class ConnectError(CommandError):
    """Reports that there is no agent on a host, and that another attempt would fail too; the
    message says what to do.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, (), reason)


class HostUnreachable(ConnectError):
    """Reports that the network did not reach a host; another attempt may succeed."""


class HostSilent(HostUnreachable):
    """Reports that a host accepted the connection, but no agent answered in time."""


class HostLost(CommandError):
    """Reports that the connection to a host's agent has ended. The agent undoes its changes."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"connection to {host} lost", (), reason)
        self.host = host


class CapExceeded(HostLost):
    """Reports that a host was disconnected because it sent more than ccmix accepts
    (hosts/caps.py).
    """


class ProtocolBroken(HostLost):
    """Reports that a host was disconnected because it sent data that ccmix's agent does not
    send.
    """
