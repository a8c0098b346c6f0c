"""Carries out the requests of the agent's controller, and undoes and ends all of it when the
controller is gone.

An onlooker is an agent without lock and journal: it leaves the host to the campaign that uses it,
and undoes nothing.

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
from ccmix.agent.command import AgentCommand, privileged_argv
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
    """Reports that the agent must leave; the sentence says why."""


class Agent:
    """Serves one controller, which has sent its first message."""

    def __init__(
        self,
        channel: Channel,
        hello: ControllerMessage,
        lock: HostLock | None,
        undo: journal.Journal | None,
    ) -> None:
        """Prepares to serve; without lock and journal, as an onlooker."""
        self._channel = channel
        self._lock = lock
        self._commands: dict[int, AgentCommand] = {}
        self._silence_s = float(hello["silence_s"])
        self._silence = Deadline(self._silence_s)
        self._next_beat = Deadline(self._silence_s / BEATS_IN_SILENCE)
        self._signals, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        for number in AGENT_SIGNALS:
            signal.signal(number, lambda *_: None)  # the loop reads it from the pipe
        self._operations: dict[str, Callable[[ControllerMessage], AgentReply | None]] = {
            "beat": lambda _: {},
            "clock": lambda _: {"wall_s": time.time()},
            "start": self._start,
            "end": self._end,
            "listening": self._listening,
            "commands": self._command_lines,
            "leave": self._leave,
        }
        if undo:
            self._operations |= {
                "about_to": lambda message: {"number": _about_to(undo, message)},
                "made": lambda message: undo.made(_whole(message["number"])),
                "undoing": lambda message: undo.undoing(_whole(message["number"])),
                "not_undone": lambda message: undo.not_undone(_whole(message["number"])),
                "undone": lambda message: undo.undone(_whole(message["number"])),
            }

    def serve(self) -> None:
        """Returns when the agent must leave: on request, on a signal, after silence, or at the
        channel's end.
        """
        try:
            while True:
                self._wait()
        except (Leaving, ChannelEnded) as reason:
            with contextlib.suppress(OSError):  # the controller does not listen
                print(f"ccmix-agent: {reason}", file=sys.stderr, flush=True)

    def end_commands(self) -> None:
        """Ends all commands. Their last outputs are passed on as long as the channel accepts
        them.
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
                    key.data.hear()
        signal_descendants(os.getpid(), signal.SIGKILL)  # of keepers that were killed

    def _wait(self) -> None:
        """Waits for events, and handles them: one turn of the loop."""
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
            selector.register(self._signals, events, self._signalled)
            selector.register(channel.receives, events, self._receive)
            if lock:
                selector.register(lock.socket, events, lock.answer)
                for connection in lock.connections:
                    selector.register(
                        connection, events, lambda asking=connection: self._asked(lock, asking)
                    )
            if channel.unsent:
                selector.register(channel.sends, selectors.EVENT_WRITE, channel.flush)
            for command in [command for command in self._commands.values() if not command.gone]:
                if command.stdin >= 0:
                    selector.register(command.stdin, selectors.EVENT_WRITE, command.feed)
                if channel.full:
                    continue
                selector.register(command.status, events, command.hear)
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

    def _signalled(self) -> None:
        number = os.read(self._signals, 1)[0]
        raise Leaving(f"got {signal.Signals(number).name}")

    def _asked(self, lock: HostLock, connection: socket.socket) -> None:
        if lock.is_asked_to_leave(connection):
            raise Leaving("its controller has connected again")

    def _receive(self) -> None:
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
        operation = self._operations[message["op"]]
        try:
            reply = operation(message) or {}
        except OSError as error:
            reply = {"error": _told(error)}
        if "call" in message:
            self._channel.send(cast("AgentMessage", {"reply": _whole(message["call"]), **reply}))

    def _start(self, message: ControllerMessage) -> None:
        argv = privileged_argv(_words(message["argv"]), message["privileged"])
        stdin = base64.b64decode(message["stdin"])
        number = _whole(message["id"])
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
        if message["id"] in self._commands:  # otherwise it has gone in the meantime
            self._commands[message["id"]].end()

    def _listening(self, message: ControllerMessage) -> AgentReply:
        if message["id"] not in self._commands:
            return {"tcp": [], "udp": []}
        return cast("AgentReply", self._commands[message["id"]].listening())

    def _command_lines(self, message: ControllerMessage) -> AgentReply:
        command = self._commands.get(message["id"])
        return {"commands": command.command_lines() if command else []}

    def _leave(self, _: ControllerMessage) -> None:
        raise Leaving("asked to leave")


