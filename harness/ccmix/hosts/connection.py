"""The channel to an agent: a process that reads and writes JSON lines, and that may be lost any time."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ccmix.agent.service import BEATS_IN_SILENCE
from ccmix.hosts.errors import HostLost

READ_BYTES = 2**18
ENDS_WITHIN_S = 5.0  # the process, after its standard output has
LONGEST_WORDS = 2000  # characters of standard error that may matter


class Connection:
    """Calls `hear` in a thread of its own for each message of the agent, and sends it one now and then.

    `changed` is notified after each message, and when the connection is lost.
    """

    def __init__(self, name: str, argv: Sequence[str], first: bytes, silence_s: float) -> None:
        """Starts the process and sends `first`. Raises OSError."""
        self.name = name
        self.changed = threading.Condition()
        self.no_messages: list[str] = []  # what else it has written
        self.last_words: list[str] = []  # of standard error, once it has ended
        self._silence_s = silence_s
        self._lost: str | None = None
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._socket, his = socket.socketpair()  # not a pipe: a blocked sender can be woken by shutdown()
        with his:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                argv, stdin=his.fileno(), stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
            )
        _start_thread(self._send_beats, first)

    def listen(self, hear: Callable[[dict[str, Any]], None]) -> None:
        """Begins to hear the agent."""
        _start_thread(self._listen, hear)

    @property
    def lost(self) -> HostLost | None:
        return None if self._lost is None else HostLost(self.name, self._lost)

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def send(self, message: dict[str, Any]) -> None:
        """Raises HostLost."""
        if lost := self.lost:
            raise lost
        try:
            with self._writing:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the thread that listens knows better why
            self.wait_for(lambda: False, ENDS_WITHIN_S * 2)
            raise HostLost(self.name, "it takes no more messages") from None

    def wait_for(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Whether the condition came true in time. Raises HostLost."""
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
        """Whether the process has ended in time, and so has the agent. It is not there any more afterwards."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            return False
        finally:
            self._over.set()
        return True

    def _read_errors(self) -> list[str]:
        """The last lines of standard error, in printable characters."""
        errors = self._errors.fileno()
        said = os.pread(errors, LONGEST_WORDS, max(0, os.fstat(errors).st_size - LONGEST_WORDS))
        return [line for line in map(_printable, said.decode(errors="replace").splitlines()) if line]

    def _send_beats(self, first: bytes) -> None:
        """After what comes first."""
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

    def _listen(self, hear: Callable[[dict[str, Any]], None]) -> None:
        try:
            for message in self._messages():
                hear(message)
                with self.changed:
                    self.changed.notify_all()
        except (KeyError, TypeError, ValueError) as error:
            self.cut(f"what it says is not of ccmix's agent: {error!r}")
        try:
            status = self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._lose("it has closed its output")
        else:
            self.last_words = self._read_errors()
            self._lose((self.last_words or [f"it has ended with status {status}"])[-1])
            self._close()

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Until the process closes its output, or says nothing for too long after its first message."""
        assert self._process.stdout
        output = self._process.stdout.fileno()
        received, heard_s = bytearray(), None
        while True:
            left_s = 3600.0 if heard_s is None else heard_s + self._silence_s - time.monotonic()
            if not select.select([output], [], [], max(0.0, left_s))[0]:
                if heard_s is None:
                    continue
                self.cut(f"nothing heard for {self._silence_s:g} s")
                self._process.terminate()
                return
            data = os.read(output, READ_BYTES)
            if not data:
                return
            received += data
            if heard_s is not None:
                heard_s = time.monotonic()
            if b"\n" not in data:
                continue
            *lines, rest = received.split(b"\n")
            received = rest
            for line in lines:
                if heard_s is None and not line.startswith(b'{"'):  # what a login shell may print
                    self.no_messages.append(_printable(line.decode(errors="replace")))
                    continue
                heard_s = time.monotonic()
                yield dict(json.loads(line))

    def _close(self) -> None:
        """Gives everything back once the process has ended."""
        assert self._process.stdout
        self._over.set()
        self._process.stdout.close()
        self._errors.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes who may be sending
        with self._writing:
            self._socket.close()

    def _lose(self, reason: str) -> None:
        """The first reason is the one."""
        with self.changed:
            if self._lost is None:
                self._lost = reason
            self.changed.notify_all()


def _start_thread(function: Callable[..., None], *arguments: object) -> None:
    """Signals are the main thread's: one that another thread gets does not wake it from what it waits for."""

    def without_signals() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        function(*arguments)

    threading.Thread(target=without_signals, daemon=True).start()


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text)).strip()
