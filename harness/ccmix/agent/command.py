"""Runs a command for the agent, and passes on its outputs, exit status and listening ports."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ccmix.agent.keeper import Descriptors, fork_keeper
from ccmix.agent.processes import command_line, descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ccmix.agent.messages import CommandMessage

# The state in /proc/PID/net/ of a socket that listens, as in the kernel's
# net/tcp_states.h.
TCP_LISTEN, UDP_UNCONNECTED = "0A", "07"
TABLES = {"tcp": (("tcp", "tcp6"), TCP_LISTEN), "udp": (("udp", "udp6"), UDP_UNCONNECTED)}

CHUNK_BYTES = 48 * 1024
PIPE_BYTES = 2**16  # a pipe's size, and so the maximum that it holds when its writer exits


def listening_ports(pids: Iterable[int]) -> dict[str, list[int]]:
    """Returns the ports on which these processes listen, sorted, by 'tcp' and 'udp'. Only root sees
    the ports of other users' processes.
    """
    ports_by_transport: dict[str, set[int]] = {transport: set() for transport in TABLES}
    for pid in pids:
        inodes = _socket_inodes(pid)
        for transport, (files, state) in TABLES.items():
            for file in files if inodes else ():
                ports_by_transport[transport] |= _listening_ports_in(
                    f"/proc/{pid}/net/{file}", state, inodes
                )
    return {transport: sorted(ports) for transport, ports in ports_by_transport.items()}


def _socket_inodes(pid: int) -> set[str]:
    """Returns the inode numbers of a process's sockets, by which the kernel's tables name them. The
    set is empty if the process has ended or belongs to another user.
    """
    inodes = set()
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor)  # noqa: PTH115
                if target.startswith("socket:["):
                    inodes.add(target[len("socket:[") : -1])
    return inodes


def _listening_ports_in(table: str, state: str, inodes: set[str]) -> set[int]:
    """Returns the local ports of the sockets with these inodes and this state in a table such as
    /proc/PID/net/tcp. Its columns are: sl, local address, remote address, state, ..., inode (the
    tenth).
    """
    ports = set()
    with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            columns = line.split()
            if len(columns) > 9 and columns[3] == state and columns[9] in inodes:
                ports.add(int(columns[1].rpartition(":")[2], 16))
    return ports


def argv_with_sudo(argv: Sequence[str], privileged: bool) -> list[str]:
    """Returns the command, with `sudo -n` before it if it is `privileged` and this process is not
    root.
    """
    return ["sudo", "-n", *argv] if privileged and os.geteuid() != 0 else list(argv)


class AgentCommand:
    """Represents a command that the agent has started for its controller. It is `gone` when none of
    its processes is left.

    It reports through `send`: {"id", "stdout" | "stderr": base64}, {"id", "failed": reason} if it
    can't be started, {"id", "exit": status} after all of its output, and finally {"id", "gone":
    true, "left": [pid...]} with the processes that could not be ended.
    """

    def __init__(
        self,
        number: int,
        argv: Sequence[str],
        stdin: bytes,
        lock: int | None,
        send: Callable[[CommandMessage], None],
    ) -> None:
        """Starts the command in a keeper: a process that controls all processes of the command.

        `number` is the command's id in messages, `stdin` all of its input, and `lock` the
        descriptor of the host's lock, which the keeper holds until the command is gone.
        """
        self._number = number
        self._send = send
        self._input = memoryview(stdin)
        self._left: list[int] = []
        self._incomplete_line = b""
        self.gone = False
        keeper_stdin, self.stdin = os.pipe()
        stdout, keeper_stdout = os.pipe()
        stderr, keeper_stderr = os.pipe()
        self.status, keeper_status = os.pipe()
        self.outputs = {stdout: "stdout", stderr: "stderr"}
        for descriptor in (self.stdin, stdout, stderr):
            os.set_blocking(descriptor, False)
        self.keeper = fork_keeper(
            argv, Descriptors(keeper_stdin, keeper_stdout, keeper_stderr, keeper_status, lock)
        )
        for descriptor in (keeper_stdin, keeper_stdout, keeper_stderr, keeper_status):
            os.close(descriptor)
        self.feed()

    def end(self) -> None:
        """Begins to end all processes of the command, and does not wait for that: handle_reports()
        notices when they are gone.

        The keeper, the process that controls the command's processes, gets SIGTERM. It passes
        SIGTERM on to them, and sends SIGKILL to those that have not ended some seconds later.
        """
        if not self.gone:
            os.kill(self.keeper, signal.SIGTERM)

    def listening(self) -> dict[str, list[int]]:
        """Returns the ports on which its processes listen, by 'tcp' and 'udp'; {} if it is gone."""
        return listening_ports(descendants(self.keeper)) if not self.gone else {}

    def command_lines(self) -> list[str]:
        """Returns the command lines of its processes, with spaces between the arguments."""
        return (
            [line for pid in descendants(self.keeper) if (line := command_line(pid))]
            if not self.gone
            else []
        )

    def feed(self) -> None:
        """Writes as much of the command's input as the pipe takes without blocking. After the last
        byte, closes the pipe and sets `stdin` to -1.
        """
        if self.stdin < 0:
            return
        try:
            while self._input:
                self._input = self._input[os.write(self.stdin, self._input[:PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # the command reads no more
        os.close(self.stdin)
        self.stdin = -1

    def pass_on(self, output: int) -> bool:
        """Sends the controller the next part of an output, which `output` names by its descriptor.
        Returns whether there may be more without waiting.
        """
        if output not in self.outputs:  # closed in the meantime
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
        self._send(
            {"id": self._number, "stdout": text}
            if is_stdout
            else {"id": self._number, "stderr": text}
        )
        return True

    def handle_reports(self) -> None:
        """Reads the keeper's reports, and passes them on to the controller. The end of their pipe
        means that the command is gone.
        """
        data = os.read(self.status, CHUNK_BYTES)
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._left = message.get("left", self._left)
            if "left" not in message:
                self._pass_on_written()
                self._send(cast("CommandMessage", {"id": self._number, **message}))
        if not data:
            self._close()

    def _pass_on_written(self) -> None:
        """Passes on all output that was written before now. It reads no more than a full pipe of
        each output, because daemons may go on writing.
        """
        for output in list(self.outputs):
            read_bytes = 0
            while read_bytes <= PIPE_BYTES and self.pass_on(output):
                read_bytes += CHUNK_BYTES

    def _close(self) -> None:
        """Passes on the last output, and releases the keeper and the pipes of a command that is
        gone.
        """
        os.waitpid(self.keeper, 0)
        self._pass_on_written()
        for descriptor in {self.status, self.stdin, *self.outputs} - {-1}:
            os.close(descriptor)
        self.outputs = {}
        self.gone = True
        self._send({"id": self._number, "gone": True, "left": self._left})
