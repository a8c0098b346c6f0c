"""Drives a host through ccmix's agent on it: this machine, a network namespace, or a machine over
OpenSSH.
"""

import base64
import binascii
import contextlib
import io
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from ccmix.agent.messages import (
    AgentHello,
    AgentMessage,
    AgentReply,
    CommandMessage,
    ControllerMessage,
)
from ccmix.failures import located
from ccmix.hosts.caps import ANSWER, ANSWER_ERRORS, FILE, OUTPUT, Cap
from ccmix.hosts.connection import Connection
from ccmix.hosts.errors import (
    CommandError,
    CommandTimeout,
    ExitStatusError,
    HostLost,
    exit_status_error,
)
from ccmix.hosts.output_text import shortened

LONGEST_NAMED = 100  # characters of a command in a message about it
ANSWERS_WITHIN_S = 60.0  # a request of the protocol; the host's disk may be slow
ENDS_WITHIN_S = 30.0  # a command that the agent must end
LEAVES_WITHIN_S = 60.0
TRANSFERS_WITHIN_S = 3600.0


class Output:
    """Collects an output of a command, up to a cap."""

    def __init__(self, file: IO[bytes], cap: Cap, most_bytes: int | None = None) -> None:
        """Takes the file, and another number of bytes if the cap depends on the run."""
        self.file = file
        self.cap = cap
        self.most_bytes = cap.bytes if most_bytes is None else most_bytes
        self._bytes = 0

    def write(self, data: bytes) -> bool:
        """Writes the data; returns whether there was room for it. Raises OSError, and ValueError if
        nobody wants it.
        """
        self._bytes += len(data)
        if self._bytes > self.most_bytes:
            return False
        self.file.write(data)
        return True


class AgentProcess:
    """Represents a command in the background on a host. Every method raises HostLost if the
    connection is lost.
    """

    def __init__(
        self, host: "AgentHost", number: int, argv: Sequence[str], stdout: Output, stderr: Output
    ) -> None:
        self._host = host
        self._number = number
        self._argv = tuple(argv)
        self._outputs = {"stdout": stdout, "stderr": stderr}
        self._status: int | None = None
        self._failed: str | None = (
            None  # why it could not be started, or its outputs not be written
        )
        self._gone = False
        self._left: list[int] = []

    def ended(self) -> bool:
        """Returns whether the command itself has ended; processes that it started may still run."""
        return self._host.connection.wait_for(self._has_ended, 0)

    def gone(self) -> bool:
        """Returns whether no process of the command is left, daemons included."""
        return self._host.connection.wait_for(lambda: self._gone, 0)

    def wait(self, timeout_s: float) -> int:
        """Returns the command's own exit status (128 + N if signal N ended it). Raises CommandError
        after `timeout_s`, if the command could not be started, or if its outputs could not be
        written here.
        """
        if not self._host.connection.wait_for(self._has_ended, timeout_s):
            raise CommandTimeout(self._host.name, self._argv, timeout_s)
        if self._failed is not None:
            raise self._error(self._failed)
        if self._status is None:
            raise self._error("its keeper was killed")
        return self._status

    def end(self) -> None:
        """Sends SIGTERM, and SIGKILL 3 s later, to the command and to all that it has started.
        Raises CommandError if a process can't be ended.
        """
        if not self._gone:
            self._host.connection.send({"op": "end", "id": self._number})
            if not self._host.connection.wait_for(lambda: self._gone, ENDS_WITHIN_S):
                raise self._error(
                    f"has not ended {ENDS_WITHIN_S:g} s after the agent was asked to end it"
                )
        if self._left:
            raise self._error(f"could not be ended: process {', '.join(map(str, self._left))}")

    def listening(self, transport: Literal["tcp", "udp"] = "tcp") -> list[int]:
        """Returns the ports ('tcp' or 'udp') that the command and all that it has started
        listen on.
        """
        return self._host.call("listening", "tcp", "udp", id=self._number)[transport]

    def command_lines(self) -> list[str]:
        """Returns the command lines of its processes, with spaces between the arguments."""
        return self._host.call("commands", "commands", id=self._number)["commands"]

    def hear(self, message: CommandMessage) -> None:
        """Handles a message of the agent."""
        for name in self._outputs.keys() & message.keys():
            self._take(name, str(message[name]))  # type: ignore[literal-required]
        self._failed = message.get("failed", self._failed)
        self._status = message.get("exit", self._status)
        self._left = message.get("left", self._left)
        self._gone = message.get("gone", self._gone)

    def _take(self, name: str, text: str) -> None:
        """Handles a part of an output."""
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
        return self._status is not None or self._failed is not None or self._gone

    def _error(self, reason: str) -> CommandError:
        return CommandError(self._host.name, self._argv, reason)


