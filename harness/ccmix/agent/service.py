"""Serves the agent's controller: runs commands and changes the host; undoes all when it is gone.

The controller is the ccmix process that has started the agent on this host. An onlooker is an agent
without lock and journal: it leaves the host to the campaign that uses it, and undoes nothing.

There is one thread and one loop. docs/development.md has the table of messages.
"""

from __future__ import annotations

import base64
import contextlib
import os
import platform
import selectors
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ccmix.agent import journal, left_journals
from ccmix.agent.channel import Channel, ChannelEnded
from ccmix.agent.command import AgentCommand, argv_with_sudo
from ccmix.agent.deadline import Deadline
from ccmix.agent.keeper import AGENT_SIGNALS, GIVES_UP_S
from ccmix.agent.lock import HostLock, LockError
from ccmix.agent.messages import BEATS_IN_SILENCE
from ccmix.agent.processes import become_subreaper, signal_descendants

FIRST_MESSAGE_WITHIN_S = 30.0
LONGEST_SILENCE_S = 86400.0
LAST_MESSAGES_S = 2.0
MOST_RESTORED, LONGEST_RESTORED = (
    40,
    1000,
)  # changes that the hello names, and characters of each of their two texts
SYSTEM_FOLDERS = (
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
)  # of tc and sysctl: a login without root may lack them


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ccmix.agent.messages import AgentHello, AgentMessage, AgentReply, ControllerMessage


class Leaving(Exception):
    """Reports that the agent must leave: it ends its loop. The message says why."""


