"""Defines the errors of commands on hosts, and of the connection to a host.

Code decides by these types and their attributes, never by the text of a message.
"""

from collections.abc import Sequence

from ccmix.agent.journal import GREATEST_STATUS
from ccmix.failures import Failure
from ccmix.hosts.output_text import shortened


class CommandError(Failure):
    """Reports that a command on a host failed, or did not end in time. The message has the host,
    the command and the reason in one line.
    """

    def __init__(self, host: str, argv: Sequence[str], reason: str) -> None:
        """Takes the host's name, and the command; `argv` is empty if the host itself failed."""
        self.host = host
        self.argv = tuple(argv)
        self.reason = reason
        # split() and join() put a command with line breaks into one line
        command = [" ".join(" ".join(argv).split())] if argv else []
        super().__init__(": ".join([host, *command, shortened(reason)]))


class CommandFailed(CommandError):
    """Reports that a command has ended with an exit status other than 0. The status is over 128 or
    negative if a signal ended the command.
    """

    def __init__(self, host: str, argv: Sequence[str], status: int, output: str) -> None:
        """Takes the command's output or errors, whose last lines the message shows."""
        self.status = status
        last_lines = " / ".join(output.strip().splitlines()[-3:])
        super().__init__(
            host, argv, f"exit status {status}{': ' + last_lines if last_lines else ''}"
        )


class ExitStatusError(CommandFailed):
    """Reports that a command ran to its end and returned a failure, so no signal ended it and the
    connection was not lost.
    """


def exit_status_error(host: str, argv: Sequence[str], status: int, output: str) -> CommandFailed:
    """Returns the error for an exit status other than 0: an ExitStatusError if the command ended by
    itself, a CommandFailed if a signal ended it.
    """
    error_type = ExitStatusError if 0 < status <= GREATEST_STATUS else CommandFailed
    return error_type(host, argv, status, output)


class CommandTimeout(CommandError):
    """Reports that a command has not ended within its time limit."""

    def __init__(self, host: str, argv: Sequence[str], timeout_s: float) -> None:
        super().__init__(host, argv, f"has not ended after {timeout_s:g} s")


class ConnectError(CommandError):
    """Reports that no agent could be started on a host, and that another attempt would fail too.
    The message says what to do.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, (), reason)


class HostUnreachable(ConnectError):
    """Reports that a host could not be reached over the network. Another attempt may succeed."""


class HostSilent(HostUnreachable):
    """Reports that a host accepted the connection, but no agent answered in time."""


class HostLost(CommandError):
    """Reports that the connection to a host's agent has ended. The agent then ends its commands and
    undoes its changes.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"connection to {host} lost", (), reason)
        self.host = host


class CapExceeded(HostLost):
    """Reports that a host was disconnected because it sent more than ccmix accepts (see
    caps.py).
    """


class ProtocolBroken(HostLost):
    """Reports that a host was disconnected because it sent data that ccmix's agent does not
    send.
    """
