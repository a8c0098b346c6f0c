"""Runs a command as the agent sees it: its keeper, and the pipes to and from it."""

from __future__ import annotations

import base64
import json
import os
import signal
from typing import TYPE_CHECKING, cast

from ccmix.agent.keeper import Descriptors, fork_keeper
from ccmix.agent.listening import listening_ports
from ccmix.agent.processes import command_line, descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ccmix.agent.messages import CommandMessage

CHUNK_BYTES = 48 * 1024
PIPE_BYTES = 2**16  # a pipe's size: so much may lie in it when its writer exits


def privileged_argv(argv: Sequence[str], privileged: bool) -> list[str]:
    """Returns the command as root runs it, or as a user who may become root without a password."""
    return ["sudo", "-n", *argv] if privileged and os.geteuid() != 0 else list(argv)


class AgentCommand:
    """Represents a command that was started. It reports through `send`, and is `gone` when no process of it is left.

    Messages: {"id", "stdout" | "stderr": base64}, {"id", "failed": reason} where it can't be started, {"id", "exit":
    status} after all that it has written, {"id", "gone": true, "left": [pid...]} at last.
    """

    def __init__(
        self, number: int, argv: Sequence[str], stdin: bytes, lock: int | None, send: Callable[[CommandMessage], None]
    ) -> None:
        self._number = number
        self._send = send
        self._input = memoryview(stdin)
        self._left: list[int] = []
        self._unread = b""
        self.gone = False
        keeper_stdin, self.stdin = os.pipe()
        stdout, keeper_stdout = os.pipe()
        stderr, keeper_stderr = os.pipe()
        self.status, keeper_status = os.pipe()
        self.outputs = {stdout: "stdout", stderr: "stderr"}
        for descriptor in (self.stdin, stdout, stderr):
            os.set_blocking(descriptor, False)
        self.keeper = fork_keeper(argv, Descriptors(keeper_stdin, keeper_stdout, keeper_stderr, keeper_status, lock))
        for descriptor in (keeper_stdin, keeper_stdout, keeper_stderr, keeper_status):
            os.close(descriptor)
        self.feed()

    def end(self) -> None:
        """Sends SIGTERM to the command and to all that it has started, and SIGKILL after a while; they are gone
        some time later.
        """
        if not self.gone:
            os.kill(self.keeper, signal.SIGTERM)

    def listening(self) -> dict[str, list[int]]:
        return listening_ports(descendants(self.keeper)) if not self.gone else {}

    def command_lines(self) -> list[str]:
        """Returns those of its processes, with spaces between the arguments."""
        return [line for pid in descendants(self.keeper) if (line := command_line(pid))] if not self.gone else []

    def feed(self) -> None:
        """Writes to its standard input what fits, and closes it (`stdin` is -1) at the end."""
        if self.stdin < 0:
            return
        try:
            while self._input:
                self._input = self._input[os.write(self.stdin, self._input[:PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # it does not want more
        os.close(self.stdin)
        self.stdin = -1

    def pass_on(self, output: int) -> bool:
        """Reads from one of the outputs; returns whether there may be more at once."""
        if output not in self.outputs:  # closed since somebody looked
            return False
        try:
            data = os.read(output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            del self.outputs[output]
            os.close(output)
            return False
        text = base64.b64encode(data).decode()
        is_stdout = self.outputs[output] == "stdout"
        self._send({"id": self._number, "stdout": text} if is_stdout else {"id": self._number, "stderr": text})
        return True

    def hear(self) -> None:
        """Reads what its keeper reports."""
        data = os.read(self.status, CHUNK_BYTES)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._left = message.get("left", self._left)
            if "left" not in message:
                self._drain()
                self._send(cast("CommandMessage", {"id": self._number, **message}))
        if not data:
            self._close()

    def _drain(self) -> None:
        """Passes on what was written before now; daemons may go on writing."""
        for output in list(self.outputs):
            read = 0
            while read <= PIPE_BYTES and self.pass_on(output):
                read += CHUNK_BYTES

    def _close(self) -> None:
        os.waitpid(self.keeper, 0)
        self._drain()
        for descriptor in {self.status, self.stdin, *self.outputs} - {-1}:
            os.close(descriptor)
        self.outputs = {}
        self.gone = True
        self._send({"id": self._number, "gone": True, "left": self._left})
