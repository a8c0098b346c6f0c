"""Defines what goes wrong with a command on a host, or with the host."""

from collections.abc import Sequence

from ccmix.agent.journal import GREATEST_STATUS
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


class ExitStatusError(CommandError):
    """Reports that a command ran to its end, and did not succeed."""


def exit_status_error(host: str, argv: Sequence[str], status: int, output: str) -> CommandError:
    """Returns the error of an exit status, which is over 128 or negative where a signal ended the command."""
    last_lines = " / ".join(output.strip().splitlines()[-3:])
    kind = ExitStatusError if 0 < status <= GREATEST_STATUS else CommandError
    return kind(host, argv, f"exit status {status}{': ' + last_lines if last_lines else ''}")


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