class AgentHost:
    """Implements the protocol Host with an agent; `hello` is the agent's report about its host. Any
    number of threads may use it.
    """

    def __init__(self, connection: Connection, is_this_machine: bool) -> None:
        self.name = connection.name
        self.is_this_machine = is_this_machine
        self.connection = connection
        self.hello: AgentHello = {}
        self.refused: str | None = None
        self.waits: str | None = None  # the reason for its wait, before its hello
        self._output_cap = (OUTPUT, OUTPUT.bytes)  # of each output that goes to a file
        self._left: list[tuple[str, str]] | None = None
        self._numbers = itertools.count()
        self._processes: dict[int, AgentProcess] = {}
        self._asked: set[int] = set()  # questions without an answer
        self._replies: dict[int, AgentReply] = {}
        connection.listen(self._hear)

    @property
    def uid(self) -> int:
        """Returns the user id of the login on the host."""
        return int(self.hello["uid"])

    @property
    def temporary(self) -> str:
        """Returns the agent's own folder; for an onlooker, the folder in which agents make their
        folders.
        """
        return str(self.hello["folder"])

    @property
    def agent_pid(self) -> int:
        return int(self.hello["pid"])

    @property
    def lost(self) -> HostLost | None:
        """Returns why the connection has ended, or None."""
        return self.connection.lost

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float = 30,
        privileged: bool = False,
    ) -> str:
        """Runs a command as the protocol Host requires; with sudo if `privileged` and not root. The
        agent ends the processes that the command leaves in the background.
        """
        return self._answer(argv, ANSWER, stdin, timeout_s, privileged)

    @contextmanager
    def start(
        self,
        argv: Sequence[str],
        *,
        stdout: Path,
        stderr: Path,
        privileged: bool = False,
        cap: Cap | None = None,
    ) -> Iterator[AgentProcess]:
        """Runs a command as the protocol RealHost requires."""
        cap, most_bytes = (cap, cap.bytes) if cap else self._output_cap
        with (
            open(stdout, "wb", buffering=0, opener=_no_link) as out,
            open(stderr, "ab", buffering=0, opener=_no_link) as err,
            self._started(
                argv, b"", Output(out, cap, most_bytes), Output(err, cap, most_bytes), privileged
            ) as process,
        ):
            yield process

    @contextmanager
    def outputs_capped(self, cap: Cap, most_bytes: int) -> Iterator[None]:
        former, self._output_cap = self._output_cap, (cap, most_bytes)
        try:
            yield
        finally:
            self._output_cap = former

    def clock_ahead_s(self) -> float:
        if self.is_this_machine:
            return 0.0
        before_s = time.time()
        there_s = float(self.call("clock", "wall_s")["wall_s"])
        return there_s - (before_s + time.time()) / 2

    def read(self, path: str) -> str:
        try:
            return self._answer(["cat", "--", path], FILE)
        except HostLost:
            raise
        except CommandError as error:
            raise CommandError(
                self.name, ["read", path], error.reason.rpartition(": ")[2]
            ) from None

    @contextmanager
    def changed(
        self,
        what: str,
        do: Sequence[str],
        undo: Sequence[str],
        privileged: bool = True,
        undo_within_s: float = 30,
        undone: Callable[[str], object] | None = None,
        all_or_nothing: bool = False,
    ) -> Iterator[str]:
        """Makes a change as the protocol RealHost requires. The journal is on the host, whose agent
        undoes the change if this process can't.
        """
        change = {"what": f"{what} on {self.name}", "undo": list(undo), "privileged": privileged}
        number = self.call("about_to", "number", **change)["number"]
        try:
            output = self.run(do, privileged=privileged)
        except BaseException as error:  # Ctrl-C too
            with contextlib.suppress(CommandError):  # the agent undoes it
                if not (all_or_nothing and isinstance(error, ExitStatusError)):
                    with contextlib.suppress(ExitStatusError):  # there may be nothing to undo
                        self.run(undo, privileged=privileged, timeout_s=undo_within_s)
                self.call("undone", number=number)
            raise
        try:
            self.call("made", number=number)
            yield output
        finally:
            self.call("undoing", number=number)
            try:
                undo_output = self.run(undo, privileged=privileged, timeout_s=undo_within_s)
            except ExitStatusError:
                with contextlib.suppress(CommandError):
                    self.call("not_undone", number=number)
                raise
            self.call("undone", number=number)
            if undone:
                undone(undo_output)

    def remember(self, what: str, undo: Sequence[str]) -> int:
        """Records the undo of an earlier change on the host's disk, and returns its number."""
        change = {"what": f"{what} on {self.name}", "undo": list(undo), "privileged": False}
        number = int(self.call("about_to", "number", **change)["number"])
        self.call("made", number=number)
        return number

    def forget(self, number: int) -> None:
        """Removes the record of such a change, which then stays."""
        self.call("undone", number=number)

    def put(self, local: Path, name: str) -> str:
        """Copies a file into the agent's own folder, which is removed with the agent, and returns
        its path there. Raises CommandError.
        """
        path, mode = f"{self.temporary}/{name}", "700" if local.stat().st_mode & 0o100 else "600"
        copy = ["sh", "-c", 'cat >"$1" && chmod "$2" "$1"', "put", path, mode]
        self._run(
            copy,
            local.read_bytes(),
            Output(io.BytesIO(), ANSWER),
            TRANSFERS_WITHIN_S,
            privileged=False,
        )
        return path

    def fetch(self, path: str, local: Path, cap: Cap, most_bytes: int) -> None:
        """Copies a file of the host, of at most `most_bytes`, to this machine. Raises
        CommandError.
        """
        with open(local, "wb", buffering=0, opener=_no_link) as file:
            self._run(
                ["cat", "--", path],
                b"",
                Output(file, cap, most_bytes),
                TRANSFERS_WITHIN_S,
                privileged=False,
            )

    def call(self, operation: str, *expected: str, **fields: object) -> AgentReply:
        """Returns the agent's answer, with the expected fields, to a request of its protocol.
        Raises CommandError.
        """
        number = next(self._numbers)
        self._asked.add(number)
        self.connection.send(cast(ControllerMessage, {"op": operation, "call": number, **fields}))
        if not self.connection.wait_for(lambda: number in self._replies, ANSWERS_WITHIN_S):
            raise CommandTimeout(self.name, ["agent", operation], ANSWERS_WITHIN_S)
        reply = self._replies.pop(number)
        if "error" in reply:
            raise CommandError(self.name, ["agent", operation], reply["error"])
        if missing := [name for name in expected if name not in reply]:
            self.connection.cut_broken(f"its answer to {operation} lacks {missing[0]}")
        if lost := self.lost:
            raise lost
        return reply

    def close(self) -> None:
        """Tells the agent to leave, and waits until it has ended and undone everything. Raises
        CommandError if it could not. Does nothing if the connection was lost.
        """
        if self.lost:
            return
        self.connection.send({"op": "leave"})
        left = self.connection.wait_for(lambda: self._left is not None, LEAVES_WITHIN_S)
        self.connection.cut("it was closed")
        self.connection.wait_ended(LEAVES_WITHIN_S)
        if not left:
            raise CommandError(
                self.name, ["agent", "leave"], f"has not left within {LEAVES_WITHIN_S:g} s"
            )
        if self._left:
            failed = "; ".join(f"{what}: {reason}" for what, reason in self._left)
            raise CommandError(self.name, ["undo"], f"{failed} (it stays in the journal there)")

    def abandon(self, timeout_s: float = 30) -> bool:
        """Cuts the connection, from any thread: all waiting calls raise HostLost, and the agent
        ends and undoes everything.

        Returns whether the agent has done so within `timeout_s`.
        """
        self.connection.cut("it was abandoned")
        return self.connection.wait_ended(timeout_s)

    def _answer(
        self,
        argv: Sequence[str],
        cap: Cap,
        stdin: str = "",
        timeout_s: float = 30,
        privileged: bool = False,
    ) -> str:
        output = io.BytesIO()
        self._run(argv, stdin.encode(), Output(output, cap), timeout_s, privileged)
        return output.getvalue().decode(errors="replace")

    def _run(
        self, argv: Sequence[str], stdin: bytes, stdout: Output, timeout_s: float, privileged: bool
    ) -> None:
        errors = io.BytesIO()
        with self._started(
            argv, stdin, stdout, Output(errors, ANSWER_ERRORS), privileged
        ) as process:
            status = process.wait(timeout_s)
        if status != 0:
            output = errors.getvalue() or (
                stdout.file.getvalue() if isinstance(stdout.file, io.BytesIO) else b""
            )
            raise exit_status_error(self.name, argv, status, output.decode(errors="replace"))

    @contextmanager
    def _started(
        self, argv: Sequence[str], stdin: bytes, stdout: Output, stderr: Output, privileged: bool
    ) -> Iterator[AgentProcess]:
        number = next(self._numbers)
        process = self._processes[number] = AgentProcess(self, number, argv, stdout, stderr)
        text = base64.b64encode(stdin).decode()
        try:
            self.connection.send(
                {
                    "op": "start",
                    "id": number,
                    "argv": list(argv),
                    "stdin": text,
                    "privileged": privileged,
                }
            )
            try:
                yield process
            finally:
                process.end()
        finally:
            del self._processes[number]

    def _hear(self, message: AgentMessage) -> None:
        if "id" in message:
            command = cast(CommandMessage, message)
            if process := self._processes.get(command["id"]):
                process.hear(command)
        elif "reply" in message:
            if message["reply"] not in self._asked:
                self.connection.cut_broken("it answers a question that was not asked")
                return
            self._asked.remove(message["reply"])
            self._replies[message["reply"]] = message
        elif "hello" in message:
            if self.hello:
                self.connection.cut_broken("it says hello again")
            else:
                self.hello = message["hello"]
        elif "waits" in message:
            self.waits = message["waits"]
        elif "refused" in message:
            self.refused = message["refused"]
        elif "left" in message:
            self._left = [(what, reason) for what, reason in message["left"]]


def _no_link(path: str, flags: int) -> int:
    """Opens a file for an output in a folder where others can create files: it does not follow a
    link, and does not wait for a reader of a pipe. Raises OSError.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)  # a full pipe must block its writer
    return descriptor


@contextmanager
def sent(host: AgentHost, program: Path) -> Iterator[str]:
    """Provides the program's path on the host, in a folder of its own that is removed afterwards;
    on this machine, the program's own path.

    Raises CommandError.
    """
    if host.is_this_machine:
        yield str(program)
        return
    folder = host.run(["mktemp", "-d", f"{host.temporary}/ccmix-XXXXXXXX"]).strip()
    try:
        yield host.put(program, f"{Path(folder).name}/{program.name}")
    finally:
        host.run(["rm", "-rf", "--", folder])