def _about_to(undo: journal.Journal, message: ControllerMessage) -> int:
    return undo.about_to(
        str(message["what"]), privileged_argv(_words(message["undo"]), message["privileged"])
    )


def _words(value: object) -> list[str]:
    """Returns the arguments of a command. Raises TypeError, because an invalid undo would prevent
    the other undos.
    """
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise TypeError("a command is a list of texts")
    return value


def _whole(value: object) -> int:
    """Returns a whole number. Raises TypeError."""
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
            _look_on(channel, hello)
            return
        with journal.Journal() as undo:
            _serve(channel, hello, undo)
    except (LockError, OSError) as error:
        channel.send({"refused": _told(error)[:LONGEST_RESTORED]})
        channel.flush_all(LAST_MESSAGES_S)
        sys.exit(1)


def _told(error: Exception) -> str:
    """Returns the text of an error for users."""
    if (
        isinstance(error, OSError)
        and not isinstance(error, journal.JournalError)
        and error.filename
    ):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _serve(channel: Channel, hello: ControllerMessage, undo: journal.Journal) -> None:
    lock = HostLock(
        hello["owner"], hello["token"], lambda sentence: channel.send({"waits": sentence})
    )
    if left := left_journals.left():
        channel.send({"waits": f"{len(left)} changes of a run that died are being undone"})
    restored = [(left.what, reason) for left, reason in left_journals.restore()]
    folder = _folder(undo)
    agent = Agent(channel, hello, lock, undo)
    try:
        channel.send({"hello": _facts(folder) | {"restored": _shortened(restored)}})
        agent.serve()
    finally:
        agent.end_commands()
        failed = [(left.what, reason) for left, reason in undo.undo_all() if reason]
        signal_descendants(os.getpid(), signal.SIGKILL)  # left in the background by undos
    channel.send(cast("AgentMessage", {"left": _shortened(failed)}))
    channel.flush_all(LAST_MESSAGES_S)


def _shortened(changes: Sequence[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Returns changes with reasons, shortened to the size of a message."""
    named = [
        (what[:LONGEST_RESTORED], reason and reason[:LONGEST_RESTORED]) for what, reason in changes
    ]
    more = len(named) - MOST_RESTORED
    return [*named[:MOST_RESTORED], *([(f"{more} more changes", None)] if more > 0 else [])]


def _look_on(channel: Channel, hello: ControllerMessage) -> None:
    agent = Agent(channel, hello, lock=None, undo=None)
    try:
        left = _shortened([(undo.what, None) for undo in left_journals.left()])
        channel.send({"hello": _facts(_place()) | {"left": [what for what, _ in left]}})
        agent.serve()
    finally:
        agent.end_commands()
    channel.send({"left": []})
    channel.flush_all(LAST_MESSAGES_S)


def _first_message(channel: Channel) -> ControllerMessage:
    with selectors.DefaultSelector() as selector:
        selector.register(channel.receives, selectors.EVENT_READ)
        deadline = Deadline(FIRST_MESSAGE_WITHIN_S)
        while not deadline.expired:
            selector.select(1.0)
            for message in channel.receive():
                _check_first(message)
                return message
    raise ChannelEnded("the controller has sent nothing")


def _check_first(hello: ControllerMessage) -> None:
    """Raises ValueError for a message that can't be the first one."""
    silence_s = hello.get("silence_s")
    if not (
        isinstance(hello.get("owner"), dict)
        and isinstance(hello.get("token"), str)
        and isinstance(hello.get("onlooker"), bool)
        and isinstance(silence_s, (int, float))
        and 0 < silence_s < LONGEST_SILENCE_S
    ):
        raise ValueError("the first message is not that of ccmix's controller")


def _folder(undo: journal.Journal) -> str:
    """Makes the agent's own private folder, whose removal is the first undo, and returns its
    path.
    """
    folder = tempfile.mkdtemp(prefix="ccmix-", dir=_place())
    try:
        undo.made(undo.about_to(f"temporary folder {folder}", ["rm", "-rf", "--", folder]))
    except OSError:
        Path(folder).rmdir()
        raise
    return folder


def _place() -> str:
    """Returns a folder in which programs may be run, on disk if there is such a folder."""
    places = [os.environ.get("TMPDIR", "/tmp"), "/var/tmp", os.environ.get("HOME", "/")]
    with contextlib.suppress(FileNotFoundError):  # no folder has room
        places.insert(0, tempfile.gettempdir())
    return next((place for place in places if _may_run(place)), places[0])


def _may_run(place: str) -> bool:
    return os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC


def _facts(folder: str) -> AgentHello:
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