class Agent:
    """Serves one controller, which has sent its first message, until it must leave."""

    def __init__(
        self,
        channel: Channel,
        hello: ControllerMessage,
        lock: HostLock | None,
        undo_journal: journal.Journal | None,
    ) -> None:
        """Prepares to serve the controller of this channel, whose first message is `hello`.

        `lock` and `undo_journal` are None for an onlooker: an agent that only looks at the host,
        and changes nothing. The keys of `_operations` are the values of `op` in messages.
        """
        self._channel = channel
        self._lock = lock
        self._commands: dict[int, AgentCommand] = {}
        self._silence_s = float(hello["silence_s"])
        self._silence = Deadline(self._silence_s)
        self._next_beat = Deadline(self._silence_s / BEATS_IN_SILENCE)
        self._signals = _open_signal_pipe()
        self._operations: dict[str, Callable[[ControllerMessage], AgentReply | None]] = {
            "beat": lambda _: {},
            "clock": lambda _: {"wall_s": time.time()},
            "start": self._start,
            "end": self._end,
            "listening": self._listening,
            "commands": self._command_lines,
            "leave": self._leave,
        }
        if undo_journal:
            self._operations |= _journal_operations(undo_journal)

    def serve(self) -> None:
        """Handles requests until the agent must leave: because the controller asks for it, on a
        signal, after too long a silence, or when the channel has ended.
        """
        try:
            while True:
                self._handle_events()
        except (Leaving, ChannelEnded) as reason:
            with contextlib.suppress(OSError):  # the controller does not listen
                print(f"ccmix-agent: {reason}", file=sys.stderr, flush=True)

    def end_commands(self) -> None:
        """Ends all commands, and waits until they are gone. Their last outputs are passed on as
        long as the controller reads them.
        """
        for command in self._commands.values():
            command.end()
        deadline = Deadline(GIVES_UP_S + 2)
        while any(not command.gone for command in self._commands.values()) and not deadline.expired:
            with selectors.DefaultSelector() as selector:
                for command in self._commands.values():
                    if not command.gone:
                        selector.register(command.status, selectors.EVENT_READ, command)
                for key, _ in selector.select(1.0):
                    key.data.handle_reports()
        signal_descendants(os.getpid(), signal.SIGKILL)  # of keepers that were killed

    def _handle_events(self) -> None:
        """Waits for events (data, signals, time limits), and handles them: one turn of the agent's
        only loop. Raises Leaving, and ChannelEnded.

        If the channel is full, it does not read outputs of commands, so that these wait until the
        controller reads.
        """
        channel, lock = self._channel, self._lock
        if channel.ended:
            raise Leaving("the controller has closed the channel")
        if self._silence.expired:
            raise Leaving(f"the controller has sent nothing for {self._silence_s:g} s")
        if self._next_beat.expired:
            channel.send({"beat": True})
            self._next_beat.restart()
        with selectors.DefaultSelector() as selector:
            events = selectors.EVENT_READ
            selector.register(self._signals, events, self._leave_on_signal)
            selector.register(channel.receives, events, self._receive_messages)
            if lock:
                selector.register(lock.socket, events, lock.answer)
                for connection in lock.connections:
                    selector.register(
                        connection,
                        events,
                        lambda asking=connection: self._asked_to_leave(lock, asking),
                    )
            if channel.unsent:
                selector.register(channel.sends, selectors.EVENT_WRITE, channel.flush)
            for command in [command for command in self._commands.values() if not command.gone]:
                if command.stdin >= 0:
                    selector.register(command.stdin, selectors.EVENT_WRITE, command.feed)
                if channel.full:
                    continue
                selector.register(command.status, events, command.handle_reports)
                for output in command.outputs:
                    selector.register(
                        output,
                        events,
                        lambda command=command, output=output: command.pass_on(output),
                    )
            for key, _ in selector.select(
                min(self._silence.remaining_s, self._next_beat.remaining_s)
            ):
                key.data()
        self._commands = {
            number: command for number, command in self._commands.items() if not command.gone
        }

    def _leave_on_signal(self) -> None:
        number = os.read(self._signals, 1)[0]
        raise Leaving(f"got {signal.Signals(number).name}")

    def _asked_to_leave(self, lock: HostLock, connection: socket.socket) -> None:
        """Handles data from another agent that wants the lock. Leaves if that agent has the same
        controller.
        """
        if lock.is_asked_to_leave(connection):
            raise Leaving("its controller has connected again")

    def _receive_messages(self) -> None:
        """Carries out the messages that have arrived. Leaves if one of them does not follow the
        protocol.
        """
        try:
            messages = self._channel.receive()
        except ValueError as error:
            raise Leaving(f"got a line that is not a message: {error}") from error
        self._silence.restart()
        for message in messages:
            try:
                self._carry_out(message)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise Leaving(
                    f"got a message that does not follow the protocol: {error!r}"
                ) from error

    def _carry_out(self, message: ControllerMessage) -> None:
        """Carries out an operation of the controller. Sends a reply, with the result or the error,
        if the message has a number in `call`.
        """
        operation = self._operations[message["op"]]
        try:
            reply = operation(message) or {}
        except OSError as error:
            reply = {"error": _error_text(error)}
        if "call" in message:
            self._channel.send(
                cast("AgentMessage", {"reply": _checked_int(message["call"]), **reply})
            )

    def _start(self, message: ControllerMessage) -> None:
        """Starts a command. The controller learns in messages about the command whether that
        worked.
        """
        argv = argv_with_sudo(_checked_argv(message["argv"]), message["privileged"])
        stdin = base64.b64decode(message["stdin"])
        number = _checked_int(message["id"])
        if number in self._commands:
            raise ValueError(f"there is a command {number} already")
        lock = self._lock.socket.fileno() if self._lock else None
        try:
            command = AgentCommand(number, argv, stdin, lock, self._channel.send)
        except OSError as error:  # no more processes or descriptors
            self._channel.send({"id": number, "failed": str(error)})
            self._channel.send({"id": number, "gone": True, "left": []})
        else:
            self._commands[number] = command

    def _end(self, message: ControllerMessage) -> None:
        """Ends the command with this id, unless it has already gone."""
        if message["id"] in self._commands:  # otherwise it has gone in the meantime
            self._commands[message["id"]].end()

    def _listening(self, message: ControllerMessage) -> AgentReply:
        """Returns the ports on which a command listens; none if it has gone."""
        if message["id"] not in self._commands:
            return {"tcp": [], "udp": []}
        return cast("AgentReply", self._commands[message["id"]].listening())

    def _command_lines(self, message: ControllerMessage) -> AgentReply:
        """Returns the command lines of a command's processes; none if the command has gone."""
        command = self._commands.get(message["id"])
        return {"commands": command.command_lines() if command else []}

    def _leave(self, _: ControllerMessage) -> None:
        raise Leaving("asked to leave")


