"""Carries JSON lines to and from an agent: a process that may be lost at any time."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from ccmix import foreign_json
from ccmix.agent.deadline import Deadline
from ccmix.agent.messages import AgentMessage, ControllerMessage
from ccmix.agent.service import BEATS_IN_SILENCE
from ccmix.hosts.errors import HostLost

READ_BYTES = 2**18
ENDS_WITHIN_S = 5.0  # the process, after its standard output has
LONGEST_ERRORS = 2000  # characters of standard error that may matter


class Connection:
    """Calls `hear` in a thread of its own for each message of the agent, and sends the agent a heartbeat now and then.

    `changed` is notified after each message, and when the connection is lost.
    """

    def __init__(self, name: str, argv: Sequence[str], first: bytes, silence_s: float) -> None:
        """Starts the process and sends `first`. Raises OSError."""
        self.name = name
        self.changed = threading.Condition()
        self.no_messages: list[str] = []  # what else it has written
        self.last_error_lines: list[str] = []  # of standard error, once it has ended
        self._silence_s = silence_s
        self._lost: str | None = None
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._socket, agent_end = socket.socketpair()  # not a pipe: a blocked sender can be woken by shutdown()
        with agent_end:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                argv, stdin=agent_end.fileno(), stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
            )
        _start_thread(self._send_beats, first)

    def listen(self, hear: Callable[[AgentMessage], None]) -> None:
        """Starts the thread that hears the agent."""
        _start_thread(self._listen, hear)

    @property
    def lost(self) -> HostLost | None:
        return None if self._lost is None else HostLost(self.name, self._lost)

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def send(self, message: ControllerMessage) -> None:
        """Sends a message. Raises HostLost."""
        if lost := self.lost:
            raise lost
        try:
            with self._writing:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the thread that listens knows better why
            self.wait_for(lambda: False, ENDS_WITHIN_S * 2)
            raise HostLost(self.name, "it takes no more messages") from None

    def wait_for(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Waits for the condition, and returns whether it came true in time. Raises HostLost."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or self._lost is not None, timeout_s)
            if condition():
                return True
            if lost := self.lost:
                raise lost
            return False

    def cut(self, reason: str) -> None:
        """Ends the connection here, so that the agent leaves; all that wait for it raise HostLost with this reason."""
        self._lose(reason)
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it was over

    def wait_ended(self, timeout_s: float) -> bool:
        """Waits for the process, and with it the agent, and returns whether it ended in time. A process that did
        not is terminated.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            return False
        finally:
            self._over.set()
        return True

    def _read_errors(self) -> list[str]:
        """Returns the last lines of standard error, in printable characters."""
        errors = self._errors.fileno()
        tail = os.pread(errors, LONGEST_ERRORS, max(0, os.fstat(errors).st_size - LONGEST_ERRORS))
        return [line for line in map(_printable, tail.decode(errors="replace").splitlines()) if line]

    def _send_beats(self, first: bytes) -> None:
        """Sends `first`, and after it heartbeats without end."""
        message = first
        while True:
            try:
                with self._writing:
                    self._socket.sendall(message)
            except OSError:
                return
            if self._over.wait(self._silence_s / BEATS_IN_SILENCE):
                return
            message = b'{"op": "beat"}\n'

    def _listen(self, hear: Callable[[AgentMessage], None]) -> None:
        try:
            for message in self._messages():
                hear(message)
                with self.changed:
                    self.changed.notify_all()
        except (KeyError, TypeError, ValueError) as error:
            self.cut(f"its output is not that of ccmix's agent: {error!r}")
        try:
            status = self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._lose("it has closed its output")
        else:
            self.last_error_lines = self._read_errors()
            self._lose((self.last_error_lines or [f"it has ended with status {status}"])[-1])
            self._close()

    def _messages(self) -> Iterator[AgentMessage]:
        """Yields messages until the process closes its output, or stays silent for too long after its first message."""
        assert self._process.stdout
        output = self._process.stdout.fileno()
        received = bytearray()
        silence: Deadline | None = None  # from the first message on
        while True:
            if not select.select([output], [], [], silence.remaining_s if silence else None)[0]:
                self.cut(f"nothing heard for {self._silence_s:g} s")
                self._process.terminate()
                return
            data = os.read(output, READ_BYTES)
            if not data:
                return
            received += data
            if silence:
                silence.restart()
            if b"\n" not in data:
                continue
            *lines, rest = received.split(b"\n")
            received = rest
            for line in lines:
                if silence is None and not line.startswith(b'{"'):  # what a login shell may print
                    self.no_messages.append(_printable(line.decode(errors="replace")))
                    continue
                silence = Deadline(self._silence_s)
                yield cast(AgentMessage, dict(foreign_json.loads(line)))

    def _close(self) -> None:
        """Releases everything once the process has ended."""
        assert self._process.stdout
        self._over.set()
        self._process.stdout.close()
        self._errors.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes who may be sending
        with self._writing:
            self._socket.close()

    def _lose(self, reason: str) -> None:
        """Notes why the connection was lost; the first reason counts."""
        with self.changed:
            if self._lost is None:
                self._lost = reason
            self.changed.notify_all()


def _start_thread(function: Callable[..., None], *arguments: object) -> None:
    """Starts a thread that blocks all signals: a signal that another thread gets does not wake the main thread."""

    def without_signals() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        function(*arguments)

    threading.Thread(target=without_signals, daemon=True).start()


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text)).strip()
