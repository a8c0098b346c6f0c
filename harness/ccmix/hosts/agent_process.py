"""Represents a command that ccmix's agent runs on a host in the background, and its outputs."""

import base64
import binascii
from collections.abc import Sequence
from typing import IO, Literal, Protocol

from ccmix.agent.messages import AgentReply, CommandMessage
from ccmix.failures import located
from ccmix.hosts.caps import Cap
from ccmix.hosts.connection import Connection
from ccmix.hosts.errors import CommandError, CommandTimeout
from ccmix.hosts.output_text import shortened

LONGEST_NAMED = 100  # characters of a command in a message about it
ENDS_WITHIN_S = 30.0  # a command that the agent must end


class CommandHost(Protocol):
    """Describes the host of a command: its connection, and requests to its agent."""

    connection: Connection

    def call(self, operation: str, *expected: str, **fields: object) -> AgentReply: ...


class Output:
    """Writes an output of a command on a host to a file on this machine, up to a maximum size."""

    def __init__(self, file: IO[bytes], cap: Cap, most_bytes: int | None = None) -> None:
        """Takes the file and the limit. `most_bytes` replaces the cap's size if the limit depends
        on the run, for example on its duration.
        """
        self.file = file
        self.cap = cap
        self.most_bytes = cap.bytes if most_bytes is None else most_bytes
        self._bytes = 0

    def write(self, data: bytes) -> bool:
        """Writes the data, and returns whether that was within the limit. Raises OSError, and
        ValueError if the file was closed because its output is no longer needed.
        """
        self._bytes += len(data)
        if self._bytes > self.most_bytes:
            return False
        self.file.write(data)
        return True


class AgentProcess:
    """Represents a command that runs in the background on a host, under the control of the agent.
    Every method raises HostLost if the connection is lost.
    """

    def __init__(
        self, host: CommandHost, number: int, argv: Sequence[str], stdout: Output, stderr: Output
    ) -> None:
        """Only stores its arguments; AgentHost asks the agent to start the command.

        number: identifies the command `argv` in the messages to and from the agent
        stdout, stderr: the files for the command's outputs
        """
        self._host = host
        self._number = number
        self._argv = tuple(argv)
        self._outputs = {"stdout": stdout, "stderr": stderr}
        self._status: int | None = None
        self._failed: str | None = (
            None  # why it could not be started, or why its outputs could not be written
        )
        self._is_gone = False  # no process of it is left
        self._unended: list[int] = []  # processes that could not be ended

    def ended(self) -> bool:
        """Returns whether the command itself has ended; processes that it started may still run."""
        return self._host.connection.wait_for(self._has_ended, 0)

    def gone(self) -> bool:
        """Returns whether no process of the command is left, daemons included."""
        return self._host.connection.wait_for(lambda: self._is_gone, 0)

    def wait(self, timeout_s: float) -> int:
        """Waits for the command's end, and returns its own exit status (128 + N if signal N ended
        it).

        Raises CommandError after `timeout_s`, if the command could not be started, or if its
        outputs could not be written on this machine.
        """
        if not self._host.connection.wait_for(self._has_ended, timeout_s):
            raise CommandTimeout(self._host.connection.name, self._argv, timeout_s)
        if self._failed is not None:
            raise self._error(self._failed)
        if self._status is None:
            raise self._error("its keeper was killed")
        return self._status

    def end(self) -> None:
        """Sends SIGTERM, and SIGKILL 3 s later, to the command and to all that it has started.
        Raises CommandError if a process can't be ended.
        """
        if not self._is_gone:
            self._host.connection.send({"op": "end", "id": self._number})
            if not self._host.connection.wait_for(lambda: self._is_gone, ENDS_WITHIN_S):
                raise self._error(
                    f"has not ended {ENDS_WITHIN_S:g} s after the agent was asked to end it"
                )
        if self._unended:
            raise self._error(f"could not be ended: process {', '.join(map(str, self._unended))}")

    def listening(self, transport: Literal["tcp", "udp"] = "tcp") -> list[int]:
        """Returns the ports of this transport on which the command and all that it has started
        listen.
        """
        return self._host.call("listening", "tcp", "udp", id=self._number)[transport]

    def command_lines(self) -> list[str]:
        """Returns the command lines of its processes, with spaces between the arguments."""
        return self._host.call("commands", "commands", id=self._number)["commands"]

    def handle(self, message: CommandMessage) -> None:
        """Handles a message from the agent about this command: its outputs, its end, or an error.
        The connection's thread calls it.
        """
        for name in self._outputs.keys() & message.keys():
            self._take_output(name, str(message[name]))  # type: ignore[literal-required]
        self._failed = message.get("failed", self._failed)
        self._status = message.get("exit", self._status)
        self._unended = message.get("left", self._unended)
        self._is_gone = message.get("gone", self._is_gone)

    def _take_output(self, name: str, text: str) -> None:
        """Writes a part of an output (`name`: stdout or stderr, `text`: base64). Cuts the
        connection to a host that sends too much or invalid data.
        """
        output, connection = self._outputs[name], self._host.connection
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            connection.cut_broken(f"a {name} is not base64: {error}")
            return
        try:
            if not output.write(data):
                connection.cut_exceeding(
                    output.cap, output.most_bytes, shortened(" ".join(self._argv)[:LONGEST_NAMED])
                )
        except OSError as error:
            self._failed = (
                self._failed
                or f"its {name} can't be written here: {located(error, output.file.name)}"
            )
        except ValueError as error:  # closed, because the output is not wanted any more
            self._failed = self._failed or f"its {name} can't be written here: {error}"

    def _has_ended(self) -> bool:
        """Returns whether wait() need not wait any longer: the command has ended or failed, or its
        end will never be reported.
        """
        return self._status is not None or self._failed is not None or self._is_gone

    def _error(self, reason: str) -> CommandError:
        return CommandError(self._host.connection.name, self._argv, reason)