def _open_signal_pipe() -> int:
    """Opens a pipe into which Python writes the number of each signal that asks the agent to leave,
    and returns the descriptor to read it from. So the agent's loop can wait for signals, too.
    """
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes)
    for number in AGENT_SIGNALS:
        signal.signal(number, lambda *_: None)  # without a handler, the signal would end the agent
    return reads


def _journal_operations(
    undo_journal: journal.Journal,
) -> dict[str, Callable[[ControllerMessage], AgentReply | None]]:
    """Returns the operations by which the controller writes the undo journal. "about_to" records a
    change and its undo before the change is made, and returns its number. The others note what has
    become of the change with this number.
    """
    return {
        "about_to": lambda message: {"number": _about_to(undo_journal, message)},
        "made": lambda message: undo_journal.made(_checked_int(message["number"])),
        "undoing": lambda message: undo_journal.undoing(_checked_int(message["number"])),
        "not_undone": lambda message: undo_journal.not_undone(_checked_int(message["number"])),
        "undone": lambda message: undo_journal.undone(_checked_int(message["number"])),
    }


def _about_to(undo_journal: journal.Journal, message: ControllerMessage) -> int:
    """Records a change that the controller is about to make, and how to undo it. Returns the
    change's number.
    """
    return undo_journal.about_to(
        str(message["what"]), argv_with_sudo(_checked_argv(message["undo"]), message["privileged"])
    )


def _checked_argv(value: object) -> list[str]:
    """Returns the value if it is a command: a list of strings that is not empty. Otherwise raises
    TypeError. The command may be recorded in the journal as an undo, and an invalid undo there
    would prevent the other undos.
    """
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise TypeError("a command is a list of texts")
    return value


def _checked_int(value: object) -> int:
    """Returns the value if it is an int. Raises TypeError."""
    if not isinstance(value, int):
        raise TypeError("a number is not whole")
    return value


def main() -> None:
    """Reads the first message from standard input, and serves its controller until it leaves."""
    channel = Channel(0, 1)
    try:
        hello = _first_message(channel)
    except (ChannelEnded, ValueError) as error:
        sys.exit(f"ccmix-agent: {error}")
    become_subreaper()
    os.environ["PATH"] = ":".join([os.environ.get("PATH", "/usr/bin:/bin"), *SYSTEM_FOLDERS])
    try:
        if hello["onlooker"]:
            _serve_onlooker(channel, hello)
            return
        with journal.Journal() as undo_journal:
            _serve(channel, hello, undo_journal)
    except (LockError, OSError) as error:
        channel.send({"refused": _error_text(error)[:LONGEST_RESTORED]})
        channel.flush_all(LAST_MESSAGES_S)
        sys.exit(1)


def _error_text(error: Exception) -> str:
    """Returns an error as text for users, without Python's "[Errno 2]"."""
    if (
        isinstance(error, OSError)
        and not isinstance(error, journal.JournalError)
        and error.filename
    ):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _serve(channel: Channel, hello: ControllerMessage, undo_journal: journal.Journal) -> None:
    """Serves a controller that uses the host: takes the host's lock, undoes what dead processes
    have left, and finally undoes its own changes. Raises LockError, and OSError.
    """
    lock = HostLock(
        hello["owner"], hello["token"], lambda sentence: channel.send({"waits": sentence})
    )
    if old_undos := left_journals.remaining_undos():
        channel.send({"waits": f"{len(old_undos)} changes of a run that died are being undone"})
    restored = [(undo.what, reason) for undo, reason in left_journals.restore()]
    folder = _make_folder(undo_journal)
    agent = Agent(channel, hello, lock, undo_journal)
    try:
        channel.send({"hello": _describe_agent(folder) | {"restored": _shortened(restored)}})
        agent.serve()
    finally:
        agent.end_commands()
        failed = [(undo.what, reason) for undo, reason in undo_journal.undo_all() if reason]
        signal_descendants(os.getpid(), signal.SIGKILL)  # left in the background by undos
    channel.send(cast("AgentMessage", {"left": _shortened(failed)}))
    channel.flush_all(LAST_MESSAGES_S)


