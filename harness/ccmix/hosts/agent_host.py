"""Runs commands on a host through ccmix's agent there, which undoes changes if ccmix is lost.

The host is this machine, a network namespace of it, or a machine over OpenSSH.
"""

import base64
import contextlib
import io
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from ccmix.agent.messages import (
    AgentHello,
    AgentMessage,
    AgentReply,
    CommandMessage,
    ControllerMessage,
)
from ccmix.hosts.agent_process import AgentProcess, Output
from ccmix.hosts.caps import ANSWER, ANSWER_ERRORS, FILE, OUTPUT, Cap
from ccmix.hosts.connection import Connection
from ccmix.hosts.errors import (
    CommandError,
    CommandTimeout,
    ExitStatusError,
    HostLost,
    exit_status_error,
)

ANSWERS_WITHIN_S = 60.0  # a request of the protocol; the host's disk may be slow
LEAVES_WITHIN_S = 60.0
TRANSFERS_WITHIN_S = 3600.0


class AgentHost:
    """Implements the protocol RealHost with an agent. `hello` is the agent's first report about
    itself and its host. Any number of threads may use it.
    """

    def __init__(self, connection: Connection, is_this_machine: bool) -> None:
        """Takes the connection to the agent, and receives its messages from now on. Files of a host
        that `is_this_machine` are those of this process.
        """
        self.name = connection.name
        self.is_this_machine = is_this_machine
        self.connection = connection
        self.hello = cast(AgentHello, {})  # empty until the agent has reported
        self.refused: str | None = None  # why the agent does not serve this ccmix
        self.waits: str | None = None  # the reason for its wait, before its hello
        self._output_cap = (OUTPUT, OUTPUT.bytes)  # of each output that goes to a file
        self._not_undone: list[tuple[str, str | None]] | None = (
            None  # None until the agent has left
        )
        self._numbers = itertools.count()
        self._processes: dict[int, AgentProcess] = {}
        self._unanswered: set[int] = set()  # numbers of requests
        self._replies: dict[int, AgentReply] = {}
        connection.listen(self._handle)

    @property
    def uid(self) -> int:
        """Returns the user id of the login on the host."""
        return int(self.hello["uid"])

    @property
    def temporary(self) -> str:
        """Returns the agent's temporary folder on the host. An onlooker (an agent that changes
        nothing) has no folder of its own: this is the folder in which agents make theirs.
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
        """Runs a command to its end, and returns its standard output. Raises CommandError if it
        can't be started, fails, or takes longer than `timeout_s`. A `privileged` command uses sudo
        if the login is not root. The agent ends processes that the command leaves in the
        background.
        """
        return self._output_of(argv, ANSWER, stdin, timeout_s, privileged)

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
        """Runs a command in the background until the context ends. Its outputs go to files of this
        machine: that of stdout is overwritten, that of stderr is appended to. `cap` limits the size
        of each output; None means the limit of outputs_capped().
        """
        cap, most_bytes = (cap, cap.bytes) if cap else self._output_cap
        with (
            open(stdout, "wb", buffering=0, opener=_open_output) as out,
            open(stderr, "ab", buffering=0, opener=_open_output) as err,
            self._running(
                argv, b"", Output(out, cap, most_bytes), Output(err, cap, most_bytes), privileged
            ) as process,
        ):
            yield process

    @contextmanager
    def outputs_capped(self, cap: Cap, most_bytes: int) -> Iterator[None]:
        """Limits each output of commands that are started in the context to `most_bytes`, with
        `cap` as the reason in the error of a host that sends more.
        """
        former, self._output_cap = self._output_cap, (cap, most_bytes)
        try:
            yield
        finally:
            self._output_cap = former

    def clock_ahead_s(self) -> float:
        """Returns how many seconds the host's clock is ahead of this machine's: it compares the
        host's time with the middle of the request's round trip.
        """
        if self.is_this_machine:
            return 0.0
        before_s = time.time()
        host_time_s = float(self.call("clock", "wall_s")["wall_s"])
        return host_time_s - (before_s + time.time()) / 2

    def read(self, path: str) -> str:
        """Returns the text of a file on the host. Raises CommandError."""
        try:
            return self._output_of(["cat", "--", path], FILE)
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
        """Makes a change for the context with the command `do`, yields its output, and undoes the
        change afterwards with the command `undo`. `what` describes the change in messages.

        The undo is in a journal on the host before the change is made, so the agent undoes the
        change if this process can't; each step is noted there. `undone` is called with the output
        of the undo. With `all_or_nothing`, a `do` that failed has changed nothing and is not
        undone.
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
        """Records in the host's journal how to undo a change that was made earlier, and returns the
        record's number.
        """
        change = {"what": f"{what} on {self.name}", "undo": list(undo), "privileged": False}
        number = int(self.call("about_to", "number", **change)["number"])
        self.call("made", number=number)
        return number

    def forget(self, number: int) -> None:
        """Removes a record of remember(): the change will not be undone."""
        self.call("undone", number=number)

    def put(self, local: Path, name: str) -> str:
        """Copies a file into the agent's own folder, and returns its path there. The folder is
        removed when the agent leaves. Raises CommandError.
        """
        path, mode = f"{self.temporary}/{name}", "700" if local.stat().st_mode & 0o100 else "600"
        copy = ["sh", "-c", 'cat >"$1" && chmod "$2" "$1"', "put", path, mode]
        self._run_to_end(
            copy,
            local.read_bytes(),
            Output(io.BytesIO(), ANSWER),
            TRANSFERS_WITHIN_S,
            privileged=False,
        )
        return path

    def fetch(self, path: str, local: Path, cap: Cap, most_bytes: int) -> None:
        """Copies a file of the host to the path `local` here. Raises CommandError, also if it has
        more than `most_bytes`.
        """
        with open(local, "wb", buffering=0, opener=_open_output) as file:
            self._run_to_end(
                ["cat", "--", path],
                b"",
                Output(file, cap, most_bytes),
                TRANSFERS_WITHIN_S,
                privileged=False,
            )

    def call(self, operation: str, *expected: str, **fields: object) -> AgentReply:
        """Sends a request of the agent's protocol, and returns the answer, which must have the
        `expected` fields. Raises CommandError.
        """
        number = next(self._numbers)
        self._unanswered.add(number)
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
        """Tells the agent to leave, and waits until it has ended all commands and undone all
        changes. Raises CommandError if it could not. Does nothing if the connection was lost.
        """
        if self.lost:
            return
        self.connection.send({"op": "leave"})
        has_left = self.connection.wait_for(lambda: self._not_undone is not None, LEAVES_WITHIN_S)
        self.connection.cut("it was closed")
        self.connection.wait_ended(LEAVES_WITHIN_S)
        if not has_left:
            raise CommandError(
                self.name, ["agent", "leave"], f"has not left within {LEAVES_WITHIN_S:g} s"
            )
        if self._not_undone:
            failed = "; ".join(f"{what}: {reason}" for what, reason in self._not_undone)
            raise CommandError(self.name, ["undo"], f"{failed} (it stays in the journal there)")

    def abandon(self, timeout_s: float = 30) -> bool:
        """Cuts the connection, from any thread. All waiting calls raise HostLost, and the agent
        ends all commands and undoes all changes.

        Returns whether the agent has done so within `timeout_s`.
        """
        self.connection.cut("it was abandoned")
        return self.connection.wait_ended(timeout_s)

    def _output_of(
        self,
        argv: Sequence[str],
        cap: Cap,
        stdin: str = "",
        timeout_s: float = 30,
        privileged: bool = False,
    ) -> str:
        """Runs a command to its end, and returns its standard output, whose size is limited by
        `cap`. Raises CommandError.
        """
        output = io.BytesIO()
        self._run_to_end(argv, stdin.encode(), Output(output, cap), timeout_s, privileged)
        return output.getvalue().decode(errors="replace")

    def _run_to_end(
        self, argv: Sequence[str], stdin: bytes, stdout: Output, timeout_s: float, privileged: bool
    ) -> None:
        """Runs a command to its end, with its standard output going to `stdout`. Raises
        CommandError, which shows the command's errors, unless its exit status is 0.
        """
        errors = io.BytesIO()
        with self._running(
            argv, stdin, stdout, Output(errors, ANSWER_ERRORS), privileged
        ) as process:
            status = process.wait(timeout_s)
        if status != 0:
            output = errors.getvalue() or (
                stdout.file.getvalue() if isinstance(stdout.file, io.BytesIO) else b""
            )
            raise exit_status_error(self.name, argv, status, output.decode(errors="replace"))

    @contextmanager
    def _running(
        self, argv: Sequence[str], stdin: bytes, stdout: Output, stderr: Output, privileged: bool
    ) -> Iterator[AgentProcess]:
        """Has the agent start a command, yields its process, and ends it when the context ends."""
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

    def _handle(self, message: AgentMessage) -> None:
        """Handles a message from the agent: for a command (it has an id), an answer to call(), or a
        report of the agent itself. The connection's thread calls it.
        """
        if "id" in message:
            command = cast(CommandMessage, message)
            if process := self._processes.get(command["id"]):
                process.handle(command)
        elif "reply" in message:
            if message["reply"] not in self._unanswered:
                self.connection.cut_broken("it answers a question that was not asked")
                return
            self._unanswered.remove(message["reply"])
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
            self._not_undone = message["left"]


def _open_output(path: str, flags: int) -> int:
    """Opens an output's file, as an `opener` of open(). Other users may be able to create files in
    its folder, so this does not follow a link, and does not wait for the reader of a pipe. Raises
    OSError.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)  # a full pipe must block its writer
    return descriptor


@contextmanager
def copied_to_host(host: AgentHost, program: Path) -> Iterator[str]:
    """Yields the path of a copy of a program on the host, in a new folder that is removed
    afterwards. On this machine, it yields the program's own path. Raises CommandError.
    """
    if host.is_this_machine:
        yield str(program)
        return
    folder = host.run(["mktemp", "-d", f"{host.temporary}/ccmix-XXXXXXXX"]).strip()
    try:
        yield host.put(program, f"{Path(folder).name}/{program.name}")
    finally:
        host.run(["rm", "-rf", "--", folder])
