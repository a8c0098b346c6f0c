"""A command as the agent sees it: its keeper, and the pipes to and from it."""

from __future__ import annotations

import base64
import json
import os
import signal
from typing import TYPE_CHECKING, Any

from ccmix.agent.keeper import Descriptors, fork_keeper
from ccmix.agent.listening import listening_ports
from ccmix.agent.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHUNK_BYTES = 48 * 1024
PIPE_BYTES = 2**16  # a pipe's size: so much may lie in it when its writer exits


def privileged_argv(argv: Sequence[str], privileged: bool) -> list[str]:
    """The command as root runs it, or as a user who may become root without being asked."""
    return ["sudo", "-n", *argv] if privileged and os.geteuid() != 0 else list(argv)


class Command:
    """A command that was started. It says what it has to say through `tell`, and is `gone` when nothing is left of it.

    Messages: {"id", "stdout" | "stderr": base64}, {"id", "failed": reason} where it can't be started, {"id", "exit":
    status} after all that it has written, {"id", "gone": true, "left": [pid...]} at last.
    """

    def __init__(
        self, number: int, argv: Sequence[str], stdin: bytes, lock: int | None, tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self._number = number
        self._tell = tell
        self._input = memoryview(stdin)
        self._left: list[int] = []
        self._told = b""
        self.gone = False
        his_stdin, self.stdin = os.pipe()
        stdout, his_stdout = os.pipe()
        stderr, his_stderr = os.pipe()
        self.status, his_status = os.pipe()
        self.outputs = {stdout: "stdout", stderr: "stderr"}
        for descriptor in (self.stdin, stdout, stderr):
            os.set_blocking(descriptor, False)
        self.keeper = fork_keeper(argv, Descriptors(his_stdin, his_stdout, his_stderr, his_status, lock))
        for descriptor in (his_stdin, his_stdout, his_stderr, his_status):
            os.close(descriptor)
        self.feed()

    def end(self) -> None:
        """SIGTERM to the command and to all that it has started, SIGKILL after a while; it is gone some time later."""
        if not self.gone:
            os.kill(self.keeper, signal.SIGTERM)

    def listening(self) -> dict[str, list[int]]:
        return listening_ports(descendants(self.keeper)) if not self.gone else {}

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
        """Reads from one of the outputs; whether there may be more at once."""
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
        self._tell({"id": self._number, self.outputs[output]: base64.b64encode(data).decode()})
        return True

    def hear(self) -> None:
        """Reads what its keeper says."""
        data = os.read(self.status, CHUNK_BYTES)
        *lines, self._told = (self._told + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._left = message.get("left", self._left)
            if "left" not in message:
                self._drain()
                self._tell({"id": self._number, **message})
        if not data:
            self._close()

    def _drain(self) -> None:
        """What was written before now; daemons may go on."""
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
        self._tell({"id": self._number, "gone": True, "left": self._left})