def _shortened(changes: Sequence[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Returns pairs of a change and the reason why it was not undone (None if it was), with texts
    cut and pairs left out so that all fit into a message.
    """
    shortened = [
        (what[:LONGEST_RESTORED], reason and reason[:LONGEST_RESTORED]) for what, reason in changes
    ]
    more = len(shortened) - MOST_RESTORED
    return [*shortened[:MOST_RESTORED], *([(f"{more} more changes", None)] if more > 0 else [])]


def _serve_onlooker(channel: Channel, hello: ControllerMessage) -> None:
    """Serves a controller that only looks at the host, without locking or changing it."""
    agent = Agent(channel, hello, lock=None, undo_journal=None)
    try:
        old_changes = _shortened([(undo.what, None) for undo in left_journals.remaining_undos()])
        channel.send(
            {
                "hello": _describe_agent(_parent_for_folders())
                | {"left": [what for what, _ in old_changes]}
            }
        )
        agent.serve()
    finally:
        agent.end_commands()
    channel.send({"left": []})
    channel.flush_all(LAST_MESSAGES_S)


def _first_message(channel: Channel) -> ControllerMessage:
    """Waits for the controller's first message, and returns it. Raises ChannelEnded if none comes
    in time, and ValueError if it is not one.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(channel.receives, selectors.EVENT_READ)
        deadline = Deadline(FIRST_MESSAGE_WITHIN_S)
        while not deadline.expired:
            selector.select(1.0)
            for message in channel.receive():
                _check_first_message(message)
                return message
    raise ChannelEnded("the controller has sent nothing")


def _check_first_message(hello: ControllerMessage) -> None:
    """Raises ValueError unless this can be the first message of a controller."""
    silence_s = hello.get("silence_s")
    if not (
        isinstance(hello.get("owner"), dict)
        and isinstance(hello.get("token"), str)
        and isinstance(hello.get("onlooker"), bool)
        and isinstance(silence_s, (int, float))
        and 0 < silence_s < LONGEST_SILENCE_S
    ):
        raise ValueError("the first message is not that of ccmix's controller")


def _make_folder(undo_journal: journal.Journal) -> str:
    """Makes the agent's private temporary folder, and returns its path. Its removal is the first
    entry of the journal.
    """
    folder = tempfile.mkdtemp(prefix="ccmix-", dir=_parent_for_folders())
    try:
        undo_journal.made(
            undo_journal.about_to(f"temporary folder {folder}", ["rm", "-rf", "--", folder])
        )
    except OSError:
        Path(folder).rmdir()
        raise
    return folder


def _parent_for_folders() -> str:
    """Returns the folder in which agents make their folders: programs must be allowed to run there,
    and it is on disk if possible.
    """
    candidates = [os.environ.get("TMPDIR", "/tmp"), "/var/tmp", os.environ.get("HOME", "/")]
    with contextlib.suppress(FileNotFoundError):  # no folder has room
        candidates.insert(0, tempfile.gettempdir())
    return next((folder for folder in candidates if _may_run_programs(folder)), candidates[0])


def _may_run_programs(folder: str) -> bool:
    """Returns whether this user may write in the folder, and programs in it may be run (it is not
    mounted noexec).
    """
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC


def _describe_agent(folder: str) -> AgentHello:
    """Returns the fields of the agent's first report that do not depend on its changes."""
    return {
        "pid": os.getpid(),
        "uid": os.geteuid(),
        "hostname": socket.gethostname(),
        "boot_id": journal.boot_id(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "folder": folder,
        "state": str(journal.state_folder()),
    }
